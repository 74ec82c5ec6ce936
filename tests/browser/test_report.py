"""The report in a real browser: it draws, asks nobody for anything, and fits desktop, phone, night and paper."""

from __future__ import annotations

import csv
import io
from dataclasses import replace
from xml.etree import ElementTree

import pytest

import clustersim
from clustersim.report import FIGURES, page, run_details, write_report
from clustersim.report.figures import RunFigure
from clustersim.report.panel import Panel
from clustersim.report.series import headline, run_label, runs_in_order
from clustersim.results import staleness_summary
from tests.report.learning_runs import scaled_sweep, six_strategies, steps_sweep
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


def first_figure(sweep, name):
    """Return the figure that a page shows first; None where the page has no such card, or a line without a figure."""
    kind = FIGURES[name]
    if isinstance(kind, RunFigure):
        return kind.draw(sweep, headline(sweep))
    return next(iter(kind.make(sweep)), None)


class Visit:
    """One page with everything it complained about and asked for."""

    def __init__(self, browser, path, width=1280, scheme="light", place="", is_busy=False):
        self.page = browser.new_page(viewport={"width": width, "height": 900}, color_scheme=scheme)
        if is_busy:  # a page without idle time draws only what is near
            self.page.add_init_script("window.requestIdleCallback = () => 0")
        self.errors, self.requests = [], []
        self.page.on("pageerror", lambda error: self.errors.append(str(error)))
        self.page.on("console", self._note)
        self.page.on("request", lambda request: self.requests.append(request.url))
        self.page.goto(path.as_uri() + place)
        self.page.wait_for_selector("body[data-drawn]", timeout=60_000)

    def _note(self, message):
        """Keep what the console says is wrong, with plotly's own words for it."""
        if message.type in ("error", "warning") or "Invalid" in message.text:
            self.errors.append(message.text)

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

    def open(self, name):
        """Open a folded figure."""
        if self.page.locator(f"#fold-{name}").inner_text() == "Show":
            self.page.locator(f"#fold-{name}").click()
        return self

    def shows(self, name, sweep):
        """Assert that a figure can be seen with its finding; where no run has one, that it has no card."""
        has_card = bool(FIGURES[name].make(sweep))
        figure = first_figure(sweep, name)
        title = self.page.locator(f"#title-{name}")
        assert title.count() == self.page.locator(f"#{name}").count() == has_card, name
        if not has_card:
            return
        if figure is None:
            assert self.page.locator(f"#under-{name}").inner_text() == "No data for this run."
            assert not self.page.locator(f"#plot-{name}").is_visible()
            return
        if figure.quiet:
            assert self.page.locator(f"#under-{name}").inner_text() == figure.quiet
            self.open(name)
        assert title.inner_text() == figure.title
        assert title.is_visible()
        self.see(name)
        assert self.page.locator(f"#plot-{name} .main-svg").first.is_visible()
        marks = self.page.locator(f"#plot-{name} .main-svg").first.locator("path, rect, image")
        assert marks.count() > 5, name

    def drawn_panels(self):
        """Return the names of all figures that are not folded."""
        return self.page.evaluate("[...document.querySelectorAll('.panel:not(.folded)')].map((card) => card.id)")

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
        for name in FIGURES:
            visit.shows(name, sweep)


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
    simulated = {name: clustersim.sweep({"name": name, **SMALL, **parts}) for name, parts in OTHERS.items()}
    return {**simulated, "trained": six_strategies(), "steps": steps_sweep(), "scaled": scaled_sweep()}


