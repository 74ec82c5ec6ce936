"""Notes of the answer beside speed, the most important first: learning, which axis matters, dollars, publications."""

from __future__ import annotations

from collections.abc import Sequence

from clustersim.report.comparing import groups_of
from clustersim.report.options import EQUAL, SweepCell, SweepQuestion, main_cell
from clustersim.report.per_axis import axes_compared
from clustersim.report.published import comparisons, error_summary
from clustersim.report.rate_words import dropped_share, unit_of_cost
from clustersim.report.series import headline, run_label
from clustersim.report.words import count, duration, percent, times, versions
from clustersim.results import Run, Sweep

_STALE = 0.5
"""Mean staleness in versions from which on gradients are called old."""

_APART = {"local": "copies of the weights differ between averages", "gossip": "the copies of the weights differ"}
"""What else than staleness makes a sample of a strategy worth less than one of synchronous training."""

_REVERSED = 1.1
"""Factor by which each of two settings must be the faster one somewhere to be named."""


def notes(sweep: Sweep, question: SweepQuestion) -> list[str]:
    """Return the notes that apply, the most important first."""
    main = main_cell(question)
    found = [
        _learning(question, main),
        _failures(main),
        _jobs(question, main),
        axes_compared(question, main) if len(groups_of(question)) > 1 else "",
        _reversal(question),
    ]
    found += [_published(sweep), _dollars_of_choices(question, main) or _dollars(sweep)]
    return [text for text in found if text]


def _learning(question: SweepQuestion, cell: SweepCell) -> str:
    """Say that a sample is not worth the same everywhere: stale or dropped gradients, copies that differ."""
    runs = cell.runs
    ages = [float(run.staleness.get("mean") or 0.0) for run in runs]
    best = question.best(cell)
    if max(ages) >= _STALE:
        return _staleness(question, (best, *(run for run in runs if run is not best)), not_learning(runs))
    dropped = dropped_share(best)
    if dropped > EQUAL:
        return f"with {_named(question, best)}, {percent(dropped)} of the gradients are dropped"
    return f"{apart(best)}, {not_learning(runs)}" if apart(best) else ""


def not_learning(runs: Sequence[Run]) -> str:
    """Say what to compare instead of samples per second: where a model is trained, what it learns."""
    if not any(run.learning for run in runs):
        return "so samples per second is not learning"
    targets = any(run.learning.target is not None for run in runs if run.learning)
    return f"so {'the time to the target' if targets else 'loss against time'} counts, not samples per second"


def apart(run: Run) -> str:
    """Say that the copies of the weights of a run differ; empty where all are the same."""
    return _APART.get(run.features.strategy if run.features is not None else "", "")


def _staleness(question: SweepQuestion, runs: Sequence[Run], tail: str) -> str:
    """Say how old gradients are, and what follows; the first run is the fastest."""
    ages = [float(run.staleness.get("mean") or 0.0) for run in runs]
    low, high = min(ages), max(ages)
    if high - low < 0.1 * high:
        return f"gradients are {versions(high)} versions old, {tail}"
    fresh = next((run for run, age in zip(runs, ages, strict=True) if age < _STALE and not apart(run)), None)
    if ages[0] < _STALE:
        own = apart(runs[0]) or "its gradients are fresh"
        return f"{own}, gradients of {question.label(runs[ages.index(high)])} are {versions(high)} versions old"
    if fresh is not None:
        is_behind_copies = any(age < _STALE for age in ages[: list(runs).index(fresh)])
        same = " and the same weights everywhere" if is_behind_copies else ""
        return (
            f"gradients of {question.label(runs[0])} are {versions(ages[0])} versions old, {tail}; "
            f"{question.label(fresh)} is the fastest with fresh ones{same}"
        )
    ends = question.label(runs[ages.index(low)]), question.label(runs[ages.index(high)])
    return f"gradients are {versions(low)} ({ends[0]}) to {versions(high)} versions old ({ends[1]}), {tail}"


def _named(question: SweepQuestion, run: Run) -> str:
    return question.label(run) or "the strategy"


