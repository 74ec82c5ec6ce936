"""What if as one file, in a real browser: figures follow the knobs, and what is refused or missing says so."""

from __future__ import annotations

import pytest

from clustersim.what_if_file import write_what_if
from tests.cli.tiny import SCENARIO

pytestmark = pytest.mark.browser


class Visit:
    """One page with everything it complained about and asked for."""

    def __init__(self, browser, path, width=1280, scheme="light"):
        self.page = browser.new_page(viewport={"width": width, "height": 900}, color_scheme=scheme)
        self.errors, self.requests = [], []
        self.page.on("pageerror", lambda error: self.errors.append(str(error)))
        self.page.on("console", lambda message: self.errors.append(message.text) if message.type == "error" else None)
        self.page.on("request", lambda request: self.requests.append(request.url))
        self.page.goto(path.as_uri())
        self.shows("own")

    def shows(self, key):
        """Wait until the page shows the settings of a key."""
        self.page.wait_for_selector(f"body[data-shown='{key}']", timeout=60_000)
        return self

    def knob(self, name):
        return self.page.locator(f"[name='{name}']")

    def place(self, name):
        """Return the number of a knob, which is also in its id."""
        return int(self.knob(name).get_attribute("id").removeprefix("knob-"))

    def turn(self, name, stop):
        """Set a knob to the stop of a number, and wait until the page has followed."""
        place = self.place(name)
        knob, number = self.knob(name), str(stop)
        if knob.evaluate("knob => knob.tagName") == "SELECT":
            knob.select_option(value=number)
        else:
            knob.fill(number)
        return self.page.wait_for_selector(f"body[data-shown*='{place}={number}']", timeout=30_000)

    @property
    def headline(self):
        return self.page.locator("#headline").inner_text()

    def bars(self, which="now"):
        paths = self.page.locator(f"#plot-breakdown-{which} .barlayer .point path")
        return paths.evaluate_all("all => all.map((one) => Math.round(one.getBBox().width))")


@pytest.fixture(scope="module")
def path(tmp_path_factory):
    folder = tmp_path_factory.mktemp("what-if")
    (folder / "tiny.yaml").write_text(SCENARIO)
    return write_what_if(folder / "tiny.yaml", folder / "what-if.html", most=120, workers=1)


@pytest.fixture
def visit(browser, path):
    found = Visit(browser, path)
    yield found
    assert found.errors == []
    assert [url for url in found.requests if not url.startswith(("file:", "data:", "blob:"))] == []
    found.page.close()


def test_all_figures_of_the_scenario_are_drawn_at_once(visit):
    for name in ("scaling", "breakdown", "timeline"):
        assert visit.page.locator(f"#plot-{name}-now .main-svg").first.is_visible()
        assert visit.page.locator(f"#title-{name}-now").inner_text()
    assert "GPUs train" in visit.headline
    assert visit.page.locator("#command").inner_text().startswith("clustersim run ")
    assert "model: alexnet" in visit.page.locator("#scenario").inner_text()


def test_everything_follows_a_knob(visit):
    headline, bars, command = visit.headline, visit.bars(), visit.page.locator("#command").inner_text()
    visit.turn("batch.per_gpu", 5)
    assert visit.headline != headline
    assert visit.bars() != bars
    assert visit.page.locator("#command").inner_text() != command
    visit.page.locator("#back").click()
    visit.shows("own")
    assert (visit.headline, visit.bars()) == (headline, bars)


def test_knobs_are_turned_by_the_keyboard(visit):
    place = visit.place("batch.per_gpu")
    visit.knob("batch.per_gpu").focus()
    before = int(visit.knob("batch.per_gpu").input_value())
    visit.page.keyboard.press("ArrowRight")
    visit.page.wait_for_selector(f"body[data-shown*='{place}={before + 1}']")
    assert visit.knob("batch.per_gpu").get_attribute("aria-valuetext")


def refused_stop(visit, name):
    """Return a stop of a knob whose settings are refused."""
    for stop in range(1, visit.knob(name).evaluate("knob => Number(knob.max) + 1")):
        visit.turn(name, stop)
        if visit.page.locator("#refused").is_visible():
            return stop
    raise AssertionError(f"nothing is refused by {name}")


