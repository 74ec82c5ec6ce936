"""The comparison in sentences: how much longer, by which parts and causes, and what differs in the scenarios."""

from __future__ import annotations

from clustersim.difference.causes import cause_sentence
from clustersim.difference.decompose import PartChange
from clustersim.difference.difference import Difference, FailedPoint, PointDifference
from clustersim.difference.settings import SettingChange
from clustersim.report.hints import OF_ERRORS, OF_SEEDS, sureness
from clustersim.report.palette import LABELS
from clustersim.report.rate_words import dropped_share
from clustersim.report.series import axis_value
from clustersim.report.words import count, duration, percent, plural, shortened, sort_number, times
from clustersim.results import Run

MOST_PARTS = 3
"""Parts of an iteration that are named."""

_NAMED = 0.05
"""Share of the largest change of a part from which on another one is named."""

_ROUNDED = 0.005
"""Share of the difference up to which parts that change the other way are not worth a word."""

_MOST_SETTINGS = 4
_LONGEST = 160


def sentences(found: Difference) -> tuple[str, ...]:
    """Return the comparison in sentences, each with its full stop."""
    main = found.main
    texts = [
        _range(found),
        _whole(main),
        *_causes(main),
        _dropped(main),
        _settings(found, main),
        _effects(found),
        _versions(found),
        _lone(found),
        _failed(found),
    ]
    return tuple(f"{text[:1].upper()}{text[1:]}." for text in texts if text)


def _range(found: Difference) -> str:
    """Say between what the changes of several points are, and which one the other sentences are about."""
    if len(found.differences) == 1:
        return ""
    changes = [each.seconds[1] / each.seconds[0] - 1.0 for each in found.differences]
    ends = sorted({percent(abs(min(changes))), percent(abs(max(changes)))}, key=lambda text: sort_number(text) or 0.0)
    if min(changes) < -_ROUNDED and max(changes) > _ROUNDED:
        between = f"from {percent(abs(min(changes)))} less to {percent(max(changes))} more time"
    else:
        between = f"{' to '.join(ends)} {'more' if max(changes) > _ROUNDED else 'less'} time"
    return (
        f"at {plural(len(changes), 'point')}, B takes {between} than A; they differ most at {point_label(found.main)}"
    )


def point_label(point: PointDifference) -> str:
    """Name a point by the axes on which both runs have one value."""
    a, b = point.runs
    axes = {key: value for key, value in b.axes.items() if a.axes.get(key, value) == value}
    return ", ".join(axis_value(key, value) for key, value in axes.items()) or "the only point"


def _whole(point: PointDifference) -> str:
    """Say how long both take, how sure the difference is, and what both train per second."""
    a_s, b_s = point.seconds
    noun = point.basis.noun
    if point.is_equal:
        return f"there is no difference: {noun} takes {duration(a_s)} in both{_split_by_rate(point)}"
    more = "more" if b_s > a_s else "less"
    by = f"{duration(abs(b_s - a_s))} ({percent(abs(b_s / a_s - 1.0))}) {more} than in A ({duration(a_s)})"
    if abs(b_s / a_s - 1.0) < 1e-9:
        by = "as in A, in other parts"
    return f"{noun} takes {duration(b_s)} in B, {by}{_sure(point)}{_split_by_rate(point)}"


def title(point: PointDifference) -> str:
    """Name in a title the part that changes most, and how much of the difference it is."""
    if point.is_equal:
        return "A and B take the same time, part by part"
    part = max(point.parts, key=lambda each: abs(each.change_s))
    label, whole_s = LABELS[part.part], abs(point.change_s)
    name, seconds = f"{label[:1].upper()}{label[1:]}", duration(abs(part.change_s))
    if part.change_s * point.change_s <= 0 or abs(part.change_s) > (1.0 + _ROUNDED) * whole_s:
        verb = "adds" if part.change_s > 0 else "takes off"
        return f"{name} {verb} {seconds}; in all B takes {duration(whole_s)} {'more' if point.change_s > 0 else 'less'}"
    more = "more" if part.change_s > 0 else "less"
    return f"{name} is {seconds} of the {duration(whole_s)} that B takes {more}"


def _split_by_rate(point: PointDifference) -> str:
    """Say what both train per second, where that is not the inverse of the time that is compared."""
    a, b = (_rate(run) for run in point.runs)
    if point.basis.name == "sample" or abs(a[0] / b[0] - 1.0) < 1e-9 or a[1] != b[1]:
        return ""
    return f"; B trains {count(b[0])} {b[1]} per second and A {count(a[0])} ({times(b[0] / a[0])})"


def _rate(run: Run) -> tuple[float, str]:
    return (run.samples_per_s, "samples") if run.tokens_per_s is None else (run.tokens_per_s, "tokens")


def _sure(point: PointDifference) -> str:
    """Say how sure it is that two trainings differ: nothing where only the version of the program does."""
    a, b = point.runs
    if not (point.settings or point.facts):
        return ""
    a_s, b_s = point.seconds
    if a.interval is not None and b.interval is not None:
        pairs = [
            [end / point.basis.per_iteration(run) for end in run.interval.iteration_s]
            for run in (a, b)
            if run.interval is not None
        ]
        if pairs[0][0] <= pairs[1][1] and pairs[1][0] <= pairs[0][1]:
            return f", which is {OF_SEEDS}"
    sure = sureness(max(a_s, b_s) / min(a_s, b_s))
    return f", which is {sure}" if sure == OF_ERRORS else f", {sure}" if sure else ""


