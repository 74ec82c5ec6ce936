"""Updated weights gathered during forward passes: closed forms, laws, and shortcuts against exact runs."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import clustersim
from clustersim.collectives import closed_form
from clustersim.errors import InputError
from clustersim.planner.bound import min_iteration_s
from clustersim.planner.layout_costs import LayoutCosts
from clustersim.planner.space import Choice
from clustersim.program.ops import Call
from clustersim.scenario import load_scenario
from clustersim.simulate import Workloads
from clustersim.simulate.scenario_warnings import settings_without_effect
from clustersim.simulate.setup import Setup
from tests.models import write_experts
from tests.placed import placed
from tests.simulate.shortcut_checks import check_folded_is_exact, check_traces_are_exact

NUM_LAYERS, FORWARD_S, BACKWARD_S, LAYER_BYTES = 6, 0.012, 0.024, 4e8
HOP_S = 1e-6
DGX = {"kind": "star", "num_hosts": 4, "host": "dgx-a100", "link": "infiniband-hdr", "hop": "1 us"}


def equal_layers(folder: Path, layer_bytes: float) -> str:
    """Write a model of equal layers with times and parameters of their own."""
    path = folder / "equal.yaml"
    layer = f"op: fully-connected, flop: 1e9, parameter_bytes: {layer_bytes:g}, activation_bytes: 10"
    times = f"forward_s: {FORWARD_S}, backward_s: {BACKWARD_S}"
    rows = "".join(f"  - {{name: l{number}, {layer}, {times}}}\n" for number in range(NUM_LAYERS))
    path.write_text(f"name: equal\nlayers:\n{rows}")
    return str(path)


@pytest.fixture(scope="module")
def equal(tmp_path_factory: pytest.TempPathFactory) -> str:
    """Layers whose weights take about as long to gather as the layers to compute."""
    return equal_layers(tmp_path_factory.mktemp("equal"), LAYER_BYTES)


@pytest.fixture(scope="module")
def light(tmp_path_factory: pytest.TempPathFactory) -> str:
    """Layers whose weights take no time to gather."""
    return equal_layers(tmp_path_factory.mktemp("light"), 4.0)


def scenario(model: str, num_gpus: int, layout: dict[str, Any], rate: float = 1e10, **other: Any) -> dict[str, Any]:
    return placed(
        {
            "model": model,
            "num_gpus": num_gpus,
            "batch": {"per_gpu": 4},
            "topology": {
                **{"kind": "star", "num_hosts": 8, "host": {"gpu": "a100"}, "link": f"{rate:g} B/s"},
                "hop": f"{HOP_S} s",
            },
            "transport": "ideal",
            "strategy": {"kind": "all-reduce", "algorithm": "ring", "buckets": "layer"},
            "parallelism": {"sharding": "zero-1", "gather_overlap": True, **layout},
            "num_iterations": 2,
            "memory_check": False,
            **other,
        }
    )


def sent_bytes(run: clustersim.Run) -> float:
    """Return the bytes that leave hosts in an iteration."""
    return sum(kind.num_bytes for kind in run.link_classes if kind.kind == "access") / 2


@pytest.mark.parametrize("exact", [False, True])
@pytest.mark.parametrize("rate", [4e9, 1.5e10, 2e10])
@pytest.mark.parametrize("num", [2, 4])
def test_layers_wait_for_their_own_weights_alone(equal: str, num: int, rate: float, exact: bool) -> None:
    """What takes longer of a layer and the gather of the next, and the first gather and the last layer beside nothing.

    Backward the same of reduce-scatters; the update is of 1 / n.
    """
    asked = scenario(equal, num, {}, rate)
    laid_out = Setup(load_scenario(asked).points()[0].point).laid_out
    assert laid_out is not None
    update_s = laid_out.plans[0].program.phase_s()["update"]
    gather_s, reduce_s = (
        closed_form(op, "ring", num, LAYER_BYTES, 2 * HOP_S, rate) for op in ("all-gather", "reduce-scatter")
    )
    forward_s = gather_s + (NUM_LAYERS - 1) * max(FORWARD_S, gather_s) + FORWARD_S
    backward_s = BACKWARD_S + (NUM_LAYERS - 1) * max(BACKWARD_S, reduce_s) + reduce_s
    run = clustersim.simulate(asked, exact=exact)
    assert run.iteration_s == pytest.approx(forward_s + backward_s + update_s, rel=1e-9)


def test_what_is_shared_out_travels_in_megatrons_buckets(tmp_path: Path) -> None:
    """Of six layers of 15 million parameters three reach 40 million: two reduce-scatters, two all-gathers."""
    asked = scenario(equal_layers(tmp_path, 6e7), 4, {"gather_overlap": False})
    asked["strategy"] = {"kind": "all-reduce", "algorithm": "ring"}
    laid_out = Setup(load_scenario(asked).points()[0].point).laid_out
    assert laid_out is not None
    calls = [op for op in laid_out.plans[0].program.parts if isinstance(op, Call)]
    assert [(call.op, call.num_bytes) for call in calls] == [("reduce-scatter", 1.8e8)] * 2 + [
        ("all-gather", 1.8e8)
    ] * 2


LAYOUTS: list[dict[str, Any]] = [
    {},
    {"sharding": "zero-2", "micro_batches": 4},
    {"pipeline": 2, "micro_batches": 4},
    {"pipeline": 2, "micro_batches": 4, "schedule": "interleaved", "chunks": 2},
    {"pipeline": 2, "micro_batches": 4, "schedule": "zero-bubble"},
    {"pipeline": 2, "micro_batches": 2, "schedule": "gpipe", "recompute": "full"},
]


@pytest.mark.parametrize("layout", LAYOUTS)
def test_no_iteration_takes_longer_or_sends_more_than_one_that_waits_at_its_end(
    equal: str, layout: dict[str, Any]
) -> None:
    beside, at_the_end = (
        clustersim.simulate(scenario(equal, 4, {**layout, "gather_overlap": overlap})) for overlap in (True, False)
    )
    assert beside.iteration_s < at_the_end.iteration_s
    assert sent_bytes(beside) == pytest.approx(sent_bytes(at_the_end), rel=1e-9)


@pytest.mark.parametrize("layout", LAYOUTS)
def test_it_makes_no_difference_where_weights_take_no_time(light: str, layout: dict[str, Any]) -> None:
    topology = {"kind": "star", "num_hosts": 8, "host": {"gpu": "a100"}, "link": "1e24 B/s", "hop": "0 s"}
    beside, at_the_end = (
        clustersim.simulate(scenario(light, 4, {**layout, "gather_overlap": overlap}, topology=topology))
        for overlap in (True, False)
    )
    assert beside.iteration_s == pytest.approx(at_the_end.iteration_s, rel=1e-6)


ON_A_CLUSTER: list[tuple[int, dict[str, Any]]] = [
    (16, {"tensor": 4, "micro_batches": 2}),
    (16, {"tensor": 2, "micro_batches": 2}),
    (32, {"tensor": 4, "pipeline": 2, "micro_batches": 4}),
    (16, {"tensor": 2, "pipeline": 2, "micro_batches": 4, "schedule": "interleaved", "chunks": 2}),
    (16, {"tensor": 2, "pipeline": 2, "micro_batches": 4, "sharding": "zero-2"}),
]


@pytest.mark.parametrize(("num_gpus", "layout"), ON_A_CLUSTER)
def test_folded_ranks_are_those_of_the_exact_run(num_gpus: int, layout: dict[str, Any]) -> None:
    """Where copies exchange over links of their own, and over those of the GPUs that split layers."""
    asked = scenario("gpt-4x512x8-seq256", num_gpus, layout)
    check_folded_is_exact({**asked, "topology": DGX, "transport": "nccl", "batch": {"global": 32}})


def test_experts_come_from_the_ranks_that_have_the_same_ones(tmp_path: Path) -> None:
    """Two layers of them; in as many bytes as at the end; shortcuts change nothing."""
    model = write_experts(tmp_path)
    asked = [scenario(model, 8, {"expert": 2, "micro_batches": 2, "gather_overlap": each}) for each in (True, False)]
    beside, at_the_end = (clustersim.simulate(each) for each in asked)
    assert beside.iteration_s < at_the_end.iteration_s
    assert sent_bytes(beside) == pytest.approx(sent_bytes(at_the_end), rel=1e-9)
    assert beside.iteration_s == pytest.approx(clustersim.simulate(asked[0], exact=True).iteration_s, rel=1e-9)
    laid_out = Setup(load_scenario(asked[0]).points()[0].point).laid_out
    assert laid_out is not None
    lines = laid_out.plans[0].program.lines()
    assert sum(line.startswith("wait for weights of experts") for line in lines) == 2


def test_traces_take_as_long(equal: str, tmp_path: Path) -> None:
    check_traces_are_exact(scenario(equal, 4, {"micro_batches": 2}), tmp_path)


@pytest.mark.parametrize("layout", [LAYOUTS[0], LAYOUTS[2], LAYOUTS[3]])
def test_the_bound_holds(equal: str, layout: dict[str, Any]) -> None:
    point = load_scenario(scenario(equal, 4, layout)).points()[0].point
    choice = Choice(4, point.global_batch, point.parallelism)
    bound_s = min_iteration_s(LayoutCosts(point, Workloads()), choice)
    assert 0.5 * clustersim.simulate(scenario(equal, 4, layout)).iteration_s < bound_s
    assert bound_s <= clustersim.simulate(scenario(equal, 4, layout)).iteration_s * (1 + 1e-9)


@pytest.mark.parametrize(
    ("layout", "message"),
    [
        ({"sharding": "none"}, "without sharding there is none"),
        ({"sharding": "zero-3"}, "zero-3 gathers each block before it is used"),
        ({"offload": "optimizer"}, "weights are gathered after the iteration"),
        ({"kind": "one-weird-trick", "sharding": "none"}, "leave gather_overlap out"),
    ],
)
def test_where_there_is_nothing_to_gather_it_is_refused(equal: str, layout: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError) as error:
        load_scenario(scenario("alexnet" if "kind" in layout else equal, 4, layout)).points()
    assert [mistake.key for mistake in error.value.mistakes] == ["software.gather_overlap"]
    assert message in str(error.value)


def test_with_one_copy_a_warning_says_that_it_changes_nothing(equal: str) -> None:
    point = load_scenario(scenario(equal, 1, {})).points()[0].point
    assert list(settings_without_effect(point, ())) == [
        "parallelism.gather_overlap changes nothing: there is one copy, which has no weights to gather"
    ]
