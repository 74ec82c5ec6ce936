"""Objectives of a plan: samples per second, cost or energy per sample."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from clustersim.errors import InputError
from clustersim.hardware.sheet import Gpu
from clustersim.planner.space import Choice

Name = Literal["samples_per_s", "cost", "energy"]
NAMES: tuple[Name, ...] = ("samples_per_s", "cost", "energy")

_SHEETS: dict[str, str] = {"cost": "dollars_per_hour", "energy": "power_w"}
_REMEDIES = {"cost": "give one with --price or `prices`", "energy": "give a sheet of your own with a power"}


@dataclass(frozen=True)
class Objective:
    """An objective for one kind of GPU: the value of a choice per sample; less is better."""

    name: Name
    gpu: Gpu

    def __post_init__(self) -> None:
        if self.name in _SHEETS:
            key = _SHEETS[self.name]
            if getattr(self.gpu, key) is None:
                raise InputError(
                    f"the sheet of {self.gpu.name} has no {key}, which the objective {self.name} needs; "
                    f"{_REMEDIES[self.name]}, or use --objective samples_per_s",
                    got=self.name,
                    allowed="samples_per_s",
                    key="objective",
                )

    def of(self, choice: Choice, iteration_s: float) -> float:
        """Return seconds, dollars or joules per sample, for an iteration time."""
        sample_s = iteration_s / choice.batch
        if self.name == "cost":
            return sample_s * choice.num_gpus * (self.gpu.dollars_per_hour or 0.0) / 3600
        if self.name == "energy":
            return sample_s * choice.num_gpus * (self.gpu.power_w or 0.0)
        return sample_s


def dollars_per_sample(gpu: Gpu, choice: Choice, iteration_s: float) -> float | None:
    """Return the cost of a sample at the GPUs' price per hour; None without a price in the sheet."""
    return None if gpu.dollars_per_hour is None else Objective("cost", gpu).of(choice, iteration_s)


def joules_per_sample(gpu: Gpu, choice: Choice, iteration_s: float) -> float | None:
    """Return the energy of a sample at the GPUs' full power, an upper bound; None without a power in the sheet."""
    return None if gpu.power_w is None else Objective("energy", gpu).of(choice, iteration_s)
