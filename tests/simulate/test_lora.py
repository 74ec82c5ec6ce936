"""Training adapters on many GPUs: what is exchanged, gathered and stored."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import clustersim
from clustersim import load_scenario
from clustersim.errors import InputError
from clustersim.model import load_model
from clustersim.planner.layout_costs import LayoutCosts
from clustersim.planner.peak_memory import PeakMemory
from clustersim.planner.request import plan_request
from clustersim.planner.space import Choice
from clustersim.program.ops import Call
from clustersim.simulate import Workloads
from clustersim.simulate.setup import Setup
from tests.placed import placed

MODEL, RANK = "llama-2-7b-seq256", 8
TRAINED = 4_194_304


def scenario(adapters: dict[str, Any] | None, **keys: Any) -> dict[str, Any]:
    return placed(
        {
            "model": MODEL,
            "num_gpus": 4,
            "batch": {"per_gpu": 1},
            "topology": {"kind": "star", "num_hosts": 4, "host": {"gpu": "h100"}, "link": "10 GB/s"},
            "transport": "ideal",
            "strategy": {"kind": "all-reduce", "algorithm": "ring", "overlap": False},
            "precision": "amp-bf16",
            "software": "plain",
            "optimizer": "adam",
            "compute": {"kernels": "law", "variability": 0},
            "num_iterations": 2,
            "memory_check": False,
            **({} if adapters is None else {"lora": adapters}),
            **keys,
        }
    )


def test_only_gradients_of_adapters_are_exchanged() -> None:
    """A ring of 4 sends 2 x 3 / 4 of their fp32 bytes over a link."""
    run = clustersim.simulate(scenario({"rank": RANK}))
    assert sum(num_bytes for _, num_bytes, _ in run.buckets) == 4 * TRAINED
    assert max(link.num_bytes for link in run.links if link.kind == "access") == 1.5 * 4 * TRAINED


def test_without_lora_the_model_is_that_of_the_catalogue() -> None:
    assert Setup(load_scenario(scenario(None)).points()[0].point).model is load_model(MODEL)


@pytest.mark.parametrize("storage", ["operands", "nf4"])
def test_sharded_weights_are_gathered_as_they_are_stored(storage: str) -> None:
    """Every block is gathered forward and again backward: 3 / 4 of twice all bytes over a link."""
    keys = {"rank": RANK, "storage": storage}
    run = clustersim.simulate(scenario(keys, parallelism={"sharding": "zero-3"}))
    own = Setup(load_scenario(scenario(keys)).points()[0].point).model
    gathered, scattered = 2 * 0.75 * (own.frozen_bytes + 2 * TRAINED), 0.75 * 4 * TRAINED
    assert max(link.num_bytes for link in run.links if link.kind == "access") == pytest.approx(gathered + scattered)
    assert run.memory_parts["frozen weights"] == pytest.approx(own.frozen_bytes / 4)


def test_a_backward_pass_has_one_product_where_it_had_two() -> None:
    whole, adapted, stored = (
        Setup(load_scenario(scenario(each)).points()[0].point).reference
        for each in (None, {"rank": RANK}, {"rank": RANK, "storage": "nf4"})
    )
    assert 0.5 < adapted.backward_s / whole.backward_s < 0.7
    assert 1.0 < adapted.forward_s / whole.forward_s < 1.2
    assert stored.forward_s > adapted.forward_s


def test_stages_divide_it_as_they_divide_the_model() -> None:
    layouts = [
        Setup(
            load_scenario(scenario(each, parallelism={"pipeline": 2, "micro_batches": 1}, batch={"global": 2}))
            .points()[0]
            .point
        ).laid_out
        for each in (None, {"rank": RANK})
    ]
    firsts = [each.parts[1].pieces[0].layer.name for each in layouts if each is not None]
    assert len(firsts) == 2
    assert firsts[0] == firsts[1]


@pytest.mark.parametrize(
    ("keys", "message"),
    [
        ({"parallelism": {"kind": "paths"}}, "parallelism.kind: paths"),
        ({"model": "resnet50"}, "no product that is known as q_proj"),
        ({"lora": {"rank": 0}}, "rank"),
        ({"lora": {"rank": 8, "targets": ["q"]}}, "q_proj"),
        ({"lora": {"rank": 8, "targets": []}}, "targets"),
        ({"lora": {"rank": 8, "alpha": 16}}, "no such key"),
    ],
)
def test_what_is_not_simulated_is_refused(keys: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError, match=message):
        load_scenario(scenario({"rank": RANK}, **keys))


@pytest.mark.parametrize(
    "layout",
    [
        *({"sharding": "zero-1", "recompute": each} for each in ("full", "selective", "pointwise", "attention")),
        {"sharding": "zero-2", "offload": "optimizer"},
        {"sharding": "zero-3", "offload": "activations"},
        {"context": 2},
        {"tensor": 2},
        {"tensor": 2, "sequence_parallel": True, "sharding": "zero-1"},
        {"pipeline": 2, "chunks": 2, "schedule": "interleaved", "micro_batches": 2},
        {"sharding": "zero-1", "sharding_by": "tensors"},
    ],
)
def test_it_goes_with_every_other_layout(layout: dict[str, Any]) -> None:
    keys = {"model": "llama-2-7b-seq256", "parallelism": layout, "batch": {"global": 8}}
    whole, adapted = (clustersim.simulate(scenario(each, **keys)) for each in (None, {"rank": RANK, "storage": "nf4"}))
    assert adapted.memory_bytes < whole.memory_bytes
    assert adapted.iteration_s < whole.iteration_s


def test_experts_are_frozen_where_they_are() -> None:
    keys = {"model": "mixtral-8x7b", "parallelism": {"expert": 4}, "batch": {"global": 4}}
    laid_out = Setup(load_scenario(scenario({"rank": RANK}, **keys)).points()[0].point).laid_out
    assert laid_out is not None
    experts = sum(layer.num_parameters for layer in load_model("mixtral-8x7b").layers if layer.op == "experts")
    others = load_model("mixtral-8x7b").num_parameters - experts
    assert laid_out.fullest["frozen weights"] == pytest.approx(2 * (others + experts / 4), rel=1e-6)


def test_times_of_a_file_are_refused(tmp_path: Path) -> None:
    file = tmp_path / "net.yaml"
    file.write_text(
        "name: net\nlayers:\n  - {name: fc, flop: 1e6, parameter_bytes: 4e6, forward_s: 1, backward_s: 2}\n"
    )
    with pytest.raises(InputError, match="gives times of layers, which lora would change") as error:
        load_scenario(scenario({"rank": RANK}, model=str(file)))
    assert error.value.mistakes[0].key == "lora"


def test_a_plan_refuses_it() -> None:
    with pytest.raises(InputError, match="leave lora out"):
        plan_request(scenario({"rank": RANK}), [4], [4], [], across_hosts=False)


@pytest.mark.parametrize(
    ("layout", "num_gpus", "replicas"),
    [
        ({"expert": 4}, 8, 2),
        ({"expert": 4, "pipeline": 2, "schedule": "dualpipe", "micro_batches": 4}, 8, 2),
        ({"expert": 4, "context": 2}, 8, 2),
    ],
)
def test_frozen_experts_are_sharded_over_those_that_have_the_same(
    layout: dict[str, Any], num_gpus: int, replicas: int
) -> None:
    """Experts of one GPU in e over its replicas, all other weights over all; each pass gathers all but the own part."""
    keys = {
        "model": "mixtral-8x7b",
        "num_gpus": num_gpus,
        "topology": {"kind": "star", "num_hosts": num_gpus, "host": {"gpu": "h100"}, "link": "10 GB/s"},
        "batch": {"global": 32},
    }
    asked = scenario({"rank": RANK}, **keys, parallelism={**layout, "sharding": "zero-3"})
    own = load_scenario(asked).points()[0].point
    laid_out = Setup(own).laid_out
    assert laid_out is not None
    experts = sum(layer.num_parameters for layer in load_model("mixtral-8x7b").layers if layer.op == "experts")
    others = load_model("mixtral-8x7b").num_parameters - experts
    assert own.grid.num_expert_replicas == replicas
    held = sum(each["frozen weights"] for each in laid_out.memory) / len(laid_out.memory) * own.grid.pipeline
    if own.grid.num_mirrored == 2:
        held /= 2  # each stage has the parameters of two
    assert held == pytest.approx(
        2 * (others / (8 // own.grid.pipeline * own.grid.num_mirrored) + experts / 4 / 2), rel=1e-6
    )
    calls = [op for plan in laid_out.plans for op in plan.program.ops() if isinstance(op, Call)]
    assert any(op.op == "all-gather" and op.axis == "data" and op.num_bytes > 1e8 for op in calls)


def test_a_plan_knows_the_memory_of_frozen_experts_and_of_wide_layers() -> None:
    frozen = scenario(
        {"rank": RANK}, model="mixtral-8x7b", batch={"global": 4}, parallelism={"expert": 2, "sharding": "zero-3"}
    )
    software = {"name": "plain", "casts": "te", "wide_share": 0.3}
    chip = {"kind": "star", "num_hosts": 4, "host": {"gpu": "b200"}, "link": "10 GB/s"}
    split = {"pipeline": 2, "micro_batches": 2}
    wide = scenario(
        None, precision="amp-mxfp8", software=software, topology=chip, batch={"global": 4}, parallelism=split
    )
    for each in (frozen, wide):
        point = load_scenario(each).points()[0].point
        costs = LayoutCosts(point, Workloads())
        held = PeakMemory(costs).peak_bytes(Choice(4, 4, point.parallelism))
        assert held == pytest.approx(sum(Setup(point).memory_bytes(costs.kind).values()), rel=1e-9)