@pytest.mark.parametrize("name", [*OTHERS, "trained", "steps", "scaled"])
@pytest.mark.parametrize(("width", "scheme"), [(1280, "light"), (390, "dark")])
def test_what_a_strategy_is_about_is_drawn_and_nothing_else_has_a_card(browser, others, tmp_path, name, width, scheme):
    visit = Visit(browser, write_report(others[name], tmp_path / "report.html"), width, scheme)
    for figure in FIGURES:
        visit.shows(figure, others[name])
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
    number = next(i for i, run in enumerate(runs_in_order(others["asynchronous"])) if run.cycles is not None)
    visit.page.select_option("#run", str(number))
    shares = (
        FIGURES["staleness"].draw(others["asynchronous"], runs_in_order(others["asynchronous"])[number]).traces[0]["y"]
    )
    bars = visit.see("staleness").page.locator("#plot-staleness .barlayer .point path")
    assert bars.count() == sum(share > 0 for share in shares)
    names = visit.see("versions").page.locator("#plot-versions .annotation").all_text_contents()
    assert any(name.startswith("W_") for name in names)
    assert any(" → " in name for name in names)


def test_figures_out_of_sight_are_drawn_without_being_scrolled_to_and_nothing_moves(browser, report):
    visit = Visit(browser, report)
    drawn = "document.querySelectorAll('.card[data-drawn]').length"
    tall = "document.documentElement.scrollHeight"
    height = visit.page.evaluate(tall)
    visit.page.wait_for_selector("body[data-drawn=all]", timeout=60_000)
    assert visit.page.evaluate(drawn) == len(visit.drawn_panels())
    assert visit.page.evaluate(tall) == pytest.approx(height, abs=4)


def test_figures_are_drawn_in_a_page_that_is_never_painted(browser, report):
    page = browser.new_page()
    page.add_init_script("window.requestAnimationFrame = () => 0;")
    page.goto(report.as_uri())
    page.wait_for_selector("body[data-drawn]", timeout=60_000)


def test_every_bar_is_there(desktop, sweep):
    for name in ("breakdown", "timeline", "layers", "link-classes"):
        figure = first_figure(sweep, name)
        desktop.open(name)
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
    for name in visit.drawn_panels():
        visit.see(name)
    assert page.evaluate("document.documentElement.scrollWidth") == width
    right = page.evaluate(
        "Math.max(...[...document.querySelectorAll('.plot svg')].map(e => e.getBoundingClientRect().right))"
    )
    assert right <= width


def test_nothing_covers_the_legend_and_nothing_offers_to_send_the_chart_away(desktop):
    assert desktop.page.locator(".modebar-btn").count() == 0
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


def test_a_choice_of_run_holds_for_every_figure_and_card_and_is_in_the_address(browser, report, sweep):
    visit = Visit(browser, report)
    page = visit.page
    number, run = 1, runs_in_order(sweep)[1]
    label = run_label(sweep, run)
    assert page.locator("#run option").all_inner_texts() == [run_label(sweep, one) for one in runs_in_order(sweep)]
    page.select_option("#run", label=label)
    shows_run(visit, sweep, number)
    assert page.url.endswith("#run=32-gpus")
    again = Visit(browser, report, place="#links;run=32-gpus")
    shows_run(again, sweep, number)
    assert again.page.locator("#run").input_value() == str(number)
    top = again.page.evaluate("document.getElementById('links').getBoundingClientRect().top")
    assert 40 <= top < 450
    assert visit.errors == again.errors == []


def shows_run(visit, sweep, number):
    """Assert that every figure, the cards and the table show one run."""
    run = runs_in_order(sweep)[number]
    slug = run_details.slugs([run_label(sweep, one) for one in runs_in_order(sweep)])[number]
    visit.page.wait_for_selector(f"body[data-run='{slug}']")
    for name, kind in FIGURES.items():
        if not isinstance(kind, RunFigure) or not kind.make(sweep):
            continue
        figure = kind.draw(sweep, run)
        line = "No data for this run." if figure is None else figure.quiet
        assert visit.page.locator(f"#title-{name}").inner_text() == (kind.heading if line else figure.title), name
        assert visit.page.locator(f"#under-{name}").inner_text() == (line or figure.subtitle), name
    assert run_label(sweep, run) in visit.page.locator("[data-card=memory] .under").inner_text()
    assert visit.page.locator("tr[aria-current]").count() == 1
    assert visit.page.locator("tr[aria-current]").get_attribute("data-run") == str(number)


