"""Both sides do the same work, and the compiled one needs memory for ranks, not for messages."""

from __future__ import annotations

from clustersim.collectives import ALL_REDUCE

from .clusters import make_network, star


def test_both_sides_count_the_messages_and_solves_of_a_ring():
    counts = []
    for side in ("plain", "compiled"):
        network = make_network(star(16), side=side, exact=True)
        network.env.run(network.play(ALL_REDUCE["ring"](16, 1e6), range(16)))
        counts.append(network.counts)
    assert counts[0] == counts[1]
    assert counts[0].flows == 2 * 16 * 15


def test_rows_of_a_ring_grow_with_its_ranks():
    def num_bytes(num_ranks: int) -> int:
        network = make_network(star(num_ranks), side="compiled", exact=True)
        network.env.run(network.play(ALL_REDUCE["ring"](num_ranks, 1e6), range(num_ranks)))
        return sum(array.nbytes for array in network.side.engine._memory._arrays.values())

    assert num_bytes(128) < 2.5 * num_bytes(64)