def _failures(cell: SweepCell) -> str:
    """Say what failures cost, and how often to save."""
    run = cell.runs[0]
    if run.failures is None:
        return ""
    lost = 1.0 - run.failures.useful_s / run.failures.total_s
    return (
        f"checkpoints and failures take {percent(lost)} of the time, "
        f"the least with a checkpoint every {duration(run.failures.best_s)}"
    )


def _jobs(question: SweepQuestion, cell: SweepCell) -> str:
    """Say how much longer an iteration takes beside the other jobs."""
    runs = [run for run in cell.runs if run.jobs]
    if not runs:
        return ""
    slow = [max(job.slowdown for job in run.jobs) for run in runs]
    name = max(runs[-1].jobs, key=lambda job: job.slowdown).name
    if len(runs) == 1:
        return f"beside the other jobs {name} takes {times(slow[0])} its time alone"
    return (
        f"beside the other jobs {name} takes {times(slow[-1])} its time alone with {question.label(runs[-1])}, "
        f"and none more than {times(slow[0])} with {question.label(runs[0])}"
    )


def _reversal(question: SweepQuestion) -> str:
    """Name the pair of settings, without the fastest, whose order changes most from the first to the last cell."""
    if len(question.cells) < 2:
        return ""
    first, last = ({question.label(run): run.samples_per_s for run in cell.runs} for cell in _ends(question))
    names = [name for name in first if name in last and name not in _fastest(question)]
    pairs = [
        (min(first[one] / first[two], last[two] / last[one]), one, two) for one in names for two in names if one != two
    ]
    by, one, two = max(pairs, default=(0.0, "", ""))
    if by < _REVERSED:
        return ""
    where = [question.where(cell) for cell in _ends(question)]
    return (
        f"{one} is {times(first[one] / first[two])} as fast as {two} {where[0]}, "
        f"but {times(last[one] / last[two])} {where[1]}"
    )


def _ends(question: SweepQuestion) -> tuple[SweepCell, SweepCell]:
    return question.cells[0], question.cells[-1]


def _fastest(question: SweepQuestion) -> set[str]:
    return {question.label(cell.runs[0]) for cell in question.cells}


def _published(sweep: Sweep) -> str:
    found = comparisons(sweep)
    return f"the forecast is {error_summary(found)}" if found else ""


def _dollars_of_choices(question: SweepQuestion, cell: SweepCell) -> str:
    """Name the cheapest setting and the dearest, where an hour of them does not cost the same; empty otherwise."""
    unit = unit_of_cost(cell.runs)
    costs = [(cost, run) for run in cell.runs if (cost := run.dollars_per_million(unit)) is not None]
    hourly = [run.dollars_per_hour or 0.0 for _, run in costs]
    if len(costs) < max(2, len(cell.runs)) or max(hourly) <= (1 + EQUAL) * min(hourly):
        return ""
    (low, cheapest), (high, dearest) = (choose(costs, key=lambda pair: pair[0]) for choose in (min, max))
    per = f"at ${count(low)} per million {unit}, against ${count(high)}"
    return f"cheapest is {question.label(cheapest)}, {per} with {question.label(dearest)}"


def _dollars(sweep: Sweep) -> str:
    """Name the cheapest run where prices are known, in dollars for a million tokens or samples."""
    runs = sweep.ran
    if len({repr(run.axes.get("model")) for run in runs}) > 1:
        return ""
    unit = unit_of_cost(runs)
    known = [(cost, run) for run in runs if (cost := run.dollars_per_million(unit)) is not None]
    if not known or len(known) < len(runs):
        return ""
    cost, cheapest = min(known, key=lambda pair: pair[0])
    most, fastest = max(known, key=lambda pair: pair[1].samples_per_s)
    per = f"${count(cost)} per million {unit}"
    if len(runs) == 1:
        return f"it costs {per}"
    if cheapest is fastest:
        name = "" if fastest is headline(sweep) else f", {run_label(sweep, fastest)},"
        return f"the fastest{name} is the cheapest too, at {per}"
    return f"cheapest is {run_label(sweep, cheapest)}, at {per} (${count(most)} for the fastest)"
