"""Shortcuts: what need not be simulated event by event, and the proof that the result stays the same.

Each shortcut is opt-in. A new strategy uses none until its class lists it in `proved_shortcuts`. `--exact` turns all of
them off, and `tests/contracts` compares both results for every member, to 1e-9.

| module | instead of simulating |
|---|---|
| `identical_iterations` | later iterations that are the same as one before |
| `folding` | the ranks of a layout that do the same as another at the same time |
| `timed_collectives` | collectives of known duration inside a layout |
| `micro_batch_cycle` | micro-batches that repeat those before them |
| `execution.vectorized_workers` | one process for each worker |
| `network.uncontended` | messages of collectives that share no link with other traffic |
| `network.numba_engine.lockstep` | steps of collectives that repeat the step before |
"""

from clustersim.shortcuts.shortcut import Shortcut

__all__ = ["Shortcut"]
