"""A ledger gives the bytes of an uninterrupted sweep, in any order of its points, and simulates each point once."""

from __future__ import annotations

import importlib
import json
import random
import tracemalloc
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import clustersim
from clustersim.errors import InputError
from clustersim.reading import Place, TreeNode, from_python
from clustersim.results import PointError, Run
from clustersim.results.files import to_json
from clustersim.scenario import PointTree, Scenario, load_scenario
from clustersim.simulate import Forecast
from clustersim.sweep.batch import WorkerVersions
from clustersim.sweep.executor import InProcess
from clustersim.sweep.ledger import PointCounts, SweepLedger, SweepShard, fill, merge
from clustersim.sweep.ledger.entry import PointEntry, make_entry, pack, unpack
from clustersim.sweep.ledger.ledger_keys import LedgerKeys
from clustersim.sweep.task import PointTask
from tests.sweep.ledger.scenarios import SMALL, module


class Shuffled(InProcess):
    """Does all items, and gives the results in another order."""

    def results(self, work: Any, items: Any, on_lost: Any = None) -> Iterator[tuple[int, Any]]:
        found = list(super().results(work, items))
        random.Random(3).shuffle(found)
        yield from found


def small() -> Scenario:
    return load_scenario(SMALL, strict=False)


def whole() -> str:
    return to_json(clustersim.sweep(small()).to_dict(detail=False))