def test_a_row_of_the_table_and_the_arrows_choose_a_run_too(browser, report, sweep):
    visit = Visit(browser, report)
    visit.page.locator("tr[data-run='1'] td").first.click()
    shows_run(visit, sweep, 1)
    visit.page.locator("#previous").click()
    shows_run(visit, sweep, 0)
    assert visit.page.locator("#previous").is_disabled()
    visit.page.locator("#next").focus()
    visit.page.keyboard.press("Enter")
    shows_run(visit, sweep, 1)
    visit.page.locator("#contents a[href='#layers']").click()
    visit.wait_until("location.hash === '#layers;run=32-gpus'")


def test_a_variant_of_a_figure_of_the_whole_sweep_has_a_selector_of_its_own(browser, report, sweep):
    page = Visit(browser, report).page
    page.select_option("#choice-breakdown", "1")
    assert page.locator("#under-breakdown").inner_text() == FIGURES["breakdown"].make(sweep)[1].subtitle


def test_a_run_without_figures_in_the_page_says_so(browser, sweep, tmp_path, monkeypatch):
    monkeypatch.setattr(run_details, "MOST_PACKED", 1)
    visit = Visit(browser, write_report(sweep, tmp_path / "report.html"))
    visit.page.select_option("#run", "1")
    visit.page.wait_for_selector("body[data-run='32-gpus']")
    told = visit.page.locator("#under-timeline").inner_text()
    assert told == "Not in this page, which has the figures of 1 of 3 runs."
    assert not visit.page.locator("#fold-timeline").is_visible()
    assert "32" in visit.page.locator("[data-card=memory] .under").inner_text()
    visit.page.select_option("#run", "2")
    visit.page.wait_for_selector("body[data-run='128-gpus']")
    assert visit.page.locator("#title-timeline").inner_text() == first_figure(sweep, "timeline").title


@pytest.fixture
def quiet_page(browser, sweep, tmp_path):
    figure = replace(first_figure(sweep, "layers"), quiet="All layers take as long.")
    panel = Panel("layers", (figure,), heading="Layers")
    path = tmp_path / "quiet.html"
    path.write_text(page.page("quiet", "1", [page.part("Why"), panel.html()], [panel]), encoding="utf-8")
    return Visit(browser, path), figure


def test_a_quiet_figure_is_one_line_until_the_reader_opens_it(quiet_page):
    visit, figure = quiet_page
    card = visit.page.locator("#layers")
    assert card.bounding_box()["height"] < 60
    assert card.locator("h3").inner_text() == "Layers"
    assert card.locator(".under").inner_text() == figure.quiet
    button = visit.page.locator("#fold-layers")
    button.focus()
    visit.page.keyboard.press("Enter")
    visit.page.wait_for_selector("#layers[data-drawn]")
    assert button.get_attribute("aria-expanded") == "true"
    assert card.locator("h3").inner_text() == figure.title
    button.click()
    assert card.bounding_box()["height"] < 60
    visit.page.emulate_media(media="print")
    visit.wait_until("document.querySelector('#plot-layers').clientHeight > 100")
    assert visit.errors == []


def test_a_heading_sorts_the_table_of_runs(browser, report, sweep):
    page = Visit(browser, report).page
    heading = page.locator("table.runs button.sort", has_text="iteration").first
    order = "[...document.querySelectorAll('tr[data-run]')].map((row) => Number(row.dataset.run))"
    heading.focus()
    page.keyboard.press("Enter")
    times = [run.iteration_s for run in runs_in_order(sweep)]
    falling = sorted(range(len(times)), key=lambda number: -times[number])
    assert page.evaluate(order) == falling
    assert page.locator("table.runs th[aria-sort=descending]").count() == 1
    page.keyboard.press("Enter")
    assert page.evaluate(order) == falling[::-1]
    assert page.locator("table.runs th[aria-sort=ascending]").inner_text().startswith("iteration")


