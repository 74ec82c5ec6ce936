"""What seconds are counted for: an iteration, or what both runs train alike if their iterations do not."""

from __future__ import annotations

import math
from dataclasses import dataclass

from clustersim.errors import InputError, unknown_name
from clustersim.results import Run

_ALIKE = 1e-6
"""Relative difference up to which two amounts of work are the same."""


@dataclass(frozen=True)
class DiffBasis:
    """What each second of a comparison is spent on: `noun` names it."""

    name: str
    noun: str

    def per_iteration(self, run: Run) -> float:
        """Return how many of the noun a run trains in an iteration; InputError where it is not known."""
        samples = run.samples_per_s * run.iteration_s
        if self.name == "iteration":
            return 1.0
        if self.name == "gpu-sample":
            return samples / run.num_gpus
        if self.name == "sample":
            return samples
        if not run.tokens_per_sample:
            message = "seconds per token need a model with tokens in both runs; use iteration, sample or gpu-sample"
            raise InputError(message, key="--per", got="token", allowed="iteration, sample, gpu-sample")
        return samples * run.tokens_per_sample


BASES = {
    "iteration": DiffBasis("iteration", "an iteration"),
    "sample": DiffBasis("sample", "a sample"),
    "token": DiffBasis("token", "a token"),
    "gpu-sample": DiffBasis("gpu-sample", "a sample, times the GPUs,"),
}
"""All bases by the value of `--per`."""


def basis_of(a: Run, b: Run, asked: str | None = None) -> DiffBasis:
    """Return the basis that is asked for, or the one in which two runs do the same work.

    That is an iteration where it trains as many samples in both, or as many on each GPU. Otherwise it is a sample, and
    a token where the samples are not equally long.
    """
    if asked is not None:
        if asked not in BASES:
            raise unknown_name("basis", asked, BASES)
        basis = BASES[asked]
        for run in (a, b):
            basis.per_iteration(run)  # refuses a run of which it is not known
        return basis
    tokens = [run.tokens_per_sample for run in (a, b)]
    if all(tokens) and not _are_alike(tokens[0] or 0.0, tokens[1] or 0.0):
        return BASES["token"]
    if any(_are_alike(*(BASES[name].per_iteration(run) for run in (a, b))) for name in ("sample", "gpu-sample")):
        return BASES["iteration"]
    return BASES["sample"]


def _are_alike(one: float, two: float) -> bool:
    return math.isclose(one, two, rel_tol=_ALIKE)
