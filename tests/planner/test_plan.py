"""A plan equals the simulation of every layout, accounts for all layouts, and refuses unsupported requests."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest

import clustersim
from clustersim.errors import InputError
from clustersim.planner import Choice, plan
from clustersim.planner.journal import key_of
from clustersim.planner.layout_costs import LayoutCosts, point_of
from clustersim.planner.objective import Objective
from clustersim.planner.queue import Candidate, Family, LayoutQueue
from clustersim.planner.reasons import reason
from clustersim.planner.request import plan_request
from clustersim.planner.search import SimulatedLayout
from clustersim.planner.space import Space
from clustersim.planner.tune import exchange_variants, overlapped
from clustersim.scenario import load_scenario
from clustersim.simulate import Workloads, forecast

SCENARIO: dict[str, Any] = {
    "name": "small",
    "model": "vgg11",
    "num_gpus": 4,
    "batch": {"global": 8},
    "topology": {"kind": "star", "num_hosts": 2, "host": {"template": "dgx-1", "gpu": "v100"}, "link": "10 Gbit/s"},
    "software": "plain",
    "transport": "nccl",
    "strategy": {"kind": "all-reduce"},
}
FIXED = {"tensor": 1, "recompute": "none", "sharding": None}
NARROW = {**SCENARIO, "parallelism": FIXED}


@pytest.fixture(scope="module")
def found() -> Any:
    return plan(NARROW, [4], top=3, workers=1)


def test_the_best_is_the_best_of_all_that_can_be_simulated(found: Any) -> None:
    point = load_scenario(SCENARIO).points()[0].point
    times = []
    for family in Space({4: [8]}, 8, FIXED).families({}):
        chosen = point_of(point, family[0]).model_copy(update={"num_iterations": 2, "memory_check": False})
        times.append(forecast(chosen).run.iteration_s)
    untuned = [entry for entry in found.best if not entry.choice.exchange]
    assert untuned[0].iteration_s == pytest.approx(min(times), rel=1e-12)
    assert found.best[0].iteration_s <= untuned[0].iteration_s


def test_a_plan_says_what_a_run_of_the_layout_says(found: Any) -> None:
    best = found.best[0]
    strategy = {**SCENARIO["strategy"], **dict(best.choice.exchange)}
    run = clustersim.simulate({**SCENARIO, "parallelism": best.choice.settings(), "strategy": strategy})
    assert run.iteration_s == pytest.approx(best.iteration_s, rel=1e-9)
    assert run.samples_per_s == pytest.approx(best.samples_per_s, rel=1e-9)
    assert run.memory_bytes == pytest.approx(best.memory_bytes, rel=1e-9)


def test_every_layout_is_accounted_for(found: Any) -> None:
    assert found.num_simulated + sum(found.discarded.values()) == found.num_layouts
    assert [entry.iteration_s for entry in found.best] == sorted(entry.iteration_s for entry in found.best)
    assert all(entry.least_s <= entry.iteration_s * (1 + 1e-9) for entry in found.best)
    assert all(0 < entry.mfu < 1 for entry in found.best)


def test_all_layouts_but_the_best_have_a_reason(found: Any) -> None:
    assert found.best[0].reason == ""
    assert all(entry.reason for entry in found.best[1:])


def test_a_plan_is_the_same_for_any_number_of_processes(found: Any) -> None:
    again = plan(NARROW, [4], top=3, workers=2)
    assert json.dumps(again.to_dict()) == json.dumps(found.to_dict())


def test_money_and_energy_come_from_the_sheet(found: Any) -> None:
    gpu = clustersim.hardware.load_gpu("v100")
    best = found.best[0]
    gpu_s = 4 * best.iteration_s / 8
    assert best.dollars_per_sample == pytest.approx(gpu_s * gpu.dollars_per_hour / 3600)
    assert best.joules_per_sample == pytest.approx(gpu_s * gpu.power_w)


def test_the_cheapest_sample_need_not_be_the_quickest() -> None:
    one = {"pipeline": 1, "micro_batches": 1, "recompute": "none", "tensor": 1}
    scenario = {**SCENARIO, "parallelism": one}
    quickest = plan(scenario, [1, 8], top=2, workers=1).best[0]
    cheapest = plan(scenario, [1, 8], objective="cost", top=2, workers=1).best[0]
    assert (quickest.choice.num_gpus, cheapest.choice.num_gpus) == (8, 1)
    assert cheapest.dollars_per_sample < quickest.dollars_per_sample


def test_batches_may_be_tried() -> None:
    one = {"pipeline": 1, "micro_batches": 1, "recompute": "none", "tensor": 1, "sharding": None}
    entries = plan({**SCENARIO, "parallelism": one}, [4], batches=[8, 64], top=5, workers=1).best
    assert entries[0].choice.batch == 64
    assert {entry.choice.batch for entry in entries} == {8, 64}


def queue_of(full: dict[str, float], asked: list[Choice], layouts: list[Choice]) -> LayoutQueue:
    """Return a queue of layouts whose second bound is `full`; the first one is half of it."""

    def tighter(family: Family, known: Candidate) -> Candidate:
        asked.append(family[0])
        return replace(known, least_s=full[family[0].text()])

    steps = lambda family, known: replace(known, least_s=full[family[0].text()] / 2), tighter
    objective = Objective("samples_per_s", clustersim.hardware.load_gpu("v100"))
    queue = LayoutQueue([[choice] for choice in layouts], objective, steps)
    queue.bound_all()
    return queue


def test_bounds_are_asked_for_in_their_order_and_only_of_those_that_come_near() -> None:
    layouts = [family[0] for family in Space({4: [8]}, 8, {}).families({})][:40]
    full = {choice.text(): 1.0 + number * 7 % 40 for number, choice in enumerate(layouts)}
    asked: list[Choice] = []
    queue = queue_of(full, asked, layouts)
    taken = [queue.take(None) for _ in range(5)]
    assert [each and each.least_s for each in taken] == sorted(full.values())[:5]
    assert len(asked) < len(layouts) / 2
    assert 5.0 / 8 <= queue.least_left({each.choice for each in taken if each}) <= 6.0 / 8
    assert queue.least_left(set()) == pytest.approx(1.0 / 8)


def test_layouts_that_are_put_off_come_after_the_others() -> None:
    layouts = [family[0] for family in Space({4: [8]}, 8, {}).families({})][:40]
    full = {choice.text(): 1.0 + number for number, choice in enumerate(layouts)}
    queue = queue_of(full, [], layouts)
    first = queue.take(None)
    assert first is not None
    queue.put_off(first.choice)
    others = [each.choice for each in iter(lambda: queue.take(None), None) if each]
    assert 0 < len(others) < len(layouts) - 1
    assert queue.num_better_than(100.0) == len(layouts) - 1 - len(others)
    assert queue.least_left({first.choice, *others}) < queue.least_left(set(layouts))
    assert queue.resume()
    later = [each.choice for each in iter(lambda: queue.take(None), None) if each]
    assert {first.choice, *others, *later} == set(layouts)
    assert all((each.grid.data > 1) == (first.choice.grid.data > 1) for each in later)
    assert not queue.resume()


def test_layouts_whose_bounds_are_no_better_are_dropped_from_the_queue() -> None:
    layouts = [family[0] for family in Space({4: [8]}, 8, {}).families({})][:40]
    full = {choice.text(): 1.0 + number for number, choice in enumerate(layouts)}
    asked: list[Choice] = []
    queue = queue_of(full, asked, layouts)
    taken = list(iter(lambda: queue.take(10.5 / 8), None))
    assert [each.least_s for each in taken if each] == [1.0 + number for number in range(10)]
    assert len(asked) == 20
    assert queue.num_better_than(100.0) == 0


def test_a_plan_that_is_stopped_has_the_best_of_what_was_simulated(monkeypatch: pytest.MonkeyPatch) -> None:
    def stopped(*_: Any) -> Any:
        raise KeyboardInterrupt

    monkeypatch.setattr("clustersim.planner.tune.overlapped", stopped)
    found = plan(NARROW, [2], top=1, workers=1)
    assert found.stopped
    assert found.to_dict()["stopped"] is True
    assert found.num_simulated + sum(found.discarded.values()) == found.num_layouts
    assert found.best[0].reason == ""


def test_a_plan_that_is_stopped_before_anything_was_simulated_is_none(monkeypatch: pytest.MonkeyPatch) -> None:
    def stopped(*_: Any) -> Any:
        raise KeyboardInterrupt

    monkeypatch.setattr("clustersim.planner.search.Simulator.simulate_all", stopped)
    with pytest.raises(KeyboardInterrupt):
        plan(NARROW, [2], workers=1)


def played_with(choice: Choice, exposed: float, slowed: float = 0.0) -> SimulatedLayout:
    parts = {"compute": 0.5, "bubble": 0.0, "communication_exposed": exposed, "waiting": 0.0, "slowed": slowed}
    return SimulatedLayout(Candidate(choice, 1.0, 0.0), 1.0, 8.0, parts)


def test_algorithms_and_buckets_are_tried_together_unless_they_are_given_or_nothing_waits() -> None:
    point = load_scenario(SCENARIO).points()[0].point
    layouts = [family[0] for family in Space({4: [8]}, 8, FIXED).families({})]
    copies = next(choice for choice in layouts if choice.grid.data == 4)
    every = [dict(way) for way in exchange_variants(point, played_with(copies, 0.2))]
    assert {"algorithm": "ring", "buckets": "whole"} in every
    assert {"buckets": "100 MiB"} in every
    assert len(every) == len({str(way) for way in every}) == 8
    assert not list(exchange_variants(point, played_with(copies, 0.0)))
    assert list(exchange_variants(point, played_with(copies, 0.0, slowed=0.2))) == list(
        exchange_variants(point, played_with(copies, 0.2))
    )
    given = load_scenario({**SCENARIO, "strategy": {"kind": "all-reduce", "algorithm": "ring"}}).points()[0].point
    assert all(set(dict(way)) == {"buckets"} for way in exchange_variants(given, played_with(copies, 0.2)))
    sharded = replace(copies, layout=copies.layout.model_copy(update={"sharding": "zero-3"}))
    assert [dict(way) for way in exchange_variants(point, played_with(sharded, 0.2))] == [{"algorithm": "ring"}]


def test_what_collectives_take_of_gpus_that_compute_is_communications_cost() -> None:
    setup = LayoutCosts(load_scenario(SCENARIO).points()[0].point, Workloads())
    copies = next(family[0] for family in Space({4: [8]}, 8, FIXED).families({}) if family[0].grid.data == 4)
    best = played_with(copies, 0.1)
    reasons = [reason(each, best, setup.links, setup.links) for each in (played_with(copies, 0.1, 0.2), best)]
    assert reasons == ["communication +20.0%", ""]


def test_the_best_layouts_that_split_layers_are_tried_with_tensor_overlap() -> None:
    one = {"tensor": 2, "pipeline": 1, "micro_batches": 1, "sequence_parallel": True, "recompute": "none"}
    scenario = {**SCENARIO, "model": "gpt2-small", "batch": {"global": 2}, "precision": "amp-fp16"}
    best = plan({**scenario, "parallelism": one}, [2], top=3, workers=1).best
    assert [entry.choice.layout.tensor_overlap for entry in best] == [True, False]
    assert best[0].iteration_s < best[1].iteration_s
    assert best[0].least_s <= best[0].iteration_s * (1 + 1e-9)


def test_tensor_overlap_is_tried_for_sequence_parallel_layouts_that_wait() -> None:
    point = load_scenario(SCENARIO).points()[0].point
    every = [family[0] for family in Space({4: [8]}, 4, {"tensor": 4}).families({})]
    simulated = [played_with(choice, 0.2) for choice in every]
    tried = list(overlapped(point, simulated))
    assert len(tried) == 3
    assert all(choice.layout.sequence_parallel and choice.layout.tensor_overlap for choice in tried)
    assert not list(overlapped(point, [played_with(choice, 0.001) for choice in every]))
    layout = point.parallelism.model_validate({"tensor_overlap": False})
    assert not list(overlapped(point.model_copy(update={"parallelism": layout}), simulated))


def refusal(scenario: dict[str, Any], gpus: list[int], **options: Any) -> InputError:
    with pytest.raises(InputError) as caught:
        plan(scenario, gpus, workers=1, **options)
    return caught.value


def test_the_error_of_no_fit_has_the_missing_memory_and_a_layout_that_fits() -> None:
    topology = {"kind": "star", "num_hosts": 8, "gpu": "gtx-580", "link": "10 Gbit/s"}
    scenario = {**SCENARIO, "model": "gpt2-medium", "optimizer": "adam", "topology": topology}
    error = refusal({**scenario, "parallelism": {"pipeline": 1}}, [2])
    message = str(error)
    assert error.mistakes[0].key == "parallelism"
    assert re.search(r"on each GPU, [\d.]+ [MG]B more than", message)
    assert "on 4 GPUs it would fit with data 4, 2 micro-batches, zero-3, recompute full" in message


def test_errors_of_the_plan_have_their_place_in_the_file(tmp_path: Path) -> None:
    file = tmp_path / "small.yaml"
    small = {"kind": "star", "num_hosts": 8, "gpu": "gtx-580", "link": "10 Gbit/s", "hop": "1 us"}
    written = {**SCENARIO, "model": "gpt2-medium", "optimizer": "adam", "topology": small}
    last = len(written) + 1
    for more in ({"parallelism": {"pipeline": 1}}, {"failures": {"mtbf": "1 h"}}, {"seed": [1, 2]}):
        lines = [f"{key}: {json.dumps(value)}\n" for key, value in {**written, **more}.items()]
        file.write_text("".join(lines))
        with pytest.raises(InputError) as caught:
            plan(file, [2], workers=1)
        assert {(each.file, each.line) for each in caught.value.mistakes} == {(str(file), last)}


def test_the_error_of_no_fit_marks_more_gpus_than_the_cluster_has() -> None:
    topology = {"kind": "star", "num_hosts": 1, "host": {"template": "dgx-1", "gpu": "v100"}, "link": "10 Gbit/s"}
    scenario = {**SCENARIO, "model": "megatron-8.3b", "precision": "amp-fp16", "optimizer": "adam"}
    scenario |= {"topology": topology, "batch": {"global": 1}, "parallelism": {"tensor": 8, "recompute": "full"}}
    message = str(refusal(scenario, [8]))
    assert "; on 16 GPUs (the cluster has 8) it would fit with tensor 8 x pipeline 2, 1f1b, zero-3" in message


def test_where_nothing_fits_the_nearest_layout_is_one_that_runs_there() -> None:
    topology = {"kind": "star", "num_hosts": 2, "host": {"template": "dgx-1", "gpu": "v100"}, "link": "10 Gbit/s"}
    scenario = {**SCENARIO, "model": "megatron-8.3b", "precision": "amp-fp16", "optimizer": "adam"}
    scenario |= {"topology": topology, "batch": {"global": 1}, "parallelism": {"tensor": 8, "recompute": "full"}}
    assert "; on 16 GPUs it would fit with tensor 8 x pipeline 2, 1f1b, zero-3" in str(refusal(scenario, [8]))
    nearest = {"tensor": 8, "pipeline": 2, "recompute": "full", "sharding": "zero-3"}
    assert load_scenario({**scenario, "num_gpus": 16, "parallelism": nearest}).points()


@pytest.mark.parametrize(
    ("model", "batch", "way"),
    [
        ("gpt2-medium", 1, {"offload": "optimizer"}),
        ("resnet152", 64, {"offload": "optimizer+activations", "recompute": "none"}),
    ],
)
def test_the_error_of_no_fit_names_offloading_that_fits(model: str, batch: int, way: dict[str, str]) -> None:
    host = {"template": "dual-socket", "gpu": "gtx-580", "num_gpus": 1}
    topology = {"kind": "star", "num_hosts": 1, "host": host, "link": "1 GB/s"}
    given = {"data": 1, "tensor": 1, "pipeline": 1, "micro_batches": 1}
    scenario = {**SCENARIO, "model": model, "optimizer": "adam", "topology": topology}
    scenario |= {"num_gpus": 1, "batch": {"global": batch}}
    offload = ", ".join(f"{key}: {value}" for key, value in way.items())
    assert f"; with {offload} that one fits, as --also offload compares; " in str(
        refusal({**scenario, "parallelism": given}, [1])
    )
    assert load_scenario({**scenario, "parallelism": {**given, "recompute": "full", **way}}).points()


def test_invalid_fixed_degrees_are_reported() -> None:
    assert "the nearest" in str(refusal({**SCENARIO, "parallelism": {"tensor": 3}}, [4]))


def test_an_indivisible_batch_is_reported() -> None:
    error = refusal({**SCENARIO, "batch": {"global": 7}, "parallelism": {"data": 4}}, [4])
    assert "does not divide" in str(error)


def test_more_stages_than_layers_are_reported() -> None:
    layout = {"pipeline": 16, "schedule": "interleaved", "chunks": 4, "micro_batches": 16}
    error = refusal({**SCENARIO, "parallelism": layout, "batch": {"global": 16}}, [16])
    assert error.mistakes[0].key == "parallelism.chunks"
    assert str(error.mistakes[0].allowed).startswith("at most")


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("stragglers", [{"kind": "constant", "factor": 2, "of": [0]}]),
        ("jobs", 2),
        ("input", {"decode": "100 samples/s"}),
        ("compression", "fp16"),
    ],
)
def test_what_disturbs_a_cluster_is_left_out_of_a_plan(key: str, value: Any) -> None:
    topology = {**SCENARIO["topology"], "num_hosts": 4}
    error = refusal({**SCENARIO, "topology": topology, key: value}, [4])
    assert f"leave {key} out" in str(error)


def test_replicas_exchange_by_all_reduce() -> None:
    error = refusal({**SCENARIO, "strategy": {"kind": "async", "servers": {"on": "workers"}}}, [4])
    assert error.mistakes[0].key == "strategy.kind"


def test_a_plan_is_of_degrees() -> None:
    error = refusal({**SCENARIO, "parallelism": {"kind": "one-weird-trick"}}, [4])
    assert "compare its best with a run of one-weird-trick" in str(error)


def test_a_sweep_cannot_be_planned() -> None:
    assert "one training" in str(refusal({**SCENARIO, "precision": ["fp32", "amp-fp16"]}, [4]))


def test_an_objective_is_one_of_three() -> None:
    assert "did you mean 'cost'" in str(refusal(SCENARIO, [4], objective="costs"))


def test_a_plan_by_cost_needs_a_price() -> None:
    topology = {**SCENARIO["topology"], "host": {"template": "dgx-1", "gpu": "p100"}}
    assert "dollars_per_hour" in str(refusal({**SCENARIO, "topology": topology}, [4], objective="cost"))


def test_a_plan_by_cost_takes_the_price_of_the_scenario() -> None:
    def dollars(price: float) -> float:
        (best,) = plan({**SCENARIO, "prices": {"v100": price}}, [4], objective="cost", top=1, workers=1).best
        assert best.dollars_per_sample is not None
        return best.dollars_per_sample

    assert dollars(5.0) == pytest.approx(5 * dollars(1.0))


def test_there_are_as_many_gpus_as_the_cluster_has() -> None:
    error = refusal(SCENARIO, [64])
    assert error.mistakes[0].key == "num_gpus"
    assert "plan for fewer GPUs" in str(error)
    assert "--set" not in str(error)


def test_offloading_is_compared_on_request() -> None:
    """GPT-2 XL on one V100 of 16 GB: 16 bytes a parameter of 1.56 G do not fit, and without state and all gradients it
    does.
    """
    host = {"template": "dgx-1", "gpu": "v100"}
    topology = {"kind": "star", "num_hosts": 1, "host": host, "link": "1 GB/s"}
    changes = {"model": "gpt2-xl", "batch": {"global": 1}, "topology": topology, "optimizer": "adam"}
    scenario = {**SCENARIO, **changes, "precision": "amp-fp16", "num_gpus": 1}
    assert "no layout fits" in str(refusal(scenario, [1]))
    found = plan(scenario, [1], also=["offload"], workers=1)
    assert {entry.choice.layout.offload for entry in found.best} <= {"optimizer", "optimizer+activations"}
    assert "offload optimizer" in found.best[0].choice.text()
    assert all(entry.least_s <= entry.iteration_s * (1 + 1e-9) for entry in found.best)
    small = {**scenario, "topology": {**topology, "host": {**host, "memory": "1 GiB"}}}
    assert "does not fit in its hosts' memory" in str(refusal(small, [1], also=["offload"]))


def test_an_offload_that_is_given_is_kept() -> None:
    given = {**FIXED, "offload": "optimizer"}
    topology = {"kind": "star", "num_hosts": 1, "host": {"template": "dgx-1", "gpu": "v100"}, "link": "1 GB/s"}
    found = plan({**SCENARIO, "topology": topology, "parallelism": given}, [2], workers=1)
    assert {entry.choice.layout.offload for entry in found.best} == {"optimizer"}


@pytest.mark.parametrize(
    ("key", "value"), [("sharding_by", "tensors"), ("gradient_kernels", "autograd"), ("input_sums", "each")]
)
def test_what_a_plan_does_not_try_is_refused(key: str, value: Any) -> None:
    software = {"name": "plain", key: value}
    error = refusal({**SCENARIO, "software": software, "parallelism": {"sharding": "zero-1"}}, [4])
    assert error.mistakes[0].key == f"software.{key}"
    assert f"leave {key} out" in str(error)


HYBRID = {
    **SCENARIO,
    "batch": {"global": 16},
    "topology": {**SCENARIO["topology"], "num_hosts": 2},
    "parallelism": {"tensor": 1, "pipeline": 1, "micro_batches": 1, "recompute": "none", "sharding": "zero-3"},
}


def test_sharding_groups_are_compared_on_request_and_win_between_slow_hosts() -> None:
    """Weights are gathered over NVLink within a DGX-1; only shards of gradients use 10 Gbit/s."""
    all_copies = plan(HYBRID, [16], workers=1)
    assert all(entry.choice.layout.sharding_over is None for entry in all_copies.best)
    compared = plan(HYBRID, [16], also=["sharding_over"], workers=1)
    best = compared.best[0]
    assert best.choice.layout.sharding_over == 8
    assert best.choice.text() == "data 16, zero-3 over 8"
    assert best.iteration_s < all_copies.best[0].iteration_s
    assert {entry.choice.layout.sharding_over for entry in compared.best} == {None, 2, 4, 8}
    assert best.memory_bytes > all_copies.best[0].memory_bytes


def test_the_size_of_sharding_groups_may_be_given() -> None:
    given = {"sharding": "zero-2", "sharding_over": 4, "tensor": 1, "pipeline": 1}
    found = plan({**HYBRID, "parallelism": given}, [16], workers=1)
    assert {entry.choice.layout.sharding_over for entry in found.best} == {4}
    everyone = plan({**HYBRID, "parallelism": {**given, "sharding_over": 16}}, [16], workers=1)
    assert {entry.choice.layout.sharding_over for entry in everyone.best} == {None}
    assert "sharding_over" in str(refusal({**HYBRID, "parallelism": {**given, "sharding_over": 3}}, [16]))


def test_weights_are_gathered_as_the_software_does_it_where_copies_are_sharded() -> None:
    """Megatron gathers beside forward passes with shards of an update, and the scenario itself has no shards."""
    given = {**SCENARIO, "software": "megatron-core", "parallelism": {"tensor": 1, "pipeline": 1, "recompute": "none"}}
    found = plan(given, [4], workers=1)
    sharded = {entry.choice.layout.sharding: entry for entry in found.best}
    assert {key: entry.choice.layout.gather_overlap for key, entry in sharded.items()} == {
        None: False,
        "zero-1": True,
        "zero-2": True,
        "zero-3": False,
    }
    entry = sharded["zero-1"]
    layout = {"sharding": "zero-1", "micro_batches": entry.choice.layout.micro_batches}
    run = clustersim.simulate(load_scenario(given, [f"parallelism={layout}"]))
    assert entry.run_s in (None, pytest.approx(run.iteration_s, rel=1e-9))
    without = plan({**given, "software": {"name": "megatron-core", "gather_overlap": False}}, [4], workers=1)
    assert not any(entry.choice.layout.gather_overlap for entry in without.best)


def test_the_best_is_the_best_as_run(monkeypatch: pytest.MonkeyPatch) -> None:
    """With all settings of the software the second layout may be faster than the first."""
    first, second = plan(NARROW, [4], top=2, workers=1).best

    def times(choices: Any, request: Any, pool: Any, found: dict[str, float], deadline: Any) -> None:
        found |= {key_of(first.choice): 2 * second.iteration_s, key_of(second.choice): second.iteration_s}

    monkeypatch.setattr(import_module("clustersim.planner.plan"), "run_times", times)
    found = plan(NARROW, [4], top=2, workers=1)
    assert [entry.choice for entry in found.best] == [second.choice, first.choice]
    assert found.scenario_text == plan_request(NARROW, [4], (), (), False).scenario_of(second.choice).yaml()


def test_an_unknown_key_for_also_is_reported_with_the_known_ones() -> None:
    assert "known: all, dualpipe, expert_exchange, offload, recompute, sharding_over" in str(
        refusal(SCENARIO, [4], also=["sharding_by"])
    )


def test_a_plan_has_everything_beside_compute_that_can_be() -> None:
    strategy = {"kind": "all-reduce", "overlap": False}
    awaited = {**SCENARIO, "software": {"name": "plain", "messages": "awaited"}, "parallelism": {"pipeline": 2}}
    assert [each.key for each in refusal(awaited, [4]).mistakes] == ["software.messages"]
    blocking = {**SCENARIO, "software": {"name": "plain", "launch": "blocking"}, "strategy": strategy}
    assert [each.key for each in refusal(blocking, [4]).mistakes] == ["software.launch"]


def test_sequences_are_not_divided_in_time() -> None:
    layout = {"time_chunks": 5, "pipeline": 2, "schedule": "gpipe"}
    error = refusal({**SCENARIO, "model": "lstm-lm", "parallelism": layout}, [2])
    assert error.mistakes[0].key == "parallelism.time_chunks"


def test_other_ways_of_exchanging_are_other_choices() -> None:
    costs = LayoutCosts(load_scenario(SCENARIO).points()[0].point, Workloads())
    layout = next(Space({4: [8]}, 8, {}).families({}))[0].layout
    tune = Choice(4, 8, layout, (("buckets", "whole"),))
    assert point_of(costs.point, tune).strategy.buckets == "whole"
    assert tune.text().endswith("buckets whole")