def saved(visit, name, kind):
    """Return the file that a button saves, and its name."""
    visit.page.wait_for_timeout(120)  # Chromium drops the eleventh download of a second
    with visit.page.expect_download() as waiting:
        visit.page.locator(f"#{name} button[data-save={kind}]").click()
    return waiting.value.path().read_bytes(), waiting.value.suggested_filename


def check_saved(visit, name, figure):
    """Assert that a figure is saved as a drawing, a picture and numbers."""
    drawing, file = saved(visit, name, "svg")
    root = ElementTree.fromstring(drawing.decode())
    assert root.tag == "{http://www.w3.org/2000/svg}svg"
    assert file.endswith(f"{name}.svg") or f"-{name}-" in file
    words = " ".join(text for text in root.itertext() if text.strip())
    assert all(word in words for word in figure.title.split())
    picture, _ = saved(visit, name, "png")
    assert picture.startswith(b"\x89PNG")
    width, height = (int.from_bytes(picture[start : start + 4]) for start in (16, 20))
    assert width == 2 * float(root.get("width"))
    assert height == 2 * float(root.get("height"))
    assert len(picture) > 5_000
    numbers, file = saved(visit, name, "csv")
    headings, *rows = csv.reader(io.StringIO(numbers.decode()))
    assert rows, name
    assert all(headings), (name, headings)
    assert not {"x", "y", "row", "value"} & set(headings), (name, headings)
    assert all(len(row) == len(headings) for row in rows)
    assert any(is_number(cell) for row in rows for cell in row), name
    assert "<b>" not in numbers.decode()


def is_number(text):
    try:
        float(text)
    except ValueError:
        return False
    return True


def check_all_saved(visit, sweep):
    found = set()
    for name in FIGURES:
        figure = first_figure(sweep, name)
        if figure is not None:
            visit.open(name).see(name)
            check_saved(visit, name, figure)
            found.add(name)
    assert visit.errors == []
    assert [url for url in visit.requests if not url.startswith(("file:", "data:", "blob:"))] == []
    return found


def test_every_figure_is_saved_as_svg_png_and_csv(browser, report, sweep, others, tmp_path):
    found = check_all_saved(Visit(browser, report), sweep)
    for name, one in others.items():
        found |= check_all_saved(Visit(browser, write_report(one, tmp_path / f"{name}.html")), one)
    for name, one in others.items():
        visit = Visit(browser, tmp_path / f"{name}.html")
        for number, run in enumerate(runs_in_order(one)):
            missing = [name for name in set(FIGURES) - found if isinstance(FIGURES[name], RunFigure)]
            drawn = {name: FIGURES[name].draw(one, run) for name in missing}
            if not any(drawn.values()):
                continue
            visit.page.select_option("#run", str(number))
            for figure in (figure for figure, made in drawn.items() if made is not None):
                visit.wait_until(f"!document.querySelector('#{figure}').innerText.includes('No data')")
                visit.open(figure).see(figure)
                check_saved(visit, figure, drawn[figure])
                found.add(figure)
    assert found == set(FIGURES)


def test_the_numbers_of_a_figure_are_a_table_that_follows_the_run(browser, report, sweep):
    visit = Visit(browser, report)
    button = visit.page.locator("#layers button[data-table]")
    visit.see("layers")
    button.focus()
    visit.page.keyboard.press("Enter")
    table = visit.page.locator("#data-layers table")
    assert button.get_attribute("aria-expanded") == "true"
    assert table.locator("thead th").all_inner_texts()[:3] == ["series", "layer", "compute time (ms)"]
    assert table.locator("tbody tr").count() == sum(len(trace["x"]) for trace in first_figure(sweep, "layers").traces)
    before = table.inner_text()
    visit.page.select_option("#run", "0")
    visit.page.wait_for_selector("body[data-run='1-gpu']")
    visit.see("layers")
    visit.wait_until("document.querySelector('#data-layers caption').innerText.includes('1')")
    assert table.inner_text() != before


