"""The report in a real browser: it draws, asks nobody for anything, and fits desktop, phone, night and paper."""

from __future__ import annotations

from dataclasses import replace

import pytest

import clustersim
from clustersim.report import FIGURES, write_report
from clustersim.results import staleness_summary
from tests.report.synthetic import make_sweep

pytestmark = pytest.mark.browser


@pytest.fixture(scope="module")
def sweep():
    sweep = make_sweep()
    stale = replace(sweep.runs[-1], staleness=staleness_summary([0, 1, 1, 2, 3]))
    return replace(sweep, runs=(*sweep.runs[:-1], stale))


@pytest.fixture(scope="module")
def report(sweep, tmp_path_factory):
    return write_report(sweep, tmp_path_factory.mktemp("report") / "report.html")


class Visit:
    """One page with everything it complained about and asked for."""

    def __init__(self, browser, path, width=1280, scheme="light"):
        self.page = browser.new_page(viewport={"width": width, "height": 900}, color_scheme=scheme)
        self.errors, self.requests = [], []
        self.page.on("pageerror", lambda error: self.errors.append(str(error)))
        self.page.on("console", lambda message: self.errors.append(message.text) if message.type == "error" else None)
        self.page.on("request", lambda request: self.requests.append(request.url))
        self.page.goto(path.as_uri())
        self.page.wait_for_selector("body[data-drawn]", timeout=60_000)

    def see(self, name):
        """Scroll to a figure and wait until it is drawn."""
        self.page.locator(f"#plot-{name}").scroll_into_view_if_needed()
        self.page.wait_for_selector(f"#{name}[data-drawn]", timeout=60_000)
        return self

    def wait_until(self, condition, seconds=30):
        """Wait until an expression is true; not by `wait_for_function`, whose eval the page forbids."""
        for _ in range(10 * seconds):
            if self.page.evaluate(condition):
                return
            self.page.wait_for_timeout(100)
        pytest.fail(f"still not so after {seconds} s: {condition}")

    def shows(self, name, made):
        """Assert that a figure can be seen with its finding; where nothing was made, that it has no card."""
        title = self.page.locator(f"#title-{name}")
        assert title.count() == self.page.locator(f"#{name}").count() == bool(made), name
        if made:
            assert title.inner_text() == made[0].title
            assert title.is_visible()
            self.see(name)
            assert self.page.locator(f"#plot-{name} .main-svg").first.is_visible()
            marks = self.page.locator(f"#plot-{name} .main-svg").first.locator("path, rect, image")
            assert marks.count() > 5, name

    def layout(self, name, expression):
        self.see(name)
        return self.page.evaluate(f"document.getElementById('plot-{name}')._fullLayout.{expression}")


@pytest.fixture(scope="module")
def desktop(browser, report):
    return Visit(browser, report)


@pytest.fixture(scope="module")
def phone(browser, report):
    return Visit(browser, report, width=390)


def test_nothing_fails_and_nothing_is_asked_for(desktop, phone):
    for visit in (desktop, phone):
        assert visit.errors == []
        assert [url for url in visit.requests if not url.startswith(("file:", "data:", "blob:"))] == []


def test_every_figure_is_drawn_and_its_finding_can_be_seen(desktop, phone, sweep):
    for visit in (desktop, phone):
        for name, kind in FIGURES.items():
            visit.shows(name, kind.make(sweep))


def star(num_hosts, gpu="k80"):
    return {"kind": "star", "num_hosts": num_hosts, "host": {"gpu": gpu}, "link": "1 GB/s", "hop": "2 us"}


SMALL = {
    "model": "squeezenet-1.0",
    "batch": {"per_gpu": 8},
    "num_iterations": 6,
    "stragglers": [{"kind": "constant", "factor": 1.6, "of": [1]}, {"kind": "lognormal", "cv": 0.2}],
    "seed": 3,
}
"""What runs in a second; each of `OTHERS` adds to it."""

OTHERS = {
    "asynchronous": {
        "num_gpus": [2, 4],
        "topology": star(5),
        "strategy": [{"kind": "async", "staleness_aware_rate": True}, {"kind": "bounded-staleness", "bound": 1}],
        "num_iterations": 12,
    },
    "backups": {"num_gpus": 6, "topology": star(7), "strategy": {"kind": "backup", "backups": [0, 1, 2]}},
    "failures": {
        "num_gpus": 4,
        "topology": star(4),
        "strategy": {"kind": "all-reduce", "algorithm": "ring"},
        "failures": {
            "host": {"mtbf": "20 h"},
            "checkpoint": {"every": "daly", "rate": "20 MB/s"},
            "restart": "5 min",
            "length": "3 d",
        },
    },
    "stages": {
        "num_gpus": 4,
        "topology": star(4),
        "strategy": {"kind": "all-reduce"},
        "parallelism": {"pipeline": 4, "micro_batches": 8},
    },
    "jobs": {
        "num_gpus": 2,
        "topology": star(4),
        "strategy": {"kind": "all-reduce", "algorithm": "ring"},
        "placement": [0, 2, 1, 3],
        "jobs": [{}, {"name": "other", "model": "alexnet"}],
        "stragglers": [],
    },
}


