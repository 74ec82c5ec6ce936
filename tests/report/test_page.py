"""The page as a file: complete, safe, reproducible, and small enough."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from functools import cache
from html import escape, unescape
from importlib.resources import files
from itertools import pairwise

import pytest

from clustersim.errors import InputError
from clustersim.report import FIGURES, report_html, run_details, sections, table, write_report
from clustersim.report.figures import most_marks
from clustersim.report.packed import packed_plotly
from clustersim.report.palette import DARK, LABELS, LIGHT, PARTS, load_scale, series_colour, text_on
from clustersim.report.panel import Panel, RunPanel
from clustersim.report.run_details import slugs
from clustersim.report.words import THIN, gpus
from clustersim.results import BREAKDOWN, read_sweep, staleness_summary, write_sweep
from tests.report.page_parts import about, names_packed, unpacked, without_packed
from tests.report.synthetic import make_comparison, make_sweep


@pytest.fixture(scope="module")
def html():
    return report_html(make_sweep())


def test_plotly_is_inside_once_and_nothing_is_loaded_from_anywhere(html):
    assert unpacked(html, "plotly").startswith("/**\n* plotly.js (cartesian - minified) v4")
    assert names_packed(html).count("plotly") == 1
    rest = without_packed(html)
    assert not re.search(r"(src|href)\s*=\s*[\"']?(https?:)?//", rest)
    assert not re.search(r"@import|url\(", rest)
    assert "default-src 'none'" in rest


def test_the_licence_of_plotly_is_beside_it():
    found = files("clustersim.report").joinpath("plotly.LICENSE.txt").read_text(encoding="utf-8")
    assert found.startswith("MIT License")


def test_a_table_of_many_columns_has_the_whole_width(html):
    sweep = make_sweep()
    known = {"tokens_per_sample": 1024.0, "mfu": 0.3, "iteration_dollars": 0.01}
    runs = [replace(run, axes={**run.axes, "seed": run.num_gpus}, **known) for run in sweep.runs]
    wide = report_html(replace(sweep, runs=tuple(runs)))
    assert '<div class="two">' in html
    assert '<div class="two">' not in wide
    assert "All 3 runs" in wide
    assert "tokens/s" in wide


MOST_BYTES = 1.5e6


def test_a_report_is_smaller_than_one_and_a_half_megabytes(html):
    assert len(html.encode()) < MOST_BYTES


def test_what_a_user_wrote_is_never_markup(html):
    assert "&lt;script&gt;alert(&quot;no&quot;)&lt;/script&gt;" in html
    hostile = '</script><img src=x onerror="alert(1)">'
    sweep = make_sweep((8,))
    run = replace(sweep.runs[0], rank_names=(hostile,) * 8, layers=((hostile, hostile, 1.0, 1.0, "measured", 1.0),))
    bad = replace(
        sweep,
        runs=(run,),
        warnings=(hostile,),
        assumptions=(hostile,),
        scenario={"name": hostile},
        scenario_text=hostile,
    )
    page = report_html(bad)
    assert "<img" not in page
    packed = names_packed(page)
    assert packed == ["plotly", "figures", "cards", "run-0"]
    assert page.count("</script>") == page.count("<script") == 3 + len(packed)
    assert "<img" not in unpacked(page, "cards")


def test_the_parts_of_the_page_are_in_order(html):
    order = [
        "<h1>",
        ">What limits the speed</h2>",
        ">Error and assumptions</h2>",
        ">Reproduce</h2>",
        "clustersim run synthetic-googlenet.yaml --seed 1",
    ]
    places = [html.index(text) for text in order]
    assert places == sorted(places)


def test_the_page_has_warnings_assumptions_and_shortcuts(html):
    sweep = make_sweep()
    for text in (*sweep.warnings, *sweep.assumptions, *sweep.shortcuts):
        assert text in html
    nothing = report_html(replace(sweep, warnings=(), assumptions=(), shortcuts=()))
    for text in ("No warnings", "No assumptions", "No shortcuts"):
        assert text in nothing


def test_a_saved_sweep_gives_the_same_page(tmp_path, html):
    path = write_sweep(make_sweep(), tmp_path / "result.json")
    assert write_report(read_sweep(path), tmp_path / "report.html").read_text(encoding="utf-8") == html


def test_a_sweep_without_runs_is_refused():
    with pytest.raises(InputError, match="nothing to report: the sweep has no runs"):
        report_html(replace(make_sweep((1,)), runs=()))


@cache
def sweeps():
    stale = make_sweep((8,))
    stale = replace(stale, runs=(replace(stale.runs[0], staleness=staleness_summary([0, 1, 2, 2])),))
    one_size = make_comparison()
    one_size = replace(one_size, runs=tuple(run for run in one_size.runs if run.num_gpus == 32))
    return {
        "sizes": make_sweep(),
        "one": make_sweep((1,)),
        "stale": stale,
        "rivals": make_comparison(),
        "one size": one_size,
    }


@pytest.mark.parametrize(("name", "sweep"), sweeps().items())
def test_every_figure_is_valid_plotly_in_both_themes(name, sweep):
    import plotly.graph_objects as go

    kinds = {figure: kind.make(sweep) for figure, kind in FIGURES.items()}
    assert {"scaling", "breakdown", "timeline", "layers"} <= {figure for figure, made in kinds.items() if made}, name
    for figure in (figure for made in kinds.values() for figure in made):
        for theme in (LIGHT, DARK):
            drawn = paint(figure.drawing(), theme)
            go.Figure(drawn["traces"], drawn["layout"])
            go.Figure(drawn["narrow_traces"] or [], {**drawn["layout"], **drawn["narrow"]})


def paint(value, theme):
    """Insert a theme's colours, as the page's script does."""
    if isinstance(value, str):
        return theme[value[1:]] if value.startswith("@") else value
    if isinstance(value, list):
        return [paint(item, theme) for item in value]
    return {key: paint(item, theme) for key, item in value.items()} if isinstance(value, dict) else value


def test_every_figure_has_a_finding_and_a_line_with_its_unit():
    for name, kind in FIGURES.items():
        for figure in kind.make(sweeps()["rivals"]):
            assert len(figure.title.split()) >= 5, name
            assert figure.subtitle.endswith("."), name


def test_a_timeline_is_at_most_five_thousand_marks():
    for figure in FIGURES["timeline"].make(make_sweep()):
        assert sum(len(trace["x"]) for trace in figure.traces) <= 5000


def luminance(colour):
    channels = [int(colour[start : start + 2], 16) / 255 for start in (1, 3, 5)]
    linear = [value / 12.92 if value <= 0.04045 else ((value + 0.055) / 1.055) ** 2.4 for value in channels]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


def contrast(one, other):
    light, dark = sorted((luminance(one), luminance(other)), reverse=True)
    return (light + 0.05) / (dark + 0.05)


@pytest.mark.parametrize("theme", [LIGHT, DARK])
def test_text_can_be_read_in_either_theme(theme):
    assert contrast(theme["ink"], theme["surface"]) > 7
    assert contrast(theme["muted"], theme["surface"]) > 4.5


@pytest.mark.parametrize("theme", [LIGHT, DARK])
def test_more_load_stands_out_more_from_the_page(theme):
    steps = [contrast(theme[f"load{number}"], theme["surface"]) for number in range(len(load_scale()))]
    assert steps == sorted(steps)


def test_text_on_a_part_can_be_read():
    for colour in (colour for colour in PARTS.values() if colour.startswith("#")):
        assert contrast(text_on(colour), colour) > 4.5


def test_every_part_has_one_colour_and_one_name():
    assert set(PARTS) == set(LABELS)
    assert set(BREAKDOWN) <= set(PARTS)
    assert set(LIGHT) == set(DARK)
    shown = [PARTS[part] for part in BREAKDOWN]
    assert len(set(shown)) == len(shown)


def test_series_hues_are_no_parts_colours():
    hues = {theme[series_colour(number)[1:]] for theme in (LIGHT, DARK) for number in range(6)}
    assert not hues & set(PARTS.values())


def printed(sweep, width=80):
    from rich.console import Console

    console = Console(width=width)
    with console.capture() as capture:
        console.print(table(sweep))
    return capture.get()


def test_the_terminal_table_fits_eighty_columns():
    text = printed(make_sweep())
    assert max(map(len, text.splitlines())) <= 80
    assert "…" not in text
    assert "samples/s" in text


def test_published_figures_stand_below_their_run_in_the_column_of_their_metric():
    lines = printed(make_sweep()).splitlines()
    heading = next(line for line in lines if "speedup" in line)
    last = [line for line in lines if line.split()[:1] == ["published"]][-1]
    assert last.index("47.0×") + len("47.0×") == heading.index("speedup") + len("speedup")
    assert "10.5 h" in last
    assert any(line.split()[:1] == ["error"] for line in lines)


def test_nothing_is_invalid_json_in_the_page(html):
    found = about(html)
    assert found["themes"].keys() == {"light", "dark"}
    variants = json.loads(unpacked(html, "figures"))
    of_runs = [json.loads(unpacked(html, f"run-{number}")) for number in range(len(found["runs"]))]
    for panel in found["panels"]:
        name = panel["name"]
        figures = [run[name] for run in of_runs if name in run] if panel["ofRun"] else variants[name]
        assert figures
        assert all(figure["traces"] for figure in figures)


def test_a_card_has_the_height_of_its_figure_and_the_texts_of_the_first_run(html):
    for name, kind in FIGURES.items():
        for figure in kind.make(make_sweep())[:1]:
            heights = re.search(rf'id="plot-{name}" style="--tall:(\d+)px;--tall-narrow:(\d+)px"', html)
            tall = figure.layout["height"]
            assert [int(heights[1]), int(heights[2])] == [tall, figure.narrow.get("height", tall)]
            assert f'<h3 id="title-{name}">{escape(figure.title)}</h3>' in html


def many_runs(number):
    run = make_sweep((8,)).runs[0]
    runs = tuple(replace(run, axes={"num_gpus": 8, "bound": n}, samples_per_s=1000.0 - n) for n in range(number))
    return replace(make_sweep((8,)), runs=runs)


def test_every_run_of_a_sweep_can_be_chosen_and_has_figures_and_cards(html):
    found = about(html)
    assert [run["label"] for run in found["runs"]] == [f"1{THIN}GPU", f"32{THIN}GPUs", f"128{THIN}GPUs"]
    assert all(run["kept"] for run in found["runs"])
    assert found["first"] == 2
    assert html.count("<option value=") >= 3
    assert len(json.loads(unpacked(html, "cards"))) == 3
    assert all("timeline" in json.loads(unpacked(html, f"run-{number}")) for number in range(3))


def test_a_page_of_many_runs_stays_small_and_says_which_have_figures(monkeypatch):
    monkeypatch.setattr(run_details, "MOST_PACKED", 150_000)
    sweep = many_runs(150)
    page = report_html(sweep)
    assert len(page.encode()) < MOST_BYTES - 500_000
    kept = [run["kept"] for run in about(page)["runs"]]
    assert 5 < sum(kept) < 100
    assert all(kept[: sum(kept)]), "the quickest are kept"
    assert sum(len(text) for text in packed_runs(page)) <= 150_000
    assert page.count("<tr data-run=") == len(json.loads(unpacked(page, "cards"))) == 150


def packed_runs(page):
    return re.findall(r'id="packed-run-\d+">([^<]*)<', page)


def test_figures_of_runs_plotly_and_a_table_of_a_hundred_runs_leave_room_for_the_texts():
    table = len(sections.all_runs(many_runs(100)).encode())
    assert run_details.MOST_PACKED + len(packed_plotly()) + table < MOST_BYTES - 100_000


def test_timelines_of_many_runs_have_fewer_marks():
    assert [most_marks(number, False) for number in (2, 16, 40, 1000)] == [1250, 1250, 500, 400]
    for figure in FIGURES["timeline"].make(many_runs(20))[1:]:
        assert sum(len(trace["x"]) for trace in figure.traces) <= most_marks(20, False)


def test_names_in_the_address_are_distinct_and_may_be_typed():
    assert slugs(["8 GPUs, a", "8 GPUs, a", "8 GPUs, a 2", "–"]) == ["8-gpus-a", "8-gpus-a-2", "8-gpus-a-2-2", "run"]


def test_a_figure_that_says_nothing_is_folded_to_its_reason():
    figure = replace(FIGURES["links"].make(make_sweep())[0], quiet="No link is busy.")
    loud, quiet = Panel("a", (replace(figure, quiet=""),), heading="Links"), Panel("b", (figure,), heading="Links")
    assert figure.title in unescape(loud.html())
    assert 'id="fold-a" aria-controls="body-a" aria-expanded="false" hidden' in loud.html()
    assert '<h3 id="title-b">Links</h3><p class="under" id="under-b">No link is busy.</p>' in quiet.html()
    assert 'id="fold-b" aria-controls="body-b" aria-expanded="false">Show' in quiet.html()
    assert '<div id="body-b" hidden>' in quiet.html()
    none = RunPanel("c", "Links", None).html()
    assert "No data for this run." in none
    assert 'aria-expanded="false" hidden' in none


def test_contents_lead_to_every_panel_and_part(html):
    contents = html[html.index('<nav id="contents"') : html.index("</nav>")]
    links = re.findall(r'<a href="#([^"]+)">', contents)
    ids = re.findall(r'\bid="([^"]+)"', html)
    assert len(ids) == len(set(ids))
    assert set(links) <= set(ids)
    assert {panel["name"] for panel in about(html)["panels"]} <= set(links)
    assert {"content", "what-limits-the-speed", "warnings", "assumptions", "memory", "scenario"} <= set(links)


def test_headings_are_in_order(html):
    levels = [int(level) for level in re.findall(r"<h(\d)", html)]
    assert levels[0] == 1
    assert levels.count(1) == 1
    assert all(after - before <= 1 or (before, after) == (1, 3) for before, after in pairwise(levels))


def test_a_cell_of_the_table_of_runs_has_the_number_by_which_it_is_sorted(html):
    rows = re.findall(r'<tr data-run="(\d+)">(.*?)</tr>', html)
    assert [int(number) for number, _ in rows] == [0, 1, 2]
    values = [[float(value) for value in re.findall(r'data-value="([^"]+)"', row)] for _, row in rows]
    assert [row[0] for row in values] == [1.0, 32.0, 128.0]
    for (_, row), found, run in zip(rows, values, make_sweep().runs, strict=True):
        assert f'aria-label="Show {gpus(run.num_gpus)}"' in row
        assert found[1] == pytest.approx(run.iteration_s, rel=0.01)


def test_long_settings_are_words_in_the_table_of_runs_and_numbers_are_not():
    sweep = make_comparison()
    html = report_html(sweep)
    body = html[html.index(f"All {len(sweep.runs)} runs") :]
    head = body[: body.index("</thead>")]
    for kind, heading in (("words", "kind"), ("number", "GPUs"), ("number", "iteration")):
        assert f'<th class="{kind}" scope="col"><button type="button" class="sort">{heading}</button></th>' in head