def test_texts_are_painted_within_half_a_second_and_figures_soon_after(browser, report):
    paints, figures = [], []
    for _ in range(3):
        visit = Visit(browser, report)
        paints.append(visit.page.evaluate("performance.getEntriesByName('first-contentful-paint')[0].startTime"))
        figures.append(visit.page.evaluate("performance.now()"))
        visit.page.close()
    assert min(paints) < 500
    assert min(figures) < 4000


def test_all_controls_are_reached_by_the_keyboard_and_say_what_they_are(browser, report):
    page = Visit(browser, report).page
    page.keyboard.press("Tab")
    assert page.evaluate("document.activeElement.textContent") == "Skip to the content"
    page.keyboard.press("Enter")
    assert page.evaluate("document.activeElement.id") == "content"
    reached = set()
    for _ in range(120):
        page.keyboard.press("Tab")
        reached.add(
            page.evaluate(
                "document.activeElement.id || document.activeElement.className || document.activeElement.dataset.save"
            )
        )
    assert {"sort", "pick", "plot-scaling", "svg", "csv", "choice-breakdown", "plot-timeline"} <= reached
    nameless = (
        "[...document.querySelectorAll('button, select, a')].filter((one) => !one.innerText && !one.ariaLabel"
        " && !one.labels?.length && one.offsetParent).length"
    )
    assert page.evaluate(nameless) == 0
    for name in page.evaluate(
        "[...document.querySelectorAll('.plot')].map((plot) => plot.getAttribute('aria-labelledby'))"
    ):
        assert page.locator(f"#{name}").inner_text()


def test_keys_zoom_a_figure_and_show_all_of_it_again(browser, report):
    visit = Visit(browser, report).see("timeline")
    ranges = "document.getElementById('plot-timeline')._fullLayout.xaxis.range.map(Number)"
    low, high = visit.page.evaluate(ranges)
    visit.page.locator("#plot-timeline").focus()
    assert visit.page.locator(".hint").is_visible()
    visit.page.keyboard.press("+")
    visit.wait_until(f"{ranges}[0] > {low}")
    inside = visit.page.evaluate(ranges)
    assert inside[1] - inside[0] == pytest.approx(0.6 * (high - low))
    visit.page.keyboard.press("ArrowRight")
    visit.wait_until(f"{ranges}[0] > {inside[0]}")
    visit.page.keyboard.press("0")
    visit.wait_until(f"{ranges}[1] - {ranges}[0] > {0.99 * (high - low)}")
    assert visit.page.evaluate(ranges) == pytest.approx([low, high])


def test_the_contents_fold_on_a_phone(browser, report):
    page = Visit(browser, report, width=390).page
    assert not page.locator("#contents").is_visible()
    page.locator("#menu").click()
    assert page.locator("#contents").is_visible()
    page.keyboard.press("Escape")
    assert not page.locator("#contents").is_visible()
    page.locator("#menu").click()
    page.locator("#contents a[href='#layers']").click()
    assert not page.locator("#contents").is_visible()
    assert 0 <= page.evaluate("document.getElementById('layers').getBoundingClientRect().top") < 300


def test_a_reader_chooses_the_theme(browser, report):
    visit = Visit(browser, report)
    visit.page.select_option("#theme", "dark")
    visit.wait_until("document.getElementById('plot-scaling')._fullLayout.font.color === '#e8ebee'")
    shade = "getComputedStyle(document.querySelector('.card')).backgroundColor"
    assert visit.page.evaluate(shade) == "rgb(20, 24, 28)"
    visit.page.select_option("#theme", "light")
    visit.page.emulate_media(color_scheme="dark")
    visit.wait_until("document.getElementById('plot-scaling')._fullLayout.font.color === '#1b1f24'")
    assert visit.page.evaluate(shade) == "rgb(255, 255, 255)"
    assert visit.errors == []


def test_night_changes_the_ink_and_day_changes_it_back(browser, report):
    visit = Visit(browser, report, scheme="dark")
    assert visit.errors == []
    dark = visit.layout("scaling", "font.color")
    visit.page.emulate_media(color_scheme="light")
    visit.wait_until(f"document.getElementById('plot-scaling')._fullLayout?.font.color !== '{dark}'")
    background = visit.page.evaluate("getComputedStyle(document.querySelector('.card')).backgroundColor")
    assert background == "rgb(255, 255, 255)"