@pytest.fixture(scope="module")
def others():
    return {name: clustersim.sweep({"name": name, **SMALL, **parts}) for name, parts in OTHERS.items()}


@pytest.mark.parametrize("name", OTHERS)
@pytest.mark.parametrize(("width", "scheme"), [(1280, "light"), (390, "dark")])
def test_what_a_strategy_is_about_is_drawn_and_nothing_else_has_a_card(browser, others, tmp_path, name, width, scheme):
    visit = Visit(browser, write_report(others[name], tmp_path / "report.html"), width, scheme)
    for figure, kind in FIGURES.items():
        visit.shows(figure, kind.make(others[name]))
    assert visit.errors == []
    assert visit.page.evaluate("document.documentElement.scrollWidth") == width
    assert visit.page.evaluate("document.body.dataset.drawn") == "all"


def test_every_figure_is_made_of_some_sweep_that_a_browser_has_drawn(sweep, others):
    made = {figure for one in (sweep, *others.values()) for figure, kind in FIGURES.items() if kind.make(one)}
    assert made == set(FIGURES)


def test_an_asynchronous_run_shows_clocks_staleness_and_versions(browser, others, tmp_path):
    visit = Visit(browser, write_report(others["asynchronous"], tmp_path / "report.html"))
    lines = visit.see("clocks").page.locator("#plot-clocks .scatterlayer .trace")
    assert lines.count() == 1 + 4  # the band, and a line for each worker
    shares = FIGURES["staleness"].make(others["asynchronous"])[0].traces[0]["y"]
    bars = visit.see("staleness").page.locator("#plot-staleness .barlayer .point path")
    assert bars.count() == sum(share > 0 for share in shares)
    names = visit.see("versions").page.locator("#plot-versions .annotation").all_text_contents()
    assert any(name.startswith("W_") for name in names)
    assert any(" → " in name for name in names)


def test_figures_out_of_sight_are_drawn_when_they_come_near_and_nothing_moves(browser, report):
    visit = Visit(browser, report)
    drawn = "document.querySelectorAll('.card[data-drawn]').length"
    tall = "document.documentElement.scrollHeight"
    assert visit.page.evaluate("document.body.dataset.drawn") == "near"
    before, height = visit.page.evaluate(drawn), visit.page.evaluate(tall)
    assert before < visit.page.locator(".plot").count()
    for name in visit.page.evaluate("[...document.querySelectorAll('.plot')].map(plot => plot.id.slice(5))"):
        visit.see(name)
    assert visit.page.evaluate(drawn) == visit.page.locator(".plot").count()
    assert visit.page.evaluate("document.body.dataset.drawn") == "all"
    assert visit.page.evaluate(tall) == pytest.approx(height, abs=4)


def test_every_bar_is_there(desktop, sweep):
    for name in ("breakdown", "timeline", "layers", "link-classes"):
        figure = FIGURES[name].make(sweep)[0]
        bars = [trace["x"] for trace in figure.traces if trace["type"] == "bar"]
        shortest = 1e-9 * max(max(values) for values in bars)
        expected = sum(sum(value > shortest for value in values) for values in bars)
        drawn = (
            desktop.see(name)
            .page.locator(f"#plot-{name} .barlayer .point path")
            .evaluate_all("paths => paths.filter(path => path.getBBox().width > 0).length")
        )
        assert drawn == expected, name


@pytest.mark.parametrize("width", [390, 1280])
def test_nothing_sticks_out_sideways(desktop, phone, width):
    visit = {390: phone, 1280: desktop}[width]
    page = visit.page
    for name in page.evaluate("[...document.querySelectorAll('.plot')].map(plot => plot.id.slice(5))"):
        visit.see(name)
    assert page.evaluate("document.documentElement.scrollWidth") == width
    right = page.evaluate(
        "Math.max(...[...document.querySelectorAll('.plot svg')].map(e => e.getBoundingClientRect().right))"
    )
    assert right <= width


def test_nothing_offers_to_send_the_chart_away(desktop):
    titles = desktop.page.locator(".modebar-btn").evaluate_all("all => all.map(one => one.dataset.title || '')")
    assert titles
    assert not [title for title in titles if "share" in title.lower() or "cloud" in title.lower()]
    assert desktop.page.locator(".plotlyjsicon").count() == 0


