"""Checks of `measured`: runs that were measured, beside the other keys of a scenario."""

from __future__ import annotations

from collections.abc import Iterator

from clustersim.errors import Mistake
from clustersim.scenario.keys import PointKeys

_NOT_SET = ("num_gpus", "measured", "jobs", "name", "description", "extends", "published")


def measured_mistakes(point: PointKeys) -> Iterator[Mistake]:
    """Yield what contradicts measured runs: another source of the same figure, other jobs, the same run twice."""
    if not point.measured:
        return
    if point.compute.single_gpu is not None:
        message = (
            "the rate of one GPU and measured runs both say how fast the kernels are; drop one of the two, or give "
            "the rate as a run of one GPU in measured"
        )
        yield Mistake(message, key="compute.single_gpu", allowed="without measured")
    if not isinstance(point.jobs, int):
        message = "a measured run says nothing of the other jobs on the cluster; drop measured, or jobs"
        yield Mistake(message, key="measured", allowed="without a list of jobs")
    for number, each in enumerate(point.measured):
        for key in (name for name in _NOT_SET if name in each.set):
            message = f"a run cannot set '{key}'; give it beside `set`" if key == "num_gpus" else f"no run sets '{key}'"
            yield Mistake(message, key=f"measured.{number}.set.{key}", got=key, allowed="keys that differ in this run")
    yield from _repeated(point)


def _repeated(point: PointKeys) -> Iterator[Mistake]:
    """Yield that two entries describe the same run."""
    for number, each in enumerate(point.measured):
        for first, other in enumerate(point.measured[:number]):
            is_log = each.collectives is not None or other.collectives is not None
            if is_log or (other.num_gpus, other.set) != (each.num_gpus, each.set):
                continue
            message = (
                f"measured.{first} is the same run: {each.num_gpus} GPUs with the same keys in `set`; keep one figure, "
                "or say in `set` what was different"
            )
            yield Mistake(message, key=f"measured.{number}", got=f"{each.metric} {each.value:g}", allowed="one figure")
