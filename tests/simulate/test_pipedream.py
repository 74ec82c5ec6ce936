"""A pipeline without a flush: no bubble, weights as old as its paper says, and shortcuts that change nothing."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import clustersim
from clustersim.errors import InputError
from clustersim.planner import plan
from clustersim.report.timeline import draw_timeline, timeline_data
from clustersim.report.versions import versions_data
from clustersim.results import Run
from clustersim.scenario import load_scenario
from clustersim.simulate.forecast import forecast
from clustersim.simulate.programs import programs_of
from clustersim.simulate.setup import Setup
from tests.placed import placed

STAR = {"kind": "star", "num_hosts": 8, "host": {"gpu": "v100"}, "link": "100 GB/s", "hop": "1 ns"}
DGX = {"kind": "star", "num_hosts": 4, "host": "dgx-a100", "link": "infiniband-hdr", "hop": "1 us"}
PARAMETERS = 8 * 1000


def written(path: Path, seconds: list[tuple[float, float]]) -> str:
    """Write a model of layers with times of their own and next to nothing to send; return its file."""
    work = "op: fully-connected, flop: 1e9, parameter_bytes: 4e3, activation_bytes: 10"
    layers = (
        f"  - {{name: l{number}, {work}, forward_s: {forward_s}, backward_s: {backward_s}}}"
        for number, (forward_s, backward_s) in enumerate(seconds)
    )
    path.write_text("\n".join(["name: layers", "layers:", *layers, ""]))
    return str(path)


@pytest.fixture(scope="module")
def equal(tmp_path_factory) -> str:
    return written(tmp_path_factory.mktemp("model") / "equal.yaml", [(0.01, 0.02)] * 8)


def scenario(model: str, num_gpus: int, parallelism: dict[str, Any], **other: Any) -> dict[str, Any]:
    return placed(
        {
            "model": model,
            "num_gpus": num_gpus,
            "batch": {"per_gpu": 8},
            "topology": STAR,
            "strategy": {"kind": "all-reduce"},
            "parallelism": {"schedule": "pipedream", **parallelism},
            "num_iterations": 2,
            **other,
        }
    )


def setup(asked: dict[str, Any]) -> Setup:
    return Setup(load_scenario(asked).points()[0].point)


def both_ways(asked: dict[str, Any]) -> tuple[Run, Run]:
    """Return a run as it is and an exact one."""
    point = load_scenario(asked).points()[0].point
    return forecast(point).run, forecast(point, exact=True).run


@pytest.mark.parametrize(("stages", "num_micro"), [(2, 4), (4, 8), (4, 2), (8, 1)])
def test_equal_stages_are_never_idle(equal: str, stages: int, num_micro: int) -> None:
    """A GPU's samples take it 8 x (10 + 20) ms, and each of p stages p times as many through 1 / p of the layers."""
    run = clustersim.simulate(scenario(equal, stages, {"pipeline": stages, "micro_batches": num_micro}))
    assert run.breakdown_s["bubble"] == pytest.approx(0, abs=1e-5 * run.iteration_s)
    assert run.iteration_s == pytest.approx(8 * 0.03, rel=1e-3)


@pytest.mark.parametrize("seed", range(6))
def test_the_slowest_stage_sets_the_pace_whichever_it_is(tmp_path: Path, seed: int) -> None:
    """And so it is never slower than 1F1B on the same stages, where updates and messages take next to no time."""
    rng = np.random.default_rng(seed)
    work = [(0.01 * forward, 0.01 * backward) for forward, backward in rng.integers(1, 9, (4, 2)).tolist()]
    model = written(tmp_path / "uneven.yaml", work)
    asked = scenario(model, 4, {"pipeline": 4, "micro_batches": 8, "stages": [1, 1, 1, 1]})
    run = clustersim.simulate(asked)
    assert run.iteration_s == pytest.approx(4 * max(map(sum, work)), rel=1e-3)
    asked["parallelism"]["schedule"] = "1f1b"
    assert run.iteration_s <= clustersim.simulate(asked).iteration_s * (1 + 1e-3)


