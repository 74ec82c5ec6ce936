"""Messages share links in the way that the cluster sets."""

from __future__ import annotations

import pytest
import simpy

from clustersim.hardware import load_transport
from clustersim.simulate.build import build_network
from clustersim.topology import load_topology

LINE = {"kind": "torus", "dims": [4], "link": "1 GB/s", "hop": "0 s"}


@pytest.mark.parametrize(("sharing", "share"), [("max-min", 1 / 2), ("proportional", 1 / 3)])
def test_a_message_over_two_full_links_gets_what_its_cluster_says(sharing, share):
    env = simpy.Environment()
    network = build_network(env, load_topology({**LINE, "sharing": sharing}), load_transport("ideal"), exact=True)
    rates = {}
    network.watch(lambda time_s, flows: rates.update({flow.links: flow.bytes_per_s for flow in flows}))
    for src, dst in ((0, 2), (0, 1), (1, 2)):
        network.transfer(src, dst, 1e9)
    env.run(1e-3)
    longest = max(rates, key=len)
    assert rates[longest] == pytest.approx(share * 1e9)
