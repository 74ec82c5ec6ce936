"""Copies of a queue take as long as messages that processes send one after another."""

from __future__ import annotations

from collections import deque

import numpy as np
import pytest

from clustersim.network import Environment, Network
from clustersim.network.python_engine.engine import PythonEngine

STAR = {"kind": "star", "num_hosts": 4, "link": "1 GB/s", "hop": "1 us"}
SRC, DST = [0, 1, 2, 3, 3], [1, 2, 3, 0, 2]
NUM_LANES = 3


def loads(seed: int) -> list[tuple[float, int, float, float]]:
    """Return when each message is sent, over which pair, its bytes, and how much later it may start."""
    rng = np.random.default_rng(seed)
    acts = zip(
        np.sort(rng.choice([0.0, 0.001, 0.002, 0.004], 40)).tolist(),
        rng.integers(0, len(SRC), 40).tolist(),
        rng.choice([0.0, 1e3, 1e5, 1e6], 40).tolist(),
        rng.choice([0.0, 0.0, 0.0005], 40).tolist(),
        strict=True,
    )
    return [*acts]


def by_queue(network: Network, acts: list[tuple[float, int, float, float]]) -> list[float]:
    env, arrived_s = network.env, [-1.0] * len(acts)

    def look(number: int, pairs: list[int]) -> None:
        assert pairs == [acts[number][1]]
        arrived_s[number] = env.now

    def act():
        for number, (time_s, pair, num_bytes, later_s) in enumerate(acts):
            yield env.timeout(max(0.0, time_s - env.now))
            queue.send([pair], num_bytes, [env.now + later_s], number)

    queue = network.copy_queue(SRC, DST, NUM_LANES, look)
    env.process(act())
    env.run()
    return arrived_s


def by_processes(network: Network, acts: list[tuple[float, int, float, float]]) -> list[float]:
    env, arrived_s = network.env, [-1.0] * len(acts)
    lanes: list[deque] = [deque() for _ in range(NUM_LANES)]

    def act():
        for number, (time_s, pair, num_bytes, later_s) in enumerate(acts):
            yield env.timeout(max(0.0, time_s - env.now))
            lane = lanes[pair % NUM_LANES]
            ahead, done = lane[-1] if lane else None, env.event()
            lane.append(done)
            env.process(carry(number, pair, num_bytes, env.now + later_s, ahead, done))

    def carry(number, pair, num_bytes, start_s, ahead, done):
        if ahead is not None and not ahead.processed:
            yield ahead
        if start_s > env.now:
            yield env.timeout(start_s - env.now)
        yield network.transfer(SRC[pair], DST[pair], num_bytes)
        arrived_s[number] = env.now
        done.succeed()

    env.process(act())
    env.run()
    return arrived_s


@pytest.mark.parametrize("engine", ["python", "numba", None])
@pytest.mark.parametrize("seed", range(4))
def test_a_copy_queue_takes_as_long_as_processes_that_send_one_message_after_another(seed, engine):
    conveyed, sent = (Network(Environment(), STAR, engine=engine, numba_from_messages=60) for _ in range(2))
    assert by_queue(conveyed, loads(seed)) == pytest.approx(by_processes(sent, loads(seed)), rel=1e-12)
    np.testing.assert_allclose(conveyed.link_bytes, sent.link_bytes, rtol=1e-12)
    assert isinstance(conveyed.engine, PythonEngine) == (engine == "python")


def test_copies_that_arrive_at_one_time_have_one_call():
    network, arrivals = Network(Environment(), STAR), []
    queue = network.copy_queue([0, 1, 2], [1, 2, 0], 3, lambda *arrived: arrivals.append((network.env.now, *arrived)))
    queue.send([0, 2], 1e6, [0.0, 0.0], "first")
    queue.send([0, 1], 1e6, [0.0, 0.0], "second")
    network.env.run()
    uncontended_s = 2e-6 + 1e-3
    assert [arrived for _, *arrived in arrivals] == [["first", [0, 2]], ["second", [1]], ["second", [0]]]
    assert [time_s for time_s, *_ in arrivals] == pytest.approx([uncontended_s, uncontended_s, 2 * uncontended_s])
