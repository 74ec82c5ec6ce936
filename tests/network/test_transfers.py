"""Many transfers at once are the same transfers, one by one."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from clustersim.errors import InputError

from .clusters import line, make_network, star

pytestmark = pytest.mark.usefixtures("engine")


@given(
    rows=st.lists(
        st.tuples(
            st.integers(0, 3), st.integers(0, 3), st.integers(0, 5), st.sampled_from([0.5, 1.0]), st.integers(0, 6)
        ),
        max_size=12,
    )
)
@settings(max_examples=40, deadline=None)
def test_transfers_end_as_those_that_processes_send(rows):
    single, together = make_network(line(4, latency_s=1e-3)), make_network(line(4, latency_s=1e-3))

    def send(src: int, dst: int, size: int, weight: float, start: int):
        yield single.env.timeout(start * 0.01)
        return (yield single.transfer(src, dst, size * 1e6, weight)).end_s

    processes = [single.env.process(send(*row)) for row in rows]
    single.env.run()
    src, dst, size, weight, start = (np.array(column) for column in zip(*rows, strict=True)) if rows else ((),) * 5
    sizes, starts = np.asarray(size, float) * 1e6, np.asarray(start, float) * 0.01
    times = together.env.run(together.transfers(src, dst, sizes, weight, starts))
    assert times.end_s == pytest.approx([process.value for process in processes], rel=1e-12, abs=1e-15)
    assert (times.start_s, times.num_bytes) == (pytest.approx(starts), pytest.approx(sizes))


def test_what_is_the_same_for_all_may_be_one_number_and_starts_now():
    network = make_network(star(3, latency_s=0.0))
    network.env.run(1.5)
    times = network.env.run(network.transfers(["gpu0", "gpu1"], [2, 2], 1e9))
    assert times.start_s.tolist() == [1.5, 1.5]
    assert times.end_s == pytest.approx([3.5, 3.5], rel=1e-12)


def test_none_at_all_end_at_once():
    network = make_network(star(2))
    assert network.env.run(network.transfers([], [], 1.0)).end_s.shape == (0,)
    assert network.env.now == 0.0


def test_simpy_sees_one_event_for_all():
    network = make_network(star(8))
    rng = np.random.default_rng(0)
    src = rng.integers(0, 8, 500)
    network.env.run(network.transfers(src, (src + 1) % 8, 1e6, start_s=rng.exponential(1e-2, 500)))
    assert next(network.env._eid) < 10


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda n: n.transfers([0], [0, 1], 1.0), r"a source and a destination \(got 1 and 2\)"),
        (lambda n: n.transfers([0, 1], [1, 0], [1.0, 2.0, 3.0]), r"num_bytes must be one number or 2 .*\(3,\)"),
        (lambda n: n.transfers([0, 1], [1, 0], 1.0, weight=[1.0]), "weight must be one number or 2"),
        (lambda n: n.transfers([0], [1], 1.0, start_s=-1.0), r"none of them before now \(0"),
        (lambda n: n.transfers([0], [1], 1.0, start_s=float("inf")), "finite times"),
        (
            lambda n: n.transfers([0, 1], [1, 0], [1.0, -2.0]),
            r"num_bytes must be a finite number of at least 0 \(got -2.0\)",
        ),
        (lambda n: n.transfers([0], [1], 1.0, weight=0.0), "weight must be a finite number above 0"),
        (lambda n: n.transfers([7], [1], 1.0), "no node called 7"),
    ],
)
def test_what_makes_no_sense_is_refused_with_the_value(call, message):
    with pytest.raises(InputError, match=message):
        call(make_network(star(2)))
