"""What a page and an answer say of trainings."""

from __future__ import annotations

from dataclasses import replace

import pytest

from clustersim.report import FIGURES, report_html
from clustersim.report.consensus import consensus_data, draw_consensus
from clustersim.report.figures import SweepFigure
from clustersim.report.findings import findings
from clustersim.report.learning_cards import efficiency_rows, efficiency_title
from clustersim.report.learning_curves import MAX_CURVES, draw_learning_curves, learning_curves_data
from clustersim.report.learning_words import first_at_target, learning_sentences, title_words
from clustersim.report.palette import DASHES, MARKERS, series_colour, series_dash
from clustersim.report.text_table import plain
from clustersim.report.time_to_target import draw_time_to_target, time_to_target_data
from clustersim.report.trainings import comparisons
from clustersim.results.learning import MAX_LOSS, CurvePoint
from tests.report.learning_runs import curve_of, joined, six_strategies, steps_sweep, trained_sweep, training
from tests.report.page_parts import names_packed
from tests.report.synthetic import make_sweep

LEARNING = [name for name, kind in FIGURES.items() if kind.part == "learning"]


def sentence(sweep) -> str:
    return plain(" | ".join(learning_sentences(sweep)))


def title(sweep, metric="accuracy") -> str:
    return plain(title_words(comparisons(sweep)[0], metric))


def two(one, other):
    """Return a sweep of two strategies with these trainings."""
    return trained_sweep({"async": one, "all-reduce": other})


def test_a_lead_that_changes_before_the_target_is_said_in_the_answer_and_the_title() -> None:
    sweep = two(training(curve_of(2.0, 0.2)), training(curve_of(4.0, 0.02)))
    assert sentence(sweep) == (
        "all-reduce reaches accuracy 0.95 first, after 13.6 s; async does not reach it; "
        "async leads until accuracy 0.746 (5.20 s), then all-reduce"
    )
    assert title(sweep).lower() == sentence(sweep)
    assert title(sweep, "loss") == "Async leads until loss 0.636 (5.20 s), then all-reduce"


def test_a_lead_that_changes_beyond_the_target_is_not_said() -> None:
    sweep = two(training(curve_of(2.0, 0.045)), training(curve_of(4.0, 0.02)))  # the curves cross at 0.954
    assert sentence(sweep) == "async reaches accuracy 0.95 first, after 10.4 s; all-reduce takes 1.31× as long"
    assert title(sweep).lower() == sentence(sweep)


def test_a_lead_in_the_first_tenth_of_the_levels_is_not_said() -> None:
    for accuracy, is_said in ((0.3, False), (0.6, True)):  # a tenth of the levels are below 0.326
        start, *points = curve_of(4.0)
        jump = CurvePoint(0.01, 1, 2.5 * (1 - accuracy), accuracy)
        quick = [start, jump, *(point._replace(seconds=point.seconds + 4.0) for point in points)]
        found = sentence(two(training(quick), training(curve_of(4.0))))
        assert found.startswith("all-reduce reaches accuracy 0.95 first")
        assert ("; async leads until" in found) == is_said


def test_no_lead_is_said_of_equals() -> None:
    alike = trained_sweep({
        "async": training(*(curve_of(tau, 0.06) for tau in (2.0, 2.2))),
        "softsync": training(*(curve_of(tau, 0.06) for tau in (2.2, 2.0))),
        "all-reduce": training(*(curve_of(4.0, 0.02) for _ in range(2))),
    })  # fmt: skip
    assert sentence(alike) == (
        "all-reduce reaches accuracy 0.95 first, after 13.6 s; async and softsync do not reach it"
    )
    assert title(alike, "loss") == "No run clearly leads in loss"


def test_one_that_leads_everywhere_is_said_to() -> None:
    sweep = two(training(curve_of(2.0)), training(curve_of(4.0)))
    assert title(sweep, "loss") == "Async leads in loss"
    assert sentence(sweep) == "async reaches accuracy 0.95 first, after 6.80 s; all-reduce takes 2.00× as long"
    assert title(sweep).lower() == sentence(sweep)


def test_what_the_seeds_do_not_tell_apart_is_equal() -> None:
    one = training(*(curve_of(tau) for tau in (2.0, 3.0, 4.0)))
    other = training(*(curve_of(tau) for tau in (3.0, 2.2, 3.9)))
    assert sentence(two(one, other)) == (
        "async reaches accuracy 0.95 first, after 10.2 s; all-reduce is equal within the seeds"
    )
    assert title(two(one, other), "loss") == "No run clearly leads in loss"
    single = two(training(curve_of(3.0)), training(curve_of(3.0)))
    assert sentence(single).endswith("; all-reduce is equally fast")


