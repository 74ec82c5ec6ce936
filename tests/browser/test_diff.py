"""The page of `diff` in a real browser: the waterfall is drawn in both variants, wide and narrow, light and dark."""

from __future__ import annotations

import pytest

from clustersim.difference import diff, write_diff_report
from tests.browser.test_report import Visit
from tests.difference.pairs import compared, small

pytestmark = pytest.mark.browser


@pytest.fixture(scope="module")
def page(tmp_path_factory):
    found = compared((), ("topology.link=5 Gbit/s",))
    return write_diff_report(found, tmp_path_factory.mktemp("diff") / "diff.html")


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [1280, 400])
def test_the_waterfall_is_drawn_and_nothing_is_asked_for(browser, page, width, scheme):
    visit = Visit(browser, page, width, scheme).see("waterfall")
    by_part = visit.page.locator("#plot-waterfall .barlayer .point").count()
    visit.page.select_option("#choice-waterfall", "1")
    visit.wait_until(f"document.querySelectorAll('#plot-waterfall .barlayer .point').length > {by_part}")
    assert by_part >= 3  # A, the communication, B
    assert visit.page.evaluate("document.documentElement.scrollWidth") <= width
    assert visit.errors == []
    assert all(request.startswith(("file:", "data:", "blob:")) for request in visit.requests)


def test_the_numbers_of_the_waterfall_are_a_table(browser, page):
    visit = Visit(browser, page).see("waterfall")
    visit.page.locator("#waterfall [data-table]").click()
    text = visit.page.locator("#data-waterfall").inner_text()
    assert "exposed communication" in text
    assert "time after it (s)" in text


def test_two_equal_forecasts_have_a_page_too(browser, tmp_path):
    visit = Visit(browser, write_diff_report(diff(small(), small()), tmp_path / "same.html")).see("waterfall")
    assert visit.page.locator("h1").inner_text().startswith("There is no difference")
    assert visit.page.locator("#plot-waterfall .barlayer .point").count() == 2
    assert visit.errors == []
