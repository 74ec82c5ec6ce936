"""The page of a plan is one safe file with the answer, the frontier, all tables, and the scenario of the best."""

from __future__ import annotations

import re
from pathlib import Path

from clustersim.plan_report import answer, plan_html, write_plan_report
from tests.plan_report.synthetic import make_comparison, make_plan
from tests.report.page_parts import names_packed, unpacked, without_packed

PLAN = make_plan()
BOTH = make_comparison(PLAN, make_plan(16, factor=0.6, gpu="b200"), without="no <i>layout</i> fits")


def test_the_page_is_one_file_that_loads_nothing(tmp_path: Path) -> None:
    html = write_plan_report(PLAN, tmp_path / "plan.html").read_text(encoding="utf-8")
    assert html == plan_html(PLAN)
    assert names_packed(html) == ["plotly", "figures"]
    assert not re.search(r"(src|href)\s*=\s*[\"']?(https?:)?//", without_packed(html))
    assert "default-src 'none'" in html
    assert len(html.encode()) < 1.5e6


def test_the_answer_heads_the_page() -> None:
    html = plan_html(PLAN)
    assert f"<h1>{answer(PLAN)[0]}</h1>" in html
    places = [html.index(text) for text in ("<h1>", ">Throughput, memory and cost</h2>", ">The best layouts</h2>",
                                            ">What was searched</h2>", ">Run the best</h2>")]  # fmt: skip
    assert places == sorted(places)


def test_the_tables_have_reasons_and_what_is_fixed() -> None:
    html = plan_html(PLAN)
    for text in ("zero-3: communication +10.0%", "does not fit in memory", "sequence_parallel: false", "sharding: none",
                 "data 4 x pipeline 2, 1f1b (rule of thumb)"):  # fmt: skip
        assert text in html


def test_the_scenario_can_be_saved_and_is_never_markup() -> None:
    html = plan_html(PLAN)
    assert "clustersim run best.yaml" in html
    assert 'download="best.yaml" href="data:text/yaml;charset=utf-8,name%3A%20small%0Amodel%3A%20%27%3Cb%3E%27' in html
    assert "model: &#x27;&lt;b&gt;&#x27;" in html
    assert "no &lt;i&gt;layout&lt;/i&gt; fits" in plan_html(BOTH)
    assert "<i>layout" not in plan_html(BOTH)


def test_clusters_stand_side_by_side() -> None:
    html = plan_html(BOTH)
    assert "Clusters side by side" in html
    assert "no plan: no &lt;i&gt;" in html
    for name in ("8 h100", "16 b200"):
        assert f"The best 2 layouts of {name}" in html
        assert f"The best layout of {name} as a scenario" in html
    assert "clustersim run best-16-b200.yaml" in html
    assert "dollars per million tokens" in unpacked(html, "figures")


def test_without_prices_there_is_no_figure_of_cost() -> None:
    html = plan_html(make_plan(gpu_dollars_per_hour=None))
    assert 'id="plot-memory"' in html
    assert 'id="plot-cost"' not in html
