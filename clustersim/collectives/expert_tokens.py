"""Tokens on their way to experts and back, each token once per host: DeepEP's dispatch and combine.

With k of E experts for each token, on N hosts of D GPUs, and experts of at most M hosts for a token (group-limited
gating: DeepSeek-V3, arXiv:2412.19437, section 2.1.2). A dispatch sends a token once to the GPU of its own number in
each other host that has experts for it, and from there by the links inside the host to each GPU with such experts
(section 3.2.2; deepseek-ai/DeepEP, csrc/kernels/internode.cu). A combine goes the same ways back: results of a host are
added before they leave it. Both hops run at the same time, chunk by chunk. In the low-latency mode each GPU sends a
token straight to the GPU of each of its experts, once for each expert (csrc/kernels/internode_ll.cu). `TokenRoute` has
the chances that a token goes to a host, and to a GPU. Hosts that share an NVLink domain are one host here.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from clustersim.collectives.schedule import Relays, Schedule, Step
from clustersim.errors import InputError
from clustersim.program.token_route import TokenRoute

NUM_CHUNKS = 16
"""Chunks in which tokens pass both hops. DeepEP has more: 8 or more tokens of the 340 of a channel, where 12 channels
share 4,096 tokens; with 16 chunks the second hop ends 1 / 16 of its time after the first."""


def expert_schedule(groups: Sequence[Sequence[int]], num_bytes: float, token_route: TokenRoute) -> Schedule:
    """Return the messages among ranks, of which `groups` has those of each host; `num_bytes` are all tokens of a rank.

    Raise InputError if hosts have different numbers of ranks, since each rank has a partner in every host.
    """
    places = {len(group) for group in groups}
    if len(places) > 1:
        raise InputError(
            f"a token goes to the GPU of the same number in other hosts, which need equal numbers of GPUs of the "
            f"group (got {sorted(places)}); choose expert so, or expert_exchange: all-to-all",
            key="expert_exchange",
            got=token_route.exchange,
            allowed="all-to-all, or equal hosts",
        )
    hosts = np.array([list(group) for group in groups], dtype=np.int64)
    if token_route.exchange == "low-latency":
        return _direct(hosts, num_bytes * token_route.routed / hosts.size)
    host, gpu = token_route.chances(*hosts.shape)
    between = _pairs(hosts.T), num_bytes * host
    inside = _pairs(hosts), num_bytes * gpu * len(hosts)
    first, second = (inside, between) if token_route.returns else (between, inside)
    return _two_hops(hosts.size, first, second)


Hop = tuple[tuple[np.ndarray, np.ndarray], float]
"""Senders and receivers of a hop, and the bytes of each message."""


def _two_hops(num_ranks: int, first: Hop, second: Hop) -> Schedule:
    """Return the schedule in which chunk after chunk passes one hop and then another one."""
    hops = [hop for hop in (first, second) if len(hop[0][0])]
    if not hops:
        return Schedule.idle(num_ranks)
    num = NUM_CHUNKS if len(hops) == 2 else 1
    steps = []
    for number in range(num + len(hops) - 1):
        under_way = [hop for behind, hop in enumerate(hops) if 0 <= number - behind < num]
        sizes = [np.full(len(ends[0]), size / num) for ends, size in under_way]
        src, dst = (np.concatenate([ends[side] for ends, _ in under_way]) for side in (0, 1))
        steps.append(Step.of(src, dst, np.concatenate(sizes)))
    relays = Relays.of(*(np.array([ends[side][0] for ends, _ in hops]) for side in (0, 1)))
    made = Schedule.from_steps(num_ranks, steps)
    return Schedule(made.num_ranks, made.num_steps, made.step, made.granularity, made.pattern, relays=relays)


def _direct(hosts: np.ndarray, num_bytes: float) -> Schedule:
    """Return the schedule in which each rank sends to every other one."""
    src, dst = _pairs(hosts.reshape(1, -1))
    return Schedule.from_steps(hosts.size, [Step.of(src, dst, num_bytes)] if len(src) else [])


def _pairs(groups: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return all ordered pairs of different ranks of the same group [num_groups, size]."""
    size = groups.shape[1]
    src, dst = np.repeat(groups, size, axis=1).ravel(), np.tile(groups, size).ravel()
    return src[src != dst], dst[src != dst]
