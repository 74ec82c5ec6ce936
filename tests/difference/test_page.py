"""The waterfall and the page of a comparison, and its tables."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from clustersim.difference import diff, write_diff_report
from clustersim.difference.page import MOST_POINTS, diff_html
from clustersim.difference.tables import change_text, part_rows, text_tables
from clustersim.difference.waterfall import MOST_STEPS, draw_waterfall, waterfall_data
from clustersim.errors import InputError
from clustersim.report.words import THIN
from clustersim.sweep import sweep
from tests.difference.pairs import SMALL, compared, small

CHANGES = {
    "link": ((), ("topology.link=5 Gbit/s",)),
    "slow rank": ((), ("stragglers=[{kind: constant, factor: 3, of: [2]}]",)),
    "model": ((), ("model=resnet50",)),
    "nothing": ((), ()),
}


@pytest.mark.parametrize("in_detail", [False, True])
@pytest.mark.parametrize("name", CHANGES)
def test_steps_lead_from_one_total_to_the_other(name: str, in_detail: bool) -> None:
    found = compared(*CHANGES[name])
    data = waterfall_data(found, found.main, in_detail)
    first, *steps, last = data.steps
    assert (first.end_s, last.end_s) == found.main.seconds
    assert len(steps) <= MOST_STEPS + 1
    at_s = first.end_s
    for step in steps:
        assert step.start_s == pytest.approx(at_s, rel=1e-12)
        at_s = step.end_s
    assert at_s == pytest.approx(last.end_s, rel=1e-9)
    figure = draw_waterfall(data)
    assert len(figure.traces[0]["x"]) == len(data.steps)
    assert figure.table is not None
    assert [row[0] for row in figure.table.rows] == [step.name for step in data.steps]


def test_the_axis_begins_at_zero_only_where_steps_are_long_enough_to_be_seen() -> None:
    near, far = (compared((), (f"topology.link={rate} Gbit/s",)) for rate in (9, 1))
    figures = [draw_waterfall(waterfall_data(found, found.main, False)) for found in (near, far)]
    begins = [figure.layout["xaxis"]["range"][0] for figure in figures]
    assert begins[0] > 0
    assert begins[1] == 0
    assert "The axis begins at" in figures[0].subtitle
    assert "The axis begins at" not in figures[1].subtitle


def test_a_title_names_the_part_that_changes_most() -> None:
    found = compared((), ("topology.link=5 Gbit/s",))
    assert waterfall_data(found, found.main, False).title.startswith("Exposed communication is ")
    same = compared()
    assert waterfall_data(same, same.main, False).title == "A and B take the same time, part by part"


def test_a_part_that_takes_off_is_hatched() -> None:
    found = compared(("topology.link=5 Gbit/s",), ())
    (bars, _) = draw_waterfall(waterfall_data(found, found.main, False)).traces
    assert "/" in bars["marker"]["pattern"]["shape"]
    assert min(bars["x"]) > 0


def test_the_page_has_the_answer_and_loads_nothing(tmp_path: Path) -> None:
    found = compared((), ("topology.link=5 Gbit/s",))
    html = write_diff_report(found, tmp_path / "diff.html").read_text(encoding="utf-8")
    for sentence in found.answer:
        assert sentence in html
    assert "topology.link" in html
    assert 'src="http' not in html
    assert html == diff_html(found)


def test_names_are_escaped_on_the_page() -> None:
    sides = [replace(small(), scenario={**small().scenario, "name": "<script>x</script>"}), small("seed=5")]
    assert "<script>x" not in diff_html(diff(*sides))


def test_many_points_have_no_more_waterfalls_than_fit() -> None:
    points = {
        **SMALL,
        "num_iterations": 1,
        "model": "squeezenet-1.0",
        "batch": {"per_gpu": list(range(1, MOST_POINTS + 4))},
    }
    found = diff(points, b_settings=["topology.link=5 Gbit/s"])
    assert len(found.differences) == MOST_POINTS + 3
    assert diff_html(found).count("<option") == 2 * MOST_POINTS + 3  # and the themes


def test_something_else_is_no_comparison(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="found must be a Difference"):
        write_diff_report(small(), tmp_path / "x.html")  # type: ignore[arg-type]


def test_rows_of_parts_end_with_the_whole() -> None:
    point = compared((), ("topology.link=5 Gbit/s",)).main
    *_, last = part_rows(point)
    assert last[0] == "in all, an iteration"
    assert last[3] == change_text(point.change_s, point.seconds[0])


def test_rounding_is_no_change() -> None:
    assert change_text(-1e-17, 1.0) == "0"
    assert change_text(-0.5, 1.0) == f"-500{THIN}ms"


def test_tables_fit_a_terminal_of_sixty_columns() -> None:
    found = diff({**SMALL, "num_gpus": [2, 4]}, b_settings=["topology.link=5 Gbit/s"])
    assert [table.title for table in text_tables(found)][:2] == ["all points", "where the time goes: num_gpus 4"]
    for table in text_tables(found):
        assert table.parts(60)


def test_rows_have_the_whole_then_parts_with_their_causes() -> None:
    rows = sweep_rows()
    assert [rows[0][name] for name in ("part", "cause")] == ["total", ""]
    parts = [row for row in rows if row["cause"] == "" and row["part"] != "total"]
    assert sum(float(row["change_s"] or 0) for row in parts) == pytest.approx(float(rows[0]["change_s"] or 0))


def sweep_rows() -> list[dict[str, object]]:
    return [dict(row) for row in diff(sweep(SMALL), small("num_gpus=8")).to_rows()]
