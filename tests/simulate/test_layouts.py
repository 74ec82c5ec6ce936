"""Simulated layouts: closed forms, laws, and runs with shortcuts against exact ones."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import clustersim
from clustersim.errors import InputError
from clustersim.scenario import load_scenario
from clustersim.simulate import replicate
from clustersim.simulate.forecast import forecast
from tests.placed import placed

STAR = {"kind": "star", "num_hosts": 8, "host": {"gpu": "v100"}, "link": "100 GB/s", "hop": "1 ns"}
DGX = {"kind": "star", "num_hosts": 4, "host": "dgx-a100", "link": "infiniband-hdr", "hop": "1 us"}
PAIRS = {**DGX, "host": {"template": "dgx-a100", "nics": 4}}  # of GPUs that share an adapter
BOX = {
    "kind": "star",
    "num_hosts": 4,
    "host": {"template": "dual-socket", "gpu": "v100", "num_gpus": 4, "nics": 1},
    "link": "10 GB/s",
    "hop": "1 us",
}


@pytest.fixture(scope="module")
def model(tmp_path_factory) -> str:
    """Eight equal layers with times of their own, and next to nothing to send."""
    path = tmp_path_factory.mktemp("model") / "eight.yaml"
    layer = (
        "op: fully-connected, flop: 1e9, parameter_bytes: 4e3, activation_bytes: 10, forward_s: 0.01, backward_s: 0.02"
    )
    path.write_text("name: eight\nlayers:\n" + "".join(f"  - {{name: l{number}, {layer}}}\n" for number in range(8)))
    return str(path)


def scenario(model: str, num_gpus: int, parallelism: dict[str, Any], **other: Any) -> dict[str, Any]:
    return placed(
        {
            "model": model,
            "num_gpus": num_gpus,
            "batch": {"per_gpu": 8},
            "topology": STAR,
            "strategy": {"kind": "all-reduce"},
            "parallelism": parallelism,
            "num_iterations": 2,
            **other,
        }
    )


def idle_share(run) -> float:
    return run.breakdown_s["bubble"] / (run.iteration_s - run.breakdown_s["communication_exposed"])


def sent_bytes(run) -> float:
    """Return the bytes that leave hosts in an iteration; each goes up one host's link and down another's."""
    return sum(kind.num_bytes for kind in run.link_classes if kind.kind == "access") / 2


@pytest.mark.parametrize("schedule", ["gpipe", "1f1b"])
@pytest.mark.parametrize(("stages", "num_micro"), [(2, 1), (4, 8), (8, 4)])
def test_the_bubble_is_that_of_gpipe(model: str, schedule: str, stages: int, num_micro: int) -> None:
    layout = {"pipeline": stages, "micro_batches": num_micro, "schedule": schedule}
    run = clustersim.simulate(scenario(model, stages, layout))
    assert idle_share(run) == pytest.approx((stages - 1) / (num_micro + stages - 1), rel=2e-3)


def test_chunks_divide_the_bubble(model: str) -> None:
    layout = {"pipeline": 4, "micro_batches": 8, "schedule": "interleaved", "chunks": 2}
    run = clustersim.simulate(scenario(model, 4, layout))
    work_s = run.breakdown_s["compute"]
    assert run.breakdown_s["bubble"] == pytest.approx(work_s / 8 * 3 / 2, rel=2e-3)


def test_weights_put_off_fill_the_bubble(model: str) -> None:
    """Forward, backward to data and backward to weights take as long: the bubble is a third of 1F1B's."""
    run = clustersim.simulate(scenario(model, 4, {"pipeline": 4, "micro_batches": 8, "schedule": "zero-bubble"}))
    assert run.breakdown_s["bubble"] == pytest.approx(run.breakdown_s["compute"] / 8 * 3 / 3, rel=2e-3)


