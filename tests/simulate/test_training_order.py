"""The order of reads and writes of every strategy: small cases by hand, and laws that hold for all of them."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from clustersim.errors import InputError
from clustersim.learning import ReplicaOrder, SharedModelOrder, StageOrder, TrainingOrder
from clustersim.learning.order import APPLY, MIX, OUTER, PAIR, READ
from clustersim.results import ALL_WORKERS, Update, UpdateLog
from clustersim.scenario import load_scenario
from clustersim.simulate.concurrent_jobs import setups_of
from clustersim.simulate.setup import Setup
from clustersim.simulate.training_order import _in_order_of_versions, gradients_per_update, training_order
from clustersim.strategies import STRATEGIES, AllReduce
from clustersim.strategies.graphs import mixing_matrix, ring

COMPUTE_S = 0.06
"""Seconds of forward and backward of the model below. It has a thousand parameters, so messages take no time."""

LAYERS = """
name: two-layers
layers:
  - {name: a, parameter_bytes: 2000, activation_bytes: 4, forward_s: 0.01, backward_s: 0.02}
  - {name: b, parameter_bytes: 2000, activation_bytes: 4, forward_s: 0.01, backward_s: 0.02}
"""
STAR = {"kind": "star", "num_hosts": 8, "gpu": "k80", "link": "1000 GB/s", "hop": "1 ns"}
PAIRS_OF_GPUS = {**STAR, "host": {"template": "dual-socket", "gpu": "k80", "num_gpus": 2}}
del PAIRS_OF_GPUS["gpu"]
JITTER = [{"kind": "lognormal", "cv": 0.3}]
REQUIRED = {"bounded-staleness": {"bound": 1}}
ASYNCHRONOUS_GOSSIP = {"kind": "gossip", "asynchronous": True}


@pytest.fixture
def model(tmp_path: Path) -> str:
    (tmp_path / "two-layers.yaml").write_text(LAYERS)
    return str(tmp_path / "two-layers.yaml")


def slow(factors: dict[int, float]) -> list[dict[str, Any]]:
    return [{"kind": "constant", "factor": factor, "of": [rank]} for rank, factor in factors.items()]


def scenario(model: str, strategy: dict[str, Any] | str, num_gpus: int = 4, **more: Any) -> dict[str, Any]:
    named = {"kind": strategy} if isinstance(strategy, str) else strategy
    one_host = {**STAR, "num_hosts": 1, "host": {"template": "dual-socket", "gpu": "k80", "num_gpus": 4}}
    del one_host["gpu"]
    return {
        "model": model,
        "num_gpus": num_gpus,
        "batch": {"per_gpu": 8},
        "topology": one_host if named["kind"] == "data-parallel" else STAR,
        "software": "plain",
        "transport": "nccl",
        "num_iterations": 4,
        "seed": 3,
        "strategy": {"buckets": "whole", **named, **REQUIRED.get(named["kind"], {})},
        **more,
    }


def setup_of(asked: dict[str, Any]) -> Setup:
    return Setup(load_scenario(asked).points()[0].point)


def order_of(asked: dict[str, Any], num_updates: int, **options: Any) -> TrainingOrder:
    return training_order(setup_of(asked), 0, num_updates, **options)


def shared(asked: dict[str, Any], num_updates: int, **options: Any) -> SharedModelOrder:
    order = order_of(asked, num_updates, **options)
    assert isinstance(order, SharedModelOrder)
    return order


def replicas(asked: dict[str, Any], num_updates: int, **options: Any) -> ReplicaOrder:
    order = order_of(asked, num_updates, **options)
    assert isinstance(order, ReplicaOrder)
    return order


def rows(order: SharedModelOrder) -> list[tuple[int, int, int]]:
    """Return (worker, version read, version written) of each gradient that is applied."""
    return [(row.worker, row.version_read, row.version_written) for row in order.log.rows() if row.accepted]


def events(order: ReplicaOrder) -> list[tuple[int, int, int]]:
    columns = order.events
    return list(zip(columns.kind, columns.worker, columns.other, strict=True))


# By hand


@pytest.mark.parametrize("kind", ["all-reduce", "server", "data-parallel"])
def test_synchronous_workers_read_the_version_before(model: str, kind: str) -> None:
    order = shared(scenario(model, kind), 3)
    assert rows(order) == [(ALL_WORKERS, version, version + 1) for version in range(3)]
    assert order.num_workers == 4
    assert np.diff([0.0, *order.log.time_s]) == pytest.approx([order.log.time_s[0]] * 3)
    assert order.log.time_s[0] >= COMPUTE_S


def test_the_first_update_is_not_cut_off(model: str) -> None:
    """One worker alone computes without waiting: update number n is there after n iterations."""
    order = shared(scenario(model, "all-reduce", num_gpus=1), 4)
    first_s = order.log.time_s[0]
    assert first_s == pytest.approx(COMPUTE_S, rel=1e-3)
    assert list(order.log.time_s) == pytest.approx([first_s * number for number in (1, 2, 3, 4)])


def test_a_delayed_gradient_was_computed_one_version_before(model: str) -> None:
    """The first iteration has no gradient to apply, so the first update is at the end of the second one."""
    order = shared(scenario(model, "delayed"), 4)
    assert rows(order) == [(ALL_WORKERS, read, number) for number, read in enumerate([0, 0, 1, 2], 1)]
    assert order.log.time_s[0] == pytest.approx(2 * COMPUTE_S, rel=1e-2)


def test_asynchronous_workers_of_speeds_1_and_2(model: str) -> None:
    """Worker 1 takes 1.9 times as long: the fast one writes 1, the slow one 2 on version 0, the fast one 3 on 1, ..."""
    order = shared(scenario(model, "async", num_gpus=2, stragglers=slow({1: 1.9})), 7)
    assert rows(order) == [(0, 0, 1), (1, 0, 2), (0, 1, 3), (0, 3, 4), (1, 2, 5), (0, 4, 6), (0, 6, 7)]
    assert order.log.time_s[0] == pytest.approx(COMPUTE_S, rel=1e-2)
    assert order.log.time_s[1] == pytest.approx(1.9 * COMPUTE_S, rel=1e-2)


def test_one_asynchronous_worker_has_no_staleness(model: str) -> None:
    order = shared(scenario(model, "async", num_gpus=1), 6)
    assert order.log.staleness.tolist() == [0] * 6


def test_softsync_takes_a_number_of_gradients_from_any_workers(model: str) -> None:
    """n = 2 of 4 workers: two gradients make an update. Workers 0 and 1 are nearly twice as fast as 2 and 3."""
    speeds = {1: 1.01, 2: 1.95, 3: 1.96}
    order = shared(scenario(model, {"kind": "softsync", "n": 2}, stragglers=slow(speeds)), 3)
    assert rows(order) == [(0, 0, 1), (1, 0, 1), (2, 0, 2), (3, 0, 2), (0, 0, 3), (1, 1, 3)]


def test_backup_drops_the_gradient_of_the_slowest(model: str) -> None:
    order = shared(scenario(model, {"kind": "backup", "backups": 1}, num_gpus=3, stragglers=slow({2: 1.5})), 3)
    assert rows(order) == [(0, 0, 1), (1, 0, 1), (0, 1, 2), (1, 1, 2), (0, 2, 3), (1, 2, 3)]
    dropped = [row for row in order.log.rows() if not row.accepted]
    assert [(row.worker, row.version_read) for row in dropped] == [(2, 0), (2, 1)]  # after 1.5 and 3 times as long


def test_backup_without_backups_is_synchronous(model: str) -> None:
    asked = scenario(model, {"kind": "backup", "backups": 0})
    assert rows(shared(asked, 2)) == [(ALL_WORKERS, 0, 1), (ALL_WORKERS, 1, 2)]
    assert gradients_per_update(setup_of(asked)) == 4


@pytest.mark.parametrize("seed", range(3))
def test_bound_0_is_synchronous_in_versions(model: str, seed: int) -> None:
    """Each worker's gradient number c is on the version with the first c gradients of all, which has c n versions."""
    strategy = {"kind": "bounded-staleness", "bound": 0}
    asked = scenario(model, strategy, num_gpus=3, stragglers=JITTER, seed=seed)
    asked["strategy"]["bound"] = 0
    order = shared(asked, 12)
    for _, read, written in rows(order):
        assert read == (written - 1) // 3 * 3
    for first in range(0, 12, 3):
        assert {worker for worker, _, _ in rows(order)[first : first + 3]} == {0, 1, 2}