@pytest.mark.parametrize("num_micro", [1, 3, 8])
def test_stage_s_of_p_works_on_weights_p_minus_1_minus_s_updates_old(equal: str, num_micro: int) -> None:
    """Every rank makes every version, one a micro-batch, and its gradients are as old as it is far from the end."""
    asked = scenario(equal, 8, {"pipeline": 4, "data": 2, "micro_batches": num_micro}, batch={"global": 48})
    run = clustersim.simulate(asked | {"num_iterations": 3})
    assert run.worker_staleness == (3, 3, 2, 2, 1, 1, 0, 0)
    assert run.update_s == pytest.approx(run.iteration_s / num_micro)
    assert run.facts == {"updates_per_iteration": num_micro, "weight_versions": 4}
    for rank in range(8):
        own = [update.version_written for update in run.updates.rows() if update.worker == rank]
        assert own == list(range(own[0], own[0] + 3 * num_micro))


def test_repeated_iterations_have_the_log_of_simulated_ones(equal: str) -> None:
    asked = scenario(equal, 4, {"pipeline": 4, "micro_batches": 3}, batch={"global": 24}, num_iterations=5)
    quick, exact = both_ways(asked)
    assert list(map(str, quick.updates.rows())) == list(map(str, exact.updates.rows()))
    assert quick.updates.time_s == pytest.approx(exact.updates.time_s, rel=1e-9)


def test_a_stage_stashes_the_weights_of_the_micro_batches_under_way(equal: str) -> None:
    laid_out = setup(scenario(equal, 4, {"pipeline": 4, "micro_batches": 8})).laid_out
    assert laid_out is not None
    versions = [1 + held.get("stashed weights", 0.0) / held["weights"] for held in laid_out.memory]
    assert versions == pytest.approx([4, 3, 2, 1])


@pytest.mark.parametrize("num_gpus", [1, 4])
def test_one_stage_is_plain_training_on_micro_batches(num_gpus: int) -> None:
    strategy = {"kind": "all-reduce", "copies": "none"}  # where micro-batches update by themselves none are made
    other = {"strategy": strategy, "compute": {"launch": "graphs"}}  # else the host goes ahead to the next micro-batch
    run = clustersim.simulate(scenario("resnet50", num_gpus, {"micro_batches": 2}, batch={"per_gpu": 16}, **other))
    plain = clustersim.simulate(scenario("resnet50", num_gpus, {}, **other))
    assert run.iteration_s == pytest.approx(2 * plain.iteration_s, rel=1e-9)
    assert run.update_s == pytest.approx(plain.iteration_s, rel=1e-9)


def test_copies_exchange_the_gradients_of_every_micro_batch(equal: str) -> None:
    """A ring over d copies puts 2 (d - 1) of the gradients on the wires, and stages hand over 10 bytes a sample."""
    layout = {"pipeline": 2, "data": 4, "micro_batches": 4}
    run = clustersim.simulate(scenario(equal, 8, layout, strategy={"kind": "all-reduce", "algorithm": "ring"}))
    sent = sum(kind.num_bytes for kind in run.link_classes if kind.kind == "access") / 2
    assert sent == pytest.approx(4 * 2 * 3 * 4 * PARAMETERS + 2 * 64 * 10, rel=1e-9)


@pytest.mark.parametrize(
    ("model", "layout", "num_gpus", "topology"),
    [
        ("equal", {"pipeline": 2, "data": 4, "micro_batches": 4}, 8, STAR),
        ("gpt2-small", {"pipeline": 2, "data": 2, "tensor": 2, "micro_batches": 4}, 8, DGX),
    ],
)
def test_one_rank_a_stage_stands_for_all(
    equal: str, model: str, layout: dict[str, Any], num_gpus: int, topology: dict[str, Any]
) -> None:
    asked = scenario(equal if model == "equal" else model, num_gpus, layout, topology=topology)
    quick, exact = both_ways(asked)
    assert quick.iteration_s == pytest.approx(exact.iteration_s, rel=1e-9)
    assert quick.worker_staleness == exact.worker_staleness
    sent = [[kind.num_bytes for kind in run.link_classes] for run in (quick, exact)]
    assert sent[0] == pytest.approx(sent[1], rel=1e-9)


