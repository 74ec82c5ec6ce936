"""One sentence on what a part of the difference consists of: layers, links and collectives, or ranks."""

from __future__ import annotations

from clustersim.difference.decompose import CauseChange, PartChange
from clustersim.difference.details import OTHER_COMPUTE, RECOMPUTED, UPDATE
from clustersim.difference.difference import PointDifference
from clustersim.difference.links import LinkChange
from clustersim.difference.sheets import SHEET_RATES
from clustersim.report.rank_names import rank_name
from clustersim.report.words import count, duration, percent, plural, shortened, size, times
from clustersim.results import Run
from clustersim.units import format_rate

_MOST_CAUSES = 2
_NAMED = 0.1
"""Share of the change of a part from which on a cause of it is named."""

_ALIKE = 0.03
"""Spread of the factors of layers up to which all change alike."""

_COVERS = 0.3
"""Share of the change of exposed communication from which on links that are busier explain it."""

_MANY_RANKS, _MOST = 4, 0.4
"""From how many awaited ranks on, and below which share of the first one, ranks wait for different ones."""

_LARGE = 100.0
"""Factor from which on none is said."""

_LONGEST = 60


def cause_sentence(point: PointDifference, part: PartChange) -> str:
    """Say what changes in a part, without a full stop; empty where the results do not tell."""
    if part.part == "compute":
        return "; ".join(filter(None, [_compute(part), _sheets(point)]))
    if part.part == "communication_exposed":
        return "; ".join(filter(None, [_links(point, part), _collectives(part)]))
    return _waiting(point, part) if part.part == "waiting" else ""


def _leading(part: PartChange) -> list[CauseChange]:
    """Return the causes that change most in the direction of a part."""
    sign = 1.0 if part.change_s > 0 else -1.0
    along = sorted((cause for cause in part.causes if cause.change_s * sign > 0), key=lambda each: -abs(each.change_s))
    return [cause for cause in along if abs(cause.change_s) >= _NAMED * abs(part.change_s)][:_MOST_CAUSES]


def _compute(part: PartChange) -> str:
    leading = _leading(part)
    if not leading:
        return ""
    factor = _common_factor(part)
    if factor is not None:
        first = next(cause for cause in part.causes if _is_layer(cause))
        return f"all layers take {times(factor)} their time, most of it in {_layers(first)}"
    return f"of compute, {_listed(leading)}"


def _sheets(point: PointDifference) -> str:
    """Say what the sheets of the GPUs say, where these differ in the rates that bound compute."""
    rates = [fact for fact in point.facts if fact.key.startswith(SHEET_RATES)]
    texts = [f"{fact.key} {fact.words[0]} in A and {fact.words[1]} in B" for fact in rates]
    return f"the sheets of the GPUs say: {', '.join(texts)}" if texts else ""


def _common_factor(part: PartChange) -> float | None:
    """Return the factor by which all layers change alike; None where they do not, or where others change most."""
    layers = [each for each in part.causes if _is_layer(each) and each.a_s > 0 and each.b_s > 0]
    total_a_s, total_b_s = sum(each.a_s for each in layers), sum(each.b_s for each in layers)
    if len(layers) < 2 or abs(total_b_s - total_a_s) < 0.5 * abs(part.change_s):
        return None
    factor = total_b_s / total_a_s
    alike_s = sum(each.a_s for each in layers if abs(each.b_s / each.a_s / factor - 1.0) <= _ALIKE)
    return factor if alike_s >= 0.9 * total_a_s else None


def _is_layer(cause: CauseChange) -> bool:
    return not cause.is_rest and cause.name not in (UPDATE, RECOMPUTED)


def _listed(causes: list[CauseChange]) -> str:
    return " and ".join(f"{_layers(cause)} {_takes(cause)} {_by(cause)}" for cause in causes)


def _takes(cause: CauseChange) -> str:
    return "take" if cause.number > 1 else "takes"


def _by(cause: CauseChange) -> str:
    more = "more" if cause.change_s > 0 else "less"
    if cause.a_s <= 0 or cause.b_s <= 0 or cause.is_rest:
        only = " (A has none)" if cause.a_s == 0 else " (B has none)" if cause.b_s == 0 else ""
        return f"{duration(abs(cause.change_s))} {more}{only}"
    factor = cause.b_s / cause.a_s
    said = f" ({times(factor)})" if 1.0 / _LARGE < factor < _LARGE else ""
    return f"{duration(abs(cause.change_s))} {more}{said}"