def test_rates_follow_the_staleness(model: str) -> None:
    asked = scenario(model, {"kind": "async", "staleness_aware_rate": True}, stragglers=JITTER)
    for row in shared(asked, 20).log.rows():
        assert row.learning_rate == 1 / max(1, row.staleness)


def test_hosts_push_the_gradients_of_their_gpus(model: str) -> None:
    """Hosts 0 and 1 have two GPUs each; the second one is slower. The leader's row has both gradients of the host."""
    asked = scenario(model, "hierarchical", topology=PAIRS_OF_GPUS, stragglers=slow({3: 1.9}))
    order = shared(asked, 4)
    assert rows(order) == [(0, 0, 1), (2, 0, 2), (0, 1, 3), (0, 3, 4)]
    assert [list(each) for each in order.members] == [[0, 1], [], [2, 3], []]
    assert gradients_per_update(setup_of(asked)) == 2


def test_local_workers_average_at_the_end_of_each_round(model: str) -> None:
    order = replicas(scenario(model, {"kind": "local", "steps": 2}, num_gpus=2), 8)
    one = [(READ, 0, -1), (READ, 1, -1), (APPLY, 0, -1), (APPLY, 1, -1)]
    assert events(order) == [*one, *one, (MIX, -1, -1), *one, *one, (MIX, -1, -1)]
    assert order.mixing == pytest.approx(np.full((2, 2), 0.5))


