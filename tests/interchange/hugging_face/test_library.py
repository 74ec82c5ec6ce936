"""Every family counts what the library's class has: parameters, products, and pairs of tokens in the masks."""

from __future__ import annotations

from pathlib import Path

import pytest

from clustersim.kernels.fused_attention import is_fused
from tests.interchange.hugging_face.cases import CASES, SMALL, Case
from tests.interchange.hugging_face.library import imported, mask_pairs
from tests.interchange.hugging_face.page import PAGE, row_of, text

pytestmark = pytest.mark.torch
SIZES = {
    "hidden_size": 64, "num_hidden_layers": 4, "num_attention_heads": 4, "intermediate_size": 96, "head_dim": 16,
    "vocab_size": 128, "pad_token_id": 0, "bos_token_id": 1, "eos_token_id": 1,
}  # fmt: skip
TOKENS = 40


@pytest.fixture(autouse=True)
def library() -> None:
    pytest.importorskip("transformers")


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_parameters_and_flop_are_those_that_the_library_counts(case: Case) -> None:
    row = row_of(case)
    assert row.parameters == row.library_parameters
    assert row.whole == row.library_flop


@pytest.mark.parametrize("family", SMALL)
def test_masks_leave_as_many_pairs_as_the_library_s(tmp_path: Path, family: str) -> None:
    """Theirs count a token with itself once and ours half, and in a window w of the tokens that leave it, too."""
    keys = {"model_type": family, **SIZES, **SMALL[family]}
    model = imported(tmp_path, keys, TOKENS)
    scores = [layer for layer in model.layers if is_fused(layer) and not layer.output_elements]
    ours = [each.flop / (2.0 * each.shape["inputs"] * each.shape["count"]) for each in scores]
    theirs = mask_pairs(keys, TOKENS)
    whole, window = TOKENS * (TOKENS + 1) // 2, keys.get("sliding_window", TOKENS)
    assert [pairs - (TOKENS if pairs == whole else window) / 2 for pairs in theirs] == pytest.approx(ours, rel=1e-12)
    assert min(theirs) < whole or family == "llama"


def test_the_page_in_the_docs_is_current() -> None:
    assert PAGE.read_text(encoding="utf-8") == text(), "run `python -m tests.interchange.hugging_face`"


def test_default_keys_are_those_of_the_library_s_classes() -> None:
    from tests.script import load_script

    script = load_script(PAGE.parents[1] / "tools" / "hf_classes.py")
    assert script.text() == script.CLASSES.read_text(encoding="utf-8"), "run `python tools/hf_classes.py`"
