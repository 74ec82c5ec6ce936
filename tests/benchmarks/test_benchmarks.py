"""The benchmarks measure what they say: the same work on both sides, each in a process of its own, told as it is."""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import pytest

from .__main__ import about, chosen, main, small_works
from .child import run_child
from .page import page, tables, write_whole
from .play import prepare, write_inputs
from .rounds import Ours, Peer, Ratio, Row
from .simgrid.programs import run_program, why_missing
from .table import WORKS, Curve, Learning, Ring, Training, Updates, Work

SMALL = {name: work.small().spec for name, work in WORKS.items()}
PLAYED_BY_BOTH = [name for name, work in WORKS.items() if work.lazy_rounds]


@pytest.mark.skipif(why_missing() is not None, reason=str(why_missing()))
@pytest.mark.parametrize("name", PLAYED_BY_BOTH)
def test_both_sides_do_the_same_work(name: str, tmp_path: Path) -> None:
    told = run_program(*write_inputs(SMALL[name], tmp_path))
    assert prepare(SMALL[name])().end_s == pytest.approx(np.array(told.end_s), rel=1e-9, abs=0)


def test_a_ring_takes_its_closed_form_in_full_and_by_the_short_cut() -> None:
    chunk = 100_000_000 // 16
    closed_form_s = 30 * (2e-6 + chunk / 7e9)
    for exact in (True, False):
        played = prepare(Ring((16,), exact=exact))()
        assert played.end_s == pytest.approx(closed_form_s, rel=1e-9)
        assert played.num_messages == 16 * 30


def test_training_ends_when_the_last_bucket_has_gone_round() -> None:
    ring_s = 30 * (1e-6 + 10_200_000 // 16 / 7e9)
    for exact in (True, False):
        assert prepare(Training(16, exact))().end_s == pytest.approx(90e-3 + ring_s, rel=1e-9)


def test_a_scaling_curve_has_an_iteration_for_each_size() -> None:
    iteration_s = prepare(Curve((1, 2, 4)))().end_s
    assert len(iteration_s) == 3
    assert iteration_s[0] < iteration_s[1] < iteration_s[2]


def test_a_scaling_curve_with_jitter_is_slower_than_without():
    plain_s, jittered_s = (prepare(curve)().end_s for curve in (Curve((2, 8)), Curve((2, 8), 0.05, 2)))
    assert (jittered_s > plain_s).all()


def test_asynchronous_workers_make_as_many_updates_as_are_asked_for():
    end_s = prepare(Updates(3, 20))().end_s
    assert len(end_s) == 20
    assert (np.diff(end_s) > 0).all()


@pytest.mark.learning
def test_a_model_is_trained_for_as_many_updates_as_are_asked_for():
    end_s = prepare(Learning(3, 40))().end_s
    assert end_s.tolist() == list(range(41))


def test_a_work_whose_extra_is_missing_is_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    without = Work(Ring((2,)), needs=("no_such_module",))
    monkeypatch.setitem(WORKS, "ring-2", without)
    assert "ring-2" not in chosen(None, quick=False)
    monkeypatch.setattr("tests.benchmarks.__main__.imports", lambda modules: 0.0)
    assert any("ring-2" in text for name, text in about(rounds=1) if name == "left out")


def test_small_forms_are_small_and_each_once() -> None:
    specs = [work.spec for work in small_works().values()]
    assert len(specs) == len(set(specs))
    assert set(specs) == set(SMALL.values())


def test_works_are_chosen_by_name_or_title() -> None:
    assert list(chosen("flows-mixed", quick=False)) == ["flows-mixed"]
    assert set(chosen("short cut", quick=False)) == {"ring-4096-short", "training-512-short"}
    assert list(chosen(None, quick=False)) == [name for name, work in WORKS.items() if work.is_possible]
    with pytest.raises(SystemExit, match="no work is called 'rnig'; there are ring-512, "):
        chosen("rnig", quick=False)


def test_a_child_is_measured_by_itself() -> None:
    small = run_child([sys.executable, "-c", "print('hello')"])
    large = run_child([sys.executable, "-c", "x = bytearray(300_000_000); sum(range(10_000_000))"])
    assert small.stdout == "hello\n"
    assert large.max_rss_bytes > 300_000_000
    assert large.cpu_s > small.cpu_s


def test_a_child_that_fails_says_why() -> None:
    with pytest.raises(RuntimeError, match=r"exit status 3\n.*no such luck"):
        run_child([sys.executable, "-c", "import sys; print('no such luck', file=sys.stderr); sys.exit(3)"])


def test_ratios_are_taken_round_by_round() -> None:
    assert str(Ratio([10.0, 40.0, 20.0], [1.0, 2.0, 4.0])) == "10 (5 to 20)"
    assert str(Ratio([30.0], [1.0, 2.0, 3.0])) == "15 (1 run)"


def measured(with_peer: bool) -> Row:
    """Return a row with figures that are easy to follow: we take 2 s in the run and SimGrid 50 s."""
    row = Row(WORKS["ring-1024-jitter"])
    row.ours = Ours(2_000_000, [2.0], [2.5], [0.25], [0.125], [3.0], [100 * 2**20])
    row.peers = {"Lazy": Peer([50.0], [51.0], [40 * 2**20], 3e-8)} if with_peer else {}
    return row


def cells_of(text: str) -> list[list[str]]:
    """Return the cells behind the name of the work, in-run and whole."""
    lines = [line for line in text.splitlines() if line.startswith("| ring, 1,024 ranks, star, jitter |")]
    return [[cell.strip() for cell in line.split("|")[2:-1]] for line in lines]


def test_the_page_tells_times_rates_ratios_memory_and_differences() -> None:
    text = page([measured(with_peer=True)], [("machine", "an abacus")])
    in_run, whole = cells_of(text)
    assert in_run == ["10x Lazy, 3 M messages/s", "2", "1 M", "50", "25 (1 run)", "", "", "Lazy 3e-08"]
    assert whole == ["5x Lazy", "3", "0.25", "0.12", "0.50", "51", "17 (1 run)", "100", "40"]
    assert "- machine: an abacus\n" in text


def test_without_simgrid_our_columns_stand_alone() -> None:
    in_run, whole = cells_of(tables([measured(with_peer=False)]))
    assert in_run == ["10x Lazy, 3 M messages/s", "2", "1 M", "", "", "", "", ""]
    assert whole == ["5x Lazy", "3", "0.25", "0.12", "0.50", "", "", "100", ""]


def test_a_page_without_simgrid_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tests.benchmarks.__main__.why_missing", lambda: "it is not there")
    monkeypatch.setattr("tests.benchmarks.__main__.imports", lambda modules: 0.0)
    assert about(rounds=1)[-1] == ("SimGrid", "it is not there")


def test_a_page_is_written_whole_or_not_at_all(tmp_path: Path) -> None:
    path = tmp_path / "page.md"
    path.write_text("as it was")
    with pytest.raises(UnicodeEncodeError):
        write_whole(path, "half \ud800")
    assert path.read_text() == "as it was"
    write_whole(path, "as it is")
    assert path.read_text() == "as it is"


def test_a_quick_run_prints_its_tables_and_writes_no_page(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tests.benchmarks.__main__.imports", lambda modules: 0.0)
    main(["--quick", "--only", "ring-4096-short"])
    printed = capsys.readouterr()
    assert "| ring, 16 ranks, star, by the short cut |" in printed.out
    assert "a million additions in a Python loop take" in printed.out
    assert "ring, 16 ranks, star, by the short cut: round 1 of 1" in printed.err