def test_diloco_takes_outer_steps(model: str) -> None:
    order = replicas(scenario(model, {"kind": "local", "steps": 1, "outer": "nesterov"}, num_gpus=2), 2)
    assert events(order)[-1] == (OUTER, -1, -1)


def test_gossip_mixes_before_it_applies(model: str) -> None:
    """D-PSGD: the gradient is that of the weights before they are mixed."""
    order = replicas(scenario(model, "gossip", num_gpus=4), 8)
    one = [*((READ, worker, -1) for worker in range(4)), (MIX, -1, -1), *((APPLY, worker, -1) for worker in range(4))]
    assert events(order) == [*one, *one]
    assert order.mixing == pytest.approx(mixing_matrix([[1, 3], [0, 2], [1, 3], [0, 2]]))
    assert {tuple(sorted(edge)) for edge in ring(4, 0)} == {(0, 1), (1, 2), (2, 3), (0, 3)}


def test_two_asynchronous_gossips_in_order_of_time(model: str) -> None:
    """Each averages with the other while it computes, and applies its gradient at the end of its own iteration."""
    order = replicas(scenario(model, ASYNCHRONOUS_GOSSIP, num_gpus=2, stragglers=slow({1: 1.9})), 4)
    start = [(READ, 0, -1), (READ, 1, -1), (PAIR, 0, 1), (PAIR, 1, 0)]
    fast = [(APPLY, 0, -1), (READ, 0, -1), (PAIR, 0, 1)]
    slow_one = [(APPLY, 1, -1), (READ, 1, -1), (PAIR, 1, 0)]
    assert events(order) == [*start, *fast, *slow_one, *fast, (APPLY, 0, -1)]


def test_a_worker_that_waits_for_samples_reads_its_weights_when_it_has_them(model: str) -> None:
    """A batch of 8 samples takes 0.2 s. The other worker averages with this one while it waits, before it reads."""
    loader = {"decode": "40 samples/s"}
    order = replicas(scenario(model, ASYNCHRONOUS_GOSSIP, 2, stragglers=slow({1: 1.9}), input=loader), 20)
    check_laws(order, 20, 1)
    times_s = np.asarray(order.events.time_s)
    first_s = times_s[np.asarray(order.events.kind) == READ][:2]
    assert first_s == pytest.approx([0.2, 0.2])


def test_stages_of_pipedream(model: str) -> None:
    """Stage 0 of 2 is one version behind. Each micro-batch takes a stage 0.03 s, and the first one both stages."""
    asked = scenario(
        model, "all-reduce", num_gpus=4, parallelism={"pipeline": 2, "micro_batches": 4, "schedule": "pipedream"},
        batch={"global": 64},
    )  # fmt: skip
    del asked["strategy"]["buckets"]
    order = order_of(asked, 6)
    assert isinstance(order, StageOrder)
    assert (order.num_workers, list(order.staleness)) == (2, [1, 0])
    assert np.diff(order.time_s) == pytest.approx([order.time_s[0] / 2] * 5, rel=0.05)
    assert order_of(asked, 6, exact=True).time_s == pytest.approx(order.time_s, rel=1e-9)


