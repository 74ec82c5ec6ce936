"""Sensitivities: what a run would gain if each of its resources were faster, what limits it, and what to buy.

Each gain is a simulation with other rates, and none a derivative of a formula. It knows scenarios, forecasts and the
knobs of `what_if`. It models nothing itself: `Speeds` of a point say how fast a resource is.

| file | holds |
|---|---|
| `resources` | the resources that a run uses, and which of them cannot matter |
| `point` | the one point of a scenario that is explained |
| `forecasts` | forecasts of changed points, in this process or in several |
| `upgrades` | hardware with a name: the next GPU, link, card |
| `differences` | the whole: forward differences, then upgrades |
| `result` | the answer as plain data |
| `sentences`, `table`, `figure`, `page` | the answer in words, for a terminal, and as a page |
"""

from clustersim.sensitivity.differences import why
from clustersim.sensitivity.result import WHY_SCHEMA, Gain, Upgrade, Why

__all__ = ["WHY_SCHEMA", "Gain", "Upgrade", "Why", "why"]