def test_paper_gets_the_light_theme_at_its_own_width(browser, report):
    visit = Visit(browser, report, scheme="dark", is_busy=True)
    visit.page.set_viewport_size({"width": 703, "height": 1000})
    not_drawn = (
        "[...document.querySelectorAll('.panel')].filter((card) => !card.querySelector('.plot')._fullLayout"
        " && !card.innerText.includes('No data')).length"
    )
    assert visit.page.evaluate(not_drawn) > 0
    visit.page.emulate_media(media="print", color_scheme="dark")
    visit.wait_until("document.getElementById('plot-timeline')._fullLayout?.width <= 703")
    assert visit.page.evaluate(not_drawn) == 0, "what nobody has scrolled to is printed too"
    assert visit.layout("timeline", "font.color") == "#1b1f24"
    assert visit.page.evaluate("document.documentElement.scrollWidth") <= 703
    assert visit.page.evaluate("[...document.querySelectorAll('.scroll')].every((box) => box.scrollWidth <= 703)")
    for name in (".choice", ".top", "#contents", ".tools"):
        assert not visit.page.locator(name).first.is_visible()
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


@pytest.mark.parametrize(("width", "scheme"), [(1280, "light"), (400, "dark")])
def test_curves_of_learning_have_colours_of_their_own_and_say_what_they_are(browser, others, tmp_path, width, scheme):
    visit = Visit(browser, write_report(others["trained"], tmp_path / "report.html"), width, scheme)
    page = visit.see("learning-curves").page
    looks = page.evaluate(
        "() => { const traces = document.getElementById('plot-learning-curves').data.filter(trace =>"
        " trace.mode === 'lines+markers' && !trace.xaxis);"
        " return traces.map(trace => [trace.line.color, trace.line.dash, trace.marker.symbol]); }"
    )
    assert len(looks) == 6
    assert all(len(set(column)) == 6 for column in zip(*looks, strict=True))
    assert page.locator("#plot-learning-curves .legend .traces").count() == 6
    page.evaluate(
        "() => { const plot = document.getElementById('plot-learning-curves');"
        " const curve = plot.data.findIndex(trace => trace.mode === 'lines+markers');"
        " Plotly.Fx.hover(plot, [{curveNumber: curve, pointNumber: 40}]); }"
    )
    assert "accuracy 0." in page.locator("#plot-learning-curves .hovertext").first.text_content()
    page.select_option("#choice-learning-curves", label="loss")
    visit.wait_until("document.getElementById('plot-learning-curves')._fullLayout.yaxis.title.text === 'loss'")
    assert page.evaluate("document.documentElement.scrollWidth") == width
    assert page.locator("#efficiency tbody tr").count() == 6
    assert visit.errors == []


HOSTILE = '<script>window.taken=1</script>"><img src=x onerror="window.taken=1"><svg onload="window.taken=1">'


def test_no_text_of_a_scenario_runs_as_a_script(browser, sweep, tmp_path):
    scenario = {**sweep.scenario, "name": HOSTILE, "description": HOSTILE}
    runs = tuple(replace(run, axes={**run.axes, HOSTILE: HOSTILE}, speedup_basis=HOSTILE) for run in sweep.runs)
    hostile = replace(sweep, scenario=scenario, runs=runs, assumptions=(HOSTILE,), warnings=(HOSTILE,))
    visit = Visit(browser, write_report(hostile, tmp_path / "report.html"))
    for name in visit.page.locator("section.card[id]").evaluate_all("cards => cards.map(card => card.id)"):
        if visit.page.locator(f"#plot-{name}").count():
            visit.see(name)
    assert visit.page.evaluate("window.taken") is None
    assert visit.page.locator("img[onerror], svg[onload]").count() == 0
    assert HOSTILE in visit.page.locator("body").inner_text()
