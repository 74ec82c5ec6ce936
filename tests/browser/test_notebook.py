"""A sweep as the output of a notebook's cell, in a real browser: the frame draws its report without the network."""

from __future__ import annotations

import pytest

from tests.report.synthetic import make_sweep

pytestmark = pytest.mark.browser


@pytest.fixture(scope="module")
def visit(browser, tmp_path_factory):
    """Open a page with the output, as an exported notebook has it; return the page and what it complained about."""
    path = tmp_path_factory.mktemp("notebook") / "notebook.html"
    path.write_text(f"<!DOCTYPE html><meta charset=utf-8><h1>Notebook</h1>{make_sweep()._repr_html_()}<p>after")
    page, complaints, requests = browser.new_page(viewport={"width": 1000, "height": 900}), [], []
    page.on("pageerror", lambda error: complaints.append(str(error)))
    page.on("console", lambda message: complaints.append(message.text) if message.type == "error" else None)
    page.on("request", lambda request: requests.append(request.url))
    page.goto(path.as_uri())
    page.frame_locator("iframe").locator("body[data-drawn]").wait_for(timeout=60_000)
    return page, complaints, requests


def test_the_frame_draws_its_figures_without_the_network(visit):
    page, complaints, requests = visit
    assert page.frame_locator("iframe").locator("#plot-scaling .main-svg").first.is_visible()
    assert complaints == []
    assert [url for url in requests if not url.startswith(("file:", "data:", "blob:", "about:"))] == []


def test_the_table_for_notebooks_without_frames_is_covered(visit):
    page, _, _ = visit
    on_top = """() => { const { x, y, width } = document.querySelector('table').getBoundingClientRect();
        return document.elementFromPoint(x + width / 2, y + 20).tagName; }"""
    assert page.evaluate(on_top) == "IFRAME"


def test_the_report_cannot_read_the_notebook(visit):
    page, _, _ = visit
    frame = page.frames[1]
    reached = (
        "() => { try { return String(window.parent.document.title !== null); } catch (error) { return error.name; } }"
    )
    assert frame.evaluate(reached) == "SecurityError"


def test_a_link_within_the_report_stays_in_the_frame(visit):
    page, _, _ = visit
    inside = page.frame_locator("iframe")
    frame = page.frames[1]
    frame.evaluate("""() => { const link = document.createElement('a');
        link.href = '#links'; link.id = 'to-links'; link.textContent = 'links'; document.body.prepend(link); }""")
    inside.locator("#to-links").click()
    page.wait_for_timeout(300)
    assert inside.locator("#links").count() == 1
    assert frame.evaluate("document.scrollingElement.scrollTop") > 500
    assert page.evaluate("location.hash") == ""


def test_a_reader_chooses_the_run_in_the_frame(visit):
    page, complaints, _ = visit
    inside = page.frame_locator("iframe")
    title = inside.locator("#title-timeline")
    before = title.inner_text()
    inside.locator("#run").select_option(index=0 if inside.locator("#run").input_value() != "0" else 1)
    page.wait_for_timeout(1500)
    assert title.inner_text() != before
    assert complaints == []
