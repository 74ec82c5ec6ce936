"""Fits the constants of a transport to measured times: least squares on relative errors, with standard errors."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from clustersim.errors import InputError
from clustersim.hardware.sheet import Transport
from clustersim.simulate.transport_fit.constants import CONSTANTS, HELD, UNKNOWN, Fit, FittedConstant, Residual
from clustersim.simulate.transport_fit.experiment import Experiment
from clustersim.simulate.transport_fit.problem import FitProblem, OnProgress, Solution

_LEAST_EFFECT = 1e-4
"""A constant is not determined if halving it changes no time by more than this share."""

_LEAST_DIFFERENCE = 1e-6
"""A constant is not determined if other constants together have its effect but for this share."""


def fit_transport(
    points: Sequence[Experiment],
    start: Transport,
    keys: Sequence[str] | None = None,
    equal_sources: bool = False,
    on_progress: OnProgress = lambda share, what: None,
) -> Fit:
    """Fit a transport's constants to measured times, starting from those of its sheet.

    Minimizes the sum over figures of w (simulated / measured - 1)^2; w is 1, or with `equal_sources` such that every
    source has equal weight. The standard error of a constant is the root of its entry on the diagonal of
    s^2 (J' J)^-1, where s^2 is that sum over (figures - constants) and J has the derivatives. It assumes independent
    errors of the figures, which is only roughly true for figures of one machine. A constant that no figure depends on,
    or whose standard error is as large as its value, is not determined and keeps the value of the sheet. `keys` are the
    constants that may change, by default all in the sheet.
    """
    if not points:
        raise InputError(
            "there are no figures for the fit", allowed="logs of nccl-tests, OSU micro-benchmarks or similar tools"
        )
    problem = FitProblem(points, start, equal_sources, on_progress)
    known = [key for key in CONSTANTS if getattr(start, key) is not None]
    allowed = [key for key in known if keys is None or key in keys]
    solution = _determined(problem, allowed, len(points))
    states = dict.fromkeys(known, HELD) | dict.fromkeys(allowed, UNKNOWN) | dict(solution.states)
    after = problem.with_values(solution.values)
    constants = [
        FittedConstant(
            key,
            CONSTANTS[key].unit,
            before=getattr(start, key),
            value=getattr(after, key),
            standard_error=solution.errors.get(key),
            state=states[key],
            source=start.sources.get(key, ""),
        )
        for key in known
    ]
    return Fit(start, after, tuple(constants), _residuals(problem, after))


def _determined(problem: FitProblem, allowed: Sequence[str], most: int) -> Solution:
    """Return the least squares of the constants that the figures determine, at most `most` constants."""
    free = _independent({key: problem.effect(key) for key in allowed})[:most]
    while True:
        solution = problem.solve(free)
        worst = max(
            (key for key in free if solution.errors[key] is not None), key=solution.relative_error, default=None
        )
        if worst is None or solution.relative_error(worst) < 1.0:
            return solution
        free = [key for key in free if key != worst]


def _independent(effects: Mapping[str, np.ndarray]) -> list[str]:
    """Return the constants whose effects on times [num_points] are linearly independent, the largest first.

    For figures with one number of ranks, for example, the costs of messages inside hosts and between hosts have the
    same effect.
    """
    largest = {key: float(np.abs(effect).max()) for key, effect in effects.items()}
    found: list[str] = []
    for key in sorted(effects, key=lambda key: -largest[key]):
        if largest[key] <= _LEAST_EFFECT:
            break
        if found:
            before = np.array([effects[other] for other in found]).T
            rest = effects[key] - before @ np.linalg.lstsq(before, effects[key], rcond=None)[0]
            if np.linalg.norm(rest) <= _LEAST_DIFFERENCE * np.linalg.norm(effects[key]):
                continue
        found.append(key)
    return found


def _residuals(problem: FitProblem, after: Transport) -> tuple[Residual, ...]:
    times = zip(problem.points, problem.before_s.tolist(), problem.simulated_s(after).tolist(), strict=True)
    return tuple(
        Residual(point.what, point.source, point.line, point.num_bytes, point.num_gpus, point.measured_s, before, now)
        for point, before, now in times
    )
