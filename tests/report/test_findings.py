"""The answer of a sweep: for each kind of axis what is fastest, by how much, what limits it, and what else decides."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from clustersim.report.answer import answer, rows
from clustersim.report.findings import findings
from clustersim.report.hints import hint
from clustersim.report.options import main_cell, question_of
from clustersim.report.text_table import plain
from clustersim.results import BREAKDOWN, Interval, LinkClass, Run, Sweep
from clustersim.results.band import Checked
from clustersim.results.comparing import share_of, share_within
from clustersim.results.features import Features
from tests.report.synthetic import make_run, make_sweep

LINK = LinkClass("ethernet-10g", 16, 16, 1e9, 0.8, 1.25e9)


def run_at(rate: float, axes: Mapping[str, Any], num_gpus: int = 8, shares: Mapping[str, float] | None = None) -> Run:
    """Return a run of `rate` samples per second with these shares of its iteration, all else compute."""
    shares = shares or {}
    iteration_s = 256.0 / rate
    parts = {part: shares.get(part, 0.0) * iteration_s for part in BREAKDOWN}
    parts["compute"] = iteration_s - sum(parts.values())
    return replace(
        make_run(2), axes={"num_gpus": num_gpus, **axes}, num_gpus=num_gpus, samples_per_s=rate,
        iteration_s=iteration_s, breakdown_s=parts, speedup=None, time_to_train_s=None, published=(),
        link_classes=(LINK,), interval=None,
    )  # fmt: skip


def sweep_of(*runs: Run) -> Sweep:
    return replace(make_sweep((1,)), runs=runs, warnings=(), scenario={"name": "made-up"})


def over(key: str, rates: Mapping[Any, float], change: Callable[[Run], Run] = lambda run: run) -> Sweep:
    """Return a sweep over one axis."""
    return sweep_of(*(change(run_at(rate, {key: value})) for value, rate in rates.items()))


def sentences(sweep: Sweep) -> list[str]:
    return [plain(text) for text in findings(sweep)]


def test_of_two_values_the_faster_one_and_its_factor_are_said() -> None:
    first, second = sentences(over("strategy.algorithm", {"ring": 100.0, "tree": 200.0}))
    assert first == "Fastest is tree: 200 samples per second, 2.00× the rate of ring."
    assert second == "Compute limits both: 100% of an iteration with tree and 100% with ring."


def test_of_several_values_the_slowest_and_the_next_are_said() -> None:
    (first, _) = sentences(over("strategy.algorithm", {"ring": 100.0, "tree": 400.0, "doubling": 200.0}))
    assert (
        first
        == "Fastest is tree: 400 samples per second, 4.00× the rate of ring, the slowest, and 2.00× doubling, the next."
    )


def test_values_within_one_per_cent_are_equal() -> None:
    (first, _) = sentences(over("strategy.algorithm", {"ring": 100.0, "tree": 100.4}))
    assert first == "Both settings are equally fast, within 1%."
    (first, _) = sentences(over("strategy.algorithm", {"ring": 100.0, "tree": 100.4, "doubling": 50.0}))
    assert first == "Fastest are ring and tree: 100 samples per second, 2.01× the rate of doubling."


def test_a_number_is_said_up_to_where_it_gains() -> None:
    rates = {"100 Gbit/s": 100.0, "200 Gbit/s": 196.0, "400 Gbit/s": 200.0, "800 Gbit/s": 200.0}
    (first, _) = sentences(over("topology.link", rates))
    assert first == (
        "Fastest is link 400 Gbit/s: 200 samples per second, 2.00× the rate of link 100 Gbit/s, the slowest; "
        "link 200 Gbit/s gives 98% of that; more gives nothing."
    )


def test_numbers_are_ordered_by_their_value_and_may_have_an_optimum_inside() -> None:
    rates = {"512 KiB": 100.0, "2 MiB": 300.0, "64 KiB": 50.0, "1 GiB": 150.0}
    question = question_of(over("strategy.buckets", rates))
    assert question.choices[0].values == ("64 KiB", "512 KiB", "2 MiB", "1 GiB")
    (first, _) = sentences(over("strategy.buckets", rates))
    assert first.endswith("6.00× the rate of buckets 64 KiB, the slowest; buckets 1 GiB gives 50% less.")


def test_a_number_that_changes_nothing_is_called_so() -> None:
    (first, _) = sentences(over("topology.link", {"100 Gbit/s": 100.0, "200 Gbit/s": 100.2, "400 Gbit/s": 100.3}))
    assert first == "All 3 settings are equally fast, within 1%."


def grid(rates: Mapping[tuple[str, Any, int], float], key: str = "strategy.algorithm") -> Sweep:
    """Return a sweep of algorithm x cv x GPUs."""
    return sweep_of(
        *(run_at(rate, {key: name, "stragglers.0.cv": cv}, size) for (name, cv, size), rate in rates.items())
    )


def test_the_crossover_is_said_where_the_winner_changes_with_the_size() -> None:
    rates = {("ring", 0.1, size): rate for size, rate in ((4, 100.0), (8, 150.0), (16, 160.0), (32, 170.0))}
    rates |= {("tree", 0.1, size): rate for size, rate in ((4, 50.0), (8, 100.0), (16, 240.0), (32, 510.0))}
    (first, *_) = sentences(grid(rates))
    assert first == (
        "Fastest is ring up to 8 GPUs (on 4 GPUs, 2.00× tree) and tree from 16 GPUs on (on 32 GPUs, 3.00× ring)."
    )


def test_a_setting_that_is_fastest_at_every_size_is_said_once_with_the_factor_at_both_ends() -> None:
    rates = {("ring", 0.1, 4): 100.0, ("tree", 0.1, 4): 150.0, ("ring", 0.1, 8): 100.0, ("tree", 0.1, 8): 300.0}
    (first, *_) = sentences(grid(rates))
    assert first == (
        "Fastest at every size is tree: on 8 GPUs, 300 samples per second, 3.00× the rate of ring; "
        "on 4 GPUs, 1.50× ring."
    )


def test_what_cannot_be_chosen_is_a_condition_and_what_can_is_a_choice() -> None:
    rates = {("ring", 0.1, 4): 100.0, ("tree", 0.1, 4): 50.0, ("ring", 0.6, 4): 50.0, ("tree", 0.6, 4): 100.0}
    question = question_of(grid(rates))
    assert [axis.key for axis in question.choices] == ["strategy.algorithm"]
    assert [axis.key for axis in question.conditions] == ["stragglers.0.cv"]
    (first, second, *_) = sentences(grid(rates))
    assert first == "Fastest is ring with cv 0.1 (2.00× tree) and tree with cv 0.6 (2.00× ring)."
    assert second.startswith("With cv 0.6, compute limits both")
    alone = question_of(over("stragglers.0.cv", {0.1: 100.0, 0.6: 50.0}))
    assert [axis.key for axis in alone.choices] == ["stragglers.0.cv"]


def test_where_the_largest_size_shows_no_difference_another_one_is_told() -> None:
    rates = {("ring", 0.1, 4): 100.0, ("tree", 0.1, 4): 300.0, ("ring", 0.1, 8): 400.0, ("tree", 0.1, 8): 400.0}
    (first, *_) = sentences(grid(rates))
    assert first.startswith("Fastest is tree: on 4 GPUs, 3.00× the rate of ring")


def test_of_several_axes_the_one_that_matters_most_and_the_idle_one_are_said() -> None:
    runs = [
        run_at(100.0 * (3.0 if tensor == 1 else 1.0) * (1.2 if overlap else 1.0),
               {"parallelism.tensor": tensor, "strategy.overlap": overlap, "topology.link": link})
        for tensor in (1, 8) for overlap in (True, False) for link in ("200 Gbit/s", "400 Gbit/s")
    ]  # fmt: skip
    found = sentences(sweep_of(*runs))
    assert found[0] == (
        "TP 1 is always faster than TP 8: 3.00×; overlap on gives 1.20× the rate of overlap off; link gives nothing."
    )
    assert found[1].startswith("Fastest is TP 1, overlap on, link 200 Gbit/s: 360 samples per second; compute limits")


def test_of_a_number_among_other_axes_the_value_that_is_enough_is_said() -> None:
    gains = {"100 Gbit/s": 1.0, "200 Gbit/s": 1.5, "400 Gbit/s": 1.5}
    runs = [
        run_at(100.0 * gain * (3.0 if tensor == 1 else 1.0), {"parallelism.tensor": tensor, "topology.link": link})
        for tensor in (1, 8) for link, gain in gains.items()
    ]  # fmt: skip
    assert sentences(sweep_of(*runs))[0] == (
        "TP 1 is always faster than TP 8: 3.00×; link 200 Gbit/s gives 1.50× the rate of link 100 Gbit/s "
        "(nothing beyond link 200 Gbit/s)."
    )


def of_two_choices(rates: Mapping[tuple[str, int], float]) -> Sweep:
    return sweep_of(
        *(
            run_at(rate, {"strategy.algorithm": name, "topology.host.nics": nics})
            for (name, nics), rate in rates.items()
        )
    )


def test_one_pair_is_not_always() -> None:
    """Where points that fail have left one pair, the sentence is about that one."""
    found = sentences(of_two_choices({("a", 1): 200.0, ("b", 1): 100.0, ("b", 8): 110.0}))
    assert found[0] == "A is faster than b with nics 1: 2.00×; nics 8 gives 1.10× the rate of nics 1."


def test_of_several_axes_each_is_compared_with_the_others_fixed() -> None:
    """A layout and a number of cards: 1.30× mixed both."""
    found = sentences(of_two_choices({("a", 1): 200.0, ("b", 1): 100.0, ("a", 8): 330.0, ("b", 8): 110.0}))
    assert found[0] == (
        "A is always faster than b: 2.00× with nics 1, 3.00× with nics 8; "
        "nics 8 gives 1.10× to 1.65× the rate of nics 1."
    )


def test_an_axis_whose_winner_depends_on_another_says_so() -> None:
    found = sentences(of_two_choices({("a", 1): 200.0, ("b", 1): 100.0, ("a", 8): 200.0, ("b", 8): 600.0}))
    assert "best of algorithm depends on the rest: b with nics 8 (3.00× a) but a with nics 1 (2.00× b)" in found[0]


def test_of_equally_slow_settings_the_first_is_not_called_the_slowest_alone() -> None:
    """200 and 400 Gbit/s tie: the slower card must not be the faster one."""
    (first, _) = sentences(over("strategy.algorithm", {"ring": 200.0, "tree": 100.0, "doubling": 100.1}))
    assert first.endswith("2.00× the rate of tree and doubling.")


def test_an_axis_that_only_some_settings_have_belongs_to_their_label() -> None:
    """`strategy: [server, {kind: softsync, n: [1, 4]}]`: n is no axis of the server."""
    runs = [run_at(100.0, {"strategy": "server"})]
    runs += [run_at(rate, {"strategy": "softsync", "strategy.n": n}) for n, rate in ((1, 150.0), (4, 300.0))]
    question = question_of(sweep_of(*runs))
    assert [axis.labels for axis in question.choices] == [("server", "softsync n=1", "softsync n=4")]
    (first, _) = sentences(sweep_of(*runs))
    assert first == (
        "Fastest is softsync n=4: 300 samples per second, 3.00× the rate of server, the slowest, "
        "and 2.00× softsync n=1, the next."
    )


def test_layouts_are_named_as_in_the_field() -> None:
    layouts = {"tensor=1": 200.0, "tensor=8 sequence_parallel=true": 100.0}
    sweep = over("parallelism", layouts, lambda run: replace(run, software="torchtitan"))
    given = [{"tensor": 1, "sharding": "zero-3"}, {"tensor": 8, "sharding": "zero-3", "sequence_parallel": True}]
    sweep = replace(sweep, scenario={"name": "made-up", "parallelism": given})
    assert sentences(sweep)[0] == "Fastest is FSDP: 200 samples per second, 2.00× the rate of FSDP + TP 8."
    headings, body = rows(sweep)
    assert {cells[headings.index("parallelism")] for cells in body} == {"FSDP", "FSDP + TP 8"}
    plain_program = replace(sweep, runs=tuple(replace(run, software="megatron-core") for run in sweep.runs))
    assert "ZeRO-3 + TP 8" in sentences(plain_program)[0]


def test_clusters_are_named_by_their_gpus_where_these_differ() -> None:
    sweep = over("topology", {"star": 200.0, "fat-tree": 100.0})
    given = [{"kind": "star", "host": {"gpu": "b200"}}, {"kind": "fat-tree", "host": "dgx-h100"}]
    sweep = replace(sweep, scenario={"name": "made-up", "topology": given})
    assert sentences(sweep)[0] == "Fastest is b200: 200 samples per second, 2.00× the rate of dgx-h100."


_RATES = st.sampled_from([1.0, 1.005, 2.0, 2.01, 3.0])


@given(st.sampled_from([("strategy.algorithm", "ABC"), ("strategy.n", (1, 2, 4, 8))]), st.integers(2, 3), st.data())
def test_what_is_said_of_all_conditions_is_true(axis: tuple[str, Any], sizes_: int, data: st.DataObject) -> None:
    """With ties too: a setting that was as fast as the fastest in one cell alone was called so under all."""
    key, values = axis
    runs = [run_at(100.0 * data.draw(_RATES), {key: value}, 2**size) for value in values for size in range(sizes_)]
    sweep = sweep_of(*runs)
    question = question_of(sweep)
    first = sentences(sweep)[0]
    if found := re.match(r"Fastest at every size (?:is|are) (.*?): ", first):
        fastest = [{question.label(run) for run in cell.fastest} for cell in question.cells]
        assert all(set(found[1].split(" and ")) <= labels for labels in fastest)
    if "equally fast under all" in first:
        assert all(len(cell.fastest) == len(cell.runs) for cell in question.cells)


def test_more_gives_nothing_only_if_no_larger_value_is_slower() -> None:
    (first, _) = sentences(over("strategy.n", {1: 100.0, 2: 200.0, 3: 50.0, 4: 200.1}))
    assert "more gives nothing" not in first


def test_models_are_conditions_since_their_samples_are_not_comparable() -> None:
    question = question_of(over("model", {"long": 1.0, "short": 16.0}))
    assert question.choices == ()
    (first,) = sentences(over("model", {"long": 1.0, "short": 16.0}))
    assert first == "8 GPUs train long at 1 samples per second, short at 16 samples per second."


def test_a_settings_order_that_turns_round_is_told_beside_the_winner() -> None:
    rates = {("best", 0.1, 4): 900.0, ("a", 0.1, 4): 200.0, ("b", 0.1, 4): 100.0}
    rates |= {("best", 0.1, 16): 999.0, ("a", 0.1, 16): 100.0, ("b", 0.1, 16): 300.0}
    assert sentences(grid(rates))[-1] == "A is 2.00× as fast as b on 4 GPUs, but 0.33× on 16 GPUs."


def sizes(rates: Mapping[int, float], shares: Callable[[int], dict[str, float]] = lambda size: {}) -> Sweep:
    runs = (run_at(rate, {}, size, shares(size)) for size, rate in rates.items())
    return sweep_of(*(replace(run, efficiency=run.samples_per_s / run.num_gpus / 10) for run in runs))


def test_sizes_say_how_far_it_pays_and_from_where_on_what_limits() -> None:
    share = {8: 0.1, 16: 0.6, 32: 0.8}
    first, second = sentences(
        sizes({8: 80.0, 16: 140.0, 32: 170.0}, lambda size: {"communication_exposed": share[size]})
    )
    assert first == "32 GPUs train 170 samples per second, 2.12× the rate of 8 GPUs, at 53% efficiency."
    assert second == (
        "It pays to add GPUs up to 16: 32 train only 1.21× as much as 16; from 16 GPUs on exposed communication takes "
        "longer than compute (80% of an iteration on 32 GPUs)."
    )


def test_a_first_step_that_does_not_pay_is_not_the_end() -> None:
    """2 GPUs over a slow network train less than 1, and every later step pays."""
    _, second = sentences(sizes({1: 20.0, 2: 10.0, 4: 19.0, 8: 37.0}))
    assert second.startswith("From 2 GPUs on every step to more pays (2 train less, 0.50× as much as 1)")
    _, second = sentences(sizes({1: 20.0, 2: 10.0, 4: 9.0}))
    assert second.startswith("It does not pay to add GPUs: 2 train less, 0.50× as much as 1")


def test_a_speedup_over_hours_that_are_given_is_called_so() -> None:
    """Epochs of the baseline may be others, so it is not the ratio of the rates."""
    run = replace(run_at(200.0, {}), speedup=41.8, speedup_basis="one K20 (504 h)")
    sweep = replace(sweep_of(run), scenario={"name": "made-up", "baseline": {"hours": 504}})
    assert "a speedup in hours of 41.8× over one K20 (504 h)" in sentences(sweep)[0]


def test_sizes_that_all_pay_say_so() -> None:
    _, second = sentences(sizes({8: 80.0, 16: 155.0, 32: 300.0}))
    assert second == "Every step to more GPUs pays; on 32 GPUs compute takes 100% of an iteration."


def test_the_limits_of_two_are_the_parts_that_take_most_and_the_busy_links() -> None:
    slow = run_at(100.0, {"topology.link": "a"}, shares={"communication_exposed": 0.6, "bubble": 0.1})
    fast = run_at(250.0, {"topology.link": "b"}, shares={"communication_exposed": 0.02, "bubble": 0.2})
    assert sentences(sweep_of(slow, fast))[1] == (
        "Exposed communication takes 2.0% of an iteration with b and 60% with a "
        "(busiest links there: ethernet-10g, at 80%); pipeline bubble takes 20% and 10%."
    )
    idle = replace(slow, link_classes=(replace(LINK, max_utilisation=0.1),))
    assert "busiest" not in answer(sweep_of(idle, fast))


def stale(age: float) -> dict[str, Any]:
    return {"mean": age, "p99": age, "max": int(age), "histogram": [[int(age), 8]]}


def test_stale_gradients_are_said_and_the_fastest_with_fresh_ones() -> None:
    fast = replace(run_at(300.0, {"strategy": "async"}), staleness=stale(7.0))
    sweep = sweep_of(run_at(100.0, {"strategy": "server"}), run_at(150.0, {"strategy": "ring"}), fast)
    assert sentences(sweep)[2] == (
        "Gradients of async are 7.0 versions old, so samples per second is not learning; "
        "ring is the fastest with fresh ones."
    )
    gossip = run_at(200.0, {"strategy": "gossip"})
    gossip = replace(gossip, features=SimpleNamespace(strategy="gossip"))
    assert sentences(replace(sweep, runs=(*sweep.runs, gossip)))[2].endswith(
        "; ring is the fastest with fresh ones and the same weights everywhere."
    )
    both = over("strategy.n", {1: 100.0, 2: 200.0}, lambda run: replace(run, staleness=stale(run.axes["strategy.n"])))
    assert (
        sentences(both)[2]
        == "Gradients are 1.0 (n=1) to 2.0 versions old (n=2), so samples per second is not learning."
    )


def test_what_happens_to_a_training_costs_and_is_not_chosen() -> None:
    (first, *_) = sentences(over("stragglers.0.cv", {0.1: 100.0, 0.3: 50.0, 0.2: 75.0}))
    assert first == "Cv 0.3 leaves 50 samples per second, 50% less than with cv 0.1."


def test_settings_of_different_prices_are_compared_in_dollars() -> None:
    new = replace(run_at(400.0, {"topology": "b200"}), iteration_dollars=0.064, tokens_per_sample=1000.0)
    old = replace(run_at(200.0, {"topology": "h100"}), iteration_dollars=0.0512, tokens_per_sample=1000.0)
    assert sentences(sweep_of(old, new))[2] == (
        "Cheapest is h100, at $0.2 per million tokens, against $0.25 with b200."
    )


def test_dropped_gradients_are_said() -> None:
    fast = replace(run_at(300.0, {"strategy": "backup"}), gradients={"applied": 90, "dropped": 10})
    assert (
        sentences(sweep_of(run_at(100.0, {"strategy": "server"}), fast))[2]
        == "With backup, 10% of the gradients are dropped."
    )


def test_the_cheapest_run_is_named_beside_the_fastest() -> None:
    fast = replace(run_at(400.0, {}, 16), iteration_dollars=0.064, tokens_per_sample=1000.0)
    cheap = replace(run_at(300.0, {}, 8), iteration_dollars=0.0256, tokens_per_sample=1000.0)
    assert sentences(sweep_of(cheap, fast))[2] == (
        "Cheapest is 8 GPUs, at $0.1 per million tokens ($0.25 for the fastest)."
    )
    assert "The fastest is the cheapest too" in answer(sweep_of(cheap, replace(fast, iteration_dollars=0.01)))


def test_published_figures_are_said_with_their_error() -> None:
    assert "of all 4 published figures" in answer(make_sweep())


@pytest.mark.parametrize("build", [make_sweep, lambda: over("strategy.algorithm", {"ring": 1.0, "tree": 2.0})])
def test_an_answer_has_one_to_three_sentences_and_each_its_full_stop(build: Callable[[], Sweep]) -> None:
    found = findings(build())
    assert 1 <= len(found) <= 3
    assert all(text.endswith(".") and text[:1] == text[:1].upper() for text in found)


def checked(source: str, ratios: tuple[float, ...]) -> Checked:
    features = Features("ampere", "fp32", "compiled", "all-reduce", "copies", "estimated", "one", "products")
    return Checked(source, source, "2023", "2026-01-01", "first", features, ratios)


def test_the_error_of_a_comparison_is_that_of_the_ratio_of_two_forecasts_of_a_case() -> None:
    """A case that is off by one factor everywhere has no error in its comparisons; sources have equal weight."""
    alike, unlike = checked("a", (0.5, 0.5, 0.5)), checked("b", (1.0, 1.2))
    assert share_of([alike], 1.0001) == pytest.approx(1.0)
    assert share_of([unlike], 1.19) == 0.0
    assert share_of([unlike], 1.21) == pytest.approx(1.0)
    assert share_of([alike, unlike], 1.1) == pytest.approx(0.5)
    assert share_of([checked("c", (1.0,))], 2.0) == 0.0


def test_small_differences_are_less_than_the_error_of_a_comparison_and_large_ones_sure() -> None:
    """Shipped forecasts: half of the pairs are off by some per cent, nine in ten by less than twice."""
    assert share_within(1.01) < 0.5 < share_within(1.2) < share_within(2.0)
    runs = {rate: run_at(rate, {"strategy": f"{rate}"}) for rate in (100.0, 101.5, 120.0, 300.0)}
    assert hint(runs[101.5], runs[100.0]) == "less than the error of a comparison"
    assert hint(runs[120.0], runs[100.0]) == "probably"
    assert hint(runs[300.0], runs[100.0]) == ""


def test_a_difference_within_the_spread_over_seeds_is_called_so() -> None:
    def with_interval(run: Run) -> Run:
        pair = (run.samples_per_s * 0.5, run.samples_per_s * 1.5)
        return replace(run, interval=Interval(0.95, (1.0, 2.0), pair, None))

    one, two = (with_interval(run_at(rate, {"strategy": f"{rate}"})) for rate in (100.0, 150.0))
    assert hint(two, one) == "within the spread over seeds"


def test_of_sizes_alone_the_largest_is_told() -> None:
    assert main_cell(question_of(make_sweep())).runs[0].num_gpus == 128