def test_what_is_refused_says_why_and_the_last_curve_stays_in_grey(visit):
    refused_stop(visit, "parallelism.pipeline")
    assert visit.headline == "These settings are refused."
    assert "parallelism" in visit.page.locator("#refused").inner_text()
    assert not visit.page.locator("#scenario").is_visible()
    assert visit.page.locator("#plot-scaling-now .main-svg").first.is_visible()
    assert visit.page.locator("#figures").evaluate("each => getComputedStyle(each).opacity") == "0.4"
    above, below = (visit.page.locator(one).bounding_box()["y"] for one in ("#refused", "#scaling"))
    assert above < below
    visit.page.locator("#back").click()
    visit.shows("own")
    assert not visit.page.locator("#refused").is_visible()
    assert visit.page.locator("#figures").evaluate("each => getComputedStyle(each).opacity") == "1"


def alone(visit):
    """Return the names of two knobs that are turned one at a time: one on a scale, and a choice."""
    knobs = visit.page.evaluate("JSON.parse(document.getElementById('page').textContent).knobs")
    found = {knob["kind"]: knob["name"] for knob in reversed(knobs) if not knob["combined"]}
    return found["number"], found["choice"]


def test_a_combination_that_was_not_computed_is_grey_with_the_reason(visit):
    scale, choice = alone(visit)
    visit.turn(scale, 1)
    options = visit.knob(choice).locator("option:not(:checked)")
    assert all(options.nth(number).is_disabled() for number in range(options.count()))
    grey = visit.page.locator("#grey")
    assert "were computed only with" in grey.inner_text()
    grey.locator("button").click()
    visit.shows("own")
    assert any(options.nth(number).is_enabled() for number in range(options.count()))
    assert "were computed only with" not in grey.inner_text()


def test_a_slider_on_a_combination_that_was_not_computed_says_so(visit):
    knobs = visit.page.evaluate("JSON.parse(document.getElementById('page').textContent).knobs")
    first, second = [knob["name"] for knob in knobs if not knob["combined"] and knob["kind"] == "number"][:2]
    visit.turn(first, 1)
    visit.turn(second, 1)
    assert "not in this file" in visit.headline
    assert visit.page.locator("#figures").evaluate("each => each.classList.contains('stale')")
    visit.page.locator("#refused button").click()
    visit.shows("own")


def test_a_pinned_point_stands_beside_the_present_one(visit):
    pinned = visit.headline
    visit.page.locator("#pin").click()
    visit.turn("batch.per_gpu", 5)
    assert visit.page.locator("#compare").is_visible()
    assert "the pinned run" in visit.page.locator("#compare-under").inner_text()
    assert visit.page.locator("#compare tbody tr").count() == 2
    assert visit.bars("pinned")
    assert visit.bars("pinned") != visit.bars("now")
    left, right = (visit.page.locator(f"#plot-scaling-{which}").bounding_box() for which in ("pinned", "now"))
    assert left["y"] == pytest.approx(right["y"], abs=40)
    assert left["x"] + left["width"] <= right["x"]
    visit.page.locator("#unpin").click()
    assert not visit.page.locator("#compare").is_visible()
    assert visit.headline != pinned


def test_the_page_says_what_is_in_it(visit):
    text = visit.page.locator("main").inner_text()
    assert "All combinations of" in text
    assert "points in all" in text


@pytest.mark.parametrize(("width", "scheme"), [(390, "dark"), (1280, "dark"), (700, "light")])
def test_it_fits_a_phone_and_the_night(browser, path, width, scheme):
    visit = Visit(browser, path, width, scheme)
    visit.page.locator("#pin").click()
    assert visit.page.evaluate("document.documentElement.scrollWidth") == width
    background = visit.page.evaluate("getComputedStyle(document.body).backgroundColor")
    assert (background == "rgb(12, 15, 18)") == (scheme == "dark")
    assert visit.errors == []
    visit.page.close()