@pytest.mark.parametrize(
    "layout",
    [
        {"micro_batches": 1, "sharding": "zero-3"},
        {"sharding": "zero-1"},
        {"tensor": 1, "pipeline": 1, "data": 1, "recompute": "selective"},
        {"pipeline": 1, "micro_batches": 4},
    ],
)
def test_one_gpu_of_any_layout_is_plain_training(model: str, layout: dict[str, Any]) -> None:
    plain = clustersim.simulate(scenario(model, 1, {}))
    run = clustersim.simulate(scenario(model, 1, layout))
    assert run.iteration_s == pytest.approx(plain.iteration_s, rel=1e-12)
    assert run.efficiency == pytest.approx(1.0, rel=1e-12)


def test_tensor_parallel_sends_two_all_reduces_a_transformer_layer_each_way() -> None:
    """An all-reduce of S bytes by a ring over t GPUs puts 2 (t - 1) S on the wires."""
    batch, tokens, features, layers = 2, 1024, 768, 12
    run = clustersim.simulate(
        scenario("gpt2-small", 4, {"tensor": 4}, batch={"global": batch}, strategy={"kind": "all-reduce"})
    )
    activation = batch * tokens * features * 4.0
    splits = 4 * layers + 2  # four a layer, one after the embedding, one of the head's input gradient
    assert sent_bytes(run) == pytest.approx(2 * 3 * activation * splits, rel=0.01)


@pytest.mark.parametrize(("sharding", "volume"), [("zero-1", 2), ("zero-2", 2), ("zero-3", 3)])
def test_zero_sends_what_its_paper_says(model: str, sharding: str, volume: int) -> None:
    """In parts of (d - 1) / d of the parameters for each GPU: two, or three where weights are gathered twice."""
    run = clustersim.simulate(scenario(model, 4, {"sharding": sharding}))
    assert sent_bytes(run) == pytest.approx(volume * 3 * 8 * 4e3, rel=1e-9)


@pytest.mark.parametrize("exact", [False, True])
@pytest.mark.parametrize("sharding", ["zero-1", "zero-2", "zero-3"])
def test_equal_copies_do_not_wait_however_long_their_exchanges_queue(model: str, sharding: str, exact: bool) -> None:
    slow = {**STAR, "link": "100 kB/s"}
    asked = scenario(
        model,
        4,
        {"sharding": sharding},
        topology=slow,
        strategy={"kind": "all-reduce", "algorithm": "ring", "buckets": "layer"},
    )
    run = forecast(load_scenario(asked).points()[0].point, exact=exact).run
    assert run.breakdown_s["waiting"] == pytest.approx(0, abs=1e-9)
    assert run.breakdown_s["communication_exposed"] > 0.1


def test_keys_and_values_of_all_tokens_are_gathered_forward_and_their_gradients_backward() -> None:
    batch, tokens, features, layers = 2, 1024, 768, 12
    run = clustersim.simulate(scenario("gpt2-small", 4, {"context": 4}, batch={"global": batch}))
    one_way = 3 * 2 * batch * tokens * features * 4.0 * layers
    gradients = 2 * 3 * 4 * 124_439_808
    assert sent_bytes(run) == pytest.approx(2 * one_way + gradients, rel=1e-6)


def test_tokens_travel_to_their_experts_and_back_forward_and_backward() -> None:
    """Of what each of e GPUs brings, (e - 1) / e goes to others: k features a token, by four all-to-alls a layer."""
    run = clustersim.simulate(
        scenario("mixtral-8x7b", 4, {"expert": 4}, batch={"global": 4}, memory_check=False, precision="amp-fp16")
    )
    tokens, features, routed, layers = 4096, 4096, 2, 32
    travels = 4 * layers * 4 * tokens * features * routed * 2.0 * 3 / 4
    shared = 46_702_792_704 - layers * 8 * 3 * 4096 * 14_336
    assert sent_bytes(run) == pytest.approx(travels + 2 * 3 * 4 * shared, rel=1e-6)


