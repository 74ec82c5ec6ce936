"""The page of model families in the docs: what `import hf` counts beside what transformers counts."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import NamedTuple

from tests.interchange.hugging_face.cases import CASES, Case
from tests.interchange.hugging_face.library import imported, library_counts, whole_flop

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
    """Compute one row."""
    with tempfile.TemporaryDirectory() as folder:
        model = imported(Path(folder), case.keys, case.tokens)
        compared = imported(Path(folder), {**case.keys, **case.flop_keys}, case.tokens)
    counted = library_counts({**case.keys, **case.flop_keys}, case.tokens, case.attention)
    return Row(case, model.num_parameters, model.flop, whole_flop(compared), counted.parameters, counted.flop)


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
    return f"| {kind} | {case.name} | {parameters:,} |", f"| {case.tokens} | {flop / 1e9:,.3f} |"
