"""The factor on kernel times with which one GPU, its host included, trains at a measured rate."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np

from clustersim.model.layer import LayerTime
from clustersim.program.issue import IssueTimes, issue_times

_MOST_STEPS = 200


class RateFactor(NamedTuple):
    """Factors on the estimated times of `kernels`, and on what the `host` takes to issue them."""

    kernels: float
    host: float = 1.0

    @property
    def told(self) -> str:
        """Words on the factor of the host, if it has one."""
        return "" if self.host == 1 else f", and the host takes {self.host:.2f} times its estimate to issue them"


def factor_for(
    layers: Sequence[LayerTime], update: IssueTimes, update_s: float, batches_per_update: int, wanted_s: float
) -> RateFactor:
    """Return the factors with which a pass of all layers, and its share of an update, take `wanted_s` seconds.

    Kernels are scaled, by the only factor with which the iteration takes that long. If the host alone takes longer, the
    kernels keep their estimates, or the time that there is if that is less, and the host is scaled.
    """
    order = [(layer.forward_s, layer.forward_issue) for layer in layers]
    order += [(layer.backward_s, layer.backward_issue) for layer in reversed(layers)]
    kernels_s, whole_s = batches_per_update * sum(seconds for seconds, _ in order), batches_per_update * wanted_s
    passes = _Passes(_ends_of_repeats(issue_times(order), kernels_s, batches_per_update), kernels_s, update, update_s)
    if passes.seconds(0.0, 1.0)[0] < whole_s:
        return RateFactor(_root(lambda factor: _by_kernels(passes.seconds(factor, 1.0)), whole_s))
    kernels = min(1.0, (whole_s - update_s) / kernels_s)
    host = 0.0
    if passes.seconds(kernels, 0.0)[0] < whole_s:
        host = _root(lambda factor: _by_host(passes.seconds(kernels, factor)), whole_s)
    return RateFactor(kernels, host)


def _ends_of_repeats(issue: IssueTimes, kernels_s: float, num: int) -> IssueTimes:
    """Return the issue times of the first and of the last of `num` equal passes, of `kernels_s` seconds in all.

    Those between them never bind more: from pass to pass host and kernels advance by the same steps.
    """
    if num == 1:
        return issue
    share = (num - 1) / num
    return IssueTimes(
        np.concatenate([issue.work_s, share * kernels_s + issue.work_s]),
        np.concatenate([issue.issued_s, (num - 1) * issue.host_s + issue.issued_s]),
        num * issue.host_s,
    )


class _Passes(NamedTuple):
    """The passes of all batches of an update, and the update, with their issue times."""

    issue: IssueTimes
    kernels_s: float
    update: IssueTimes
    update_s: float

    def seconds(self, kernels: float, host: float) -> tuple[float, float, float]:
        """Return the time of an update with these factors, its batches included, and its derivatives by both."""
        end_s, by_kernels, by_host = _latest(
            self.issue, kernels, host, (kernels * self.kernels_s, self.kernels_s, 0.0), self.kernels_s
        )
        begun_s, of_update = host * self.issue.host_s, (end_s, by_kernels, by_host)
        for work_s, issued_s in self.update.rows:
            issued = (begun_s + host * issued_s - work_s, 0.0, self.issue.host_s + issued_s)
            of_update = max(of_update, issued)
        return self.update_s + of_update[0], of_update[1], of_update[2]


def _by_host(found: tuple[float, float, float]) -> tuple[float, float]:
    return found[0], found[2]


def _by_kernels(found: tuple[float, float, float]) -> tuple[float, float]:
    return found[0], found[1]


def _latest(
    issue: IssueTimes, kernels: float, host: float, first: tuple[float, float, float], work_s: float
) -> tuple[float, float, float]:
    """Return the latest end of the work by its issue times, and its derivatives; `first` is that without any."""
    if not len(issue):
        return first
    ends_s = host * issue.issued_s + kernels * (work_s - issue.work_s)
    last = int(np.argmax(ends_s))
    found = float(ends_s[last]), work_s - float(issue.work_s[last]), float(issue.issued_s[last])
    return max(first, found)


def _root(function: Callable[[float], tuple[float, float]], wanted_s: float) -> float:
    """Return where a convex, increasing, piecewise linear function of a factor is `wanted_s`, by Newton's method."""
    factor = 1.0
    while function(factor)[0] < wanted_s:
        factor *= 2
    for _ in range(_MOST_STEPS):
        seconds, slope = function(factor)
        if not slope or abs(seconds - wanted_s) <= 1e-15 * wanted_s:
            break
        factor -= (seconds - wanted_s) / slope
    return factor
