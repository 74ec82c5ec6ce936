"""The page of a plan in a real browser: it draws, loads nothing, fits a phone, and saves figures and the scenario."""

from __future__ import annotations

import csv
import io
from pathlib import Path

import pytest

from clustersim.plan_report import write_plan_report
from tests.browser.test_report import Visit
from tests.plan_report.synthetic import make_comparison, make_plan

pytestmark = pytest.mark.browser

NAMES = ("cost", "memory", "times")


@pytest.fixture(scope="module")
def path(tmp_path_factory):
    dear = make_plan(16, factor=0.6, gpu="b200", ended="time", gap=0.04)
    found = make_comparison(make_plan(), dear, without="no layout fits")
    return write_plan_report(found, tmp_path_factory.mktemp("plan") / "plan.html")


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [1280, 400])
def test_every_figure_is_drawn_and_the_page_fits(browser, path, width, scheme):
    visit = Visit(browser, path, width, scheme)
    for name in NAMES:
        visit.see(name)
    assert not visit.errors
    assert [url for url in visit.requests if not url.startswith(("file:", "data:", "blob:"))] == []
    assert visit.page.evaluate("document.documentElement.scrollWidth") <= width
    labels = visit.page.locator("#plot-memory .legendtext").all_text_contents()
    assert {"best", "rule of thumb"} <= set(labels)


def test_hover_names_the_layout(browser, path):
    visit = Visit(browser, path).see("memory")
    place = visit.page.locator("#plot-memory .scatterlayer .point").nth(1)
    place.hover(force=True)
    visit.page.wait_for_selector("#plot-memory .hoverlayer text")
    assert "data 8" in visit.page.locator("#plot-memory .hoverlayer").text_content()


def test_the_numbers_are_saved_as_csv(browser, path):
    visit = Visit(browser, path).see("memory")
    with visit.page.expect_download() as download:
        visit.page.locator("#memory button[data-save=csv]").click()
    assert download.value.suggested_filename == "small-memory.csv"
    rows = list(csv.DictReader(io.StringIO(Path(download.value.path()).read_text(encoding="utf-8"))))
    assert len(rows) == 6
    assert rows[0]["layout"] == "data 8"
    assert rows[0]["note"] == "best"
    assert float(rows[0]["memory of the fullest GPU (GB)"]) == 60


def test_the_scenario_of_the_best_is_saved(browser, path):
    visit = Visit(browser, path)
    with visit.page.expect_download() as download:
        visit.page.locator("a[download='best-16-b200.yaml']").click()
    assert download.value.suggested_filename == "best-16-b200.yaml"
    assert Path(download.value.path()).read_text(encoding="utf-8") == "name: small\nmodel: '<b>'\n"


def test_a_figure_that_says_nothing_is_folded_and_opens(browser, tmp_path):
    visit = Visit(browser, write_plan_report(make_plan(), tmp_path / "plan.html"))
    assert "the fastest is the cheapest" in visit.page.locator("#under-cost").inner_text()
    assert visit.page.locator("#body-cost").is_hidden()
    visit.open("cost").see("cost")
    assert not visit.errors
