"""A network with a lower limit goes over to compiled kernels sooner, and has the same times."""

from __future__ import annotations

import numpy as np

from clustersim.collectives import ALL_REDUCE
from clustersim.network import Environment, Network
from clustersim.network.numba_engine.engine import NumbaEngine
from clustersim.network.python_engine.engine import PythonEngine
from clustersim.simulate import time_collective

NUM_HOSTS = 8
STAR = {"kind": "star", "num_hosts": NUM_HOSTS, "link": "1 GB/s", "hop": "1 us"}


def simulated(num_rounds: int, numba_from_messages: int | None) -> tuple[Network, np.ndarray]:
    """Return a network on which so many collectives were simulated message by message, and when their ranks ended."""
    env = Environment()
    network = Network(env, STAR, overhead_s=2e-6, exact=True, numba_from_messages=numba_from_messages)
    schedule = ALL_REDUCE["ring"](NUM_HOSTS, 1e6)
    ends_s = [env.run(network.play(schedule, range(NUM_HOSTS))).end_s for _ in range(num_rounds)]
    return network, np.concatenate(ends_s)


def test_it_goes_over_after_fewer_messages_and_has_the_same_times() -> None:
    python, python_s = simulated(40, None)
    numba, numba_s = simulated(40, 3_000)
    assert isinstance(python.engine, PythonEngine)
    assert isinstance(numba.engine, NumbaEngine)
    assert numba_s.tolist() == python_s.tolist()


def test_little_work_stays_on_the_python_engine() -> None:
    network, _ = simulated(1, 3_000)
    assert isinstance(network.engine, PythonEngine)


def test_the_limit_reaches_the_network_of_a_collective(monkeypatch) -> None:
    limits = []
    made = Network.__init__

    def note(network: Network, *arguments: object, numba_from_messages: int | None = None, **options: object) -> None:
        limits.append(numba_from_messages)
        made(network, *arguments, numba_from_messages=numba_from_messages, **options)

    monkeypatch.setattr(Network, "__init__", note)
    for limit in (None, 3_000):
        time_collective("all-reduce", STAR | {"gpu": "k80"}, "ring", NUM_HOSTS, [1e6], numba_from_messages=limit)
    assert limits == [None, 3_000]
