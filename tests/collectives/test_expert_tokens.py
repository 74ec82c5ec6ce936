"""Tokens on their way to experts: chances by Monte Carlo, bytes and times in closed form, DeepEP's published tables."""

from __future__ import annotations

import numpy as np
import pytest

from clustersim.collectives.expert_tokens import NUM_CHUNKS, expert_schedule
from clustersim.collectives.schedule import Schedule
from clustersim.communicator.algorithm import by_host
from clustersim.errors import InputError
from clustersim.hardware import load_transport
from clustersim.program.token_route import TokenRoute
from clustersim.simulate.collective import simulate_schedule
from clustersim.topology import load_topology

TOKENS, HIDDEN = 4096, 7168
FP8, BF16 = HIDDEN * (1 + 4 / 128), 2.0 * HIDDEN

NORMAL = {8: (153, 158), 16: (43, 43), 32: (58, 57), 64: (51, 50)}
"""GB/s of dispatch and combine by GPUs: "normal kernels with NVLink and RDMA forwarding" on H800 hosts of eight with a
400 Gbit/s card each; 4,096 tokens of 7,168, top 8 experts on 4 hosts, fp8 there and bf16 back. The bytes of a token
count once for each of its hosts, its own included; on one host once for each of its GPUs. (README of
deepseek-ai/DeepEP, commit 0aaa6744; tests/legacy/test_internode.py of dd758ca)"""

LOW_LATENCY = {8: (77, 114), 16: (118, 195), 32: (155, 273), 64: (173, 314), 128: (192, 369), 256: (194, 360)}
"""Microseconds of dispatch and combine by GPUs: "low-latency kernels", 128 tokens (the same README)."""

ERRORS = {8: (23, 19), 16: (27, 28), 32: (5, 7), 64: (3, 6)}
"""What the bandwidths of `NORMAL` come out at, in percent above the published ones."""

ERRORS_LOW_LATENCY = {8: (-42, -28), 16: (-21, -14), 32: (-14, -11), 64: (-12, -10), 128: (-15, -18), 256: (-14, -14)}
"""What the times of `LOW_LATENCY` come out at, in percent above the published ones."""


def groups(num_hosts: int, each: int) -> list[list[int]]:
    return [list(range(first, first + each)) for first in range(0, num_hosts * each, each)]


def sent_bytes(schedule: Schedule, each: int) -> tuple[float, float]:
    """Return the bytes between hosts of `each` ranks, and inside them."""
    between = inside = 0.0
    for transfer in schedule.transfers():
        if transfer.src // each == transfer.dst // each:
            inside += transfer.num_bytes
        else:
            assert transfer.src % each == transfer.dst % each
            between += transfer.num_bytes
    return between, inside