def test_the_fullest_gpu_of_experts_is_waited_for() -> None:
    asked = scenario("mixtral-8x7b", 4, {"expert": 4}, batch={"global": 4}, memory_check=False, precision="amp-fp16")
    even = clustersim.simulate(asked)
    asked["parallelism"] = {"expert": 4, "expert_imbalance": 1.5}
    assert clustersim.simulate(asked).breakdown_s["compute"] > 1.2 * even.breakdown_s["compute"]


TRICK = "one-weird-trick"
SCHEMES = ("gathered", "one-by-one", "in-shares")


def trick(scheme: str, num_gpus: int = 8, **other: Any) -> dict[str, Any]:
    parallelism = {"kind": TRICK, "scheme": scheme}
    batch = {"per_gpu": 64}
    return scenario("alexnet", num_gpus, parallelism, batch=batch, topology={**STAR, "link": "6 GB/s"}, **other)


@pytest.mark.parametrize("scheme", SCHEMES)
def test_one_gpu_of_one_weird_trick_is_plain_training(scheme: str) -> None:
    plain = clustersim.simulate({**trick(scheme, 1), "parallelism": {}})
    assert clustersim.simulate(trick(scheme, 1)).iteration_s == pytest.approx(plain.iteration_s, rel=1e-12)


@pytest.mark.parametrize("scheme", SCHEMES)
def test_one_weird_trick_moves_every_sample_to_all_others_and_its_gradient_back(scheme: str) -> None:
    """Beside that go the gradients of convolutions, and two partial sums of 4,096 a sample and three numbers."""
    samples, others = 8 * 64, 7
    moved = 2 * others * samples * 9216 * 4.0
    gradients = 2 * others * 2_469_696 * 4.0
    sums = 2 * others * samples * (2 * 4096 + 3) * 4.0
    run = clustersim.simulate(trick(scheme))
    assert sent_bytes(run) == pytest.approx(moved + gradients + sums, rel=1e-9)


def test_gathering_exposes_every_move_and_passes_hide_most_of_it() -> None:
    """Of K passes there and back only the first of one and the last of the other have no pass beside them.

    LayoutCollectives exposes (K - 1) b E over the rate both ways, the partial sums, and at most all gradients.
    """
    box = {**STAR, "link": "6 GB/s", "host": {"gpu": "k20"}}
    runs = [clustersim.simulate({**trick(scheme, 4), "topology": box, "batch": {"per_gpu": 128}}) for scheme in SCHEMES]
    gathered, one_by_one, in_shares = (run.breakdown_s["communication_exposed"] for run in runs)
    ways, samples = 2 * 3 / 4 / 6e9, 4 * 128
    moved_s = ways * samples * 9216 * 4.0
    sums_s = ways * samples * (2 * 4096 + 3) * 4.0
    gradients_s = ways * 2_469_696 * 4.0
    assert moved_s + sums_s <= gathered <= (moved_s + sums_s + gradients_s) * 1.01
    assert gathered - in_shares == pytest.approx(moved_s * 3 / 4, rel=0.15)
    assert in_shares < one_by_one < gathered


def test_an_update_after_every_pass_costs_its_passes() -> None:
    once, every = (
        clustersim.simulate({**trick("in-shares"), "parallelism": {"kind": TRICK, "update_every_pass": each}})
        for each in (False, True)
    )
    assert every.breakdown_s["compute"] > once.breakdown_s["compute"]


