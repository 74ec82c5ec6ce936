"""Layouts of a plan as `clustersim run` forecasts them, with all settings of the software."""

from __future__ import annotations

from typing import Any

import pytest

from clustersim import sweep
from clustersim.parallelism import Parallelism
from clustersim.planner import Entry, Plan, plan
from clustersim.planner.plan import AS_RUN
from clustersim.spec import is_of_software

SCENARIO: dict[str, Any] = {
    "name": "free",
    "model": "gpt2-medium",
    "num_gpus": 16,
    "batch": {"global": 64},
    "topology": {"kind": "star", "num_hosts": 4, "link": "ethernet-10g", "host": {"template": "dgx-a100"}},
    "precision": "amp-bf16",
    "optimizer": "adam",
    "num_iterations": 2,
}


def as_run(found: Plan, entry: Entry, software: str) -> float:
    """Return the iteration time of a layout whose keys a user copies into the scenario."""
    keys = entry.choice.settings()
    fields = Parallelism.model_fields
    of_software = {key: keys.pop(key) for key in list(keys) if is_of_software(fields[key])}
    strategy = {"kind": "all-reduce", **dict(entry.choice.exchange)}
    written = {"software": {"name": software, **of_software}, "parallelism": keys, "strategy": strategy}
    return sweep({**SCENARIO, **written}).runs[0].iteration_s


@pytest.mark.parametrize("software", ["megatron-core", "torchtitan-compiled"])
def test_the_best_layouts_are_in_the_order_in_which_run_has_them(software: str) -> None:
    found = plan({**SCENARIO, "software": software}, [16], workers=1)
    times = [entry.run_s for entry in found.best[:AS_RUN]]
    assert times == sorted(time for time in times if time is not None)
    for entry in found.best[:AS_RUN]:
        assert as_run(found, entry, software) == pytest.approx(entry.run_s, rel=1e-9)


def test_a_plan_overlaps_what_the_software_overlaps() -> None:
    fixed = {"data": 16, "tensor": 1, "pipeline": 1, "micro_batches": 1, "sharding": "zero-1", "recompute": "none"}
    scenario = {**SCENARIO, "software": "megatron-core"}
    free, given = plan(scenario, [16], workers=1), plan({**scenario, "parallelism": fixed}, [16], workers=1)
    assert "gather_overlap" in given.best[0].choice.settings()
    alike = [each for each in free.simulated if each.choice.settings().get("sharding") in ("zero-1", "zero-2")]
    assert alike
    assert all(each.choice.layout.gather_overlap for each in alike)
    assert free.best[0].iteration_s <= given.best[0].iteration_s


def test_settings_that_only_some_layouts_have_are_named() -> None:
    found = plan({**SCENARIO, "software": "torchtitan-compiled", "parallelism": {"tensor": 1}}, [16], workers=1)
    assert {"sharding_copies", "gathers"} <= set(found.left_out)