def _causes(point: PointDifference) -> list[str]:
    """Name the parts that change most, and the causes of each."""
    if point.is_equal:
        return []
    sign = 1.0 if point.change_s >= 0 else -1.0
    parts = sorted(point.parts, key=lambda part: -abs(part.change_s))
    least = _NAMED * abs(parts[0].change_s)
    named = [part for part in parts if abs(part.change_s) >= least][:MOST_PARTS]
    along = [part for part in named if part.change_s * sign > 0]
    against = [part for part in named if part.change_s * sign <= 0]
    every = sum(abs(part.change_s) for part in parts if part.change_s * sign > 0)
    is_all = abs(every / abs(point.change_s) - 1.0) < _ROUNDED if point.change_s else False
    of = "of the difference" if is_all else f"of what is {'added' if sign > 0 else 'saved'}"
    said = [
        f"{_change(part)} ({percent(abs(part.change_s) / every)}{f' {of}' if n == 0 else ''})"
        for n, part in enumerate(along)
    ]
    text = ", ".join(said)
    if against:
        text = "; ".join(filter(None, [text, f"against that, {', '.join(map(_change, against))}"]))
    return [text, *(cause for part in (*along, *against) if (cause := cause_sentence(point, part)))]


def _dropped(point: PointDifference) -> str:
    """Say which shares of the gradients are dropped, where these differ: a sample then takes more than its own work."""
    a, b = (dropped_share(run) for run in point.runs)
    return f"{percent(a)} of the gradients are dropped in A and {percent(b)} in B" if abs(a - b) > _ROUNDED else ""


def _change(part: PartChange) -> str:
    more = "more" if part.change_s > 0 else "less"
    return f"{LABELS[part.part]} takes {duration(abs(part.change_s))} {more}"


def _settings(found: Difference, main: PointDifference) -> str:
    """Say which keys differ, and that several cannot be told apart."""
    changes = main.settings
    if not changes:
        return "" if main.is_equal or len(set(found.versions)) > 1 else _same_scenario(main)
    keys = "; ".join(f"{change.key} {_values(change)}" for change in changes[:_MOST_SETTINGS])
    more = len(changes) - _MOST_SETTINGS
    rest = f"; {more} more" if more > 0 else ""
    if len(changes) == 1:
        return f"the scenarios differ in {keys}"
    if main.is_equal:
        return f"the scenarios differ in {len(changes)} keys, without effect on the time: {keys}{rest}"
    if found.effects:
        return f"the scenarios differ in {len(changes)} keys: {keys}{rest}"
    return (
        f"the scenarios differ in {len(changes)} keys, so no single one is known to be the cause: {keys}{rest} "
        "(--one-by-one tells them apart)"
    )


def _effects(found: Difference) -> str:
    """Say what each key does alone, and how far that is from what all do together."""
    known = [(effect.key, effect.change_s) for effect in found.effects if effect.change_s is not None]
    if not known:
        return "no key of B alone is valid in A" if found.effects else ""
    whole_s = found.main.seconds[0]
    said = [f"{key} {_more(seconds) if abs(seconds) > 1e-9 * whole_s else 'as long'}" for key, seconds in known]
    refused = [effect.key for effect in found.effects if effect.change_s is None]
    text = f"with one key of B at a time, A takes: {', '.join(said)}"
    if refused:
        return f"{text}; not valid alone: {', '.join(refused)}"
    left_s = found.main.change_s - sum(seconds for _, seconds in known)
    if abs(left_s) < _NAMED * abs(found.main.change_s):
        return f"{text}; together they do what these sum to"
    return f"{text}; together {_more(left_s)} than these sum to"


def _more(seconds: float) -> str:
    return f"{duration(abs(seconds))} {'more' if seconds >= 0 else 'less'}"


def _same_scenario(main: PointDifference) -> str:
    if main.facts:
        facts = "; ".join(f"{fact.key} {_values(fact)}" for fact in main.facts[:_MOST_SETTINGS])
        return f"the scenarios have the same keys, but what they name differs: {facts}"
    return "the scenarios have the same keys: a file that they name, or an option such as --exact, differs"


def _values(change: SettingChange) -> str:
    a, b = change.words
    return f"({a} in A, {b} in B)"


def _versions(found: Difference) -> str:
    a, b = found.versions
    return f"A is of clustersim {a} and B of {b}, so the simulator itself may be a cause" if a != b else ""


def _lone(found: Difference) -> str:
    """Say that points are left out of the comparison."""
    lone = [
        f"{plural(len(axes), 'point')} of {name}" for name, axes in (("A", found.only_a), ("B", found.only_b)) if axes
    ]
    return f"not compared, for the other has no such point: {' and '.join(lone)}" if lone else ""


def _failed(found: Difference) -> str:
    """Say which points have no forecast, and why the first has none."""
    if not found.failed:
        return ""
    sides = [f"{plural(len(each), 'point')} of {name}" for name in "AB" if (each := _of_side(found, name))]
    first = found.failed[0]
    where = ", ".join(axis_value(key, value) for key, value in first.axes.items())
    reason = first.error.message.splitlines()[0]
    return f"without a forecast: {' and '.join(sides)} ({where} of {first.side}: {shortened(reason, _LONGEST)})"


def _of_side(found: Difference, name: str) -> list[FailedPoint]:
    return [each for each in found.failed if each.side == name]
