"""Messages between the stages of a layout: what each of them is called, when it set off and when it arrived."""

from __future__ import annotations

import simpy

from clustersim.network.environment import fire
from clustersim.program.ops import Key


class Message:
    """A message on its way: when it set off, and the events of its arrival and that the other rank waits for it."""

    __slots__ = ("arrived", "awaited", "sent_s")

    def __init__(self, env: simpy.Environment):
        self.arrived: simpy.Event = env.event()
        self.awaited: simpy.Event = env.event()
        self.sent_s = float("inf")

    def arrive(self, _: simpy.Event | None = None) -> None:
        """Let it arrive, and who waits for it go on at once: from a callback."""
        fire(self.arrived)

    def expect(self) -> None:
        """Let who sends it know that the other rank waits for it: on the clock only if somebody waits to know."""
        if self.awaited.triggered:
            return
        if self.awaited.callbacks:
            self.awaited.succeed()
        else:
            fire(self.awaited)


class Mailbox:
    """The messages to each rank, from when one of its two ends asks for it until it is taken.

    A key may be of a micro-batch of an iteration before: then its number is below 0.
    """

    def __init__(self, env: simpy.Environment, num_micro_batches: int):
        self._env, self._num_micro = env, num_micro_batches
        self._messages: dict[tuple[int, int, Key], Message] = {}

    def message(self, rank: int, iteration: int, key: Key) -> Message:
        """Return the message to a rank, one for both of its ends."""
        where = self._called(rank, iteration, key)
        if where not in self._messages:
            self._messages[where] = Message(self._env)
        return self._messages[where]

    def take(self, rank: int, iteration: int, key: Key) -> None:
        """Take a message that has arrived."""
        del self._messages[self._called(rank, iteration, key)]

    def under_way(self) -> list[simpy.Event]:
        """Return the arrivals of messages that nobody waits for: those of micro-batches that the job ended before."""
        return [message.arrived for message in self._messages.values() if not message.arrived.processed]

    def _called(self, rank: int, iteration: int, key: Key) -> tuple[int, int, Key]:
        if key.micro_batch >= 0:
            return rank, iteration, key
        before, micro_batch = divmod(key.micro_batch, self._num_micro)
        return rank, iteration + before, key._replace(micro_batch=micro_batch)
