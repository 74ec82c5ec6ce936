"""The pages of shipped scenarios stay small, with figures of every run."""

from __future__ import annotations

import pytest

import clustersim
from clustersim.report import report_html
from tests.report.page_parts import about

MOST_BYTES = 1.5e6


@pytest.mark.parametrize("name", ["gpt-3d", "hierarchical", "which-all-reduce", "failures"])
def test_the_page_of_a_scenario_with_three_runs_or_more_is_under_one_and_a_half_megabytes(name: str) -> None:
    sweep = clustersim.sweep(clustersim.load_scenario(name))
    page = report_html(sweep)
    assert len(sweep.runs) >= 3
    assert len(page.encode()) < MOST_BYTES
    assert all(run["kept"] for run in about(page)["runs"])
