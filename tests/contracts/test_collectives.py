"""The contract of every collective algorithm on the network: shortcuts and engines change no time."""

from __future__ import annotations

import numpy as np
import pytest
import simpy

from clustersim.collectives import COLLECTIVES
from clustersim.network import Network
from clustersim.topology import load_topology

NAMES = [(op, name) for op, table in COLLECTIVES.items() for name in table]
HOST = {"template": "dual-socket", "gpu": "v100", "num_gpus": 2}
CLUSTERS = [
    load_topology({"kind": "star", "num_hosts": 8, "host": {"gpu": "v100"}, "link": "25 Gbit/s", "hop": "2 us"}),
    load_topology({"kind": "leaf-spine", "num_leaves": 2, "hosts_per_leaf": 2, "oversubscription": 2, "host": HOST,
                   "link": "25 Gbit/s", "hop": "2 us"}),
]  # fmt: skip


@pytest.mark.parametrize(("op", "name"), NAMES)
@pytest.mark.parametrize("cluster", CLUSTERS, ids=["star", "shared hosts"])
@pytest.mark.parametrize("skew", ["together", "apart"])
@pytest.mark.parametrize("num_bytes", [4096.0, 5e7])
def test_default_equals_exact(op: str, name: str, cluster, skew: str, num_bytes: float) -> None:
    schedule = COLLECTIVES[op][name](8, num_bytes)
    enter_s = np.zeros(8) if skew == "together" else np.random.default_rng(2).uniform(0, 0.01, 8)
    ends = []
    for exact in (False, True):
        network = Network(simpy.Environment(), cluster, exact=exact)
        event = network.play(schedule, range(8), enter_s=enter_s)
        network.env.run(event)
        ends.append(event.value.end_s)
    assert ends[0] == pytest.approx(ends[1], rel=1e-9)
    assert (ends[0] >= enter_s).all()