CHUNKS = {"tensor": 4, "pipeline": 2, "data": 2, "micro_batches": 4, "schedule": "interleaved", "chunks": 3}
LAYOUTS = [
    (STAR, 8, {"tensor": 2, "pipeline": 2, "data": 2, "micro_batches": 4}, "ideal"),
    (STAR, 8, {"tensor": 2, "pipeline": 2, "data": 2, "micro_batches": 4, "sharding": "zero-3"}, "ideal"),
    (BOX, 16, {"tensor": 2, "pipeline": 2, "data": 4, "micro_batches": 4}, "nccl"),
    (DGX, 32, {"tensor": 4, "pipeline": 4, "micro_batches": 4}, "nccl"),
    (DGX, 32, {"tensor": 4, "pipeline": 2, "data": 4, "micro_batches": 4, "sharding": "zero-1"}, "nccl"),
    (DGX, 16, {"tensor": 2, "pipeline": 4, "micro_batches": 4, "schedule": "interleaved", "chunks": 2}, "nccl"),
    (DGX, 16, {**CHUNKS, "sharding": "zero-1", "sequence_parallel": True}, "nccl"),
    (DGX, 16, {**CHUNKS, "sharding": "zero-1", "gather_overlap": True}, "nccl"),
    (DGX, 16, {"tensor": 4, "pipeline": 2, "data": 2, "micro_batches": 4}, "nccl"),
    (DGX, 16, {"tensor": 4, "pipeline": 2, "data": 2, "micro_batches": 4, "sharding": "zero-3"}, "nccl"),
    (DGX, 16, {"context": 2, "tensor": 2, "pipeline": 2, "data": 2, "micro_batches": 2}, "nccl"),
    (BOX, 16, {"context": 4, "pipeline": 2, "data": 2, "micro_batches": 2}, "nccl"),
    (PAIRS, 32, {"tensor": 4, "pipeline": 2, "data": 4, "micro_batches": 4, "sharding": "zero-1"}, "nccl"),
    (DGX, 32, {"tensor": 4, "pipeline": 2, "data": 4, "micro_batches": 4}, "mpi-cuda"),
]


@pytest.mark.parametrize(("topology", "num_gpus", "layout", "transport"), LAYOUTS)
def test_folded_ranks_are_those_of_the_exact_run(topology, num_gpus: int, layout, transport: str) -> None:
    """With messages of some size, on clusters where they share links and where they do not."""
    asked = scenario(
        "gpt2-small", num_gpus, layout, topology=topology, transport=transport, batch={"global": 32}, memory_check=False
    )
    folded, exact = (forecast(load_scenario(asked).points()[0].point, exact=exact) for exact in (False, True))
    assert folded.run.iteration_s == pytest.approx(exact.run.iteration_s, rel=1e-9)
    for part, seconds in exact.run.breakdown_s.items():
        assert folded.run.breakdown_s[part] == pytest.approx(seconds, rel=1e-9, abs=1e-9 * exact.run.iteration_s)
    for one, other in zip(folded.run.link_classes, exact.run.link_classes, strict=True):
        assert one.num_bytes == pytest.approx(other.num_bytes, rel=1e-9)


@pytest.mark.parametrize("other", [{}, {"sharding": "zero-1"}, {"sharding": "zero-3"}])
@pytest.mark.parametrize(("topology", "places"), [(DGX, "1 of 8"), (PAIRS, "2 of 8")])
def test_places_in_a_layer_whose_ranks_share_adapters_exchange_for_the_others(topology, places: str, other) -> None:
    layout = {"tensor": 8, "pipeline": 2, "data": 2, "micro_batches": 3, **other}
    model, batch = "gpt-4x512x8-seq256", {"global": 12}
    asked = scenario(model, 32, layout, topology=topology, transport="nccl", batch=batch, memory_check=False)
    folded, exact = (forecast(load_scenario(asked).points()[0].point, exact=exact) for exact in (False, True))
    assert any(f"exchanged at {places} places in a layer" in shortcut for shortcut in folded.shortcuts)
    assert folded.run.iteration_s == pytest.approx(exact.run.iteration_s, rel=1e-9)
    carried, truly = ({link.name: link.num_bytes for link in each.run.links} for each in (folded, exact))
    assert carried == pytest.approx(truly, rel=1e-9)


MEETINGS = [
    ({"kind": "all-reduce", "algorithm": "tree"}, True),
    ({"kind": "all-reduce", "algorithm": "double-tree"}, False),
    ({"kind": "all-reduce", "algorithm": "hierarchical"}, True),
    ({"kind": "local", "steps": 2}, True),
    ({"kind": "server"}, False),
]