def _layers(cause: CauseChange) -> str:
    if cause.name == OTHER_COMPUTE:
        return "what is in no row of the layers (slow ranks, split layers, gradients that are added)"
    name = shortened(cause.name, _LONGEST)
    return f"{name} ({plural(cause.number, 'layer')})" if cause.number > 1 else name


def _links(point: PointDifference, part: PartChange) -> str:
    """Name the class of links whose busiest one is busy for longer or shorter, and why."""
    sign = 1.0 if part.change_s > 0 else -1.0
    along = [links for links in point.links if links.change_s * sign > 0]
    found = max(along, key=lambda links: abs(links.change_s), default=None)
    if found is None or abs(found.change_s) < _COVERS * abs(part.change_s):
        busiest = max(point.links, key=lambda links: links.busy_s[1], default=None)
        if busiest is None:
            return ""
        return (
            f"no links are busy for so much {'longer' if sign > 0 else 'shorter'} (the busiest, {busiest.kind}, "
            f"{duration(busiest.busy_s[0])} in A and {duration(busiest.busy_s[1])} in B): what changes is delays, or "
            "how much is hidden behind compute"
        )
    return _busier(found, point.links)


def _busier(found: LinkChange, links: tuple[LinkChange, ...]) -> str:
    busy_a_s, busy_b_s = found.busy_s
    loads = " and ".join(percent(load) for load in found.max_utilisation)
    if not all(found.busy_s):
        name, here = ("B", 1) if busy_b_s else ("A", 0)
        others = max((each for each in links if each.busy_s[1 - here]), key=lambda e: e.busy_s[1 - here], default=None)
        instead = (
            f"; in {'AB'[1 - here]} the busiest are {others.kind}, {duration(others.busy_s[1 - here])}"
            if others
            else ""
        )
        return f"the {found.kind} links are busy for {duration(found.busy_s[here])} in {name} alone{instead}"
    return (
        f"the busiest of the {found.kind} links is busy for {duration(busy_b_s)} instead of {duration(busy_a_s)} "
        f"({loads} of the time in A and B), {_why(found)}"
    )


def _why(found: LinkChange) -> str:
    """Say whether other bytes or another rate change how long a link is busy."""
    rates = [format_rate(rate) for rate in found.bytes_per_s]
    by_rate = f"at {rates[1]} instead of {rates[0]}"
    a_bytes, b_bytes = (seconds * rate for seconds, rate in zip(found.busy_s, found.bytes_per_s, strict=True))
    by_bytes = f"for {size(b_bytes)} instead of {size(a_bytes)}"
    share = found.by_rate_s / found.change_s
    if share > 1.0 - _NAMED and share < 1.0 + _NAMED:
        return by_rate
    return by_bytes if abs(share) < _NAMED else f"{by_bytes}, {by_rate}"


def _collectives(part: PartChange) -> str:
    named = [cause for cause in _leading(part) if cause.name]
    if not named:
        return ""
    rows = [f"{_by(each)} {'' if each.is_rest else 'for '}{shortened(each.name, _LONGEST)}" for each in named]
    return f"of the communication, {' and '.join(rows)}"


def _waiting(point: PointDifference, part: PartChange) -> str:
    leading = _leading(part)
    if not leading:
        return ""
    run = point.runs[1 if part.change_s > 0 else 0]
    sign = 1.0 if part.change_s > 0 else -1.0
    single = [cause for cause in part.causes if not cause.is_rest and cause.change_s * sign > 0]
    first = leading[0]
    if len(single) >= _MANY_RANKS and not first.is_rest and abs(first.change_s) < _MOST * abs(part.change_s):
        return f"ranks wait for {count(len(single))} different ranks, most for {_rank(run, first)}: {_by(first)}"
    rows = [f"{_by(cause)} for {_rank(run, cause)}" for cause in sorted(leading, key=lambda cause: cause.is_rest)]
    return f"ranks wait {' and '.join(rows)}"


def _rank(run: Run, cause: CauseChange) -> str:
    if cause.is_rest:
        inside = "ranks of one copy of the model wait for each other, and " if run.layout else ""
        return f"no single rank: {inside}GPUs of one kind differ a little, and the slowest is awaited"
    number = cause.name.removeprefix("rank ")
    name = rank_name(run, int(number)) if number.isdigit() else ""
    return f"{cause.name} ({name})" if name else cause.name
