"""Messages that belong to no collective: events that say when they began and ended."""

from __future__ import annotations

from typing import Generic, NamedTuple, TypeVar

import numpy as np
import simpy

from clustersim.errors import InputError
from clustersim.network.engine import Engine
from clustersim.network.flow import INFINITE, Flow, Path

Of = TypeVar("Of", float, np.ndarray)


class TransferTimes(NamedTuple, Generic[Of]):
    """When a transfer was to start, when its last byte arrived or it was called off, and the bytes delivered by then.

    Of many transfers, each is an array [num_transfers].
    """

    start_s: Of
    end_s: Of
    num_bytes: Of


class Sent(simpy.Event):
    """A message on its way. It is the flow's sender, and fires with `TransferTimes` when that has ended."""

    def __init__(self, env: simpy.Environment, engine: Engine, path: Path, num_bytes: float, weight: float):
        super().__init__(env)
        self.engine = engine
        self._num_bytes = num_bytes
        self._start_s = engine.now_s
        self._flow: Flow | None = None
        self._arrives_s = 0.0
        self._path, self._weight = path, weight

    def post(self, moved_per_byte: float = 1.0) -> None:
        """Send the message now; of each of its bytes so many are moved."""
        self._flow = Flow(self._path, self._num_bytes * moved_per_byte, self._weight, self)
        self._arrives_s = self.engine.post(self._flow, self._start_s)

    def ended(self, flow: Flow) -> None:
        """Tell whoever waits that all has arrived."""
        self._tell(self._num_bytes)

    def call_off(self) -> None:
        """Take the message off its way, if it has not ended, and tell whoever waits how much has arrived."""
        flow = self._flow
        if flow is not None:
            moved_bytes = self.engine.call_off(flow, self._arrives_s)
            self._tell(self._num_bytes * (moved_bytes / flow.num_bytes) if moved_bytes else 0.0)

    def _tell(self, num_bytes: float) -> None:
        self._flow = None
        self.engine.tell(self, TransferTimes(self._start_s, self.engine.now_s, num_bytes))


class SentTogether(simpy.Event):
    """Many messages, each with a start of its own. It fires with `TransferTimes` when all have ended."""

    def __init__(self, env: simpy.Environment, engine: Engine, start_s: np.ndarray, num_bytes: np.ndarray):
        super().__init__(env)
        self._engine = engine
        self._start_s = start_s
        self._num_bytes = num_bytes
        self._end_s = np.full(len(start_s), np.nan)
        self._num_left = len(start_s)

    def post(self, paths: list[Path], weights: np.ndarray) -> None:
        """Send the messages, each at its time."""
        rows = zip(paths, self._num_bytes.tolist(), weights.tolist(), self._start_s.tolist(), strict=True)
        for number, (path, num_bytes, weight, start_s) in enumerate(rows):
            self._engine.post(Flow(path, num_bytes, weight, self, number), start_s)
        if not paths:
            self._tell()

    def ended(self, flow: Flow) -> None:
        """Note when a message has arrived."""
        self._end_s[flow.message] = self._engine.now_s
        self._num_left -= 1
        if not self._num_left:
            self._tell()

    def _tell(self) -> None:
        self._engine.tell(self, TransferTimes(self._start_s, self._end_s, self._num_bytes))


def check_message(num_bytes: float, weight: float, cap_bytes_per_s: float | None = None) -> None:
    """Refuse what no message can have."""
    if not 0 <= num_bytes < INFINITE:
        raise InputError(f"a message has 0 or more bytes (got {num_bytes})", got=str(num_bytes))
    if not 0 < weight < INFINITE:
        raise InputError(f"a weight is above 0 (got {weight})", got=str(weight))
    if cap_bytes_per_s is not None and not 0 < cap_bytes_per_s < INFINITE:
        raise InputError(f"a cap is a rate above 0 (got {cap_bytes_per_s})", got=str(cap_bytes_per_s))