@pytest.mark.parametrize(("strategy", "is_folded"), MEETINGS)
def test_ranks_are_folded_only_if_they_keep_together(strategy: dict[str, Any], is_folded: bool) -> None:
    """With servers and double trees some ranks end before others: then each is simulated."""
    layout = {"pipeline": 2, "data": 8, "micro_batches": 2}
    asked = scenario(
        "gpt2-small", 16, layout, topology=DGX, transport="nccl", batch={"global": 32}, strategy=strategy,
        memory_check=False,
    )  # fmt: skip
    folded, exact = (forecast(load_scenario(asked).points()[0].point, exact=exact) for exact in (False, True))
    assert any("simulated as one" in shortcut for shortcut in folded.shortcuts) == is_folded
    assert folded.run.iteration_s == pytest.approx(exact.run.iteration_s, rel=1e-9)
    for part, seconds in exact.run.breakdown_s.items():
        assert folded.run.breakdown_s[part] == pytest.approx(seconds, rel=1e-9, abs=1e-9 * exact.run.iteration_s)


@pytest.mark.parametrize("scheme", SCHEMES)
@pytest.mark.parametrize(("topology", "num_gpus", "transport"), [(STAR, 4, "ideal"), (DGX, 8, "nccl")])
def test_folded_one_weird_trick_is_that_of_all_ranks(scheme: str, topology, num_gpus: int, transport: str) -> None:
    asked = {**trick(scheme, num_gpus), "topology": topology, "transport": transport, "batch": {"per_gpu": 16}}
    folded, exact = (forecast(load_scenario(asked).points()[0].point, exact=exact) for exact in (False, True))
    assert any("simulated as one" in shortcut for shortcut in folded.shortcuts) == (scheme != "one-by-one")
    assert folded.run.iteration_s == pytest.approx(exact.run.iteration_s, rel=1e-9)
    for one, other in zip(folded.run.link_classes, exact.run.link_classes, strict=True):
        assert one.num_bytes == pytest.approx(other.num_bytes, rel=1e-9)


def test_some_layouts_are_folded_and_an_exact_run_is_not(model: str) -> None:
    point = load_scenario(scenario(model, 8, {"tensor": 2, "pipeline": 2})).points()[0].point
    assert any("simulated as one" in shortcut for shortcut in forecast(point).shortcuts)
    assert forecast(point, exact=True).shortcuts == ()


def test_a_layout_in_which_no_ranks_do_the_same_is_simulated_once(monkeypatch) -> None:
    """Groups of two on hosts of three GPUs: some lie in one host, and some in two."""
    simulated: list[int] = []
    by_executor = replicate._simulate_layout

    def counted(setup, job, *how, **more):
        simulated.append(job.num_iterations)
        return by_executor(setup, job, *how, **more)

    monkeypatch.setattr(replicate, "_simulate_layout", counted)
    threes = {**BOX, "host": {**BOX["host"], "num_gpus": 3}}
    layout = {"tensor": 2, "data": 2, "pipeline": 2}
    asked = scenario("gpt2-small", 8, layout, topology=threes, transport="nccl", memory_check=False)
    found = forecast(load_scenario(asked).points()[0].point)
    assert not any("simulated as one" in shortcut for shortcut in found.shortcuts)
    assert simulated == [1, 2]


def test_a_slow_stage_makes_the_others_wait(model: str) -> None:
    layout = {"pipeline": 4, "micro_batches": 8}
    even = clustersim.simulate(scenario(model, 4, layout))
    slow = clustersim.simulate(scenario(model, 4, layout, stragglers=[{"kind": "constant", "factor": 2, "of": [1]}]))
    stage_s = even.breakdown_s["compute"]
    most_s = 2 * stage_s  # what the slow stage computes: the others' first and last passes come beside it
    assert most_s <= slow.iteration_s <= most_s + 3 * stage_s / 8


