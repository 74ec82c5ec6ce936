"""Products in steps: closed forms, and what they have in common with products that wait."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

import clustersim
from clustersim.collectives import closed_form
from clustersim.errors import InputError
from clustersim.hardware import load_gpu
from clustersim.model.builder import Builder, Tensor
from clustersim.model.write_workload import write_workload_file
from clustersim.parallelism import ModelLayout
from clustersim.parallelism.piece_times import piece_times
from clustersim.planner.bound import min_iteration_s
from clustersim.planner.layout_costs import LayoutCosts
from clustersim.planner.space import Choice
from clustersim.scenario import load_scenario
from clustersim.simulate import Workloads
from clustersim.simulate.forecast import forecast
from clustersim.simulate.setup import Setup
from tests.placed import placed
from tests.simulate.shortcut_checks import check_folded_is_exact, check_traces_are_exact

TOKENS, FEATURES, HIDDEN, HEADS, BATCH, BYTES = 2048, 1024, 65536, 16, 2, 2
HOP_S = 1e-6
DGX = {"kind": "star", "num_hosts": 2, "host": "dgx-a100", "link": "infiniband-hdr", "hop": "1 us"}


@pytest.fixture(scope="module")
def products(tmp_path_factory) -> str:
    """A product that gathers tokens and one that scatters them, and what is computed of each token around them."""
    net = Builder("products", "products", sample="sequence")
    x = net.linear("in", net.relu("before", Tensor(FEATURES, TOKENS)), HIDDEN)
    net.linear("out", net.relu("between", x), FEATURES)
    return str(write_workload_file(net.model(), tmp_path_factory.mktemp("model") / "products.yaml"))


@pytest.fixture(scope="module")
def decoder(tmp_path_factory) -> str:
    """Two blocks of a small decoder."""
    net = Builder("decoder", "decoder", sample="sequence")
    x = net.embedding("embedding", TOKENS, FEATURES, rows=[1000])
    for block in range(2):
        net.linear(f"{block}.qkv", net.rms_norm(f"{block}.norm", x), 3 * FEATURES)
        y = net.fused_attention(f"{block}.a", x, x, HEADS, causal=True)
        x = net.add(f"{block}.add", x, net.linear(f"{block}.out", y, FEATURES))
    net.loss("loss", net.linear("head", x, 1000))
    return str(write_workload_file(net.model(), tmp_path_factory.mktemp("model") / "decoder.yaml"))


def scenario(model: str, num_gpus: int, layout: dict[str, Any], rate: float = 1e10, **other: Any) -> dict[str, Any]:
    return placed(
        {
            "model": model,
            "num_gpus": num_gpus,
            "batch": {"global": BATCH},
            "topology": {
                **{"kind": "star", "num_hosts": 8, "host": {"gpu": "a100"}, "link": f"{rate:g} B/s"},
                "hop": f"{HOP_S} s",
            },
            "transport": "ideal",
            "precision": "amp-bf16",
            "strategy": {"kind": "all-reduce"},
            "parallelism": {"sequence_parallel": True, "tensor_overlap": True, **layout},
            "compute": {"launch": "graphs"},
            "num_iterations": 2,
            **other,
        }
    )


def laid_out(asked: dict[str, Any]) -> ModelLayout:
    made = Setup(load_scenario(asked).points()[0].point).laid_out
    assert made is not None
    return made


def expected_s(asked: dict[str, Any], num: int, rate: float) -> float:
    """Return the seconds of an iteration of `products` by the formulas of docs/physics/layouts.md."""
    (plan,), (part,) = laid_out(asked).plans, laid_out(asked).parts
    before, gathers, between, scatters = part.times
    sent_s = 2 * HOP_S + BATCH * TOKENS / num * FEATURES * BYTES / rate
    whole_s = closed_form("reduce-scatter", "ring", num, BATCH * TOKENS * FEATURES * BYTES, 2 * HOP_S, rate)
    in_steps_s = sum(
        (num - 1) * max(seconds / num, sent_s) + seconds / num
        for seconds in (gathers.forward_s, scatters.forward_s, scatters.backward_data_s)
    )
    back_s = scatters.backward_weights_s + gathers.backward_data_s + max(gathers.backward_weights_s, whole_s)
    around_s = sum(each.forward_s + each.backward_s for each in (before, between))
    return in_steps_s + back_s + around_s + plan.iteration.update_s


@pytest.mark.parametrize("num", [2, 4, 8])
@pytest.mark.parametrize("rate", [1e9, 1e10, 2e10])
def test_a_step_takes_the_longer_of_its_product_and_its_message(products: str, num: int, rate: float) -> None:
    asked = scenario(products, num, {"tensor": num}, rate)
    run = clustersim.simulate(asked)
    assert run.iteration_s == pytest.approx(expected_s(asked, num, rate), rel=1e-9)


@pytest.mark.parametrize("num", [2, 4])
def test_what_scatters_reads_the_pieces_of_all_and_writes_their_sum(products: str, num: int) -> None:
    setup = Setup(load_scenario(scenario(products, num, {"tensor": num})).points()[0].point)
    assert setup.laid_out is not None
    (part,), gpu = setup.laid_out.parts, load_gpu("a100")
    sent_nothing = [replace(piece, after_forward=()) for piece in part.pieces]
    with_sums, without = (piece_times(setup.reference, pieces, "cudnn") for pieces in (part.pieces, sent_nothing))
    *others, scatters = (one.forward_s - other.forward_s for one, other in zip(with_sums, without, strict=True))
    summed_s = BATCH * TOKENS * FEATURES * BYTES * (1 + 1 / num) / gpu.memory_bytes_per_s
    assert others == pytest.approx([0] * len(others), abs=1e-12)
    assert summed_s + gpu.launch_s < scatters < 1.5 * summed_s + gpu.launch_s


def test_messages_shorter_than_a_product_are_hidden_and_others_are_not(products: str) -> None:
    hidden, exposed = (
        clustersim.simulate(scenario(products, 2, {"tensor": 2}, rate)).breakdown_s for rate in (2e10, 1e9)
    )
    assert hidden["communication_exposed"] == pytest.approx(0, abs=1e-9 * hidden["compute"])
    assert exposed["communication_exposed"] > exposed["compute"]


@pytest.mark.parametrize("num", [2, 4, 8])
def test_a_gpu_sends_as_many_bytes_as_if_products_waited(products: str, num: int) -> None:
    """Each of four collectives takes (t - 1) / t of all tokens, whole or in pieces."""
    turned, plain = (
        sum(link.num_bytes for link in run.link_classes if link.kind == "access") / 2
        for run in (
            clustersim.simulate(scenario(products, num, {"tensor": num, "tensor_overlap": overlap}))
            for overlap in (True, False)
        )
    )
    assert turned == pytest.approx(4 * (num - 1) * BATCH * TOKENS * FEATURES * BYTES, rel=1e-9)
    assert turned == pytest.approx(plain, rel=1e-9)


LAYOUTS: list[dict[str, Any]] = [
    {"tensor": 4},
    {"tensor": 2, "context": 2, "context_method": "ring", "sharding": "zero-3", "recompute": "full"},
    {"tensor": 4, "pipeline": 2, "micro_batches": 4, "sharding": "zero-1"},
    {"tensor": 2, "pipeline": 2, "micro_batches": 4, "schedule": "zero-bubble"},
]


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("transport", ["ideal", "nccl"])
def test_steps_cost_no_more_than_smaller_products_take_longer(
    decoder: str, layout: dict[str, Any], transport: str
) -> None:
    """What else is exchanged has links of its own, or follows."""
    plain, turned = (
        scenario(
            decoder,
            8,
            {**layout, "tensor_overlap": overlap},
            topology=DGX,
            transport=transport,
            batch={"global": 8},
        )
        for overlap in (False, True)
    )
    computed = [
        sum(
            time.forward_s * (2 if again else 1) + time.backward_s
            for part in made.parts
            for time, again in zip(part.times, part.recomputes, strict=True)
        )
        for made in (laid_out(plain), laid_out(turned))
    ]
    longer_s = layout.get("micro_batches", 1) * (computed[1] - computed[0])
    assert longer_s >= 0
    quick, slow = (clustersim.simulate(each) for each in (turned, plain))
    assert quick.iteration_s <= slow.iteration_s * (1 + 1e-9) + longer_s
    assert quick.memory_bytes == pytest.approx(slow.memory_bytes, rel=1e-12)


@pytest.mark.parametrize("layout", LAYOUTS)
def test_folded_ranks_in_steps_are_those_of_the_exact_run(decoder: str, layout: dict[str, Any]) -> None:
    asked = scenario(decoder, 16, layout, topology=DGX, transport="nccl", batch={"global": 16}, compute={})
    check_folded_is_exact(asked)


@pytest.mark.parametrize("layout", [LAYOUTS[0], LAYOUTS[2]])
def test_steps_exported_as_traces_take_as_long_as_the_exact_run_of_one_iteration(decoder, tmp_path, layout) -> None:
    asked = scenario(decoder, 16, layout, topology=DGX, batch={"global": 16})
    check_traces_are_exact(asked, tmp_path / "out")


@pytest.mark.parametrize(
    ("layout", "words"),
    [
        ({"tensor": 1, "sequence_parallel": False}, "give tensor above 1 as well"),
        ({"sequence_parallel": False}, "give tensor above 1 as well"),
        ({"tensor": 4, "sequence_parallel": False}, "give sequence_parallel: true as well"),
        ({"tensor": 4, "context": 1024}, "the 2 tokens of '0.qkv' do not divide by 4; leave tensor_overlap out"),
        ({"kind": "paths", "sequence_parallel": False}, "leave tensor_overlap out"),
    ],
)
def test_impossible_steps_are_refused(decoder: str, layout: dict[str, Any], words: str) -> None:
    num_gpus = 4096 if "context" in layout else 4
    topology = {**DGX, "num_hosts": num_gpus // 4}
    with pytest.raises(InputError) as error:
        clustersim.simulate(scenario(decoder, num_gpus, layout, topology=topology, batch={"global": 4}))
    found = [mistake for mistake in error.value.mistakes if words in mistake.message]
    assert [(mistake.key, mistake.got) for mistake in found] == [("software.tensor_overlap", "true")]


def test_a_model_without_products_that_gather_or_scatter_tokens_is_refused(tmp_path) -> None:
    """Its one product reads what every GPU has anyway."""
    net = Builder("classifier", "classifier", sample="sequence")
    net.loss("loss", net.linear("head", Tensor(FEATURES, TOKENS), 1000))
    model = str(write_workload_file(net.model(), tmp_path / "classifier.yaml"))
    with pytest.raises(InputError, match="no matrix product of this model gathers or scatters tokens") as error:
        clustersim.simulate(scenario(model, 2, {"tensor": 2}))
    assert error.value.mistakes[0].key == "software.tensor_overlap"


@pytest.mark.parametrize("micro_batches", [1, 4])
def test_the_planner_bounds_steps_by_their_times(decoder: str, micro_batches: int) -> None:
    """Of one stage and one copy, whatever hides."""
    asked = scenario(decoder, 4, {"tensor": 4, "micro_batches": micro_batches}, batch={"global": 8})
    point = load_scenario(asked).points()[0].point
    least_s = min_iteration_s(LayoutCosts(point, Workloads()), Choice(4, 8, point.parallelism))
    simulated_s = forecast(point).run.iteration_s
    assert least_s == pytest.approx(simulated_s, rel=1e-9)
