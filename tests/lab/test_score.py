"""Errors, limits and tables of a campaign, and its file; no real run here."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from clustersim.errors import InputError
from validate.lab.__main__ import FAILED, OUTSIDE, main, run_and_show, show
from validate.lab.case import Case, Measured, line_s
from validate.lab.document import campaign_document, read_campaign, write_campaign
from validate.lab.experiments import Experiment, OnProgress
from validate.lab.forecast import forecast
from validate.lab.layout import Layout
from validate.lab.score import compare, judge, kolmogorov_smirnov, report

ASK = {
    "collective": "all-reduce",
    "algorithm": "auto",
    "topology": Layout.star(4).topology(100),
    "num_gpus": 4,
    "bytes": "1000000 B",
    "transport": "gloo",
}
RING_S = 2 * 3 / 4 * line_s(1e6, 100)
COUNTS = st.dictionaries(st.integers(0, 20), st.integers(1, 50), min_size=1)


def case_of(time_s: float, group: str = "collectives", line: float = 0.1) -> Case:
    return Case(group, "an all-reduce", ASK, {"time_s": Measured.of([time_s, 1.01 * time_s, 0.99 * time_s])}, line)


def test_the_forecast_of_a_ring_is_its_line_time_and_a_little() -> None:
    said = forecast(case_of(1.0)).figures["time_s"]
    assert RING_S < said < 1.01 * RING_S + 1e-3


def test_an_error_is_simulated_over_measured_less_one() -> None:
    said = forecast(case_of(1.0)).figures["time_s"]
    (row,) = compare([case_of(said / 1.1)])
    assert row.error == pytest.approx(0.1)
    assert row.spread == pytest.approx(0.02)


def test_two_flows_share_a_link_half_and_half() -> None:
    ask = {"flows": [[1, 0], [2, 0]], "topology": Layout.star(3).topology(80), "transport": "tcp"}
    said = forecast(Case("link sharing", "incast", ask, {}, 1.0)).figures
    assert said == pytest.approx(dict.fromkeys(("flow 1>0", "flow 2>0"), 80e6 / 8 * 1448 / 1514 / 2), rel=1e-4)


@given(one=COUNTS, other=COUNTS)
def test_the_distance_of_distributions_is_symmetric_and_at_most_one(one: dict[int, int], other: dict[int, int]) -> None:
    assert kolmogorov_smirnov(one, other) == pytest.approx(kolmogorov_smirnov(other, one))
    assert 0 <= kolmogorov_smirnov(one, other) <= 1 + 1e-12
    assert kolmogorov_smirnov(one, {value: 3 * count for value, count in one.items()}) == pytest.approx(0)


def test_a_group_above_its_limit_is_reported_with_status_4(capsys: pytest.CaptureFixture[str]) -> None:
    good = case_of(forecast(case_of(1.0)).figures["time_s"])
    assert show([good]) == 0
    assert "met" in capsys.readouterr().out
    assert show([good, case_of(0.9 * RING_S)]) == OUTSIDE
    assert "the largest error is" in capsys.readouterr().out


def test_short_messages_are_shown_and_not_judged() -> None:
    rows = compare([case_of(0.5 * RING_S, line=0.03)])
    assert "short, not judged" in report(rows)
    assert judge(rows)[0].missed == ()


def test_one_queue_for_all_is_shown_and_not_judged() -> None:
    rows = [replace(row, group="link sharing, one queue") for row in compare([case_of(0.5 * RING_S)])]
    assert judge(rows)[0].missed == ()


class Failing(Experiment):
    """Gives one case and then fails."""

    needs_torch = False

    def cases(self, folder: Path, on_progress: OnProgress) -> Iterator[Case]:
        yield case_of(1.005 * RING_S)
        raise RuntimeError("rank 1 ended without a word")


def test_a_failed_experiment_is_reported_and_the_others_are_compared(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "lab.json"
    assert run_and_show("quick", [Failing()], path) == FAILED
    said = capsys.readouterr()
    assert "FAILED: 1/1 Failing: rank 1 ended without a word" in said.err
    assert "1 cases in" in said.out
    assert len(read_campaign(path)[1]) == 1


def test_a_campaign_is_read_as_it_was_written(tmp_path: Path) -> None:
    cases = [replace(case_of(0.2), staleness={0: 3, 2: 1})]
    path = write_campaign(campaign_document("quick", cases, 12.0, 0.3), tmp_path / "new" / "lab.json")
    document, found = read_campaign(path)
    assert found == cases
    assert document["machine"]["num_cores"] > 0


def test_a_file_that_is_no_campaign_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "x.json"
    with pytest.raises(InputError, match="cannot be read: No such file"):
        read_campaign(path)
    path.write_text("{")
    with pytest.raises(InputError, match="this is not JSON"):
        read_campaign(path)
    path.write_text(json.dumps({"schema": "clustersim.result/1"}))
    with pytest.raises(
        InputError, match=r"expected a campaign of the lab, 'clustersim.lab/1' \(got 'clustersim.result/1'\)"
    ):
        main(["--measured", str(path)])
    path.write_text(json.dumps({"schema": "clustersim.lab/1", "cases": [{"group": "collectives"}]}))
    with pytest.raises(
        InputError, match=r"cases.0: this case has another format than the lab writes \(KeyError: 'figures'\)"
    ):
        main(["--measured", str(path)])
