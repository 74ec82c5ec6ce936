"""What limits a run: the longest part of its iteration beside compute, and the busiest links."""

from __future__ import annotations

from clustersim.report.palette import LABELS
from clustersim.report.words import duration, percent
from clustersim.results import BREAKDOWN, LinkClass, Run

_LIMITING_SHARE = 0.1
"""Share of an iteration below which no part is called a limit beside compute."""

NAMED_SHARE = 0.05
"""Share of an iteration from which on a part of it is named."""

_LIMITS = 0.3
"""Share in both of two runs from which on a part is said to limit both."""

_BUSY = 0.5
"""Share of the exposed communication from which on the busiest links are named with it."""


_SATURATED = 0.7
"""Share of the time in which a server works on gradients from which on these wait in its queue."""


def overhead(run: Run) -> str | None:
    """Return the longest part of an iteration that is not compute; None where there is none."""
    others = {part: seconds for part, seconds in run.breakdown_s.items() if part != "compute" and seconds > 0}
    return max(others, key=lambda part: others[part]) if others else None


def limit_of(run: Run) -> str:
    """Return the part of an iteration that limits a run: `compute` where no other has a tenth of it."""
    part = overhead(run)
    return part if part is not None and share_of(run, part) >= _LIMITING_SHARE else "compute"


def share_of(run: Run, part: str) -> float:
    """Return the share of a part in the iteration."""
    return run.breakdown_s.get(part, 0.0) / run.iteration_s


def busiest_links(run: Run) -> LinkClass | None:
    """Return the kind of links that is busiest, where it is busy for long enough to explain the communication."""
    most = max(run.link_classes, key=lambda links: links.max_utilisation, default=None)
    exposed = share_of(run, "communication_exposed")
    is_named = exposed >= NAMED_SHARE and most is not None and most.max_utilisation >= _BUSY * exposed
    return most if is_named else None


def limit_sentence(run: Run, name: str) -> str:
    """Say what limits one run; `name` says which, such as `on 8 GPUs`."""
    part = limit_of(run)
    begin = f"{name[:1].upper()}{name[1:]}, {LABELS[part]}" if name else _capital(LABELS[part])
    return f"{begin} takes {percent(share_of(run, part))} of an iteration{_links(run, part)}"


def limits_of_two(best: Run, other: Run, names: tuple[str, str]) -> str:
    """Say what limits the fastest run and a slower one: the two parts beside compute that take most in either."""
    shares = {part: (share_of(best, part), share_of(other, part)) for part in BREAKDOWN if part != "compute"}
    told = sorted((part for part in shares if max(shares[part]) >= NAMED_SHARE), key=lambda part: -max(shares[part]))
    if not told or max(shares[told[0]]) < _LIMITING_SHARE:
        told = ["compute"]
        shares["compute"] = share_of(best, "compute"), share_of(other, "compute")
    part = told[0]
    verb = "limits both:" if min(shares[part]) >= _LIMITS else "takes"
    one, two = map(percent, shares[part])
    found = f"{_capital(LABELS[part])} {verb} {one} of an iteration with {names[0]} and {two} with {names[1]}"
    found += _links(other, part, " there")
    for also in told[1:2]:
        here, there = map(percent, shares[also])
        found += f"; {LABELS[also]} takes {here} and {there}{_links(other, also, f' with {names[1]}')}"
    return found


def server_words(run: Run, where: str = "") -> str:
    """Say how busy the busiest server is, where it is busier than any links and its queue is a limit; else empty.

    `where` says of which run.
    """
    busy = run.facts.get("server_busy", 0.0)
    if busy < max([_SATURATED, *(links.max_utilisation for links in run.link_classes)]):
        return ""
    each = duration(run.facts["server_s_per_gradient"])
    return (
        f"the busiest server{where} is at {percent(busy)}: it takes one gradient after another, {each} for each; "
        "a larger servers.num divides this"
    )


def busiest_words(run: Run, part: str, where: str = "") -> str:
    """Name the busiest server or links and their load where a part is communication with them; otherwise empty.

    `where` says of which run.
    """
    if part == "communication_exposed" and (words := server_words(run, where)):
        return words
    links = busiest_links(run) if part == "communication_exposed" else None
    return "" if links is None else f"busiest links{where}: {links.kind}, at {percent(links.max_utilisation)}"


def _links(run: Run, part: str, where: str = "") -> str:
    words = busiest_words(run, part, where)
    return f" ({words})" if words else ""


def _capital(text: str) -> str:
    return text[:1].upper() + text[1:]
