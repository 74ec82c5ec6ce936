"""TPUs: chips on tori, collectives of one dimension after the other, and what MaxText reaches."""

from __future__ import annotations

from math import prod
from typing import Any

import pytest

import clustersim
from clustersim.hardware import load_gpu, load_link
from clustersim.simulate import time_collective

V6E = 7138.890
"""Tokens per second and chip of Llama 3.1 8B on eight v6e, to which the sheet was fitted."""

NOT_FITTED = [
    ("llama-3.1-8b", [4, 4], 3, 26, 7243.378),
    ("llama-3.1-70b", [4, 8], 2, 66, 920.965),
]
"""Model, slice, samples a chip, recomputed blocks, tokens/s (AI-Hypercomputer/tpu-recipes, c8cfe2f)."""


def slice_of(dims: list[int], chip: str = "tpu-v6e") -> dict[str, Any]:
    link = f"ici-{chip.removeprefix('tpu-')}"
    rate = 2 * len(dims) * load_link(link).bytes_per_s
    return {
        "kind": "torus",
        "dims": dims,
        "host": {"template": "bare", "gpu": chip},
        "link": link,
        "injection": f"{rate / 1e9} GB/s",
    }


def tokens_per_s(model: str, dims: list[int], batch: int, blocks: int) -> float:
    run = clustersim.simulate(
        {
            "model": model,
            "num_gpus": prod(dims),
            "batch": {"per_gpu": batch},
            "topology": slice_of(dims),
            "software": "maxtext-tpu",
            "parallelism": {"sharding": "zero-3", "recompute": "full", "recompute_blocks": blocks},
            "optimizer": "adam",
            "memory_check": False,
            "num_iterations": 1,
        }
    )
    assert run.tokens_per_sample is not None
    return run.samples_per_s * run.tokens_per_sample / run.num_gpus


@pytest.mark.parametrize("chip", ["tpu-v4", "tpu-v5e", "tpu-v5p", "tpu-v6e"])
def test_a_chip_has_two_links_for_each_dimension(chip: str) -> None:
    assert load_gpu(chip).num_nvlinks == (6 if chip in ("tpu-v4", "tpu-v5p") else 4)


@pytest.mark.parametrize(("chip", "dims"), [("tpu-v4", [4, 4, 4]), ("tpu-v6e", [4, 4])])
def test_a_torus_ring_has_the_rate_of_a_link(chip: str, dims: list[int]) -> None:
    """It takes one dimension after the other, in one direction."""
    num, size = prod(dims), 2**30
    (row,) = time_collective("all-reduce", slice_of(dims, chip), "torus-ring", num, [size], "xla-ici")["rows"]
    rate = load_link(f"ici-{chip.removeprefix('tpu-')}").bytes_per_s
    assert row["busbw_bytes_per_s"] == pytest.approx(rate, rel=0.1)


def test_maxtext_on_eight_chips_is_what_the_sheet_was_fitted_to() -> None:
    assert tokens_per_s("llama-3.1-8b", [2, 4], 3, 26) == pytest.approx(V6E, rel=0.02)


@pytest.mark.parametrize(("model", "dims", "batch", "blocks", "measured"), NOT_FITTED)
def test_maxtext_elsewhere_is_near_what_was_measured(
    model: str, dims: list[int], batch: int, blocks: int, measured: float
) -> None:
    assert tokens_per_s(model, dims, batch, blocks) == pytest.approx(measured, rel=0.05)
