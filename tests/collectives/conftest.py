"""An idle star in plain Python: an oracle that shares no code with the simulator or with the closed forms."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable

import pytest

from clustersim.collectives import Schedule, Transfer


@pytest.fixture(scope="session")
def star_seconds() -> Callable[[Schedule, float, float], list[float]]:
    """Return a function from a schedule, latency in s and rate in bytes/s to when each rank is done."""
    return lambda schedule, latency_s, bytes_per_s: Star(schedule, latency_s, bytes_per_s).run()


class Message:
    """A transfer on its way: seconds of latency and bytes that are left."""

    def __init__(self, transfer: Transfer, latency_s: float):
        self.src, self.dst, self.size = transfer.src, transfer.dst, transfer.num_bytes
        self.latency_s, self.num_bytes = latency_s, transfer.num_bytes
        self.rate = 0.0

    def left_s(self) -> float:
        return self.latency_s if self.latency_s > 0 else self.num_bytes / self.rate

    def advance(self, wait_s: float) -> None:
        if self.latency_s > 0:
            self.latency_s = 0.0 if self.latency_s <= wait_s * (1 + 1e-13) else self.latency_s - wait_s
        else:
            self.num_bytes -= self.rate * wait_s

    @property
    def over(self) -> bool:
        return self.latency_s == 0 and self.num_bytes <= 1e-11 * self.size


class Star:
    """One full-duplex link a rank, shared max-min fairly; the latency elapses before the first byte.

    A rank goes on when its own messages of a step have ended; a message starts when both its ends have come to it.
    """

    def __init__(self, schedule: Schedule, latency_s: float, bytes_per_s: float):
        self.latency_s, self.bytes_per_s = latency_s, bytes_per_s
        ranks, steps = range(schedule.num_ranks), range(schedule.num_steps)
        self.own: list[list[list[Transfer]]] = [[[] for _ in steps] for _ in ranks]
        for transfer in schedule.transfers():
            for rank in {transfer.src, transfer.dst}:
                self.own[rank][transfer.step].append(transfer)
        self.place = [-1 for _ in ranks]
        self.left = [0 for _ in ranks]
        self.end_s = [0.0 for _ in ranks]
        self.now = 0.0
        self.flying: list[Message] = []

    def run(self) -> list[float]:
        while self._go_on():
            self._share([message for message in self.flying if message.latency_s == 0])
            wait_s = min(message.left_s() for message in self.flying)
            for message in self.flying:
                message.advance(wait_s)
            self.now += wait_s
            for message in [message for message in self.flying if message.over]:
                self.flying.remove(message)
                self.left[message.src] -= 1
                self.left[message.dst] -= 1
        return self.end_s

    def _go_on(self) -> bool:
        """Take ranks as far as they can go; say whether anything is on its way."""
        ready = [rank for rank, steps in enumerate(self.own) if not self.left[rank] and self.place[rank] < len(steps)]
        while ready:
            rank = ready.pop()
            self.place[rank] += 1
            if self.place[rank] == len(self.own[rank]):
                self.end_s[rank] = self.now
                continue
            mine = self.own[rank][self.place[rank]]
            self.left[rank] = len(mine)
            for transfer in mine:
                if self.place[transfer.src + transfer.dst - rank] == transfer.step:
                    self.flying.append(Message(transfer, self.latency_s))
            if not mine:
                ready.append(rank)
        return bool(self.flying)

    def _share(self, open_messages: list[Message]) -> None:
        """Give each message its max-min fair rate: fill the scarcest link, take its messages away, and again."""
        users: dict[tuple[str, int], list[Message]] = defaultdict(list)
        for message in open_messages:
            users["out", message.src].append(message)
            users["in", message.dst].append(message)
        free = dict.fromkeys(users, self.bytes_per_s)
        while users:
            share, link = min((free[link] / len(messages), link) for link, messages in users.items())
            for message in list(users[link]):
                message.rate = share
                for end in (("out", message.src), ("in", message.dst)):
                    free[end] -= share
                    users[end].remove(message)
                    if not users[end]:
                        del users[end]
