"""A layout that does not fit is reported with a change that fits, or with the plan command."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from clustersim.errors import InputError
from clustersim.planner import plan
from clustersim.scenario import load_scenario
from clustersim.simulate import simulate
from clustersim.simulate.setup import Setup
from tests.simulate.nccl_sheet import sheet

SCENARIO: dict[str, Any] = {
    "model": "gpt2-medium",
    "num_gpus": 8,
    "batch": {"global": 64},
    "topology": {"kind": "star", "num_hosts": 1, "host": {"template": "dgx-1", "gpu": "v100"}, "link": "10 Gbit/s"},
    "software": "plain",
    "transport": "nccl",
    "strategy": {"kind": "all-reduce"},
    "precision": "amp-fp16",
    "optimizer": "adam",
}


def message_of(**changes: Any) -> str:
    with pytest.raises(InputError) as caught:
        load_scenario({**SCENARIO, **changes}).points()
    return str(caught.value)


@pytest.mark.parametrize(
    ("model", "layout", "with_it"),
    [
        ("gpt2-medium", {"pipeline": 2, "schedule": "gpipe", "micro_batches": 4}, {"recompute": "selective"}),
        ("gpt2-large", {"pipeline": 2, "micro_batches": 8}, {"sharding": "zero-1"}),
        ("gpt2-xl", {"micro_batches": 2}, {"sharding": "zero-3", "micro_batches": 8}),
        ("megatron-8.3b", {"tensor": 8, "recompute": "full", "micro_batches": 64}, {"offload": "optimizer"}),
        (
            "gpt2-medium",
            {"pipeline": 2, "schedule": "gpipe", "micro_batches": 4, "recompute": "pointwise"},
            {"recompute": "full"},
        ),
        (
            "gpt2-medium",
            {"pipeline": 2, "schedule": "gpipe", "micro_batches": 4, "recompute": "full", "recompute_blocks": 4},
            {"recompute_blocks": None},
        ),
    ],
)
def test_the_reported_change_makes_it_fit(model: str, layout: dict[str, Any], with_it: dict[str, Any]) -> None:
    written = ", ".join(f"{key}: {'null' if value is None else value}" for key, value in with_it.items())
    assert f"; it fits with parallelism {{{written}}}, which takes " in message_of(model=model, parallelism=layout)
    point = load_scenario({**SCENARIO, "model": model, "parallelism": {**layout, **with_it}}).points()[0].point
    assert Setup(point).memory_warnings() == ()


def test_the_reported_change_is_faster_than_all_changes_together(tmp_path: Path) -> None:
    """Collectives hold no multiprocessors here: the reported change gathers its weights again for each micro-batch."""
    layouts = ({"sharding": "zero-3", "micro_batches": 8}, {"sharding": "zero-3", "recompute": "full"})
    asked = {**SCENARIO, "model": "gpt2-xl", "num_iterations": 1, "transport": sheet(tmp_path, 0)}
    scenarios = [{**asked, "parallelism": layout} for layout in layouts]
    reported_s, most_s = (simulate(load_scenario(scenario)).iteration_s for scenario in scenarios)
    assert reported_s < 0.85 * most_s


def test_if_no_change_fits_the_best_one_and_the_plan_command_are_reported() -> None:
    message = message_of(model="megatron-175b", parallelism={"tensor": 8})
    least = "{recompute: full, micro_batches: 64, offload: optimizer+activations}"
    assert f"; even parallelism {least} takes " in message
    command = "`clustersim plan SCENARIO --gpus 8` compares all layouts"
    assert message.endswith(f"; {command} (for a sweep, select one point with --set)")


@pytest.mark.parametrize(
    "changes",
    [
        {"parallelism": {"pipeline": 8, "schedule": "pipedream", "micro_batches": 8}},
        {"parallelism": {"tensor": 8}, "strategy": {"kind": "server", "servers": {"on": "workers"}}},
        {"parallelism": {"tensor": 8}, "stragglers": [{"kind": "constant", "factor": 2, "of": [0]}]},
        {"parallelism": {"tensor": 4}, "num_gpus": 4, "jobs": [{"name": "one"}, {"name": "two"}]},
    ],
)
def test_points_that_a_plan_refuses_get_no_hint_of_a_plan(changes: dict[str, Any]) -> None:
    message = message_of(model="megatron-175b", **changes)
    assert "memory_check: false" in message
    assert "clustersim plan" not in message
    with pytest.raises(InputError, match=r"\ba plan "):
        plan({**SCENARIO, "model": "megatron-175b", **changes}, [changes.get("num_gpus", 8)])


def test_copies_that_do_not_fit_get_a_hint_of_smaller_micro_batches_and_plans() -> None:
    message = message_of(batch={"per_gpu": 64})
    assert "`clustersim plan` finds how to split it over several GPUs so that it fits" in message
    assert "; it fits with parallelism {sharding: zero-2, micro_batches: 16}, which takes " in message
    with_it = {"sharding": "zero-2", "micro_batches": 16}
    load_scenario({**SCENARIO, "batch": {"per_gpu": 64}, "parallelism": with_it}).points()
    served = message_of(batch={"per_gpu": 64}, strategy={"kind": "server", "servers": {"on": "workers"}})
    assert "clustersim plan" not in served


def test_recomputed_attention_gets_a_hint_of_full_recomputation() -> None:
    message = message_of(model="megatron-175b", parallelism={"tensor": 8, "recompute": "attention"})
    assert "even parallelism {recompute: full, micro_batches: 64, offload: optimizer+activations} takes " in message


def test_a_change_that_the_strategy_does_not_allow_is_not_reported() -> None:
    gossip = {"kind": "gossip", "asynchronous": True}
    assert "it fits with" not in message_of(batch={"per_gpu": 64}, strategy=gossip)


def test_a_copy_that_fits_without_optimizer_state_gets_a_hint_of_offload() -> None:
    alone = {"software": "plain", "num_gpus": 1, "batch": {"global": 1}, "model": "megatron-1.2b"}
    assert "; it fits with parallelism {offload: optimizer}, which takes " in message_of(**alone)
    point = load_scenario({**SCENARIO, **alone, "parallelism": {"offload": "optimizer"}}).points()[0].point
    assert Setup(point).memory_warnings() == ()
    served = {"kind": "server", "servers": {"on": "workers"}}
    assert "it fits with" not in message_of(**alone, strategy=served)


def test_experts_that_do_not_fit_get_a_hint_of_sharding_before_offload() -> None:
    topology = {"kind": "star", "num_hosts": 2, "host": "dgx-h100", "link": "infiniband-ndr"}
    changes: dict[str, Any] = {
        "software": "plain",
        "model": "mixtral-8x7b",
        "num_gpus": 16,
        "batch": {"global": 16},
        "topology": topology,
    }
    message = message_of(**changes, precision="amp-bf16", parallelism={"expert": 8})
    assert "; it fits with parallelism {sharding: zero-2, recompute: selective}, which takes " in message