def test_jitter_is_the_same_in_any_process(model: str) -> None:
    asked = scenario(model, 8, {"pipeline": 4, "micro_batches": 4}, stragglers=[{"kind": "lognormal", "cv": 0.1}])
    assert clustersim.simulate(asked).iteration_s == clustersim.simulate(asked).iteration_s


def test_spans_fill_the_iteration_of_a_stage(model: str) -> None:
    run = clustersim.simulate(scenario(model, 4, {"pipeline": 4, "micro_batches": 4}))
    rows = [row for row in run.spans.rows() if row[1] == 0]
    ends = [end for *_, end, _, _ in rows]
    assert np.all(np.diff(ends) >= 0)
    assert {row[0] for row in rows} >= {"forward", "backward", "bubble"}


@pytest.mark.parametrize(
    ("num_gpus", "layout", "key", "words"),
    [
        (16, {"pipeline": 16}, "parallelism.pipeline", "8 layers can be cut into at most 8 parts"),
        (4, {"pipeline": 4, "data": 2}, "parallelism.data", "nearest that does is data: 1"),
        (
            4,
            {"pipeline": 4, "micro_batches": 7},
            "parallelism.micro_batches",
            "the nearest batch that does is 28 or 35",
        ),
        (4, {"chunks": 2}, "parallelism.chunks", "interleaved has several"),
        (
            4,
            {"pipeline": 4, "micro_batches": 2, "schedule": "interleaved", "chunks": 2},
            "parallelism.micro_batches",
            "a multiple of 4",
        ),
        (4, {"sequence_parallel": True}, "parallelism.sequence_parallel", "tensor is 1"),
        (4, {"pipeline": 2, "stages": [3, 4]}, "parallelism.stages", "with the sum 8"),
        (
            4,
            {"pipeline": 4, "micro_batches": 4, "schedule": "interleaved", "chunks": 3},
            "parallelism.chunks",
            "at most 2",
        ),
        (4, {"context": 4}, "parallelism.context", "no attention"),
        (4, {"expert": 4}, "parallelism.expert", "this model has none"),
        (4, {"kind": TRICK}, "parallelism.kind", "begins with its fully connected layer"),
        (4, {"kind": TRICK, "tensor": 2}, "parallelism.tensor", "determines the layout over all GPUs"),
        (4, {"kind": TRICK, "sharding": "zero-1"}, "parallelism.sharding", "leave sharding out"),
        (4, {"kind": TRICK, "sequence_parallel": True}, "parallelism.sequence_parallel", "leave sequence_parallel out"),
        (4, {"kind": TRICK, "data": 2}, "parallelism.data", "does is data: 4, as without this key"),
        (4, {"scheme": "gathered"}, "parallelism.scheme", "is for kind: one-weird-trick"),
        (4, {"update_every_pass": True}, "parallelism.update_every_pass", "is for kind: one-weird-trick"),
        (
            4,
            {"kind": TRICK, "scheme": "gathered", "update_every_pass": True},
            "parallelism.update_every_pass",
            "there is one pass",
        ),
    ],
)
def test_an_impossible_layout_is_refused(model: str, num_gpus: int, layout, key: str, words: str) -> None:
    topology = {**STAR, "num_hosts": 16}
    with pytest.raises(InputError) as error:
        clustersim.simulate(scenario(model, num_gpus, layout, topology=topology))
    mistake = error.value.mistakes[0]
    assert mistake.key == key
    assert words in mistake.message


def test_one_weird_trick_is_for_workers_in_step() -> None:
    with pytest.raises(InputError, match="one-weird-trick is synchronous") as error:
        clustersim.simulate({**trick("in-shares"), "strategy": {"kind": "gossip"}})
    assert error.value.mistakes[0].key == "parallelism.kind"


def test_an_error_about_heads_that_do_not_divide_names_a_number_that_works() -> None:
    with pytest.raises(InputError, match="nearest number that works is 1") as error:
        clustersim.simulate(scenario("gpt2-small", 5, {"tensor": 5}))
    assert error.value.mistakes[0].key == "parallelism.tensor"
