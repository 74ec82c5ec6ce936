"""The page of model families in the docs: what `import hf` counts beside what transformers counts."""

from __future__ import annotations

import tempfile
from functools import cache
from pathlib import Path
from typing import NamedTuple

from tests.interchange.hugging_face.cases import CASES, Case
from tests.interchange.hugging_face.library import imported, library_flop, library_parameters, whole_flop

PAGE = Path(__file__).parents[3] / "docs" / "hugging-face.md"


class Row(NamedTuple):
    """A case: parameters and FLOP here, with every pair of tokens, and in the library."""

    case: Case
    parameters: int
    flop: float
    whole: float
    library_parameters: int
    library_flop: float


def row_of(case: Case) -> Row:
    """Return one row; each is computed once."""
    return _row_of(CASES.index(case))


@cache
def _row_of(number: int) -> Row:
    case = CASES[number]
    small = {**case.keys, **case.flop_keys}
    with tempfile.TemporaryDirectory() as folder:
        model = imported(Path(folder), case.keys, case.tokens, case.image_size)
        compared = imported(Path(folder), small, case.tokens, case.image_size)
    tokens = case.tokens or 0
    theirs = library_flop(small, tokens, case.inputs, case.attention, case.device) - case.left_out
    parameters = library_parameters(case.keys, case.attention)
    return Row(case, model.num_parameters, model.flop, whole_flop(compared), parameters, theirs)


_HEAD = """# Models that `clustersim import hf` knows

Written by `python -m tests.interchange.hugging_face`, which asks transformers {transformers} with torch {torch}.
Parameters are those of its class on the meta device, tied ones once; FLOP are those of torch's FLOP counter for one
forward pass. Both deviations are ours over theirs. `tests/interchange/hugging_face/library.py` says how FLOP are
compared: torch counts every pair of tokens, so the deviation is with every pair; the column of FLOP counts those that
the mask leaves.

| `model_type` | example | parameters | deviation | tokens | GFLOP forward | deviation |
|---|---|---:|---:|---:|---:|---:|
"""

_TAIL = """
Kinds of decoders that differ from their class in transformers:

- `llama4_text`: transformers runs every expert on every token, and adds what the router chose; here the chosen experts
  compute. Its FLOP are compared with all experts chosen.
- `gpt_neo`, `bloom`, `gemma2` and `gpt_oss`: transformers has no fused attention for these, or has it by another
  library; here it is one kernel, which skips masked pairs. A note says so.
- `deepseek_v3` with `num_nextn_predict_layers`: the blocks that predict more tokens are added, which transformers
  leaves out.
- `gemma3` and `llama4`, as they are published with an image tower: the text model alone is built, and a note says so.

Other kinds:

- `t5`, `mt5` and `umt5` with `tie_word_embeddings: false`: the head has its own matrix, as in the published checkpoints
  of T5 1.1, Flan-T5 and mT5; transformers 5 builds it tied, and unties it when it reads such a checkpoint.
- `bart` and `mbart`: FLOP are compared with attention kernel by kernel. So are those of `deberta-v2`, `llava` and
  `qwen2_5_vl`, with a small config.
- `deberta-v2`: the projections of relative positions, once for a batch, are left out of the FLOP.
- `clip` and `siglip`: the products of all images with all texts of a batch are left out of the FLOP.
- `mamba` and `mamba2`: the FLOP of the scan are the products of transformers' own code; its time is that of fused
  kernels.
- `llava` and `qwen2_5_vl`: tokens are those of the text beside an image. All parts are trained; blocks of LLaVA's tower
  above the one that is used have no backward products.
"""


def text() -> str:
    """Return the page."""
    import torch
    import transformers

    lines = [_line(row_of(case)) for case in CASES]
    torch_version = torch.__version__.partition("+")[0]
    return _HEAD.format(transformers=transformers.__version__, torch=torch_version) + "\n".join(lines) + "\n" + _TAIL


def _line(row: Row) -> str:
    parameters, flop = row.parameters / row.library_parameters - 1, row.whole / row.library_flop - 1
    first, second = ours(row.case, row.parameters, row.flop)
    return f"{first} {parameters:.1%} {second} {flop:.1%} |"


def ours(case: Case, parameters: int, flop: float) -> tuple[str, str]:
    """Return the cells of a line that need no library: those up to parameters, and those of tokens and FLOP."""
    kind = f"`{case.keys['model_type']}`"
    return f"| {kind} | {case.name} | {parameters:,} |", f"| {case.tokens or case.sample} | {flop / 1e9:,.3f} |"