def test_the_report_shows_a_gradient_from_the_version_it_met_forward(equal: str) -> None:
    """It is begun when its stage has made that version, and has met the model after the updates in between."""
    sweep = clustersim.sweep(scenario(equal, 4, {"pipeline": 4, "micro_batches": 8}, num_iterations=3))
    data = versions_data(sweep, sweep.runs[0])
    assert data is not None
    one_s = sweep.runs[0].update_s
    assert {arrow.staleness for arrow in data.arrows} == {0, 1, 2, 3}
    for arrow in data.arrows:
        assert arrow.applied_s - arrow.read_s == pytest.approx((arrow.staleness + 1) * one_s, rel=1e-3)


def test_the_timeline_says_what_numbers_below_0_are(equal: str) -> None:
    sweep = clustersim.sweep(scenario(equal, 4, {"pipeline": 4, "micro_batches": 4}))
    data = timeline_data(sweep, sweep.runs[0])
    assert data is not None
    assert "negative ones are of previous iterations" in draw_timeline(data).subtitle


def test_the_timeline_shows_all_stages_for_the_time_of_one_iteration(equal: str) -> None:
    """What a stage does beyond it has come before, too: nothing is lost, and no lane begins later than others."""
    sweep = clustersim.sweep(scenario(equal, 4, {"pipeline": 4, "micro_batches": 4}))
    run = sweep.runs[0]
    data = timeline_data(sweep, run)
    assert data is not None
    assert data.length_s == pytest.approx(run.iteration_s)
    recorded = sum(end_s - begin_s for _, _, _, begin_s, end_s, _, _ in run.spans.rows())
    assert sum(mark.end_s - mark.start_s for mark in data.marks) == pytest.approx(recorded)
    assert min(mark.start_s for mark in data.marks) >= 0.0
    assert not data.begins_apart


def refusal(asked: dict[str, Any]) -> InputError:
    with pytest.raises(InputError) as caught:
        clustersim.simulate(asked)
    return caught.value


@pytest.mark.parametrize(
    ("parallelism", "other", "words"),
    [
        ({"sharding": "zero-1"}, {}, "parallelism.sharding: pipedream keeps several versions"),
        ({"chunks": 2}, {}, "pipedream has one chunk of the model on each stage"),
        ({}, {"strategy": {"kind": "server"}}, "parallelism.schedule: with pipedream the copies of a stage all-reduce"),
    ],
)
def test_what_goes_without_a_flush_is_refused(
    equal: str, parallelism: dict[str, Any], other: dict[str, Any], words: str
) -> None:
    layout = {"pipeline": 2, "micro_batches": 4, **parallelism}
    assert words in str(refusal(scenario(equal, 4, layout, **other)))


def test_an_iteration_that_flows_into_the_next_is_no_trace(equal: str) -> None:
    programs = programs_of(setup(scenario(equal, 4, {"pipeline": 4, "micro_batches": 2})))
    assert "receive gradients -3.0 from stage 1: 160 B" in programs.plans[0].program.lines()
    with pytest.raises(InputError, match="no flush between iterations"):
        programs.tasks()


def test_a_plan_compares_layouts_that_train_alike(equal: str) -> None:
    with pytest.raises(InputError, match="compare its best with a run of pipedream"):
        plan(scenario(equal, 4, {}), [4])


@pytest.mark.parametrize("exact", [False, True])
def test_every_activation_and_its_gradient_crosses_its_link_in_every_iteration(exact: bool) -> None:
    """Those too that are on their way when the job ends: up a host's link and down another's, both ways."""
    batch, tokens, features = 16, 128, 512
    slow = {**STAR, "link": "1 GB/s", "hop": "1 us"}
    asked = scenario(
        "gpt-4x512x8-seq128-vocab1000", 2, {"pipeline": 2, "micro_batches": 4}, batch={"global": batch}, topology=slow
    )
    run = forecast(load_scenario(asked).points()[0].point, exact=exact).run
    sent = sum(kind.num_bytes for kind in run.link_classes if kind.kind == "access")
    assert sent == pytest.approx(2 * 2 * batch * tokens * features * 4.0, rel=1e-9)
