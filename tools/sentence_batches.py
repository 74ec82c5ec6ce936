"""How much work batches of sentences are, where a batch is filled up to so many tokens: the Transformer of NVIDIA's.

fairseq sorts pairs by the length of the source and among equal ones by that of the target, fills batches until their
longest sentence times their number is more than `--max-tokens`, cuts them down to a multiple of eight pairs, and deals
them to GPUs in random order (NVIDIA/DeepLearningExamples, PyTorch/Translation/Transformer, commit d755a840:
fairseq/data/csrc/make_batches.cpp; commit 48dc9ada: language_pair_dataset.py, `ordered_indices`; commit 7e8102d0:
data_utils.py, `EpochBatchIterator`). A batch is as full as the longer side of its pairs lets it be, and the other side
has less to do; so GPUs wait for the one whose pairs are of equal length.

Lengths are not the corpus' own, which is not at hand, but:

- A target of a source of s characters has s characters in the mean, with a variance of 6.8 s (Gale and Church, "A
  program for aligning sentences in bilingual corpora", 1993; NLTK has it as `VARIANCE_CHARACTERS`).
- 28 tokens a sentence, as GNMT of the same corpora has (clustersim/model/catalogue/gnmt.py), for 25.8 English words
  (116 million in 4.5 million pairs; Luong et al., arXiv:1508.04025), of 6 characters with the space behind them
  (assumed): 5.5 characters a token. A variance of 6.8 s in characters is one of 6.8 / 5.5 s in tokens.
- Sources are gamma distributed of shape 2 (assumed; with 3 the slowest of eight GPUs differs by 0.8 % at most).

A batch of 10,240 tokens so holds 328 pairs, where MLPerf's logs have 327 of the same rule and corpus.

    python tools/sentence_batches.py validate/nvidia-pytorch/transformer-batches.csv
"""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np

MAX_TOKENS = (2560, 5120, 10240)
NUM_PAIRS = 4_500_000
"""As many as the corpus has: of fewer, targets of one source's length differ more within a batch."""
NUM_ROWS = 200
MEAN_TOKENS, SHAPE = 28.0, 2.0
VARIANCE = 6.8 / 5.5
ENCODER_SHARE = 0.418
"""Of the FLOP of a pair with as many tokens on both sides, those that follow the source: the encoder, and the
decoder's keys and values of what it has read (clustersim/model/catalogue/transformer_big.py)."""
_MULTIPLE = 8
_LONGEST = 250


def draw_lengths(num_pairs: int, seed: int = 1) -> np.ndarray:
    """Return tokens of source and target [num_pairs, 2], those of more than 250 left out."""
    rng = np.random.default_rng(seed)
    source = np.maximum(2, np.round(rng.gamma(SHAPE, MEAN_TOKENS / SHAPE, num_pairs)))
    target = np.round(source + rng.standard_normal(num_pairs) * np.sqrt(VARIANCE * source))
    pairs = np.stack([source, target], axis=1).astype(np.int64)
    kept: np.ndarray = pairs[(pairs.min(axis=1) >= 2) & (pairs.max(axis=1) <= _LONGEST)]
    return kept


def make_batches(pairs: np.ndarray, max_tokens: int) -> list[np.ndarray]:
    """Return batches of `pairs` [num_pairs, 2] as make_batches.cpp makes them: views of the sorted pairs.

    >>> [len(batch) for batch in make_batches(np.full((20, 2), 10), 100)]
    [8, 8, 4]
    """
    ordered = pairs[np.lexsort((pairs[:, 1], pairs[:, 0]))]
    lengths = ordered.max(axis=1).tolist()
    batches: list[np.ndarray] = []
    begin = longest = 0
    for end, length in enumerate(lengths):
        longest = max(longest, length)
        held = end - begin
        if held and (held + 1) * longest > max_tokens:
            taken = max(held // _MULTIPLE * _MULTIPLE, held % _MULTIPLE)
            batches.append(ordered[begin : begin + taken])
            begin += taken
            longest = max(lengths[begin : end + 1])
    batches.append(ordered[begin:])
    return batches


def work(batches: list[np.ndarray]) -> np.ndarray:
    """Return the work of each batch, padded to its longest source and target, over that of all in the mean."""
    share = np.array([ENCODER_SHARE, 1 - ENCODER_SHARE])
    tokens = np.array([len(batch) * (batch.max(axis=0) @ share) for batch in batches])
    factors: np.ndarray = tokens / tokens.mean()
    return factors


def quantiles(factors: np.ndarray, num_rows: int) -> np.ndarray:
    """Return [num_rows] factors that stand for equal shares of all: the means of each share, least first."""
    return np.array([part.mean() for part in np.array_split(np.sort(factors), num_rows)])


def write(path: Path) -> None:
    pairs = draw_lengths(NUM_PAIRS)
    made = {tokens: make_batches(pairs, tokens)[:-1] for tokens in MAX_TOKENS}
    for tokens, batches in made.items():
        words = sum(int(batch[:, 1].sum()) for batch in batches) / len(batches)
        size = sum(map(len, batches)) / len(batches)
        print(f"{tokens} tokens: {size:.0f} pairs and {words:.0f} words of the target a batch")
    columns = np.stack([quantiles(work(batches), NUM_ROWS) for batches in made.values()], axis=1)
    lines = [
        "# Work of a batch over that of all in the mean, by the tokens that a batch is filled up to; least first.",
        "# Made by tools/sentence_batches.py, which names the sampler and where lengths are from.",
        ",".join(f"batch_{tokens}" for tokens in MAX_TOKENS),
        *(",".join(f"{value:.4f}" for value in row) for row in columns),
    ]
    path.write_text("\n".join(lines) + "\n")


if __name__ == "__main__":
    write(Path(sys.argv[1]))
