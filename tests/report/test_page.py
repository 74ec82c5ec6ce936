"""The page as a file: complete, safe, reproducible, and small enough."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from functools import cache

import pytest

from clustersim.errors import InputError
from clustersim.report import FIGURES, report_html, table, write_report
from clustersim.report.palette import DARK, LABELS, LIGHT, PARTS, load_scale, series_colour, text_on
from clustersim.results import BREAKDOWN, read_sweep, staleness_summary, write_sweep
from tests.report.synthetic import make_comparison, make_sweep


@pytest.fixture(scope="module")
def html():
    return report_html(make_sweep())


def without_plotly(html):
    from plotly.offline import get_plotlyjs

    assert html.count(get_plotlyjs()) == 1
    return html.replace(get_plotlyjs(), "")


def test_plotly_is_inside_once_and_nothing_is_loaded_from_anywhere(html):
    rest = without_plotly(html)
    assert not re.search(r"(src|href)\s*=\s*[\"']?(https?:)?//", rest)
    assert not re.search(r"@import|url\(", rest)
    assert "default-src 'none'" in rest


def test_a_table_of_many_columns_has_the_whole_width(html):
    sweep = make_sweep()
    known = {"tokens_per_sample": 1024.0, "mfu": 0.3, "iteration_dollars": 0.01}
    runs = [replace(run, axes={**run.axes, "seed": run.num_gpus}, **known) for run in sweep.runs]
    wide = report_html(replace(sweep, runs=tuple(runs)))
    assert '<div class="two">' in html
    assert '<div class="two">' not in wide
    assert "All 3 runs" in wide
    assert "tokens/s" in wide


def test_a_report_is_smaller_than_eight_megabytes(html):
    assert len(html.encode()) < 8e6


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
    page = without_plotly(report_html(bad))
    assert "<img" not in page
    num_panels = page.count('class="plot"')
    assert num_panels > 4
    assert page.count("</script>") == page.count("<script") == 4 + num_panels


def test_the_parts_of_the_page_are_in_order(html):
    order = [
        "<h1>",
        "What limits the speed",
        "Error and assumptions",
        "Reproduce",
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
    def read(name):
        return json.loads(re.search(rf'<script type="application/json" id="{name}">(.*?)</script>', html, re.S)[1])

    assert read("themes").keys() == {"light", "dark"}
    for name in read("panels"):
        assert all(variant["traces"] for variant in read(f"data-{name}"))


def test_a_card_has_the_height_of_its_figure(html):
    for name, kind in FIGURES.items():
        for figure in kind.make(make_sweep())[:1]:
            heights = re.search(rf'id="plot-{name}" style="--tall:(\d+)px;--tall-narrow:(\d+)px"', html)
            tall = figure.layout["height"]
            assert [int(heights[1]), int(heights[2])] == [tall, figure.narrow.get("height", tall)]


def test_a_page_of_many_large_runs_stays_below_eight_megabytes():
    run = make_sweep((64,)).runs[0]
    sweep = replace(make_sweep((64,)), runs=tuple(replace(run, axes={"num_gpus": 64, "bound": n}) for n in range(8)))
    assert len(report_html(sweep).encode()) < 8e6
    assert len(FIGURES["timeline"].make(sweep)) == 6


def test_long_settings_are_words_in_the_table_of_runs_and_numbers_are_not():
    sweep = make_comparison()
    html = report_html(sweep)
    body = html[html.index(f"All {len(sweep.runs)} runs") :]
    head = body[: body.index("</thead>")]
    assert '<th class="words">kind</th>' in head
    assert '<th class="number">GPUs</th>' in head
    assert '<th class="number">iteration</th>' in head
