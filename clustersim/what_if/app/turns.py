"""Stops evaluations for which no page waits any more, and those that take too long for a page."""

from __future__ import annotations

import time
from collections import OrderedDict
from collections.abc import Callable
from typing import Any

LIMIT_S = 60.0
_MOST_PAGES = 100


class Superseded(Exception):
    """The page has sent something else since."""


class TooLong(Exception):
    """The evaluation takes longer than a page should wait."""


class Turns:
    """The latest turn of each page: pages number what they send."""

    def __init__(self, clock: Callable[[], float] = time.monotonic):
        self._latest: OrderedDict[str, int] = OrderedDict()
        self._clock = clock

    def check_of(self, state: Any) -> Callable[[], None]:
        """Return a function that raises `Superseded` or `TooLong` once the answer to this state should stop."""
        page, turn = _numbered(state)
        self._latest[page] = max(turn, self._latest.get(page, turn))
        self._latest.move_to_end(page)
        while len(self._latest) > _MOST_PAGES:
            self._latest.popitem(last=False)
        end_s = self._clock() + LIMIT_S

        def check() -> None:
            if self._latest.get(page, turn) > turn:
                raise Superseded
            if self._clock() > end_s:
                raise TooLong(f"This forecast takes longer than {LIMIT_S:.0f} s here; `clustersim run` has no limit.")

        return check


def _numbered(state: Any) -> tuple[str, int]:
    """Return the name of the page that sent a state, and the number of its turn."""
    page, turn = (state.get(key) for key in ("page", "turn")) if isinstance(state, dict) else (None, None)
    return str(page)[:40], turn if isinstance(turn, int) else 0