def test_many_others_are_counted_and_the_first_is_that_of_the_shortest_mean_time() -> None:
    spread = {
        f"kind{number}": training(*(curve_of(tau + 0.01 * number) for tau in (2.0, 3.0, 4.0)[:: 1 - 2 * (number % 2)]))
        for number in range(5)
    }
    sweep = trained_sweep({**spread, "never": training(*[curve_of(3.0, 0.2)] * 3)})
    found = first_at_target(comparisons(sweep)[0])
    assert found.first.learning.time_to_target_s == min(
        run.learning.time_to_target_s for run in sweep.runs if run.learning.time_to_target_s is not None
    )
    assert sentence(sweep).endswith("; 4 others are equal within the seeds; never does not reach it")
    assert len(sentence(sweep)) < 160


def test_a_run_behind_a_slower_one_is_not_called_equal() -> None:
    found = first_at_target(comparisons(trained_sweep({
        "best": training(*[curve_of(2.0)] * 3),
        "later": training(*[curve_of(2.4)] * 3),
        "noisy": training(*(curve_of(tau) for tau in (1.9, 2.0, 3.8))),
    }))[0])  # fmt: skip
    assert [each.name for each in found.slower] == ["later", "noisy"]
    assert found.equals == ()


def test_a_target_that_is_never_reached_is_said_not_to_be() -> None:
    sweep = two(training(curve_of(2.0, 0.2)), training(curve_of(4.0, 0.2)))
    assert sentence(sweep) == "no run reaches accuracy 0.95; async comes closest, with 0.8 at the end"
    assert title(sweep).lower() == sentence(sweep)
    some = two(training(curve_of(2.0, 0.2), curve_of(2.0, 0.02)), training(*[curve_of(9.0, 0.2)] * 2))
    assert sentence(some) == "no run reaches accuracy 0.95 with every seed; async does with 1 of 2"


def test_a_run_that_learns_nothing_is_said_to() -> None:
    flat = [point._replace(loss=2.4 if point.updates else 2.3, accuracy=0.1) for point in curve_of(2.0)]
    found = sentence(two(training(flat), training(curve_of(2.0))))
    assert found == (
        "all-reduce reaches accuracy 0.95 first, after 6.80 s; async does not reach it | "
        "the loss of async ends no lower than that of its first weights: try a smaller learning rate"
    )


def test_the_first_sentence_is_on_learning_and_the_last_one_points_to_it() -> None:
    sweep = six_strategies()
    stale = tuple(
        replace(run, staleness={"mean": 7.0}) if run.axes["strategy"] == "async" else run for run in sweep.runs
    )
    first, *others = [plain(text) for text in findings(replace(sweep, runs=stale))]
    assert first.startswith("Bounded-staleness reaches accuracy 0.95 first")
    assert others[0].startswith("In samples per second, ")
    assert "so the time to the target counts, not samples per second" in others[-1]
    assert not any("is not learning" in text for text in (first, *others))


def test_one_training_has_its_time_or_its_end() -> None:
    alone = trained_sweep({"async": training(*map(curve_of, (2.0, 2.1, 2.2)))})
    assert sentence(alone) == "accuracy 0.95 is reached after 7.20 s (6.80 s to 7.60 s)"
    same = trained_sweep({"async": training(*[curve_of(2.0)] * 3)})
    assert sentence(same) == "accuracy 0.95 is reached after 6.80 s"
    ended = trained_sweep({"async": training(curve_of(2.0), target=None)})
    assert sentence(ended) == "the training ends with accuracy 0.98 after 20.0 s"
    never = trained_sweep({"async": training(curve_of(2.0, 0.2))})
    assert sentence(never) == "accuracy 0.95 is never reached: the training ends with accuracy 0.8"
    assert sentence(make_sweep()) == ""


def test_six_curves_differ_by_colour_dashes_and_marker() -> None:
    (data, _) = learning_curves_data(six_strategies())
    figure = draw_learning_curves(data)
    curves = [trace for trace in figure.traces if trace["mode"] == "lines+markers" and "xaxis" not in trace]
    looks = [(trace["line"]["color"], trace["line"]["dash"], trace["marker"]["symbol"]) for trace in curves]
    assert len(curves) == 6
    assert all(len(set(column)) == 6 for column in zip(*looks, strict=True))
    assert len(set(DASHES)) >= 6
    assert len(set(MARKERS)) >= 6


