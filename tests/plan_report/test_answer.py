"""The answer of a plan names the best layout, the rule of thumb beside, what may be left, and the cost."""

from __future__ import annotations

from dataclasses import replace

import pytest

from clustersim.plan_report import answer
from clustersim.plan_report.answer import gain_over
from clustersim.planner import ClusterComparison, Plan, totals
from clustersim.report.words import THIN
from tests.plan_report.synthetic import make_comparison, make_plan


def told(found: Plan | ClusterComparison) -> list[str]:
    return [sentence.replace(THIN, " ") for sentence in answer(found)]


def test_a_finished_plan_proves_that_nothing_is_better() -> None:
    assert told(make_plan()) == [
        "On 8 h100, the fastest layout is data 8: 64 000 tokens per second, with 60.0 GB of 80.0 GB memory.",
        "It is 25 % faster than what a rule of thumb gives (data 4 x pipeline 2, 1f1b: 51 200 tokens per second).",
        "No other layout is better: 3 of 10 layouts were simulated, and the bounds of the others are worse.",
        "It costs $24 an hour, $0.104 per million tokens; 1T tokens take 181 days and $104 167.",
    ]


def test_a_plan_that_ended_on_time_says_what_may_be_left() -> None:
    found = told(make_plan(ended="time", gap=0.04))
    assert found[0].startswith("On 8 h100, the fastest layout found is data 8:")
    assert found[2] == (
        "The time limit ended the search: 3 of 10 layouts were simulated, and one of the others could be at most "
        "4.0 % better."
    )
    assert "by their bounds none of the others is better" in told(make_plan(ended="time", gap=0.0))[2]
    assert told(make_plan(ended="interrupted"))[2] == "The search was interrupted: 3 of 10 layouts were simulated."


def test_figures_are_those_of_run_where_these_are_known() -> None:
    """A run takes 2 % longer than planned and the rule of thumb's 1.3 s: 64 000 / 1.02 tokens a second, 1.3 / 1.02."""
    plan = make_plan(left_out=("messages",))
    assert plan.rule_of_thumb is not None
    best = (replace(plan.best[0], run_s=1.02), *plan.best[1:])
    one = replace(plan, best=best)
    assert "62 745 tokens per second" in told(one)[0]
    assert told(one)[3].endswith("1T tokens take 184 days and $106 250.")
    assert "25 % faster than what a rule of thumb gives (data 4 x pipeline 2, 1f1b: 51 200" in told(one)[1]
    both = replace(one, rule_of_thumb=replace(plan.rule_of_thumb, run_s=1.3))
    assert "27 % faster than what a rule of thumb gives (data 4 x pipeline 2, 1f1b: 49 231" in told(both)[1]
    assert told(both)[2].startswith("No other layout is better in a plan, which is without messages: ")


def test_the_objective_decides_what_best_means() -> None:
    plan = make_plan(objective="cost")
    rule = plan.rule_of_thumb
    assert rule is not None
    assert gain_over(plan, plan.best[0], rule) == pytest.approx(1 - 1 / 1.25)
    assert told(plan)[0].startswith("On 8 h100, the cheapest layout is data 8: $0.104 per million tokens, 64 000")
    assert "20 % cheaper than" in told(plan)[1]
    energy = told(make_plan(objective="energy"))
    assert "the layout with the least energy is data 8: at most 87.5 J per sample" in energy[0]
    assert "20 % lower in energy than" in energy[1]


def test_without_a_rule_a_price_or_a_length_nothing_is_said_of_them() -> None:
    plan = make_plan(rule_of_thumb=None, gpu_dollars_per_hour=None, train_samples=None)
    plan = replace(plan, best=tuple(replace(each, dollars_per_sample=None) for each in plan.best))
    assert len(told(plan)) == 2
    assert told(replace(plan, train_samples=1e9))[-1] == "1T tokens take 181 days."
    assert told(make_plan(rule_of_thumb=make_plan().best[0]))[1] == "A rule of thumb gives the same layout."
    images = make_plan(tokens_per_sample=None)
    assert "64 samples per second" in told(images)[0]
    assert "per million samples" in told(images)[3]


def test_totals_are_those_of_the_rate_and_the_price() -> None:
    plan = make_plan()
    found = totals(plan, plan.best[0])
    assert found.tokens_per_s == found.rate == 64_000
    assert found.dollars_per_hour == 24
    assert found.dollars_per_million == pytest.approx(24 / 3600 / 64_000 * 1e6)
    assert found.train_s == pytest.approx(1e9 / 64)
    assert found.train_dollars == pytest.approx(1e9 / 64 / 3600 * 24)


def test_the_cheapest_cluster_comes_first_and_the_fastest_beside() -> None:
    cheap, fast = make_plan(8), make_plan(16, factor=0.6, gpu="b200", gpu_dollars_per_hour=3.0)
    found = told(make_comparison(cheap, fast, without="no layout fits"))
    assert found == [
        "8 h100 are cheapest: $0.104 per million tokens, 17 % less than 16 b200 ($0.125).",
        "16 b200 are fastest: they train 106 667 tokens per second, 1.67× 8 h100.",
        "With 8 h100, 1T tokens take 181 days and $104 167; with 16 b200, 109 days and $125 000.",
        "4 t4 has no plan: no layout fits.",
    ]


def test_one_cluster_may_be_cheapest_and_fastest() -> None:
    found = told(make_comparison(make_plan(8), make_plan(8, factor=0.5, gpu="b200", ended="time", gap=0.1)))
    assert found[0].startswith("8 b200 are cheapest and fastest: $0.0521 per million tokens, 50 % less than 8 h100")
    assert found[1] == "They train 128 000 tokens per second, 2.00× 8 h100."
    assert found[-1].startswith("The time limit ended the search on 8 b200 (10 % at most): ")


def test_clusters_without_a_price_are_compared_by_their_rate() -> None:
    free = make_plan(8, factor=0.5, gpu="b200", gpu_dollars_per_hour=None)
    free = replace(free, best=tuple(replace(each, dollars_per_sample=None) for each in free.best))
    assert told(make_comparison(make_plan(8), free))[0] == (
        "8 b200 are fastest: 128 000 tokens per second, 2.00× 8 h100."
    )


def test_clusters_are_compared_by_energy_where_that_is_the_objective() -> None:
    found = replace(make_comparison(make_plan(8), make_plan(8, factor=0.5, gpu="b200")), objective="energy")
    assert told(found)[0] == (
        "8 b200 need the least energy: at most 43.8 J per sample, 50 % less than 8 h100, at 128 000 tokens per second."
    )


def test_a_single_cluster_with_a_plan_is_told_as_a_plan() -> None:
    found = told(make_comparison(make_plan(), without="no layout fits"))
    assert found[0] == "Only 8 h100 has a layout."
    assert found[1] == told(make_plan())[0]
    assert found[-1] == "4 t4 has no plan: no layout fits."
