"""A pinned run beside the present one: curves of both, and what differs."""

from __future__ import annotations

import pytest

from clustersim.what_if import Evaluation, WhatIf
from clustersim.what_if.comparison import PinnedComparison, compare
from tests.what_if.test_what_if import STAR


@pytest.fixture(scope="module")
def study() -> WhatIf:
    return WhatIf(STAR)


def _compared(study: WhatIf, pinned: Evaluation, now: Evaluation) -> PinnedComparison:
    found = compare(pinned, now, study.knobs)
    assert found is not None
    return found


def test_a_comparison_has_both_curves_and_the_ratio_of_their_ends(study: WhatIf) -> None:
    pinned, now = study.evaluate({}), study.evaluate({"topology.link": "infiniband-fdr", "num_gpus": 16})
    found = _compared(study, pinned, now)
    lines = [trace for trace in found.figures["scaling"].traces if trace.get("mode") == "lines+markers"]
    assert [trace["name"] for trace in lines[::2]] == ["now", "pinned"]
    assert pinned.run is not None
    assert now.run is not None
    rates = [pinned.run.samples_per_s, now.run.samples_per_s]
    assert [lines[2]["y"][-1], lines[0]["y"][-1]] == pytest.approx(rates)
    (row,) = (row for row in found.rows if row[0] == "samples/s")
    assert float(row[3].split()[0].replace("+", "")) == pytest.approx(100 * (rates[1] / rates[0] - 1), abs=1)


def test_the_table_names_the_knobs_that_differ(study: WhatIf) -> None:
    found = _compared(study, study.evaluate({}), study.evaluate({"batch.per_gpu": 32}))
    assert found.rows[0] == ("Batch of a GPU", "16", "32", "")
    assert "Link of the network" not in {row[0] for row in found.rows}


def test_a_run_beside_itself_differs_in_nothing(study: WhatIf) -> None:
    found = _compared(study, study.evaluate({}), study.evaluate({}))
    assert {row[3].replace("\u202f", "").replace("+", "").strip() for row in found.rows} <= {"0%", "0.0%", ""}


def test_a_refused_evaluation_is_not_compared(study: WhatIf) -> None:
    refused = study.evaluate({"parallelism.tensor": 16})
    assert refused.is_refused, refused.headline
    assert compare(study.evaluate({}), refused, study.knobs) is None