def test_curves_of_one_colour_differ_by_dashes() -> None:
    looks = [(series_colour(number), series_dash(number)) for number in range(MAX_CURVES)]
    assert len(set(looks)) == MAX_CURVES


def test_the_target_is_a_line_with_its_name_and_reached_where_it_is() -> None:
    (data, loss) = learning_curves_data(six_strategies())
    figure = draw_learning_curves(data)
    (line, _), (words, *names) = figure.layout["shapes"], figure.layout["annotations"]
    assert line["y0"] == line["y1"] == pytest.approx(1.30103, rel=1e-5)  # minus the logarithm of 1 - 0.95
    assert words["text"] == "target 0.95"
    assert {name["text"] for name in names} <= {line.label for line in data.lines}
    assert figure.narrow["annotations"] == [words]
    rings = [trace for trace in figure.traces if trace["mode"] == "markers" and "xaxis" not in trace]
    times_s = [line.time_to_target_s for line in data.lines if line.time_to_target_s is not None]
    assert [ring["x"][0] for ring in rings] == pytest.approx(times_s, rel=1e-4)
    assert (loss.metric, loss.target) == ("loss", None)
    assert draw_learning_curves(loss).layout["shapes"] == []


def test_the_metric_of_the_target_comes_first() -> None:
    by_loss = two(
        training(curve_of(2.0), metric="loss", target=0.3), training(curve_of(3.0), metric="loss", target=0.3)
    )
    assert [each.metric for each in learning_curves_data(by_loss)] == ["loss", "accuracy"]
    assert [each.metric for each in learning_curves_data(six_strategies())] == ["accuracy", "loss"]


def test_a_task_without_classes_has_losses_alone() -> None:
    points = [point._replace(accuracy=None) for point in curve_of(2.0)]
    sweep = two(training(points, metric="loss", target=0.5), training(points, metric="loss", target=0.5))
    (data,) = learning_curves_data(sweep)
    assert data.metric == "loss"
    assert efficiency_rows(comparisons(sweep))[1][0][-1] == "–"
    assert "–" in report_html(sweep)


def test_of_fifty_runs_the_best_and_the_last_are_drawn() -> None:
    sweep = trained_sweep({f"kind{number}": training(curve_of(2.0 + 0.1 * number)) for number in range(50)})
    (data, _) = learning_curves_data(sweep)
    assert [line.label for line in data.lines] == [*(f"kind{number}" for number in range(MAX_CURVES - 1)), "kind49"]
    assert data.note == "The best 7 of 50 runs and the last one are drawn."
    assert len(efficiency_rows(comparisons(sweep))[1]) == 50


def test_runs_without_training_are_left_out() -> None:
    sweep = trained_sweep({"async": training(curve_of(2.0)), "all-reduce": training(curve_of(3.0)), "server": None})
    (data, _) = learning_curves_data(sweep)
    assert [line.label for line in data.lines] == ["async", "all-reduce"]
    assert plain(data.note) == "1 run without training is left out."
    assert comparisons(trained_sweep({"async": None})) == ()
    assert "packed-learning-curves" not in report_html(trained_sweep({"async": None, "server": None}))


def test_other_conditions_are_another_comparison_with_its_own_words() -> None:
    calm = trained_sweep({"async": training(curve_of(4.0)), "all-reduce": training(curve_of(3.0))}, stragglers="none")
    rough = trained_sweep({"async": training(curve_of(3.0)), "all-reduce": training(curve_of(6.0))}, stragglers="heavy")
    sweep = joined(calm, rough)
    found = comparisons(sweep)
    assert [each.where for each in found] == ["with heavy", "with stragglers none"]
    one, other = sentence(sweep).split(" | ")
    assert one == "with heavy, async reaches accuracy 0.95 first, after 10.2 s; all-reduce does not reach it"
    assert other.startswith("with stragglers none, all-reduce reaches accuracy 0.95 first, after 10.2 s")
    assert [plain(data.title).lower() for data in learning_curves_data(sweep)][::2] == [one, other]
    assert [data.where for data in learning_curves_data(sweep)] == ["with heavy"] * 2 + ["with stragglers none"] * 2
    assert efficiency_rows(found)[0][0] == "conditions"


def test_a_number_has_its_optimum_in_the_title() -> None:
    data = time_to_target_data(steps_sweep())
    assert plain(data.title) == (
        "Accuracy 0.95 is reached first with steps 8, after 10.7 s; beyond steps 32 it is not reached"
    )
    assert sentence(steps_sweep()) == plain(data.title).replace("Accuracy", "accuracy")
    (line,) = data.lines
    assert line.seconds[-1] is None
    assert line.best == 2
    drawn, crosses = draw_time_to_target(data).traces
    assert drawn["x"] == [0, 1, 2, 3, 4]
    assert crosses["x"] == [5]
    assert time_to_target_data(six_strategies()) is None