# Laws of every strategy

EVERY: dict[str, dict[str, Any]] = {kind: {"kind": kind} for kind in STRATEGIES} | {
    "asynchronous gossip": ASYNCHRONOUS_GOSSIP,
    "nesterov": {"kind": "local", "steps": 3, "outer": "nesterov"},
    "softsync 2": {"kind": "softsync", "n": 2},
    "staleness-aware": {"kind": "async", "staleness_aware_rate": True},
}


def check_laws(order: TrainingOrder, num_updates: int, per_update: float) -> None:
    """Check what holds for the order of any strategy."""
    if isinstance(order, StageOrder):
        assert len(order.time_s) == num_updates
        assert (np.diff(order.time_s) >= 0).all()
    elif isinstance(order, SharedModelOrder):
        check_shared(order, num_updates, per_update)
    else:
        check_replicas(order, num_updates)


def check_shared(order: SharedModelOrder, num_updates: int, per_update: float) -> None:
    log = order.log
    written = np.asarray(log.version_written)
    assert (np.diff(written) >= 0).all()
    applied = [row for row in log.rows() if row.accepted]
    assert sorted({row.version_written for row in applied}) == list(range(1, num_updates + 1))
    made_s = {0: 0.0} | {row.version_written: row.time_s for row in applied}
    assert all(made_s[row.version_read] <= row.time_s and row.version_read < row.version_written for row in log.rows())
    sizes = [order.num_workers if row.worker == ALL_WORKERS else len(order.members[row.worker]) for row in applied]
    assert all(size > 0 for size in sizes)
    if len({len(each) for each in order.members}) == 1:
        of_version = np.bincount([row.version_written for row in applied], weights=sizes)[1:]
        assert of_version == pytest.approx(np.full(num_updates, per_update))
    last: dict[int, tuple[float, int]] = {}
    for row in log.rows():  # a worker's gradients follow one another
        if row.worker != ALL_WORKERS:
            assert (row.time_s, row.version_read) >= last.get(row.worker, (0.0, 0))
            last[row.worker] = row.time_s, row.version_read


def check_replicas(order: ReplicaOrder, num_updates: int) -> None:
    times_s = np.asarray(order.events.time_s)
    assert (np.diff(times_s) >= 0).all()
    applied = [worker for kind, worker, _ in events(order) if kind == APPLY]
    assert num_updates <= len(applied) < num_updates + order.num_workers
    assert order.mixing is not None or MIX not in order.events.kind
    has_read, num_pairs = [False] * order.num_workers, [0] * order.num_workers
    for kind, worker, other in events(order):
        if kind == READ:
            assert not has_read[worker]
            has_read[worker] = True
        elif kind == APPLY:  # what it has read, once
            assert has_read[worker]
            assert num_pairs[worker] == (PAIR in order.events.kind)
            has_read[worker], num_pairs[worker] = False, 0
        elif kind == PAIR:  # once in each iteration of the worker that has chosen the other
            assert worker != other
            num_pairs[worker] += 1
        else:
            assert (worker, other) == (-1, -1)
    if order.mixing is not None:
        assert order.mixing.sum(axis=0) == pytest.approx(np.ones(order.num_workers))
        assert order.mixing.sum(axis=1) == pytest.approx(np.ones(order.num_workers))


def as_columns(order: TrainingOrder) -> tuple[list[Any], list[float]]:
    """Return the numbers of an order, and its times."""
    if isinstance(order, SharedModelOrder):
        return [rows(order), [list(each) for each in order.members]], list(order.log.time_s)
    if isinstance(order, ReplicaOrder):
        return [events(order)], list(order.events.time_s)
    return [list(order.staleness)], order.time_s.tolist()


@pytest.mark.parametrize("name", EVERY)
@pytest.mark.parametrize("stragglers", [[], slow({1: 1.37}), JITTER], ids=["alike", "one slow", "jitter"])
def test_laws_of_every_strategy(model: str, name: str, stragglers: list[dict[str, Any]]) -> None:
    asked = scenario(model, EVERY[name], stragglers=stragglers)
    found = setup_of(asked)
    check_laws(training_order(found, 0, 25), 25, gradients_per_update(found))


