"""The answer of a sweep in at most three sentences: what is fastest, what limits it, and what else decides."""

from __future__ import annotations

from itertools import pairwise

from clustersim.report.comparing import axes_sentences, comparison, groups_of, run_labelled
from clustersim.report.failing import failing_sentence
from clustersim.report.learning_words import learning_sentences
from clustersim.report.limiting import limit_of, limit_sentence, limits_of_two, share_of
from clustersim.report.notes import notes
from clustersim.report.options import EQUAL, SweepQuestion, main_cell, question_of
from clustersim.report.palette import LABELS
from clustersim.report.rate_words import rate_words, sentence_of_one
from clustersim.report.series import headline
from clustersim.report.words import count, gpus, percent, times
from clustersim.results import Run, Sweep

MOST_NOTES = 2
"""Notes in the last sentence."""

_PAYS = 0.5
"""Share of its GPUs' rate that a step to more GPUs must add to pay."""


def findings(sweep: Sweep) -> tuple[str, ...]:
    """Return the answer: one to three sentences, each with its full stop, and one on points without a forecast.

    Where a model is trained, a sentence on the time to its target comes first, one for each of the first conditions.
    """
    found: list[str] = []
    if sweep.ran:
        question = question_of(sweep)
        learnt = learning_sentences(sweep)
        speed, limit = _main(sweep, question)
        speed = f"in samples per second, {_uncapitalised(speed)}" if learnt and question.choices else speed
        found = [*learnt, speed, limit, "; ".join(notes(sweep, question)[:MOST_NOTES])]
    found.append(failing_sentence(sweep))
    return tuple(f"{text[:1].upper()}{text[1:]}." for text in found if text)


def _main(sweep: Sweep, question: SweepQuestion) -> list[str]:
    """Return the sentences on the fastest run and on what limits it."""
    if question.choices:
        axes, fastest = axes_sentences(sweep, question, main_cell(question))
        if axes:
            return [axes, f"{fastest}; {_uncapitalised(_limits(question))}"]
        return [comparison(sweep, question, main_cell(question)), _limits(question)]
    if any(axis.key == "model" for axis in question.conditions):
        return [_models(question), ""]
    if question.conditions:
        runs = [cell.runs[0] for cell in question.cells]
        return [_sizes(sweep, runs), _scaling(runs)]
    run = sweep.ran[0]
    return [sentence_of_one(sweep, run), limit_sentence(run, "")]


def _limits(question: SweepQuestion) -> str:
    """Say what limits the fastest and the slowest setting, or the fastest settings of two groups of conditions."""
    cell, groups = main_cell(question), groups_of(question)
    best, worst, where = question.best(cell), question.worst(cell), ""
    if len(groups) > 1:
        other = groups[-2].best if groups[-1].best == question.label(best) else groups[-1].best
        worst, where = run_labelled(question, cell, other) or worst, question.where(cell)
    if worst is best:
        return limit_sentence(best, question.where(cell))
    found = limits_of_two(best, worst, (question.label(best), question.label(worst)))
    return f"{where}, {_uncapitalised(found)}" if where else found


def _uncapitalised(text: str) -> str:
    return f"{text[:1].lower()}{text[1:]}"


def _models(question: SweepQuestion) -> str:
    """Say what each model trains on the most GPUs: samples of different models are not comparable."""
    runs = {}
    for cell in question.cells:
        model = next(axis.label(cell.runs[0]) for axis in question.conditions if axis.key == "model")
        runs[model] = cell.runs[0]
    number = next(iter(runs.values())).num_gpus
    rates = ", ".join(f"{model} at {rate_words(run)}" for model, run in runs.items())
    return f"{gpus(number)} train {rates}"


def _sizes(sweep: Sweep, runs: list[Run]) -> str:
    """Say what the most GPUs train, and how many times what the fewest do."""
    first, last = runs[0], runs[-1]
    ratio = last.samples_per_s / first.samples_per_s
    against = f"{times(ratio)} the rate of {gpus(first.num_gpus)}"
    is_said_twice = last.speedup is not None and abs(last.speedup / ratio - 1) < EQUAL
    efficiency = f"at {percent(last.efficiency)} efficiency"
    return sentence_of_one(sweep, headline(sweep), efficiency if is_said_twice else f"{against}, {efficiency}")


def _scaling(runs: list[Run]) -> str:
    """Say up to how many GPUs it pays to add some, and what limits the largest size, and from where on."""
    pays = [_step(one, two) >= _PAYS for one, two in pairwise(runs)]
    if all(pays):
        return f"every step to more GPUs pays; {_limit_from(runs)}"
    if pays[-1]:
        first = max(place for place, found in enumerate(pays) if not found) + 1
        gain = _gain(*runs[first - 1 : first + 1])
        return f"from {gpus(runs[first].num_gpus)} on every step to more pays ({gain}); {_limit_from(runs)}"
    last = max((place + 1 for place, found in enumerate(pays) if found), default=0)
    said = f"it pays to add GPUs up to {count(runs[last].num_gpus)}" if last else "it does not pay to add GPUs"
    return f"{said}: {_gain(*runs[last : last + 2])}; {_limit_from(runs)}"


def _gain(one: Run, two: Run) -> str:
    """Say what a size trains beside the next smaller one."""
    ratio = two.samples_per_s / one.samples_per_s
    verb = "trains" if two.num_gpus == 1 else "train"
    less = "only" if ratio >= 1 else "less,"
    return f"{count(two.num_gpus)} {verb} {less} {times(ratio)} as much as {count(one.num_gpus)}"


def _limit_from(runs: list[Run]) -> str:
    """Say what limits the largest size, and from which size on it takes more time than compute."""
    last = runs[-1]
    part = limit_of(last)
    longer = [share_of(run, part) > share_of(run, "compute") for run in runs]
    if part == "compute" or not longer[-1]:
        found = limit_sentence(last, "")
        return f"on {gpus(last.num_gpus)} {found[:1].lower()}{found[1:]}"
    first = next(place for place in range(len(runs)) if all(longer[place:]))
    where = "on" if first == len(runs) - 1 else "from"
    since = "" if first == len(runs) - 1 else " on"
    at = f" on {gpus(last.num_gpus)}" if since else ""
    share = f"{percent(share_of(last, part))} of an iteration{at}"
    return f"{where} {gpus(runs[first].num_gpus)}{since} {LABELS[part]} takes longer than compute ({share})"


def _step(one: Run, two: Run) -> float:
    """Return the rate that a step adds, as a share of that of as many GPUs of the smaller size."""
    return (two.samples_per_s / one.samples_per_s - 1.0) / (two.num_gpus / one.num_gpus - 1.0)