def test_where_no_target_is_reached_there_is_no_figure_against_a_number() -> None:
    sweep = trained_sweep({steps: training(curve_of(2.0, 0.3)) for steps in (1, 2, 4)}, key="strategy.steps")
    assert time_to_target_data(sweep) is None
    only = {steps: training(curve_of(2.0, 0.3 if steps > 1 else 0.02)) for steps in (1, 2, 4)}
    data = time_to_target_data(trained_sweep(only, key="strategy.steps"))
    assert plain(data.title) == "Accuracy 0.95 is reached with steps 1 only, after 6.80 s"


def test_efficiencies_multiply_to_the_speed_to_the_target() -> None:
    fast = training(curve_of(2.0, end_s=10.0, updates=2000))
    good = training(curve_of(2.0, end_s=10.0, updates=500))
    found = comparisons(two(fast, good))
    headings, body = efficiency_rows(found)
    cells = {row[0]: dict(zip(headings, map(plain, row), strict=True)) for row in body}
    assert (cells["async"]["hardware"], cells["async"]["statistical"]) == ("100%", "25%")
    assert (cells["all-reduce"]["hardware"], cells["all-reduce"]["statistical"]) == ("25%", "100%")
    assert cells["async"]["both"] == cells["all-reduce"]["both"] == "100%"
    assert "needs 4.00× the fewest" in efficiency_title(found[0]) or "needs the fewest" in efficiency_title(found[0])


def test_distances_are_drawn_where_workers_have_their_own_weights() -> None:
    data = consensus_data(six_strategies())
    (line,) = data.lines
    assert line.label == "gossip"
    assert "apart in the second half" in data.title
    assert draw_consensus(data).layout["yaxis"]["type"] == "log"
    assert consensus_data(steps_sweep()) is None


def test_a_training_that_diverges_leaves_the_axis() -> None:
    away = [*curve_of(2.0)[:20], *(point._replace(loss=MAX_LOSS, accuracy=0.1) for point in curve_of(2.0)[20:])]
    sweep = two(
        training(away, target=0.3, metric="loss", diverged=1), training(curve_of(3.0), target=0.3, metric="loss")
    )
    figure = draw_learning_curves(learning_curves_data(sweep)[0])
    assert figure.layout["yaxis"]["range"][1] < 1.5  # the decimal logarithm of a loss near that of the first weights
    assert any("diverged" in trace.get("name", "") for trace in figure.traces)
    assert "diverged" in efficiency_rows(comparisons(sweep))[1][-1]


@pytest.mark.parametrize("points", [
    [CurvePoint(0.0, 0, 2.3, 0.1)],
    [CurvePoint(0.0, 0, 2.3, 0.1), CurvePoint(1.0, 1, 2.3, 0.1)],
    [CurvePoint(0.0, 0, 0.0, 1.0), CurvePoint(1.0, 1, 0.0, 1.0)],
    [*curve_of(2.0, num_points=5), CurvePoint(21.0, 500, 1.4, 0.4), CurvePoint(22.0, 1250, 0.1, 1.0)],
])  # fmt: skip
@pytest.mark.parametrize("target", [None, 0.95])
def test_short_flat_perfect_and_interrupted_curves_have_a_page(points, target) -> None:
    sweep = two(training(points, target=target), training(points, points, target=target))
    html = report_html(sweep)
    assert "Learning" in html
    assert learning_sentences(sweep)


def test_a_page_of_a_hundred_trainings_is_small() -> None:
    curves = {
        f"kind{number}": training(*(curve_of(2.0 + 0.05 * number + 0.1 * seed) for seed in range(4)))
        for number in range(100)
    }
    plain_bytes, bytes_with = (
        len(report_html(trained_sweep(each)).encode()) for each in (dict.fromkeys(curves), curves)
    )
    assert bytes_with - plain_bytes < 100_000
    assert bytes_with < 1.5e6


def test_every_figure_of_learning_is_packed_and_has_its_part_of_the_page() -> None:
    html = report_html(six_strategies())
    assert 'id="learning" data-contents="Learning"' in html
    assert 'id="efficiency"' in html
    assert "What is trained, and what is not" in html
    assert "figures" in names_packed(html)
    assert all(isinstance(FIGURES[name], SweepFigure) for name in LEARNING)
    assert 'id="learning"' not in report_html(make_sweep())
