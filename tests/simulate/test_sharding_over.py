"""Sharding within groups of copies, and by whole tensors: closed forms, and equal layouts."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import clustersim
from clustersim.collectives import closed_form
from clustersim.errors import InputError
from clustersim.parallelism.tensor_owners import assign_owners, largest_share
from clustersim.program.ops import Call
from clustersim.scenario import load_scenario
from clustersim.simulate.setup import Setup
from tests.placed import placed
from tests.simulate.shortcut_checks import check_folded_is_exact, check_shortcut_is_exact, check_traces_are_exact

NUM_LAYERS, FORWARD_S, BACKWARD_S, LAYER_BYTES = 4, 0.012, 0.024, 1e8
COPIES, HOP_S, RATE = 8, 1e-6, 1e10
MODEL_BYTES = NUM_LAYERS * LAYER_BYTES
DGX = {"kind": "star", "num_hosts": 4, "host": "dgx-a100", "link": "infiniband-hdr", "hop": "1 us"}


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> str:
    path = tmp_path_factory.mktemp("equal") / "equal.yaml"
    layer = f"op: fully-connected, flop: 1e9, parameter_bytes: {LAYER_BYTES:g}, activation_bytes: 10"
    times = f"forward_s: {FORWARD_S}, backward_s: {BACKWARD_S}"
    rows = "".join(f"  - {{name: l{number}, {layer}, {times}}}\n" for number in range(NUM_LAYERS))
    path.write_text(f"name: equal\nlayers:\n{rows}")
    return str(path)


def scenario(model: str, layout: dict[str, Any], num_gpus: int = COPIES, **other: Any) -> dict[str, Any]:
    return placed(
        {
            "model": model,
            "num_gpus": num_gpus,
            "batch": {"per_gpu": 4},
            "topology": {
                **{"kind": "star", "num_hosts": 8, "host": {"gpu": "a100"}, "link": f"{RATE:g} B/s"},
                "hop": f"{HOP_S} s",
            },
            "transport": "ideal",
            "strategy": {"kind": "all-reduce", "algorithm": "ring", "buckets": "whole", "overlap": False},
            "parallelism": layout,
            "num_iterations": 2,
            "memory_check": False,
            **other,
        }
    )


def setup_of(model: str, layout: dict[str, Any], **other: Any) -> Setup:
    return Setup(load_scenario(scenario(model, layout, **other)).points()[0].point)


def update_s(model: str, layout: dict[str, Any], **other: Any) -> float:
    return setup_of(model, layout, **other).laid_out.plans[0].program.phase_s()["update"]


def test_the_sums_between_hosts_overlap_with_the_blocks_before(model: str) -> None:
    """FSDP2's all-reduce has a stream of its own: only that of the first layer, which is last, has nothing beside it.

    Two GPUs share each of four network cards, so an all-reduce takes twice its time on a card of its own.
    (`all_reduce_stream` of `foreach_reduce` in torch/distributed/fsdp/_fully_shard/_fsdp_collectives.py of 2.13)
    """
    strategy, iteration_s = {"kind": "all-reduce", "algorithm": "ring"}, []
    for num_gpus, over in ((8, None), (16, 8)):
        asked = scenario(
            model, {"sharding": "zero-3", "sharding_over": over}, num_gpus, topology=DGX, strategy=strategy
        )
        iteration_s.append(clustersim.simulate(asked).iteration_s)
    sum_s = closed_form("all-reduce", "ring", 2, LAYER_BYTES / 8, 2e-6, 25e9 / 2)
    assert NUM_LAYERS * sum_s < BACKWARD_S
    assert iteration_s[1] - iteration_s[0] == pytest.approx(sum_s, rel=0.05)


@pytest.mark.parametrize("key", ["dp_replicate", "dp_shard", "data_parallel_shard_degree"])
def test_the_degrees_of_a_device_mesh_are_told_as_they_are_here(model: str, key: str) -> None:
    with pytest.raises(InputError, match="shards over N, so N is dp_shard, and R follows"):
        load_scenario(scenario(model, {"sharding": "zero-3", key: 2})).points()


@pytest.mark.parametrize("word", ["hsdp", "HYBRID_SHARD"])
def test_hybrid_sharding_is_found_by_its_names(model: str, word: str) -> None:
    with pytest.raises(InputError, match="sharding_over: N"):
        load_scenario(scenario(model, {"sharding": word})).points()


def sent_bytes(model: str, layout: dict[str, Any]) -> float:
    """Return what a GPU sends in an iteration."""
    run = clustersim.simulate(scenario(model, layout))
    return sum(kind.num_bytes for kind in run.link_classes if kind.kind == "access") / 2 / COPIES


@pytest.mark.parametrize("num", [2, 4])
def test_shares_are_scattered_in_a_group_added_up_across_groups_and_gathered_in_one(model: str, num: int) -> None:
    """One bucket after a pass: RS(N, b) + AR(R / N, b / N), the update of 1 / N, AG(N, b); weights are in fp32."""
    layout = {"sharding": "zero-1", "sharding_over": num}
    parts = [("reduce-scatter", num, MODEL_BYTES), ("all-reduce", COPIES // num, MODEL_BYTES / num)]
    met_s = [closed_form(op, "ring", n, size, 2 * HOP_S, RATE) for op, n, size in [*parts, ("all-gather", num, 4e8)]]
    passes_s = NUM_LAYERS * (FORWARD_S + BACKWARD_S)
    run = clustersim.simulate(scenario(model, layout))
    assert run.iteration_s == pytest.approx(passes_s + sum(met_s) + update_s(model, layout), rel=1e-9)
    whole_s = update_s(model, {"sharding": "zero-1", "sharding_over": 1})
    assert update_s(model, layout) == pytest.approx(whole_s / num, rel=1e-9)


@pytest.mark.parametrize("num", [2, 4])
@pytest.mark.parametrize(("sharding", "scatters", "gathers"), [("zero-1", 1, 1), ("zero-2", 2, 1), ("zero-3", 2, 4)])
def test_groups_add_up_once_what_they_scatter_and_gather_as_often_as_all_do(
    model: str, num: int, sharding: str, scatters: int, gathers: int
) -> None:
    """Of two micro-batches, in bytes of a GPU: (N - 1) / N for each of those, 2 (R / N - 1) / (R / N) of 1 / N once."""
    groups = COPIES // num
    inside = (scatters + gathers) * (num - 1) / num
    layout = {"sharding": sharding, "sharding_over": num, "micro_batches": 2}
    across = 2 * (groups - 1) / groups / num
    assert sent_bytes(model, layout) == pytest.approx(MODEL_BYTES * (inside + across), rel=1e-9)


@pytest.mark.parametrize("sharding", ["zero-1", "zero-2", "zero-3"])
def test_a_group_of_all_copies_is_what_they_share_out_anyway(model: str, sharding: str) -> None:
    own, plain = ({"sharding": sharding, "micro_batches": 2, **over} for over in ({"sharding_over": COPIES}, {}))
    assert (
        clustersim.simulate(scenario(model, own)).iteration_s == clustersim.simulate(scenario(model, plain)).iteration_s
    )
    assert setup_of(model, own).laid_out == setup_of(model, plain).laid_out


@pytest.mark.parametrize("sharding", ["zero-1", "zero-2", "zero-3"])
def test_copies_that_each_are_a_group_exchange_whole_gradients(model: str, sharding: str) -> None:
    strategy = {"kind": "all-reduce", "algorithm": "ring", "buckets": "layer"}
    own = clustersim.simulate(scenario(model, {"sharding": sharding, "sharding_over": 1}, strategy=strategy))
    plain = clustersim.simulate(scenario(model, {}, strategy=strategy))
    if sharding == "zero-1":
        assert own.iteration_s == pytest.approx(plain.iteration_s, rel=1e-9)
    carried, truly = (sum(kind.num_bytes for kind in run.link_classes) for run in (own, plain))
    assert carried == pytest.approx(truly, rel=1e-9)


@pytest.mark.parametrize("num", [2, 4])
def test_a_gpu_keeps_its_share_in_its_group(model: str, num: int) -> None:
    (held,) = setup_of(model, {"sharding": "zero-3", "sharding_over": num}).laid_out.memory
    (whole,) = setup_of(model, {"micro_batches": 2}).laid_out.memory
    for what in ("weights", "gradients", "optimizer"):
        assert held[what] == pytest.approx(whole[what] / num, rel=1e-9)


LAYOUTS: list[dict[str, Any]] = [
    {"sharding": "zero-1", "sharding_over": 8, "micro_batches": 2},
    {"sharding": "zero-1", "sharding_over": 2, "tensor": 4, "gather_overlap": True},
    {"sharding": "zero-2", "sharding_over": 4, "tensor": 2, "micro_batches": 2},
    {"sharding": "zero-3", "sharding_over": 8, "micro_batches": 2},
    {"sharding": "zero-3", "sharding_over": 4, "tensor": 2, "pipeline": 2, "micro_batches": 4},
]


@pytest.mark.parametrize("layout", LAYOUTS)
def test_folded_ranks_are_those_of_the_exact_run(layout: dict[str, Any]) -> None:
    strategy = {"kind": "all-reduce", "buckets": "4 MiB"}
    asked = scenario("gpt-4x512x8-seq256", layout, 32, topology=DGX, transport="nccl", strategy=strategy)
    check_folded_is_exact({**asked, "batch": {"global": 64}})


@pytest.mark.parametrize(
    "layout",
    [
        {"sharding": "zero-1", "sharding_over": 2},
        {"sharding": "zero-2", "sharding_over": 1, "micro_batches": 2},
        {"sharding": "zero-3", "sharding_over": 2, "micro_batches": 2},
        {"sharding": "zero-1", "sharding_by": "tensors", "gather_overlap": True},
    ],
)
def test_traces_take_as_long(model: str, tmp_path: Path, layout: dict[str, Any]) -> None:
    strategy = {"kind": "all-reduce", "algorithm": "ring", "buckets": "layer"}
    check_traces_are_exact(scenario(model, layout, 4, strategy=strategy), tmp_path)


def test_two_copies_with_whole_tensors_broadcast_one_after_the_other(model: str) -> None:
    """Both get the whole sum; each updates two of four layers and then sends them, the second once it has the first."""
    layout = {"sharding": "zero-1", "sharding_by": "tensors"}
    parts = [("all-reduce", MODEL_BYTES), ("broadcast", MODEL_BYTES / 2), ("broadcast", MODEL_BYTES / 2)]
    met_s = sum(closed_form(op, "ring", 2, size, 2 * HOP_S, RATE) for op, size in parts)
    passes_s = NUM_LAYERS * (FORWARD_S + BACKWARD_S)
    run = clustersim.simulate(scenario(model, layout, 2))
    assert run.iteration_s == pytest.approx(passes_s + met_s + update_s(model, layout, num_gpus=2), rel=1e-9)


def test_each_layer_waits_for_the_copy_that_has_it(model: str) -> None:
    """Copies take layers in order; what would be more than a copy's share begins the next one's, beside a share."""
    layout = {"sharding": "zero-1", "sharding_by": "tensors", "sharding_over": 4, "gather_overlap": True}
    program = setup_of(model, layout).laid_out.plans[0].program
    calls = [op for op in program.parts if isinstance(op, Call) and op.op == "broadcast"]
    assert [(call.root, call.num_bytes) for call in calls] == [(0, 1e8), (1, 2e8), (2, 1e8)]
    lines = program.lines()
    assert [line for line in lines if line.startswith("wait for weights")] == [
        f"wait for weights 0.{n}" for n in range(3)
    ]
    assert lines.index("wait for weights 0.1") > next(n for n, line in enumerate(lines) if "compute forward" in line)


def test_the_copy_with_the_largest_tensor_is_waited_for() -> None:
    """Its share of all parameters is what the update takes and what is held, however many copies there are."""
    sizes = [1.0, 8.0, 1.0, 2.0]
    assert [largest_share(sizes, num, in_order=False) for num in (1, 2, 4, 64)] == [1.0, 8 / 12, 8 / 12, 8 / 12]
    assert assign_owners(sizes, 3, in_order=False) == [2, 0, 2, 1]
    assert assign_owners(sizes, 4, in_order=True) == [0, 1, 1, 1]


@pytest.mark.parametrize(
    ("layout", "key", "message"),
    [
        ({"sharding_over": 4}, "parallelism.sharding_over", "give sharding as well"),
        (
            {"sharding": "zero-3", "sharding_over": 3},
            "parallelism.sharding_over",
            "8 replicas do not divide into shard groups of 3",
        ),
        ({"sharding": "zero-1", "sharding_over": 16}, "parallelism.sharding_over", "the nearest size that works is 8"),
        ({"sharding": "zero-2", "sharding_by": "tensors"}, "software.sharding_by", "zero-2 cuts gradients into slices"),
        ({"sharding_by": "tensors"}, "software.sharding_by", "without sharding each has all"),
        (
            {"sharding": "zero-1", "sharding_over": 4, "offload": "optimizer"},
            "parallelism.sharding_over",
            "with offload",
        ),
        ({"kind": "one-weird-trick", "sharding_over": 4}, "parallelism.sharding_over", "leave sharding_over out"),
    ],
)
def test_what_cannot_be_shared_out_so_is_refused(model: str, layout: dict[str, Any], key: str, message: str) -> None:
    with pytest.raises(InputError) as error:
        load_scenario(scenario(model, layout)).points()
    assert [mistake.key for mistake in error.value.mistakes] == [key]
    assert message in str(error.value)


@pytest.mark.parametrize(
    ("layout", "host"),
    [
        ({"gather_overlap": True}, "dgx-a100"),
        ({"gather_overlap": True, "sequence_parallel": True}, "dgx-a100"),
        ({"gather_overlap": False, "sharding_over": 4}, "dgx-a100"),
        ({"gather_overlap": True, "sharding_over": 2}, "dgx-1"),
    ],
)
def test_split_layers_whose_tensors_are_broadcast_take_as_long_as_in_the_exact_run(
    layout: dict[str, Any], host: str
) -> None:
    """What splits them is time where nothing else is under way: the same to the last digits, in parts and bytes too."""
    split = {"tensor": 2, "sharding": "zero-1", "sharding_by": "tensors", "micro_batches": 3}
    strategy = {"kind": "all-reduce", "buckets": "4 MiB"}
    topology = {**DGX, "host": host}
    asked = scenario(
        "gpt-4x512x8-seq256", {**split, **layout}, 32, topology=topology, transport="nccl", strategy=strategy
    )
    check_shortcut_is_exact({**asked, "batch": {"global": 96}}, "as the time that one takes alone")