def counted(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Return the numbers of the points that are simulated from now on."""
    numbers: list[int] = []

    def make(task: PointTask) -> PointEntry:
        numbers.append(task.tree.number)
        return make_entry(task)

    monkeypatch.setattr(module("fill"), "make_entry", make)
    return numbers


def failing(kind: Any) -> Any:
    """Return a worker for which the points of 2 GPUs fail."""

    def make(task: PointTask) -> PointEntry:
        if task.tree.num_gpus == 1:
            return make_entry(task)
        error = PointError(kind, f"it is {kind}")
        return PointEntry(pack(Forecast(Run.failed(dict(task.tree.axes), 2, error), (), (), ())), error, 0.0)

    return make


def test_a_ledger_has_what_a_sweep_gives(tmp_path: Path) -> None:
    with SweepLedger.open(tmp_path / "a.db") as ledger:
        assert to_json(fill(ledger, small(), Shuffled()).sweep().to_dict(detail=False)) == whole()
        assert ledger.last().to_rows() == clustersim.sweep(small()).to_rows()


def test_a_forecast_of_a_ledger_is_the_one_that_was_kept() -> None:
    tree = small().trees()[5]
    made = make_entry(PointTask(tree, detail=False))
    assert pack(unpack(made.packed, dict(tree.axes))) == made.packed


def test_what_is_in_the_ledger_is_not_simulated_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    numbers = counted(monkeypatch)
    for _ in range(2):
        with SweepLedger.open(tmp_path / "a.db") as ledger:
            fill(ledger, small(), InProcess())
    assert sorted(numbers) == [*range(16)]


def test_a_ledger_grows_over_several_sweeps(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    numbers = counted(monkeypatch)
    wider = load_scenario({**SMALL, "num_gpus": [2, 4], "name": "wider"}, strict=False)
    with SweepLedger.open(tmp_path / "a.db") as ledger:
        fill(ledger, small(), InProcess())
        found = fill(ledger, wider, InProcess())
        assert len(numbers) == 16 + 8
        assert to_json(found.sweep().to_dict(detail=False)) == to_json(clustersim.sweep(wider).to_dict(detail=False))
        assert [each.name for each in ledger.sweeps()] == ["wider", "small"]
        assert ledger.last("small").num_points == 16
        with pytest.raises(InputError, match="no sweep 'other' \\(it has: wider, small\\)"):
            ledger.last("other")


@pytest.mark.parametrize("first", [0, 1])
def test_shards_are_all_points_whether_jobs_count_from_0_or_1(
    first: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    numbers = counted(monkeypatch)
    paths = [tmp_path / f"{job}.db" for job in range(first, first + 3)]
    for job, path in enumerate(paths, first):
        with SweepLedger.open(path) as ledger:
            shard = SweepShard.parse(f"{job}/3")
            found = fill(ledger, small(), InProcess(), shard=shard)
            assert found.counts(shard.rest, shard.num_shards).left == 0
            assert found.missing_shards() == {3: [f"{rest}/3" for rest in range(3) if rest != shard.rest]}
    assert sorted(numbers) == [*range(16)]
    random.Random(1).shuffle(paths)
    with merge(tmp_path / "all.db", paths) as merged:
        assert to_json(merged.last().sweep().to_dict(detail=False)) == whole()
        assert merged.last().missing_shards() == {3: []}


@pytest.mark.parametrize("text", ["", "1", "1/0", "4/3", "-1/3", "a/b", "1/3/5", "1.0/3"])
def test_a_wrong_shard_is_refused(text: str) -> None:
    with pytest.raises(InputError, match="expected I/N, such as 0/8"):
        SweepShard.parse(text)


def test_merging_does_not_depend_on_the_order_and_can_be_repeated(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    paths = [tmp_path / f"{rest}.db" for rest in range(3)]
    for rest, path in enumerate(paths):
        with SweepLedger.open(path) as ledger:
            fill(ledger, small(), InProcess(), shard=SweepShard(rest, 3))
    monkeypatch.setattr(module("fill"), "make_entry", failing("too-long"))
    with SweepLedger.open(tmp_path / "failed.db") as ledger:
        fill(ledger, small(), InProcess())
    paths.append(tmp_path / "failed.db")
    dumps = []
    for number, order in enumerate([paths, paths[::-1], [*paths, *paths]]):
        output = tmp_path / f"merged-{number}.db"
        with merge(output, order) as merged:
            dumps.append(list(merged.dump()))
        with merge(output, [output, paths[0]]) as merged:
            dumps.append(list(merged.dump()))
    assert all(dump == dumps[0] for dump in dumps)
    with SweepLedger.read(tmp_path / "merged-0.db") as merged:
        assert merged.last().counts().failed == {}
        assert to_json(merged.last().sweep().to_dict(detail=False)) == whole()


@pytest.mark.parametrize(("kind", "num_again"), [("too-long", 8), ("stuck", 8), ("refused", 0), ("does-not-fit", 0)])
def test_points_that_failed_are_simulated_again_only_if_that_may_help(
    kind: str, num_again: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    confirming = importlib.import_module("clustersim.sweep.point_forecasts")
    monkeypatch.setattr(confirming, "_confirm", lambda task, error: None)  # they are valid
    with SweepLedger.open(tmp_path / "a.db") as ledger:
        monkeypatch.setattr(module("fill"), "make_entry", failing(kind))
        found = fill(ledger, small(), InProcess())
        assert (found.counts().done, found.counts().failed, found.counts().left) == (8, {kind: 8}, 0)
        assert [run.error.kind for run in found.sweep().failed if run.error] == [kind] * 8
        numbers = counted(monkeypatch)
        fill(ledger, small(), InProcess())
        assert numbers == []
        fill(ledger, small(), InProcess(), retry=True)
        assert len(numbers) == num_again
        assert found.counts().done == 8 + num_again


def test_the_key_of_a_point_is_that_of_its_keys_alone(tmp_path: Path) -> None:
    def keys(document: dict[str, Any], exact: bool = False) -> list[str]:
        loaded = load_scenario(document, strict=False)
        return [LedgerKeys(loaded, exact).key(tree) for tree in loaded.trees()]

    reordered = dict(reversed(SMALL.items()))
    other_file = tmp_path / "other.yaml"
    other_file.write_text(json.dumps({**SMALL, "name": "other", "description": "the same"}))
    loaded = load_scenario(other_file, strict=False)
    assert len(set(keys(SMALL))) == 16
    assert set(keys(reordered)) == set(keys(SMALL))
    assert [LedgerKeys(loaded, False).key(tree) for tree in loaded.trees()] == keys(SMALL)
    for changed in (
        {"seed": 2},
        {"optimizer": "adam"},
        {"published": [{"num_gpus": 2, "samples_per_s": 5, "source": "x"}]},
    ):
        assert set(keys({**SMALL, **changed})).isdisjoint(keys(SMALL)), changed
    assert set(keys(SMALL, exact=True)).isdisjoint(keys(SMALL))


def test_the_key_changes_with_the_version_and_with_files_that_the_scenario_names(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    star = "{kind: star, num_hosts: 4, gpu: k80, link: %s, hop: 1 us}"
    Path("cluster.yaml").write_text(star % "1 GB/s")
    scenario = {**SMALL, "topology": "cluster.yaml"}

    def key() -> str:
        loaded = load_scenario(scenario, strict=False)
        return LedgerKeys(loaded, False).key(loaded.trees()[0])

    before = key()
    assert key() == before
    Path("cluster.yaml").write_text(star % "2 GB/s")
    assert key() != before
    Path("cluster.yaml").write_text(star % "1 GB/s")
    here = WorkerVersions.here()
    for name in WorkerVersions._fields:
        monkeypatch.setattr(WorkerVersions, "here", lambda name=name: here._replace(**{name: "9.9"}))
        assert key() != before, name


def test_the_key_changes_when_two_named_files_exchange_their_contents_and_with_files_of_any_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    for name in ("a.yaml", "b.yaml", "log"):
        Path(name).write_text(name)
    children = {key: from_python(value) for key, value in {"a": ["a.yaml", "b.yaml"], "b": "log", "c": ""}.items()}
    tree = PointTree(0, {}, TreeNode(children, Place()))

    def key() -> str:
        return LedgerKeys(small(), False).key(tree)

    before = key()
    Path("c").write_text("not named")
    assert key() == before
    Path("log").write_text("changed")
    assert key() != before
    Path("log").write_text("log")
    assert key() == before
    Path("a.yaml").write_text("b.yaml")
    Path("b.yaml").write_text("a.yaml")
    assert key() != before


def test_the_points_of_a_large_sweep_are_not_in_memory_when_it_begins() -> None:
    loaded = load_scenario({**SMALL, "seed": [*range(250)]}, strict=False)
    with SweepLedger.open(None) as ledger:
        tracemalloc.start()
        begun = ledger.begin(loaded)
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        assert begun.num_points == ledger.begin(loaded).counts().left == 4000
        assert len(ledger.sweeps()) == 1
    assert peak < 400e3, "bytes: the rows of 4,000 points take 1.6 MB"


def test_ledgers_of_other_versions_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, version in (("old", "0.0.9"), ("new", clustersim.__version__)):
        monkeypatch.setattr(module("store"), "__version__", version)
        monkeypatch.setattr(module("ledger"), "__version__", version)
        SweepLedger.open(tmp_path / f"{name}.db").close()
    with pytest.raises(InputError, match=r"is of clustersim 0\.0\.9, this is .*: name another file"):
        SweepLedger.open(tmp_path / "old.db")
    with pytest.raises(InputError, match=r"only ledgers of one version are merged"):
        merge(tmp_path / "all.db", [tmp_path / "old.db", tmp_path / "new.db"])
    assert not (tmp_path / "all.db").exists()


def test_seconds_of_points_are_those_of_the_worker(tmp_path: Path) -> None:
    with SweepLedger.open(tmp_path / "a.db") as ledger:
        counts = fill(ledger, small(), InProcess()).counts()
    assert counts == PointCounts(16, {}, 0, counts.simulated_s)
    assert 0 < counts.simulated_s < 60