@pytest.mark.parametrize("name", EVERY)
@pytest.mark.parametrize("stragglers", [[], slow({1: 1.37}), JITTER], ids=["alike", "one slow", "jitter"])
def test_quick_equals_exact(model: str, name: str, stragglers: list[dict[str, Any]]) -> None:
    asked = scenario(model, EVERY[name], stragglers=stragglers)
    (quick, quick_s), (exact, exact_s) = (as_columns(order_of(asked, 25, exact=exact)) for exact in (False, True))
    assert quick == exact
    assert quick_s == pytest.approx(exact_s, rel=1e-9)


def test_a_steady_training_is_not_simulated_iteration_by_iteration(model: str, monkeypatch: pytest.MonkeyPatch) -> None:
    asked = scenario(model, "all-reduce")
    monkeypatch.setattr(sys.modules[training_order.__module__], "_simulated", None)
    times_s = np.asarray(shared(asked, 100_000).log.time_s)
    assert times_s == pytest.approx(times_s[0] * np.arange(1, 100_001), rel=1e-9)


@pytest.mark.parametrize("seed", range(12))
def test_laws_in_random_scenarios(model: str, seed: int) -> None:
    """Any strategy, workers, buckets and stragglers, on hosts of one or two GPUs."""
    rng = np.random.default_rng(seed)
    strategy = dict(EVERY[sorted(set(EVERY) - {"data-parallel"})[int(rng.integers(len(EVERY) - 1))]])
    strategy["buckets"] = str(rng.choice(["whole", "layer"]))
    num_gpus = 2 * int(rng.integers(1, 4))
    straggler = JITTER if rng.random() < 0.5 else slow({int(rng.integers(num_gpus)): float(rng.uniform(1, 3))})
    topology = (STAR, PAIRS_OF_GPUS)[int(rng.integers(2))]
    if strategy.get("n", 1) > num_gpus:
        strategy["n"] = 1
    asked = scenario(model, strategy, num_gpus=num_gpus, topology=topology, stragglers=straggler, seed=seed)
    found, num_updates = setup_of(asked), int(rng.integers(1, 40))
    check_laws(training_order(found, 0, num_updates), num_updates, gradients_per_update(found))


# Layouts, other jobs, times of stragglers

LAYOUTS: dict[str, dict[str, Any]] = {
    "tensor": {"tensor": 2},
    "pipeline": {"pipeline": 2, "micro_batches": 2},
    "both": {"pipeline": 2, "tensor": 2, "micro_batches": 2},
}

LAID_OUT = [
    name
    for name, strategy in EVERY.items()
    if STRATEGIES[strategy["kind"]].supports_layouts and not strategy.get("asynchronous")
]


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("name", LAID_OUT)
def test_a_worker_is_a_replica_over_several_gpus(model: str, name: str, layout: str) -> None:
    layout_keys = {"parallelism": LAYOUTS[layout], "batch": {"global": 64}}
    found = setup_of(scenario(model, EVERY[name], 8, stragglers=slow({1: 1.3}), **layout_keys))
    order = training_order(found, 0, 10)
    assert order.num_workers == found.num_workers == (2 if layout == "both" else 4)
    check_laws(order, 10, gradients_per_update(found))


def test_an_iteration_over_stages_ends_with_its_last_stage(model: str) -> None:
    """One replica over two stages: eight samples in one micro-batch, of which the layers' times are those of four."""
    asked = scenario(model, "all-reduce", 2, parallelism={"pipeline": 2, "micro_batches": 1}, batch={"global": 8})
    del asked["strategy"]["buckets"]
    times_s = shared(asked, 3).log.time_s
    assert np.diff(times_s) == pytest.approx([2 * COMPUTE_S] * 2, rel=1e-2)


