"""Messages that belong to no collective: events that say when they began and ended."""

from __future__ import annotations

from typing import Any, Generic, NamedTuple, Protocol, TypeVar

import numpy as np
import simpy

from clustersim.arguments import check_number
from clustersim.network.flow import INFINITE, Flow

Of = TypeVar("Of", float, np.ndarray)


class TransferTimes(NamedTuple, Generic[Of]):
    """When a transfer started, when its last byte arrived or it was cancelled, and the bytes delivered by then.

    Of many transfers, each is an array [num_transfers].
    """

    start_s: Of
    end_s: Of
    num_bytes: Of


class TransferEngine(Protocol):
    """What a message needs of the engine that simulates it."""

    @property
    def now_s(self) -> float: ...
    def cancel(self, sent: Sent) -> float: ...


class TransferNetwork(Protocol):
    """What a message needs of its network."""

    env: simpy.Environment

    @property
    def engine(self) -> TransferEngine: ...
    def fire(self, event: simpy.Event, value: Any) -> None: ...


class Sent(simpy.Event):
    """A message in flight. It fires with `TransferTimes` when that has ended.

    `carrier` identifies it in the engine, and is None when it has ended.
    """

    def __init__(self, network: TransferNetwork, num_bytes: float, weight: float):
        super().__init__(network.env)
        self.network = network
        self.num_bytes = num_bytes
        self.weight = weight
        self.start_s = network.engine.now_s
        self.carrier: Any = None

    def ended(self, flow: Flow | None = None) -> None:
        """Fire, with all bytes delivered."""
        self._fire(self.num_bytes)

    def cancel(self) -> None:
        """Cancel the message, if it has not ended, and fire with the bytes delivered by now."""
        if self.carrier is not None:
            self._fire(self.num_bytes * self.network.engine.cancel(self))

    def _fire(self, num_bytes: float) -> None:
        self.carrier = None
        network = self.network
        network.fire(self, TransferTimes(self.start_s, network.engine.now_s, num_bytes))


class SentTogether(simpy.Event):
    """Many messages [num_messages], each with its own start. It fires with `TransferTimes` when all have ended."""

    def __init__(self, network: TransferNetwork, start_s: np.ndarray, num_bytes: np.ndarray, weight: np.ndarray):
        super().__init__(network.env)
        self.start_s = start_s
        self.num_bytes = num_bytes
        self.weight = weight
        self.end_s = np.full(len(start_s), np.nan)
        self.num_left = len(start_s)
        self.network = network
        if not self.num_left:
            self.over()

    def ended(self, flow: Flow) -> None:
        """Note when a message has arrived."""
        self.end_s[flow.message] = self.network.engine.now_s
        self.num_left -= 1
        if not self.num_left:
            self.over()

    def over(self) -> None:
        """Fire: all have arrived."""
        self.network.fire(self, TransferTimes(self.start_s, self.end_s, self.num_bytes))


def check_message(num_bytes: float, weight: float, cap_bytes_per_s: float | None = None) -> None:
    """Refuse values that no message can have."""
    try:
        is_right = 0 <= num_bytes < INFINITE and 0 < weight < INFINITE
        if is_right and (cap_bytes_per_s is None or 0 < cap_bytes_per_s < INFINITE):
            return  # the usual case at once: there may be millions of messages
    except (TypeError, ValueError):
        pass  # refused below
    check_number("num_bytes", num_bytes, least=0)
    check_number("weight", weight, above=0)
    if cap_bytes_per_s is not None:
        check_number("cap_bytes_per_s", cap_bytes_per_s, above=0)
