"""Where compiled kernels are at hand, networks go over to them sooner, and tell the same times."""

from __future__ import annotations

import numpy as np
import pytest

from clustersim.collectives import ALL_REDUCE
from clustersim.network import Environment, Network
from clustersim.network.at_hand import most_plain_messages, numba_loaded
from clustersim.network.numba_engine.engine import NumbaEngine
from clustersim.network.python_engine.engine import PythonEngine

NUM_HOSTS = 8


def played(num_rounds: int) -> tuple[Network, np.ndarray]:
    """Return a network on which that many collectives were played message by message, and when their ranks ended."""
    env = Environment()
    star = {"kind": "star", "num_hosts": NUM_HOSTS, "link": "1 GB/s", "hop": "1 us"}
    network = Network(env, star, overhead_s=2e-6, exact=True)
    schedule = ALL_REDUCE["ring"](NUM_HOSTS, 1e6)
    ends_s = [env.run(network.play(schedule, range(NUM_HOSTS))).end_s for _ in range(num_rounds)]
    return network, np.concatenate(ends_s)


def test_they_go_over_after_fewer_messages_and_tell_the_same_times() -> None:
    plain, plain_s = played(40)
    with numba_loaded():
        compiled, compiled_s = played(40)
    assert isinstance(plain.side, PythonEngine)
    assert isinstance(compiled.side, NumbaEngine)
    assert compiled_s.tolist() == plain_s.tolist()


def test_little_work_stays_where_it_is() -> None:
    with numba_loaded():
        network, _ = played(1)
    assert isinstance(network.side, PythonEngine)


def test_afterwards_it_is_as_before_whatever_happens() -> None:
    def fail() -> None:
        with numba_loaded():
            assert most_plain_messages() < 10_000
            raise ValueError("wrong")

    with pytest.raises(ValueError, match="wrong"):
        fail()
    assert most_plain_messages() == float("inf")