@pytest.mark.parametrize("width", [390, 1280])
def test_decades_of_the_scaling_curve_are_equal(desktop, phone, width):
    visit = {390: phone, 1280: desktop}[width]
    across, up = (visit.layout("scaling", f"{axis}._length") for axis in ("xaxis", "yaxis"))
    x_range, y_range = (visit.layout("scaling", f"{axis}.range") for axis in ("xaxis", "yaxis"))
    assert across / (x_range[1] - x_range[0]) == pytest.approx(up / (y_range[1] - y_range[0]), rel=0.01)


def test_the_efficiency_stands_exactly_below_the_speedup(desktop, phone):
    for visit in (desktop, phone):
        for end in ("_offset", "_length"):
            above, below = (visit.layout("scaling", f"{axis}.{end}") for axis in ("xaxis", "xaxis2"))
            assert above == pytest.approx(below, abs=0.5)


def test_a_reader_chooses_which_run_is_drawn(browser, report, sweep):
    page = Visit(browser, report).page
    variants = FIGURES["timeline"].make(sweep)
    page.select_option("#choice-timeline", label=variants[1].label)
    assert page.locator("#title-timeline").inner_text() == variants[1].title
    page.select_option("#choice-breakdown", "1")
    assert page.locator("#under-breakdown").inner_text() == FIGURES["breakdown"].make(sweep)[1].subtitle


def test_night_changes_the_ink_and_day_changes_it_back(browser, report):
    visit = Visit(browser, report, scheme="dark")
    assert visit.errors == []
    dark = visit.layout("scaling", "font.color")
    visit.page.emulate_media(color_scheme="light")
    visit.wait_until(f"document.getElementById('plot-scaling')._fullLayout?.font.color !== '{dark}'")
    background = visit.page.evaluate("getComputedStyle(document.querySelector('.card')).backgroundColor")
    assert background == "rgb(255, 255, 255)"


def test_paper_gets_the_light_theme_at_its_own_width(browser, report):
    visit = Visit(browser, report, scheme="dark")
    visit.page.set_viewport_size({"width": 703, "height": 1000})
    not_drawn = "[...document.querySelectorAll('.plot')].filter((plot) => !plot._fullLayout).length"
    assert visit.page.evaluate(not_drawn) > 0
    visit.page.emulate_media(media="print", color_scheme="dark")
    visit.wait_until("document.getElementById('plot-timeline')._fullLayout?.width <= 703")
    assert visit.page.evaluate(not_drawn) == 0, "what nobody has scrolled to is printed too"
    assert visit.layout("timeline", "font.color") == "#1b1f24"
    assert visit.page.evaluate("document.documentElement.scrollWidth") <= 703
    assert visit.page.evaluate("[...document.querySelectorAll('.scroll')].every((box) => box.scrollWidth <= 703)")
    assert not visit.page.locator(".choice").first.is_visible()
    assert visit.page.pdf(prefer_css_page_size=True).startswith(b"%PDF")


def test_turning_the_phone_redraws(browser, report):
    visit = Visit(browser, report, width=390).see("timeline")
    visit.page.set_viewport_size({"width": 844, "height": 390})
    visit.wait_until("document.getElementById('plot-timeline')._fullLayout?.width > 600")
    assert visit.page.evaluate("document.documentElement.scrollWidth") == 844


def test_hovering_says_what_happened_and_why(browser, report):
    page = Visit(browser, report).see("timeline").page
    page.evaluate(
        "() => { const plot = document.getElementById('plot-timeline');"
        " const kind = plot.data.findIndex(trace => trace.name.startsWith('waiting'));"
        " Plotly.Fx.hover(plot, [{curveNumber: kind, pointNumber: 0}]); }"
    )
    text = page.locator("#plot-timeline .hovertext").first.text_content()
    assert "rank 0" in text
    assert "for rank 17" in text


HOSTILE = '<script>window.taken=1</script>"><img src=x onerror="window.taken=1"><svg onload="window.taken=1">'


def test_no_text_of_a_scenario_runs_as_a_script(browser, sweep, tmp_path):
    scenario = {**sweep.scenario, "name": HOSTILE, "description": HOSTILE}
    runs = tuple(replace(run, axes={**run.axes, HOSTILE: HOSTILE}, speedup_basis=HOSTILE) for run in sweep.runs)
    hostile = replace(sweep, scenario=scenario, runs=runs, assumptions=(HOSTILE,), warnings=(HOSTILE,))
    visit = Visit(browser, write_report(hostile, tmp_path / "report.html"))
    for name in visit.page.locator("section.card[id]").evaluate_all("cards => cards.map(card => card.id)"):
        visit.see(name)
    assert visit.page.evaluate("window.taken") is None
    assert visit.page.locator("img[onerror], svg[onload]").count() == 0
    assert HOSTILE in visit.page.locator("body").inner_text()
