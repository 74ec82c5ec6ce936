"""Constants of a transport from measured times: least squares on relative errors, with their standard errors."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from clustersim.errors import InputError
from clustersim.hardware.sheet import Transport
from clustersim.validation.calibration.constants import CONSTANTS, HELD, UNKNOWN, Constant, Fit, Residual
from clustersim.validation.calibration.experiment import Experiment
from clustersim.validation.calibration.problem import OnProgress, Problem, Solution

_LEAST_EFFECT = 1e-4
"""A constant that changes no time by more than this share, where it is halved, is not determined."""

_LEAST_DIFFERENCE = 1e-6
"""Nor one of whose effect all but so small a share is what others can do together."""


def fit_transport(
    points: Sequence[Experiment],
    start: Transport,
    keys: Sequence[str] | None = None,
    equal_sources: bool = False,
    tell: OnProgress = lambda share, what: None,
) -> Fit:
    """Fit a transport's constants to measured times, beginning with those of its sheet.

    Minimised is the sum over figures of w (simulated / measured - 1)^2; w is 1, or with `equal_sources` such that
    every source weighs the same. The standard error of a constant is the root of its place on the diagonal of
    s^2 (J' J)^-1, where s^2 is that sum over (figures - constants) and J its derivatives: it takes figures to be off
    independently of each other, which those of one machine are not quite. A constant that no figure depends on, or
    whose standard error is as large as itself, is not determined and stays as the sheet has it. `keys` names those
    that may change; it is every one that the sheet has where it is None.
    """
    if not points:
        raise InputError("there is no figure to fit to", allowed="logs of nccl-tests, OSU and their like")
    problem = Problem(points, start, equal_sources, tell)
    known = [key for key in CONSTANTS if getattr(start, key) is not None]
    allowed = [key for key in known if keys is None or key in keys]
    solution = _determined(problem, allowed, len(points))
    states = dict.fromkeys(known, HELD) | dict.fromkeys(allowed, UNKNOWN) | dict(solution.states)
    after = problem.with_values(solution.values)
    constants = [
        Constant(
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


def _determined(problem: Problem, allowed: Sequence[str], most: int) -> Solution:
    """Return the least squares of those constants that the figures determine, of which there are `most` at most."""
    free = _told_apart({key: problem.effect(key) for key in allowed})[:most]
    while True:
        solution = problem.solve(free)
        worst = max((key for key in free if solution.errors[key] is not None), key=solution.doubt, default=None)
        if worst is None or solution.doubt(worst) < 1.0:
            return solution
        free = [key for key in free if key != worst]


def _told_apart(effects: Mapping[str, np.ndarray]) -> list[str]:
    """Return the constants that change times [num_points], most first, in another way than those before them.

    Where all figures are of as many ranks, what a message costs inside a host and between hosts adds to all alike.
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


def _residuals(problem: Problem, after: Transport) -> tuple[Residual, ...]:
    times = zip(problem.points, problem.before_s.tolist(), problem.simulated_s(after).tolist(), strict=True)
    return tuple(
        Residual(point.what, point.source, point.line, point.num_bytes, point.num_gpus, point.measured_s, before, now)
        for point, before, now in times
    )
