"""What a plan is to make best: samples a second, money or energy for each sample."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from clustersim.errors import InputError
from clustersim.hardware.sheet import Gpu
from clustersim.planner.space import Choice

Name = Literal["samples_per_s", "cost", "energy"]
NAMES: tuple[Name, ...] = ("samples_per_s", "cost", "energy")

_SHEETS: dict[str, tuple[str, str]] = {"cost": ("dollars_per_hour", "a price"), "energy": ("power_w", "a power")}


@dataclass(frozen=True)
class Objective:
    """An objective on GPUs of a kind: what a choice comes to for each sample, and less is better."""

    name: Name
    gpu: Gpu

    def __post_init__(self) -> None:
        if self.name in _SHEETS:
            key, what = _SHEETS[self.name]
            if getattr(self.gpu, key) is None:
                raise InputError(
                    f"the sheet of {self.gpu.name} gives no {key}, so a plan cannot go by {self.name}; "
                    f"name a sheet of your own with {what}, or take --objective samples_per_s",
                    got=self.name,
                    allowed="samples_per_s",
                    key="objective",
                )

    def of(self, choice: Choice, iteration_s: float) -> float:
        """Return seconds, dollars or joules for each sample, at a time of an iteration."""
        sample_s = iteration_s / choice.batch
        if self.name == "cost":
            return sample_s * choice.num_gpus * (self.gpu.dollars_per_hour or 0.0) / 3600
        if self.name == "energy":
            return sample_s * choice.num_gpus * (self.gpu.power_w or 0.0)
        return sample_s


def dollars_per_sample(gpu: Gpu, choice: Choice, iteration_s: float) -> float | None:
    """Return what a sample costs where all GPUs are paid for by the hour; None where the sheet has no price."""
    return None if gpu.dollars_per_hour is None else Objective("cost", gpu).of(choice, iteration_s)


def joules_per_sample(gpu: Gpu, choice: Choice, iteration_s: float) -> float | None:
    """Return the energy of a sample where every GPU takes its full power throughout: an upper estimate."""
    return None if gpu.power_w is None else Objective("energy", gpu).of(choice, iteration_s)
