"""Links by class in two runs: what they carry, how fast they are, and how long the busiest one is busy."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from clustersim.difference.basis import DiffBasis
from clustersim.results import LinkClass, Run


@dataclass(frozen=True)
class LinkChange:
    """One class of links in both runs; a pair is of the first and the second, zero where a run does not have it.

    `kind` is `ethernet-10g / ethernet-25g` where the second run has another class in the place of the first one's.

    `num_bytes` and `busy_s` are per unit of the basis: the bytes that all links carry, and the seconds that the
    busiest one takes for its own at full rate. `busy_s` changes by `by_bytes_s` because that link carries other bytes
    and by `by_rate_s` because it has another rate; the two sum to the change.
    """

    kind: str
    num_links: tuple[int, int]
    num_bytes: tuple[float, float]
    bytes_per_s: tuple[float, float]
    max_utilisation: tuple[float, float]
    busy_s: tuple[float, float]

    @property
    def change_s(self) -> float:
        """Seconds that the busiest link is busy more in the second run."""
        return self.busy_s[1] - self.busy_s[0]

    @property
    def by_rate_s(self) -> float:
        """Seconds of the change that another rate causes, for the mean of the bytes."""
        if not all(self.bytes_per_s):
            return 0.0
        carried = [seconds * rate for seconds, rate in zip(self.busy_s, self.bytes_per_s, strict=True)]
        return (1.0 / self.bytes_per_s[1] - 1.0 / self.bytes_per_s[0]) * sum(carried) / 2

    @property
    def by_bytes_s(self) -> float:
        """Seconds of the change that other bytes cause, for the mean of the two rates."""
        return self.change_s - self.by_rate_s


def link_changes(a: Run, b: Run, basis: DiffBasis) -> tuple[LinkChange, ...]:
    """Return every class of links that carries anything in either run, the largest change of busy seconds first.

    A class that only one run has stands beside one of as many links that only the other has, such as `ethernet-10g`
    beside `ethernet-25g`.
    """
    known = [{links.kind: links for links in run.link_classes} for run in (a, b)]
    used = [{links.kind for links in run.link_classes if links.num_used} for run in (a, b)]
    seconds, units = (a.iteration_s, b.iteration_s), (basis.per_iteration(a), basis.per_iteration(b))
    found = [
        _change(known[0].get(kinds[0]), known[1].get(kinds[1]), seconds, units)
        for kinds in _pairs(known[0], known[1])
        if kinds[0] in used[0] or kinds[1] in used[1]
    ]
    whole_s = max(seconds[0] / units[0], seconds[1] / units[1])
    return tuple(sorted(found, key=lambda links: (-round(abs(links.change_s) / whole_s, 9), -max(links.busy_s))))


def _pairs(a: Mapping[str, LinkClass], b: Mapping[str, LinkClass]) -> list[tuple[str, str]]:
    """Return which class of the first run stands beside which of the second; empty names where there is none."""
    pairs = [(kind, kind) for kind in a if kind in b]
    others = [kind for kind in b if kind not in a]
    for kind in (kind for kind in a if kind not in b):
        alike = next((other for other in others if b[other].num_links == a[kind].num_links), "")
        pairs.append((kind, alike))
        others = [other for other in others if other != alike]
    return [*pairs, *(("", other) for other in others)]


_NO_LINKS = LinkClass("", 0, 0, 0.0, 0.0, 0.0)


def _change(
    first: LinkClass | None, second: LinkClass | None, seconds: tuple[float, float], units: tuple[float, float]
) -> LinkChange:
    a, b = first or _NO_LINKS, second or _NO_LINKS
    return LinkChange(
        kind=" / ".join(dict.fromkeys(filter(None, (a.kind, b.kind)))),
        num_links=(a.num_links, b.num_links),
        num_bytes=(a.num_bytes / units[0], b.num_bytes / units[1]),
        bytes_per_s=(a.bytes_per_s, b.bytes_per_s),
        max_utilisation=(a.max_utilisation, b.max_utilisation),
        busy_s=(a.max_utilisation * seconds[0] / units[0], b.max_utilisation * seconds[1] / units[1]),
    )
