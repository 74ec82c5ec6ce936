"""Both engines do the same work, and the Numba engine needs memory for ranks, not for messages."""

from __future__ import annotations

from clustersim.collectives import ALL_REDUCE
from clustersim.network import Network
from clustersim.network.python_engine.engine import PythonEngine

from .clusters import make_network, star


def test_both_sides_count_the_messages_and_solves_of_a_ring():
    counts = []
    for engine in ("python", "numba"):
        network = make_network(star(16), engine=engine, exact=True)
        network.env.run(network.play(ALL_REDUCE["ring"](16, 1e6), range(16)))
        counts.append(network.counts)
    assert counts[0] == counts[1]
    assert counts[0].flows == 2 * 16 * 15


def play_one_by_one(num_messages: int, gap_s: float) -> Network:
    """Let processes send a message each to one receiver, over whose link it takes 1 ms alone."""
    network = make_network(star(num_messages + 1))

    def send(number: int):
        yield network.env.timeout(number * gap_s)
        yield network.transfer(number, num_messages, 1e6)

    for number in range(num_messages):
        network.env.process(send(number))
    network.env.run()
    return network


def test_messages_sent_one_by_one_are_compiled_sooner_where_they_crowd(monkeypatch):
    """200 of them, which count as five each, and more where levels have to be worked out."""
    monkeypatch.setattr("clustersim.network.network.MOST_PYTHON_MESSAGES", 1000)
    alone, crowded = play_one_by_one(200, 2e-3), play_one_by_one(200, 1e-5)
    assert alone.counts.flows == crowded.counts.flows == 200
    assert isinstance(alone.engine, PythonEngine)
    assert not isinstance(crowded.engine, PythonEngine)


def test_rows_of_a_ring_grow_with_its_ranks():
    def num_bytes(num_ranks: int) -> int:
        network = make_network(star(num_ranks), engine="numba", exact=True)
        network.env.run(network.play(ALL_REDUCE["ring"](num_ranks, 1e6), range(num_ranks)))
        return sum(array.nbytes for array in network.engine.kernels._memory._arrays.values())

    assert num_bytes(128) < 2.5 * num_bytes(64)