@pytest.mark.parametrize("name", ["all-reduce", "async", "local", "asynchronous gossip", "delayed"])
def test_beside_another_job_on_other_links_the_order_is_that_alone(model: str, name: str) -> None:
    """It also starts later, and counts from its start."""
    asked = scenario(model, EVERY[name], 2, stragglers=slow({1: 1.37}))
    several = {**asked, "jobs": [{"start": "0.5 s"}, {"strategy": {"kind": "all-reduce"}}]}
    point = load_scenario(several).points()[0].point
    setups = setups_of(point)
    beside = training_order(setups[0], 0, 9, jobs=list(zip(point.each_job(), setups, strict=True)))
    (numbers, times_s), (alone, alone_s) = as_columns(beside), as_columns(order_of(asked, 9))
    assert numbers == alone
    assert times_s == pytest.approx(alone_s, rel=1e-6)


def test_given_times_of_stragglers_count_from_the_start(model: str) -> None:
    """The only GPU stands still from 0.1 to 0.3 s, in its second iteration."""
    pause = [{"kind": "slow-periods", "at": ["0.1 s"], "lasts": "0.2 s", "factor": 1e6}]
    times_s = shared(scenario(model, "all-reduce", 1, stragglers=pause), 3).log.time_s
    assert times_s == pytest.approx([0.06, 0.32, 0.38], rel=1e-2)


def test_skipped_updates_are_refused(model: str) -> None:
    asked = scenario(model, "all-reduce", precision="fp16", optimizer={"kind": "sgd", "skipped": True})
    asked["topology"] = {**STAR, "gpu": "v100"}
    with pytest.raises(InputError, match="no update is made"):
        order_of(asked, 2)


def test_a_strategy_that_does_not_say_what_its_rounds_train_is_refused(model: str) -> None:
    """A strategy of a user that exchanges in some iterations only has to say which weights its workers train."""

    class Sometimes(AllReduce):
        @property
        def round_length(self) -> int:
            return 3

    found = setup_of(scenario(model, "all-reduce"))
    found.point = found.point.model_copy(update={"strategy": Sometimes()})
    with pytest.raises(InputError, match="replica_order"):
        training_order(found, 0, 2)


def test_a_replicate_may_have_gpus_that_no_replicate_of_the_forecast_has(model: str) -> None:
    """Seeds of a training may be more than replicates, and a random placement finds other GPUs for each."""
    hosts = [{"template": "single-socket", "gpu": gpu, "num_gpus": 1} for gpu in ("k80", "p100")]
    nodes = {f"h{number}": {"kind": "host", "host": hosts[number // 7]} for number in range(8)} | {"s": "switch"}
    links = [{"a": f"h{number}", "b": "s"} for number in range(8)]
    topology = {"kind": "explicit", "link": "100 GB/s", "hop": "1 ns", "nodes": nodes, "links": links}
    asked = scenario(model, "async", 2, topology=topology, placement="random")
    found = setup_of(asked)
    kinds = [set(found.kinds(found.gpus(replicate))) for replicate in range(20)]
    assert kinds[0] == {"k80"}
    other = next(replicate for replicate in range(20) if "p100" in kinds[replicate])
    check_laws(training_order(found, other, 5), 5, 1)


def test_a_late_gradient_is_dropped_after_the_update_that_it_missed() -> None:
    """It may arrive while that update is being made. Rows of one version follow each other, in order of time."""
    late, log = Update(3.5, 2, 0, 2, 1.0, False), UpdateLog()
    own = [Update(3.0, 0, 0, 1, 1.0, True), late, Update(4.0, 1, 0, 1, 1.0, True), Update(9.0, 0, 1, 2, 1.0, True)]
    for row in own:
        log.add(row)
    moved = [row._replace(time_s=row.time_s - 1.0) for row in (own[0], own[2], late, own[3])]
    assert list(_in_order_of_versions(log, 1.0).rows()) == moved


SHIPPED = ("dualpipe", "local-fields", "one-weird-trick", "paths", "pipedream", "recurrent-stages", "two-jobs")
"""Scenarios whose layouts or jobs are none of those above."""


@pytest.mark.parametrize("name", SHIPPED)
def test_laws_in_shipped_scenarios(name: str) -> None:
    point = load_scenario(name).points()[0].point
    setups = setups_of(point)
    jobs = list(zip(point.each_job(), setups, strict=True)) if len(setups) > 1 else []
    order = training_order(setups[0], 0, 3, jobs=jobs)
    assert order.num_workers == setups[0].num_workers
    check_laws(order, 3, gradients_per_update(setups[0]))
