"""Shortcuts: what need not be simulated event by event, and the proof that the result stays the same.

Each shortcut is opt-in: a new strategy, layout or straggler uses none until it says that it may. `--exact` turns all
of them off, and `tests/contracts` holds both results together to 1e-9 for every member.
"""
