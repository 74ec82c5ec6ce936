"""Batches grow with quick items, are few at a time, and what ended with its worker is done again, alone."""

from __future__ import annotations

import pickle
import time
from collections import deque
from collections.abc import Callable, Iterator

import pytest

from clustersim.errors import ExecutorError, InputError
from clustersim.sweep.batch import BATCH_S, Done, Packed, WorkerVersions, do_batch
from clustersim.sweep.dispatch import Lost, dispatch


class FakeWorkers:
    """Two workers of this process; `outcome` says what becomes of a batch with these items."""

    num_workers = 2

    def __init__(self, outcome: Callable[[list[int]], Done | Lost]):
        self._outcome = outcome
        self._sent: deque[tuple[int, list[int]]] = deque()
        self.batches: list[list[int]] = []
        self.alone: list[bool] = []

    def submit(self, ticket: int, batch: Packed) -> None:
        items = pickle.loads(batch.content)[1]
        self.alone.append(not self._sent)
        self._sent.append((ticket, items))
        self.batches.append(items)
        assert len(self._sent) <= 2 * self.num_workers

    def finished(self) -> Iterator[tuple[int, Done | Lost]]:
        ticket, items = self._sent.popleft()
        yield ticket, self._outcome(items)


def each(seconds: float) -> Callable[[list[int]], Done]:
    return lambda items: Done([10 * item for item in items], seconds * len(items))


def sleep(seconds: float) -> float:
    time.sleep(seconds)
    return seconds


def fail(number: int) -> int:
    raise ValueError(f"no {number}")


def working_folder(number: int) -> str:
    from pathlib import Path

    return str(Path.cwd())


def test_every_item_has_its_result_once() -> None:
    found = list(dispatch(FakeWorkers(each(0.001)), abs, range(1000)))
    assert sorted(found) == [(number, 10 * number) for number in range(1000)]


def test_batches_of_quick_items_grow_to_the_time_of_a_batch_and_those_of_slow_ones_have_one() -> None:
    quick, slow = FakeWorkers(each(BATCH_S / 20)), FakeWorkers(each(BATCH_S * 2))
    list(dispatch(quick, abs, range(500)))
    list(dispatch(slow, abs, range(20)))
    assert max(map(len, quick.batches)) == 20
    assert set(map(len, slow.batches)) == {1}


def test_items_are_taken_when_a_worker_is_free() -> None:
    taken = 0

    def items() -> Iterator[int]:
        nonlocal taken
        while taken < 1000:
            taken += 1
            yield taken

    found = dispatch(FakeWorkers(each(BATCH_S)), abs, items())
    next(found)
    assert taken <= 4


def test_what_a_worker_gives_back_is_sent_again() -> None:
    workers = FakeWorkers(lambda items: Done([10 * item for item in items[:2]], 0.0001))
    assert sorted(dispatch(workers, abs, range(100))) == [(number, 10 * number) for number in range(100)]


def test_a_batch_that_ended_with_its_worker_is_done_again_last_and_one_by_one() -> None:
    lost: list[list[int]] = []

    def outcome(items: list[int]) -> Done | Lost:
        if 50 in items and not lost:
            lost.append(items)
            return Lost("killed")
        return each(0.001)(items)

    workers = FakeWorkers(outcome)
    found = list(dispatch(workers, abs, range(100)))
    assert sorted(found) == [(number, 10 * number) for number in range(100)]
    assert len(lost[0]) > 1
    assert workers.batches[-len(lost[0]) :] == [[item] for item in lost[0]]
    assert all(workers.alone[-len(lost[0]) :])


@pytest.mark.parametrize("deaths", [1, 4])
def test_an_item_that_ends_three_workers_is_given_up_and_the_others_are_not(deaths: int) -> None:
    def outcome(items: list[int]) -> Done | Lost:
        return Lost("killed", deaths) if 50 in items else each(0.001)(items)

    workers = FakeWorkers(outcome)
    found = dict(dispatch(workers, abs, range(100), lambda item, message: f"{item}: {message}"))
    assert found.pop(50) == "50: killed"
    assert found == {number: 10 * number for number in range(100) if number != 50}
    assert sum(50 in batch for batch in workers.batches) == (3 if deaths == 1 else 2)
    with pytest.raises(ExecutorError, match="killed"):
        list(dispatch(FakeWorkers(outcome), abs, range(100)))


@pytest.mark.parametrize("killing", [range(30, 45), range(15), range(0, 100, 7), range(100)])
def test_any_number_of_items_may_end_their_workers(killing: range) -> None:
    def outcome(items: list[int]) -> Done | Lost:
        return Lost("killed") if any(item in killing for item in items) else each(BATCH_S)(items)

    found = dict(dispatch(FakeWorkers(outcome), abs, range(100), lambda item, message: message))
    assert found == {number: "killed" if number in killing else 10 * number for number in range(100)}


def test_workers_that_end_without_an_item_are_an_error() -> None:
    workers = FakeWorkers(lambda items: Lost("killed"))
    with pytest.raises(ExecutorError, match="workers end even without a point: killed"):
        list(dispatch(workers, abs, range(100), lambda item, message: None))
    assert workers.batches[-1] == []
    assert workers.alone[-1]
    assert len(workers.batches) < 20


def test_a_worker_gives_back_what_it_has_not_begun_in_time() -> None:
    done = pickle.loads(do_batch(*Packed.of(sleep, [1.5 * BATCH_S] * 5)))
    assert len(done.results) == 2


def test_an_error_comes_with_the_results_before_it_and_says_where_it_was_raised() -> None:
    done = pickle.loads(do_batch(*Packed.of(fail, [1])))
    assert str(done.error) == "no 1"
    assert "test_dispatch.py" in done.error.__notes__[0]


def test_a_worker_works_in_the_folder_of_the_sender(tmp_path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    packed = Packed.of(working_folder, [0])
    monkeypatch.undo()
    assert pickle.loads(do_batch(*packed)).results == [str(tmp_path)]
    assert pickle.loads(do_batch(*packed._replace(folder="/no/such"))).results != [str(tmp_path)]


def test_a_worker_of_another_version_refuses_a_batch_before_it_reads_it() -> None:
    other = Packed.of(abs, [1])._replace(versions=("0.0.1", "3.9", "1.0"), content=b"unreadable")
    with pytest.raises(InputError, match=r"has clustersim .* \(here 0\.0\.1\), python .* \(here 3\.9\), numpy"):
        do_batch(*other)


def test_versions_that_are_missing_are_named() -> None:
    here = WorkerVersions.here()
    here.check(here, "a")
    with pytest.raises(InputError, match="the worker a has clustersim not at all"):
        here.check(["", *here[1:]], "a")
