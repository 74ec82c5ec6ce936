"""A real browser for the tests: the machine's Chromium, or the one Playwright brought along."""

from __future__ import annotations

import shutil

import pytest


@pytest.fixture(scope="session")
def browser():
    """Start Chromium without a window; fail, not skip, where there is none."""
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        found = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
        path = found or playwright.chromium.executable_path
        if not shutil.which(path):
            pytest.fail("no Chromium found: install the package `chromium`, or run `playwright install chromium`")
        browser = playwright.chromium.launch(executable_path=path, args=["--no-sandbox", "--disable-gpu"])
        yield browser
        browser.close()
