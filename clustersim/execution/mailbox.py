"""Messages between the stages of a layout: their keys, when they were sent, and the events of their arrival."""

from __future__ import annotations

import simpy

from clustersim.network.environment import fire
from clustersim.program.ops import Key


class Message:
    """A message between two ranks.

    `sent_s` is when it was sent, in seconds. `arrived` fires at its arrival, and `expected` when its receiver waits.
    """

    __slots__ = ("arrived", "expected", "sent_s")

    def __init__(self, env: simpy.Environment):
        self.arrived: simpy.Event = env.event()
        self.expected: simpy.Event = env.event()
        self.sent_s = float("inf")

    def arrive(self, _: simpy.Event | None = None) -> None:
        """Fire `arrived` at once, outside the event queue. To be called from a callback."""
        fire(self.arrived)

    def expect(self) -> None:
        """Fire `expected`: through the event queue only if a process waits for it."""
        if self.expected.triggered:
            return
        if self.expected.callbacks:
            self.expected.succeed()
        else:
            fire(self.expected)


class Mailbox:
    """The messages to each rank. A message exists from when sender or receiver first asks for it until it is taken.

    A key may be of a micro-batch of an earlier iteration: its number is then below 0.
    """

    def __init__(self, env: simpy.Environment, num_micro_batches: int):
        self._env, self._num_micro = env, num_micro_batches
        self._messages: dict[tuple[int, int, Key], Message] = {}

    def message(self, rank: int, iteration: int, key: Key) -> Message:
        """Return the message to a rank. Sender and receiver get the same one."""
        full_key = self._full_key(rank, iteration, key)
        if full_key not in self._messages:
            self._messages[full_key] = Message(self._env)
        return self._messages[full_key]

    def take(self, rank: int, iteration: int, key: Key) -> None:
        """Remove a message that has arrived."""
        del self._messages[self._full_key(rank, iteration, key)]

    def in_flight(self) -> list[simpy.Event]:
        """Return the arrival events of messages still in flight.

        When a job has ended, these are messages of micro-batches after its last one.
        """
        return [message.arrived for message in self._messages.values() if not message.arrived.processed]

    def _full_key(self, rank: int, iteration: int, key: Key) -> tuple[int, int, Key]:
        if key.micro_batch >= 0:
            return rank, iteration, key
        before, micro_batch = divmod(key.micro_batch, self._num_micro)
        return rank, iteration + before, key._replace(micro_batch=micro_batch)
