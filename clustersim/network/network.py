"""The network on the SimPy clock: transfers that a process can wait for, and whole collectives."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from typing import Any

import numpy as np
import simpy
from numpy.typing import ArrayLike

from clustersim.arguments import as_numbers, check_number, check_type
from clustersim.collectives.schedule import Schedule
from clustersim.errors import InputError
from clustersim.network.collective import Collective
from clustersim.network.copy_queue import CopyQueue
from clustersim.network.engine import Engine
from clustersim.network.environment import Environment
from clustersim.network.flow import INFINITE
from clustersim.network.paths import Costs, payload_bytes_per_s, payload_rates
from clustersim.network.player import Player
from clustersim.network.progress import Counts, FlowRate, Stuck
from clustersim.network.python_engine.engine import PythonEngine
from clustersim.network.transfer import Sent, SentTogether, check_message
from clustersim.network.uncontended.forecast import UncontendedForecaster
from clustersim.network.uncontended.shortcut import UncontendedShortcut
from clustersim.topology import Topology, load_topology

ENGINES = ("python", "numba")
MOST_PYTHON_MESSAGES = 100_000  # above it the Numba engine takes over
_MESSAGES_PER_LEVEL = 3  # uncontended messages that take the Python engine as long as the level of a link
_MESSAGES_PER_TRANSFER = 20  # the same for one of many transfers at once, which probably contend
_MESSAGES_PER_SENT = 4  # the same, beside itself, for one that a process sends
_UNCONTENDED = "uncontended collectives computed step by step, not message by message"
_LOCKSTEP = "repeated steps of collectives in lockstep extrapolated, not simulated"


class Network:
    """Messages over the links of a topology, in simulated time.

    A message first waits for the latency of its route and `overhead_s`. Then it shares every link of the route
    with all other messages there. Its bytes are never rounded.

    What happens inside the network needs no SimPy event. It is simulated ahead, up to the next event on the SimPy
    clock or to a completion that a process waits for. So act on it from a process, or between two calls of
    `env.run`. At one time, the network comes after all other events. An uncontended collective is computed step by
    step instead of message by message, unless `exact`.

    Parameters
    ----------
    env
        The clock: a `simpy.Environment`.
    topology
        A cluster, or what `load_topology` takes.
    sharing
        How messages share a link: `max-min` fairly, or `proportional`, as in one queue for all.
    overhead_s
        Seconds that a message costs besides its latency and bytes.
    efficiency
        Share of a link's rate that is payload.
    adds
        Whether a message that reduces also takes time in the receiver's memory (`Topology.adders`).
    host_overhead_s
        As `overhead_s`, for a message inside a host; by default the same.
    add_s_per_byte
        Seconds for adding a byte, in place of the rate of the receiver's memory.
    exact
        Simulate every message; take no shortcut.
    eager_bytes
        Messages of a collective of at most so many bytes do not wait for their receiver.
    connection_bytes_per_s
        The most that messages from one node to another of a different host have.
    engine
        `python` or `numba` for any amount of work; by default the first, and the second for much work. Times are the
        same. The Numba engine sums the bytes of a link in another order, so they may differ in the last digit.
    numba_from_messages
        From how many messages on the Numba engine takes over (`MOST_PYTHON_MESSAGES` where not given). Loading Numba
        takes as long as very many messages on the Python engine. A process that simulates a thousand networks gets that
        time back with the first few, and so asks for a lower limit.

    Raises
    ------
    InputError
        If an argument, a message or a collective cannot be.
    """

    def __init__(
        self,
        env: simpy.Environment,
        topology: Topology | Any,
        sharing: str = "max-min",
        overhead_s: float = 0.0,
        efficiency: float = 1.0,
        adds: bool = False,
        host_overhead_s: float | None = None,
        add_s_per_byte: float | None = None,
        exact: bool = False,
        eager_bytes: float = 0.0,
        connection_bytes_per_s: float | None = None,
        engine: str | None = None,
        *,
        numba_from_messages: int | None = None,
    ):
        check_type("env", env, simpy.Environment, "a simpy.Environment")
        for name, switch in (("adds", adds), ("exact", exact)):
            check_type(name, switch, (bool, np.bool_), "True or False")
        if not (engine is None or (isinstance(engine, str) and engine in ENGINES)):
            raise InputError(f"engine must be one of {', '.join(ENGINES)} or None (got {engine!r})", got=repr(engine))
        if engine == "numba" and sharing != "max-min":
            raise InputError(f"the numba engine shares max-min only (got {sharing!r})", got=sharing, allowed="max-min")
        if numba_from_messages is not None:
            check_number("numba_from_messages", numba_from_messages, least=0)
        self._costs = Costs(
            overhead_s, efficiency, host_overhead_s, add_s_per_byte, eager_bytes, connection_bytes_per_s
        )
        self.env = env
        self.exact = exact
        self.topology = topology if isinstance(topology, Topology) else load_topology(topology)
        self.overhead_s = overhead_s
        self.adds = adds
        python = PythonEngine(self.topology, self._costs, adds, sharing)
        self.engine: Engine = python  # the Python engine, or the Numba engine for much work
        self._may_compile = engine is None and sharing == "max-min"
        self._shortcut = None if exact else UncontendedShortcut(self._make_forecaster, eager_bytes > 0)
        self._player = Player(env, python, self._shortcut, self._choose_engine)
        self.entering = self._player.entering  # collectives that ranks have entered since the engine last ran
        self._num_sent = 0  # messages sent one by one
        self._num_ahead = 0  # messages of the collectives that were in progress when the last one began
        self._numba_from_messages = numba_from_messages
        self._rates: dict[int, float] = {}  # of links whose rate is not that of their sheet
        if engine == "numba":
            self._compile()
        if isinstance(env, Environment):
            env.networks.append(self)

    @property
    def now_s(self) -> float:
        """The time up to which the network has been simulated, which may be ahead of SimPy's."""
        return self.engine.now_s

    @property
    def link_bytes(self) -> np.ndarray:
        """[num_links] bytes that each link has carried by now, including those of messages in flight."""
        self._player.before_looking()
        now_s = max(float(self.env.now), self.now_s)
        carried: np.ndarray = self.engine.carried_bytes() + self.engine.moving_bytes(now_s)
        return carried

    @property
    def counts(self) -> Counts:
        """How much work the network has done so far."""
        return self.engine.counts

    @property
    def is_unused(self) -> bool:
        """Whether nothing has happened on the Python engine, links are shared max-min, and SimPy's clock is empty."""
        engine = self.engine
        if not (self._may_compile and isinstance(engine, PythonEngine)):
            return False
        if engine.collectives or engine.loop.after_share:
            return False
        return self.now_s == self._num_sent == 0 and self.env.peek() == INFINITE and not engine.is_stale

    @property
    def shortcuts(self) -> tuple[str, ...]:
        """The shortcuts that were taken, in words."""
        is_uncontended = self._shortcut is not None and self._shortcut.num_taken > 0
        taken = {_UNCONTENDED: is_uncontended, _LOCKSTEP: self.engine.has_skipped}
        return tuple(words for words, is_taken in taken.items() if is_taken)

    def flows(self) -> list[FlowRate]:
        """Return the flows on the links from now on: what is due now has happened, and links are shared."""
        self._player.settle()
        return self.engine.flows()

    def watch(self, look: Callable[[float, list[FlowRate]], None]) -> None:
        """Call `look(time_s, flows)` after every share of the links from now on, to see rates as they change.

        Every message is simulated from then on: no shortcut is taken.
        """
        self._player.take_no_shortcut()
        self.engine.watch(lambda now_s: look(now_s, self.engine.flows()))

    def transfer(
        self,
        src: Hashable,
        dst: Hashable,
        num_bytes: float,
        weight: float = 1.0,
        cap_bytes_per_s: float | None = None,
    ) -> simpy.Event:
        """Send a message; return an event whose value is its `TransferTimes`.

        Latency elapses first and uses no bandwidth: a message of zero bytes ends after it. From a node to itself a
        message ends at once, unless there is a cap.

        Parameters
        ----------
        src, dst
            Nodes of the topology, or numbers of GPUs.
        num_bytes
            Bytes of the message.
        weight
            Parts of a link's rate that it gets beside others.
        cap_bytes_per_s
            The most that it gets anywhere.
        """
        check_message(num_bytes, weight, cap_bytes_per_s)
        ends = self.topology.node(src), self.topology.node(dst)
        player = self._player
        player.before_acting()
        self._num_sent += 1
        sent = Sent(self, float(num_bytes), float(weight))
        player.engine.send(sent, *ends, None if cap_bytes_per_s is None else float(cap_bytes_per_s))
        player.set_alarm()
        return sent

    def transfers(
        self,
        src: Sequence[Hashable] | np.ndarray,
        dst: Sequence[Hashable] | np.ndarray,
        num_bytes: ArrayLike,
        weight: ArrayLike = 1.0,
        start_s: ArrayLike | None = None,
    ) -> simpy.Event:
        """Send many messages; return an event that fires when all have ended, with `TransferTimes` of arrays.

        Each starts at its own simulated time, none before now; without times, all start now. A value that is the same
        for all may be a single number. SimPy sees one event for all of them.
        """
        if len(src) != len(dst):
            raise InputError(f"every transfer has a source and a destination (got {len(src)} and {len(dst)})")
        starts = _column(self.env.now if start_s is None else start_s, len(src), "start_s")
        sizes, weights = _column(num_bytes, len(src), "num_bytes"), _column(weight, len(src), "weight")
        if not ((starts >= self.env.now) & (starts < INFINITE)).all():
            raise InputError(f"start_s must have finite times, none of them before now ({self.env.now} s)")
        for size, part in {*zip(sizes.tolist(), weights.tolist(), strict=True)}:
            check_message(size, part)
        node = self.topology.node
        ends = [np.array([node(where) for where in nodes], dtype=np.int64) for nodes in (src, dst)]
        self.before_acting()
        self._num_ahead += _MESSAGES_PER_TRANSFER * len(src)
        self._choose_engine()
        sent = SentTogether(self, starts, sizes, weights)
        self.engine.send_together(sent, *ends)
        self.after_acting()
        return sent

    def copy_queue(
        self,
        src: Sequence[Hashable],
        dst: Sequence[Hashable],
        num_lanes: int,
        on_arrival: Callable[[Any, list[int]], None],
    ) -> CopyQueue:
        """Return a queue of copies between pairs of nodes, which calls `on_arrival(what, pairs)` as they arrive."""
        node = self.topology.node
        sources, targets = (np.array([node(where) for where in nodes], dtype=np.int64) for nodes in (src, dst))
        return CopyQueue(self, sources, targets, num_lanes, on_arrival)

    def note_sent(self, num_messages: int) -> None:
        """Count messages that are sent one by one."""
        self._num_sent += num_messages

    def cancel(self, transfer: simpy.Event) -> None:
        """Cancel what `transfer` or `add` returned: its event fires now, with the bytes delivered by now.

        The links count these bytes as carried, and other messages get its share. It changes nothing that has ended.
        """
        if not isinstance(transfer, Sent) or transfer.network is not self:
            raise InputError(f"only a transfer of this network can be cancelled (got {transfer})", got=str(transfer))
        self.before_acting()
        transfer.cancel()
        self.after_acting()

    def set_rate(self, link: int, bytes_per_s: float) -> None:
        """Change the rate of a link, by its number, from now on. At 0 nothing on it moves.

        As on the link's sheet, `efficiency` is the share of that rate that is payload.
        """
        if not 0 <= link < len(self.topology.links) or link != int(link):
            raise InputError(f"links have the numbers 0 to {len(self.topology.links) - 1} (got {link})", got=str(link))
        if not 0 <= bytes_per_s < INFINITE:
            raise InputError(f"the rate of a link is 0 or more (got {bytes_per_s})", got=str(bytes_per_s))
        self.before_acting()
        self._rates[int(link)] = payload_bytes_per_s(self.topology, self._costs, int(link), float(bytes_per_s))
        self.engine.set_rate(int(link), self._rates[int(link)])
        if self._shortcut is not None:
            self._shortcut.forget()
        self._player.set_alarm()

    def add(self, node: Hashable, num_bytes: float) -> simpy.Event:
        """Add a gradient to another in a node's memory; return an event like that of `transfer`."""
        check_message(num_bytes, 1.0)
        where = self.topology.node(node)
        self.before_acting()
        self._num_sent += 1
        sent = Sent(self, float(num_bytes), 1.0)
        self.engine.add(sent, where)
        self._player.set_alarm()
        return sent

    def begin(self, schedule: Schedule, ranks: Sequence[Hashable], delay_s: np.ndarray | None = None) -> Collective:
        """Prepare a collective among nodes; each rank enters it when it is ready.

        A node may hold several ranks, as the memory of one host holds several servers. They share its links, and a
        message between two of them ends at once.
        """
        check_type("schedule", schedule, Schedule, 'a Schedule, such as ALL_REDUCE["ring"](4, 1e6)')
        check_type("ranks", ranks, (Sequence, np.ndarray), "a list with the node of each rank")
        if len(ranks) != schedule.num_ranks:
            raise InputError(
                f"the schedule has {schedule.num_ranks} ranks (got {len(ranks)} nodes)", got=str(len(ranks))
            )
        nodes = np.array([self.topology.node(rank) for rank in ranks], dtype=np.int64)
        return self.begin_at(schedule, nodes, delay_s)

    def begin_at(self, schedule: Schedule, nodes: np.ndarray, delay_s: np.ndarray | None = None) -> Collective:
        """Prepare a collective as `begin` does, among nodes by their numbers in the topology [num_ranks]."""
        self.before_acting()
        collective = Collective(self, schedule, nodes, delay_s)
        if self._may_compile:
            self._num_ahead = sum(known.schedule.num_transfers() for known in self.engine.collectives)
        self.after_acting()
        return collective

    def play(
        self,
        schedule: Schedule,
        ranks: Sequence[Hashable],
        enter_s: Sequence[float] | np.ndarray | None = None,
        delay_s: np.ndarray | None = None,
    ) -> simpy.Event:
        """Simulate a collective; return an event whose value has `end_s` [num_ranks].

        A rank starts its next step when its own sends and receives of the previous one have ended.

        Parameters
        ----------
        schedule
            The messages, such as `ALL_REDUCE["ring"](num_ranks=4, num_bytes=1e6)`.
        ranks
            The node, or the number of the GPU, of each rank.
        enter_s
            [num_ranks] simulated seconds at which each rank enters; now, where not given.
        delay_s
            [num_ranks, num_steps] seconds that a rank pauses before a step.
        """
        check_type("schedule", schedule, Schedule, 'a Schedule, such as ALL_REDUCE["ring"](4, 1e6)')
        times = np.full(schedule.num_ranks, self.env.now) if enter_s is None else as_numbers("enter_s", enter_s)
        allowed = f"a finite time for each of {schedule.num_ranks} ranks, none before now ({self.env.now} s)"
        if times.shape != (schedule.num_ranks,):
            raise InputError(f"enter_s must have {allowed} (got {times.shape})", got=str(times.shape), allowed=allowed)
        if len(wrong := times[~((times >= self.env.now) & (times < INFINITE))]):
            raise InputError(f"enter_s must have {allowed} (got {wrong[0]})", got=str(wrong[0]), allowed=allowed)
        collective = self.begin(schedule, ranks, delay_s)
        collective.enter_at(times.tolist())
        self.after_acting()
        return collective.finished

    def stuck(self) -> list[Stuck]:
        """Return what waits on this network, if nothing can happen on it until a process acts; else an empty list."""
        return self.engine.stuck(self._link_name)

    def before_acting(self) -> None:
        """Bring the network to SimPy's time."""
        self._player.before_acting()

    def after_acting(self) -> None:
        """Fire what is due at once in SimPy, and set the next alarm."""
        self._player.after_acting()

    def fire(self, event: simpy.Event, value: Any) -> None:
        """Fire an event at the network's time."""
        self.engine.notifications.append((event, value))

    def before_waiting(self) -> None:
        """Prepare for a process that waits for a rank of a collective that has begun."""
        self._player.before_looking()

    def _choose_engine(self) -> None:
        """Move to the Numba engine where there is or was enough work for it."""
        if not self._may_compile:
            return
        engine = self.engine
        if not (self._costs.eager_bytes and engine.collectives):  # else it is not known which messages were early
            assert isinstance(engine, PythonEngine)
            counts = engine.counts
            played = counts.flows + _MESSAGES_PER_SENT * self._num_sent + _MESSAGES_PER_LEVEL * counts.levels
            limit = MOST_PYTHON_MESSAGES if self._numba_from_messages is None else self._numba_from_messages
            if self._num_ahead + played > limit:
                self._compile()

    def _compile(self) -> None:
        from clustersim.network.numba_engine.engine import NumbaEngine
        from clustersim.network.numba_engine.handover import hand_over  # loads numba

        self._may_compile = False
        python = self.engine
        engine = NumbaEngine(self.topology, self._costs, self.adds, not self.exact)
        assert isinstance(python, PythonEngine)
        hand_over(python, engine)
        self.engine = self._player.engine = engine

    def _make_forecaster(self) -> UncontendedForecaster:
        rates = payload_rates(self.topology, self._costs)
        for link, rate in self._rates.items():
            rates[link] = rate
        return UncontendedForecaster(self.topology, self._costs, self.adds, rates)

    def _link_name(self, number: int) -> str:
        links, names = self.topology.links, self.topology.node_names
        if not 0 <= number < len(links):
            return "that only it has: a core, a connection, or its cap"
        return f"{number} ({names[int(links.src[number])]} > {names[int(links.dst[number])]})"


def _column(values: ArrayLike, num_rows: int, name: str) -> np.ndarray:
    """Return numbers [num_rows], of which one may stand for all."""
    column = as_numbers(name, values)
    if column.shape not in {(), (num_rows,)}:
        raise InputError(f"{name} must be one number or {num_rows} (got the shape {column.shape})")
    return np.full(num_rows, column) if column.shape == () else column.copy()
