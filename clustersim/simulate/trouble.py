"""Trouble on links, as a job meets it."""

from __future__ import annotations

from collections.abc import Generator, Sequence
from typing import Any

import numpy as np
import simpy

from clustersim.network import Network
from clustersim.scenario import link_table
from clustersim.stragglers import LinkStraggler, Straggler, link_changes, link_paces


def disturb_links(network: Network, stragglers: Sequence[Straggler], seed: int, gpus: np.ndarray) -> None:
    """Let the links of a network become slower and recover as stragglers say, for a job on `gpus` [num_ranks].

    What begins at the simulated time 0 is there before anything moves.
    """
    if any(isinstance(straggler, LinkStraggler) for straggler in stragglers):
        network.env.process(_disturbed(network, stragglers, seed, gpus))


def _disturbed(
    network: Network, stragglers: Sequence[Straggler], seed: int, gpus: np.ndarray
) -> Generator[simpy.Event, Any, None]:
    rates = network.topology.links.bytes_per_s
    for time_s, link, speed in link_changes(link_paces(stragglers, seed, link_table(network.topology, gpus))):
        if time_s > network.env.now:
            yield network.env.timeout(time_s - network.env.now)
        network.set_rate(link, float(rates[link]) * speed)