@pytest.mark.parametrize(
    ("token_route", "num_hosts", "each"),
    [
        (TokenRoute(256, 8, 4), 8, 8),
        (TokenRoute(256, 8), 4, 8),
        (TokenRoute(64, 6, 3), 8, 8),
        (TokenRoute(8, 2), 2, 4),
        (TokenRoute(16, 4, 1), 4, 2),
    ],
)
def test_chances_are_those_of_tokens_with_random_experts(token_route: TokenRoute, num_hosts: int, each: int) -> None:
    """The hosts of the best experts count, and the best experts on them, as in DeepEP's tests."""
    rng, num = np.random.default_rng(1), 20_000
    scores = rng.random((num, token_route.experts))
    best = scores.reshape(num, num_hosts, -1).max(axis=2)
    hosts = best.argsort(axis=1)[:, num_hosts - (token_route.most_hosts or num_hosts) :]
    host_of = np.arange(token_route.experts) // (token_route.experts // num_hosts)
    scores[~(host_of[None, :, None] == hosts[:, None, :]).any(axis=2)] = -1
    chosen = scores.argsort(axis=1)[:, -token_route.routed :]
    found = []
    for num_groups in (num_hosts, num_hosts * each):
        reached = np.zeros((num, num_groups), dtype=bool)
        np.put_along_axis(reached, chosen // (token_route.experts // num_groups), True, axis=1)
        found.append(reached.mean())
    host, gpu = token_route.chances(num_hosts, each)
    assert host == pytest.approx(found[0], rel=0.005)
    assert gpu == pytest.approx(found[1], rel=0.02)
    assert gpu <= found[1] * 1.005


@pytest.mark.parametrize("returns", [False, True])
def test_a_token_crosses_the_network_once_for_each_host(returns: bool) -> None:
    """Of N hosts N - 1 are others, and of the GPUs of a host the one that forwards a token needs no link."""
    token_route = TokenRoute(64, 8, 2, returns=returns)
    host, gpu = token_route.chances(4, 8)
    between, inside = sent_bytes(expert_schedule(groups(4, 8), 10.0, token_route), 8)
    assert between == pytest.approx(32 * 10 * 3 * host)
    assert inside == pytest.approx(32 * 10 * 4 * 7 * gpu)
    assert host < 8 / 4  # with an all-to-all: once for each expert


def test_in_the_low_latency_mode_a_token_is_sent_once_for_each_expert() -> None:
    schedule = expert_schedule(groups(4, 8), 10.0, TokenRoute(64, 8, exchange="low-latency"))
    assert schedule.num_steps == 1
    assert sum(transfer.num_bytes for transfer in schedule.transfers()) == pytest.approx(32 * 10 * 8 * 31 / 32)


@pytest.mark.parametrize("returns", [False, True])
@pytest.mark.parametrize("link", ["1 GB/s", "400 GB/s"])
def test_both_hops_run_at_once_on_an_idle_star(link: str, returns: bool) -> None:
    """The longer hop, and one chunk of the other: r (N - 1) p(host) B and n N (D - 1) p(GPU) B bytes of a GPU."""
    cluster = load_topology(
        {"kind": "star", "num_hosts": 4, "host": {"template": "dgx-h100", "gpu": "h100"}, "link": link, "hop": "0 s"}
    )
    token_route, size = TokenRoute(64, 8, 2, returns=returns), 1e9
    host, gpu = token_route.chances(4, 8)
    rates = [
        float(cluster.links.bytes_per_s[cluster.route(int(cluster.gpus[0]), int(cluster.gpus[other]))].min())
        for other in (8, 1)
    ]
    network_s, inside_s = 3 * host * size / rates[0], 4 * 7 * gpu * size / rates[1]
    schedule = expert_schedule(groups(4, 8), size, token_route)
    found_s = simulate_schedule(cluster, np.arange(32), schedule, size, load_transport("ideal"))
    want_s = max(network_s, inside_s) + min(network_s, inside_s) / NUM_CHUNKS
    assert found_s == pytest.approx(want_s, rel=1e-4)


def test_hosts_with_different_numbers_of_gpus_are_refused() -> None:
    with pytest.raises(InputError, match="need equal numbers of GPUs"):
        expert_schedule([[0, 1], [2]], 1.0, TokenRoute(6, 2))


def test_more_experts_than_the_hosts_of_a_token_have_are_refused() -> None:
    with pytest.raises(InputError, match="more than the 4 on 1 of 4 hosts"):
        TokenRoute(16, 8, 1).chances(4, 4)


def time_s(num_gpus: int, num_bytes: float, token_route: TokenRoute) -> float:
    host = {"template": "dgx-h100", "gpu": "h800"}
    cluster = load_topology(
        {"kind": "star", "num_hosts": num_gpus // 8, "host": host, "link": "infiniband-ndr", "hop": "300 ns"}
    )
    gpus = np.arange(num_gpus)
    schedule = expert_schedule(by_host(cluster.gpu_hosts[gpus]), num_bytes, token_route)
    return simulate_schedule(cluster, gpus, schedule, num_bytes, load_transport("nccl"))


@pytest.mark.parametrize("num_gpus", NORMAL)
@pytest.mark.parametrize("returns", [False, True])
def test_the_bandwidths_of_deepep_come_out_with_the_errors_that_the_docs_say(num_gpus: int, returns: bool) -> None:
    """Nothing was fitted to these figures; they have no jitter, no contention and no time of kernels beside links."""
    num_hosts, size = num_gpus // 8, TOKENS * (BF16 if returns else FP8)
    token_route = TokenRoute(256, 8, min(4, num_hosts), returns=returns)
    host, gpu = token_route.chances(num_hosts, 8)
    counted = num_gpus * gpu if num_hosts == 1 else num_hosts * host
    found = counted * size / time_s(num_gpus, size, token_route) / 1e9
    assert 100 * (found / NORMAL[num_gpus][returns] - 1) == pytest.approx(ERRORS[num_gpus][returns], abs=1)


@pytest.mark.parametrize("num_gpus", LOW_LATENCY)
@pytest.mark.parametrize("returns", [False, True])
def test_the_latencies_of_deepep_come_out_with_the_errors_that_the_docs_say(num_gpus: int, returns: bool) -> None:
    size = 128 * (BF16 if returns else FP8 + 16)
    found_s = time_s(num_gpus, size, TokenRoute(256, 8, exchange="low-latency", returns=returns))
    error = 100 * (found_s * 1e6 / LOW_LATENCY[num_gpus][returns] - 1)
    assert error == pytest.approx(ERRORS_LOW_LATENCY[num_gpus][returns], abs=1)
