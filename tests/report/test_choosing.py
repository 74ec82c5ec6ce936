"""Choosing a strategy, and how many backup workers."""

from __future__ import annotations

from dataclasses import replace

import pytest

from clustersim.report.backups import backups_data
from clustersim.report.choosing import choosing_data, draw_choosing
from clustersim.report.series import short_labels
from clustersim.results import Interval
from tests.report.synthetic import make_run
from tests.report.worker_runs import sweep_of


def strategy(kind, rate, update_s, staleness=0.0, dropped=0, size=8, interval=None):
    return replace(
        make_run(size),
        axes={"num_gpus": size, "strategy": kind},
        samples_per_s=rate,
        update_s=update_s,
        staleness={"mean": staleness},
        gradients={"applied": 100 - dropped, "dropped": dropped},
        interval=interval,
    )


def test_strategies_are_sorted_the_fastest_first():
    spread = Interval(0.95, (0.9, 1.1), (180.0, 220.0), None)
    data = choosing_data(
        sweep_of(strategy("all-reduce", 100.0, 0.5), strategy("async", 200.0, 0.05, 7.0, 0, 8, spread),
                 strategy("backup backups=2", 90.0, 0.4, 0.0, 25))
    )  # fmt: skip
    assert [choice.label for choice in data.choices] == ["async", "all-reduce", "backup backups=2"]
    fastest = data.choices[0]
    assert (fastest.updates_per_s, fastest.staleness, fastest.dropped) == pytest.approx((20.0, 7.0, 0.0))
    assert fastest.samples_interval == (180.0, 220.0)
    assert fastest.updates_interval == pytest.approx((18.0, 22.0))
    assert data.choices[2].dropped == 0.25
    assert data.level == 0.95
    assert data.title == (
        "Async trains the most samples per second, with gradients 7.0 versions old: 2.00× all-reduce, "
        "the best with fresh gradients"
    )


def test_only_the_largest_size_is_compared():
    runs = [strategy(kind, rate, 1.0, size=size) for size in (8, 32) for kind, rate in (("a", 5.0), ("b", 6.0))]
    data = choosing_data(sweep_of(*runs))
    assert data.num_gpus == 32
    assert len(data.choices) == 2


def test_one_strategy_is_no_choice():
    assert choosing_data(sweep_of(strategy("all-reduce", 1.0, 1.0))) is None
    batches = [replace(make_run(8), axes={"num_gpus": 8, "batch": number}) for number in (1, 2)]
    assert choosing_data(sweep_of(*batches)) is None


def test_of_many_settings_the_fastest_are_drawn_and_the_rest_counted():
    runs = [strategy(f"kind{number}", 100.0 + number, 1.0) for number in range(50)]
    data = choosing_data(sweep_of(*runs))
    assert len(data.choices) == 32
    assert data.choices[0].label == "kind49"
    assert data.note == "The fastest 32 of 50 are shown."
    assert len(draw_choosing(data).traces) == 2


@pytest.mark.parametrize(("staleness", "dropped", "titles"), [
    (0.0, 0, ["samples/s", "updates/s"]),
    (3.0, 0, ["samples/s", "updates/s", "mean staleness (versions)"]),
    (3.0, 9, ["samples/s", "updates/s", "mean staleness (versions)", "dropped gradients (%)"]),
])  # fmt: skip
def test_what_no_strategy_has_gets_no_column(staleness, dropped, titles):
    data = choosing_data(sweep_of(strategy("async", 2.0, 1.0, staleness, dropped), strategy("server", 1.0, 1.0)))
    figure = draw_choosing(data)
    axes = [figure.layout[key]["title"]["text"] for key in sorted(figure.layout) if key.startswith("xaxis")]
    assert axes == titles
    assert len(figure.traces) == len(titles)
    assert ("fresh" in figure.subtitle) == (len(titles) == 2)
    assert len(figure.narrow_traces) == 2


def test_words_that_do_not_distinguish_labels_are_left_out():
    assert short_labels(["gossip graph=ring", "gossip graph=ring asynchronous=true"]) == [
        "gossip",
        "gossip asynchronous",
    ]
    assert short_labels(["backup backups=2 servers={on: own-hosts}", "async servers={on: own-hosts}"]) == [
        "backup backups=2",
        "async",
    ]


def test_of_a_long_list_the_first_and_the_last_stay_unless_they_are_the_same():
    long, other = "[0, 8, 1, 9, 2, 10, 3, 11]", "[0, 8, 1, 9, 10, 2, 3, 11]"
    assert short_labels(["block", long]) == ["block", "[0, 8, 1, 9 … 11]"]
    assert short_labels([long, other]) == [long, other]


def test_a_word_stays_where_two_would_be_called_the_same():
    assert short_labels(["local steps=one", "local"]) == ["local steps=one", "local"]


def backed(backups, samples, cv=0.5, update_s=1.0):
    axes = {"num_gpus": 16, "strategy.backups": backups, "stragglers.0.cv": cv}
    return replace(make_run(16), axes=axes, samples_per_s=samples, update_s=update_s, interval=None)


def test_an_interior_optimum_is_found_and_reported():
    data = backups_data(sweep_of(*(backed(number, rate) for number, rate in ((4, 80.0), (0, 100.0), (1, 120.0)))))
    (line,) = data.lines
    assert line.backups == (0, 1, 4)
    assert line.backups[line.best] == 1
    assert line.gain == pytest.approx(0.2)
    assert data.title == "1\u202fbackup among 16 workers gives 20\u202f% more samples per second"


def test_each_other_setting_has_a_line_and_useless_backups_are_reported():
    heavy = [backed(0, 100.0, 0.6), backed(2, 130.0, 0.6)]
    even = [backed(0, 100.0, 0.02), backed(2, 88.0, 0.02)]
    data = backups_data(sweep_of(*heavy, *even))
    assert [(line.label, line.best) for line in data.lines] == [("cv 0.6", 1), ("cv 0.02", 0)]
    assert "2\u202fbackups among 16 workers give 30\u202f% more" in data.title
    assert data.title.endswith("with cv 0.02 they do not pay")


def test_where_no_backup_pays_the_title_says_so():
    data = backups_data(sweep_of(backed(0, 100.0), backed(1, 95.0)))
    assert data.title.startswith("Backup workers do not pay")


def test_whiskers_are_the_interval_of_the_iteration_relatively():
    run = replace(backed(0, 100.0, update_s=2.0), iteration_s=4.0)
    run = replace(run, interval=Interval(0.95, (3.0, 5.0), (1.0, 2.0), None))
    (line,) = backups_data(sweep_of(run, backed(1, 90.0))).lines
    assert (line.low_s[0], line.high_s[0]) == pytest.approx((1.5, 2.5))
    assert line.low_s[1] is None


def test_one_number_of_backups_is_no_curve():
    assert backups_data(sweep_of(backed(1, 100.0))) is None
    assert backups_data(sweep_of(make_run(8))) is None
