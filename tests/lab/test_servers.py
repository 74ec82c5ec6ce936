"""The rules of the real server are those of the simulated one."""

from __future__ import annotations

import random
from collections import Counter
from typing import Any

import pytest

from clustersim.collectives import ALL_REDUCE, Schedule
from clustersim.scenario import load_scenario
from validate.lab.collectives import to_confirm
from validate.lab.layout import Layout
from validate.lab.servers import Mode, ServerState, server_state


def played(state: ServerState, order: list[int]) -> ServerState:
    """Let workers push gradients in a given order, each only when allowed; a worker reads as soon as it is allowed."""
    for worker in order:
        if state.may_go_on(worker) or not state.log:
            state.read[worker] = state.version
        state.apply(worker)
    return state


def test_without_backups_an_update_takes_a_gradient_of_every_worker() -> None:
    state = server_state(Mode("server"), 3, 10)
    for worker in (0, 1):
        assert state.apply(worker)
        assert not state.may_go_on(worker)
    assert state.apply(2)
    assert state.version == 1
    assert all(state.may_go_on(worker) for worker in range(3))


def test_a_late_backup_is_dropped_and_continues() -> None:
    state = server_state(Mode("backup", backups=1), 3, 10)
    assert state.apply(0)
    assert state.apply(1)
    assert state.version == 1
    assert not state.apply(2)
    assert state.may_go_on(2)
    assert state.log[-1][2:] == (0, 2, False)


def test_staleness_of_equal_workers_in_turn_is_their_number_less_one() -> None:
    state = played(server_state(Mode("async"), 4, 100), [0, 1, 2, 3])
    for worker in [0, 1, 2, 3] * 5:
        state.apply(worker)
        state.read[worker] = state.version
    assert {written - 1 - read for _, _, read, written, _ in state.log[8:]} == {3}


@pytest.mark.parametrize("bound", [0, 1, 3])
def test_no_worker_is_further_ahead_than_the_bound(bound: int) -> None:
    state, chance = server_state(Mode("bounded-staleness", bound=bound), 3, 10_000), random.Random(1)
    done, waiting = [0, 0, 0], [False, False, False]
    for _ in range(2000):
        worker = chance.choice([0, 0, 0, 1, 1, 2])
        if waiting[worker] and not state.may_go_on(worker):
            continue
        state.apply(worker)
        waiting[worker] = True
        done[worker] += 1
        assert done[worker] - min(done) <= bound + 1
    assert min(done) > 100


def test_it_is_over_with_the_update_that_was_asked_for() -> None:
    state = server_state(Mode("async"), 2, 3)
    for worker in (0, 1, 0):
        assert not state.is_over
        state.apply(worker)
    assert state.is_over


@pytest.mark.parametrize(("n", "per_update"), [(1, 4), (2, 2), (4, 1)])
def test_softsync_updates_after_a_part_of_the_gradients_and_nobody_waits(n: int, per_update: int) -> None:
    state = server_state(Mode("softsync", n=n), 4, 100)
    for worker in [0, 0, 0, 1, 0, 2, 3, 0] * 2:
        assert state.apply(worker)
        assert state.may_go_on(worker)
        state.read[worker] = state.version
    assert Counter(written for *_, written, _ in state.log) == dict.fromkeys(range(1, 16 // per_update + 1), per_update)


@pytest.mark.parametrize(
    "mode",
    [
        Mode("server"),
        Mode("backup", backups=1),
        Mode("async"),
        Mode("softsync", n=2),
        Mode("bounded-staleness", bound=2),
    ],
)
def test_a_mode_has_the_updates_of_the_strategy_that_it_writes(mode: Mode) -> None:
    keys = {"model": "resnet50", "batch": {"per_gpu": 2}, "topology": Layout.star(9).topology(100), "num_gpus": 8}
    strategy: Any = load_scenario({**keys, "strategy": mode.keys}).points()[0].point.strategy
    expected = 8 if mode.kind == "server" else strategy.update_rule(8).gradients_per_update
    assert mode.gradients_per_update(8) == expected


def confirmed(schedule: Schedule) -> list[set[tuple[int, int]]]:
    return [to_confirm(schedule, number) for number in range(schedule.num_steps)]


def test_in_a_tree_a_rank_with_another_receiver_waits_for_confirmation() -> None:
    assert confirmed(ALL_REDUCE["tree"](4, 8.0)) == [set(), {(2, 0)}, {(0, 2)}, set()]


@pytest.mark.parametrize("name", ["ring", "halving-doubling", "server", "sharded-server", "gloo-ring"])
def test_in_a_ring_or_an_exchange_no_confirmation_is_needed(name: str) -> None:
    assert not any(confirmed(ALL_REDUCE[name](8, 64.0)))
