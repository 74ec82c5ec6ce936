"""Cards of the part on learning: the table of all trained runs, and what is trained and what is not."""

from __future__ import annotations

from collections.abc import Iterator

from clustersim.results import Sweep


def learning_cards(sweep: Sweep) -> Iterator[str]:
    yield ""
