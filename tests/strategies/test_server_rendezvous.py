"""Servers that update on one core or serve all pulls together: closed forms, and processes against arrays."""

from __future__ import annotations

from typing import Any

import pytest
from pydantic import ValidationError

from clustersim.execution.job import Job
from clustersim.hardware import load_cpu, load_link
from clustersim.strategies import Async, Server, Servers
from tests.strategies.jobs import HOP, MB, RATE, play

CPU = load_cpu("xeon-e5-2680-v3")
HOST = {"template": "single-socket", "gpu": "k80", "num_gpus": 1, "cpu": CPU.name}
AT_ONCE = [(1.0, 1e-9, 8 * MB)] * 3  # three buckets that are ready at the same time
MOVED = 5 * 8 * MB  # what the update of one of them moves


def exchange_s(job: Job) -> float:
    return float(job.times.exchanged_s[:, 0].max() - job.times.computed_s[:, 0].max())


def in_host_memory(**options: Any) -> float:
    """Return the exchange time of three buckets of a single worker whose server is in its host memory."""
    strategy = Server(buckets="layer", servers=Servers(num=1, on="host-memory", **options))
    return exchange_s(play(strategy, 1, layers=AT_ONCE, host=HOST))


@pytest.mark.parametrize("num_ranks", [1, 2, 5])
def test_pulls_together_share_the_link_after_all_pushes(num_ranks):
    strategy = Server(overlap=False, buckets="layer", servers=Servers(num=1, on="own-hosts", pull="together"))
    job = play(strategy, num_ranks, num_hosts=num_ranks + 1)
    pushed, pulled = 2 * (2 * HOP + num_ranks * 8 * MB / RATE), 2 * HOP + num_ranks * 16 * MB / RATE
    assert exchange_s(job) == pytest.approx(pushed + pulled, rel=1e-9)
    each = play(Server(overlap=False, buckets="layer", servers=Servers(num=1, on="own-hosts")), num_ranks, num_hosts=6)
    assert exchange_s(job) - exchange_s(each) == pytest.approx(num_ranks * 8 * MB / RATE, rel=1e-9)


def test_one_core_updates_one_bucket_after_another_and_other_servers_each_on_arrival():
    copy_s = 8 * MB / load_link("pcie-3-x16").bytes_per_s
    assert in_host_memory() == pytest.approx(4 * copy_s + MOVED / CPU.core_bytes_per_s, rel=1e-2)
    assert copy_s < MOVED / CPU.core_bytes_per_s
    assert in_host_memory(one_core=True) == pytest.approx(2 * copy_s + 3 * MOVED / CPU.core_bytes_per_s, rel=1e-2)


def test_on_one_core_pulls_together_wait_for_the_last_update():
    copy_s = 8 * MB / load_link("pcie-3-x16").bytes_per_s
    together = in_host_memory(one_core=True, pull="together")
    assert together == pytest.approx(4 * copy_s + 3 * MOVED / CPU.core_bytes_per_s, rel=1e-2)


def test_with_update_on_workers_only_the_workers_take_time_to_update():
    def iteration_s(**options: Any) -> float:
        strategy = Server(buckets="layer", servers=Servers(num=1, on="host-memory", **options))
        job = play(strategy, 1, layers=AT_ONCE, host=HOST, update_s=0.25)
        return float((job.times.end_s - job.times.begin_s)[:, 0].mean())

    saved = 3 * MOVED / CPU.core_bytes_per_s - 2 * 8 * MB / load_link("pcie-3-x16").bytes_per_s  # copies queue instead
    assert iteration_s(update_on="workers") - iteration_s(one_core=True) == pytest.approx(0.25 - saved, rel=1e-3)


def pulled_s(num_gpus: int, **options: Any) -> float:
    """Return the exchange time of two buckets whose server is the first GPU of a host with two sockets."""
    servers = Servers(num=1, on="gpu0", pull="together", **options)
    host = {"template": "dual-socket", "gpu": "k80", "num_gpus": num_gpus, "plx_per_socket": 0, "cpu": CPU.name}
    return exchange_s(
        play(Server(overlap=False, buckets="layer", servers=servers), num_gpus, layers=AT_ONCE[:2], host=host)
    )


def test_in_one_stream_copies_to_a_slow_socket_do_not_overlap_those_to_a_fast_one():
    slot, across = load_link("pcie-3-x16").bytes_per_s, load_link("qpi").bytes_per_s
    near = slot * CPU.peer_share
    parallel, serial = pulled_s(4), pulled_s(4, one_stream=True)
    serial_s = 2 * 8 * MB * (1 / near + 2 / across)  # one GPU of the same socket, and two of the other
    parallel_s = 2 * 8 * MB * max(3 / slot, 2 / across)
    assert serial - parallel == pytest.approx(serial_s - parallel_s, rel=1e-2)
    assert pulled_s(2, one_stream=True) == pytest.approx(pulled_s(2), rel=1e-2)  # one copy of each bucket only


@pytest.mark.parametrize("options", [{"pull": "together"}, {"one_core": True}, {"one_core": True, "pull": "together"}])
@pytest.mark.parametrize("local_sum", [False, True])
@pytest.mark.parametrize("whole", [False, True])
def test_processes_and_arrays_agree_on_servers_that_delay_pulls(options, local_sum, whole):
    servers = Servers(num=2, on="workers", whole=whole, local_sum=local_sum, **options)
    strategy = Server(buckets="layer", servers=servers)
    host = HOST | {"num_gpus": 2}
    vectorized, simulated = (
        play(strategy, 4, num_hosts=2, layers=AT_ONCE, host=host, num_iterations=2, exact=exact)
        for exact in (False, True)
    )
    assert vectorized.times.end_s == pytest.approx(simulated.times.end_s, rel=1e-9, nan_ok=True)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"pull": "together"}, "pull has an effect only where all workers wait for each other: strategy `server`"),
        ({"one_core": True}, "one_core has an effect only where"),
        ({"one_stream": True, "on": "gpus"}, "one_stream has an effect only where"),
        ({"update_on": "workers"}, "update_on has an effect only where"),
    ],
)
def test_asynchronous_servers_refuse_options_of_synchronous_ones(options, message):
    with pytest.raises(ValidationError, match=message):
        Async(servers=Servers(num=1, **options))


def test_servers_that_add_refuse_gradients_that_cannot_be_added():
    mistakes = Server(servers=Servers(update_on="workers", local_sum=True)).gathering_mistakes("top-k")
    assert [mistake.key for mistake in mistakes] == ["servers.local_sum", "servers.update_on"]
    assert "servers add gradients and workers pull the sums, but top-k gradients cannot be added" in mistakes[1].message


@pytest.mark.parametrize("whole", [False, True])
@pytest.mark.parametrize("local_sum", [False, True])
@pytest.mark.parametrize("pull", ["each", "together"])
def test_processes_and_arrays_agree_on_one_stream(pull, whole, local_sum):
    servers = Servers(num=3, on="gpus", pull=pull, one_stream=True, whole=whole, local_sum=local_sum)
    host = {"template": "dual-socket", "gpu": "k80", "num_gpus": 4, "plx_per_socket": 0, "cpu": CPU.name}
    strategy = Server(buckets="layer", servers=servers)
    vectorized, simulated = (
        play(strategy, 4, layers=AT_ONCE, host=host, num_iterations=2, exact=exact) for exact in (False, True)
    )
    assert vectorized.times.end_s == pytest.approx(simulated.times.end_s, rel=1e-9, nan_ok=True)


@pytest.mark.parametrize("on", ["workers", "host-memory", "own-hosts"])
def test_one_stream_without_gpus_is_refused(on):
    with pytest.raises(ValidationError, match="one_stream is about copies that GPUs send"):
        Servers(one_stream=True, on=on)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"on": "gpus"}, "on: gpus runs the optimizer on GPUs, so no host core updates"),
        ({"on": "gpu0", "whole": True}, "on: gpu0 runs the optimizer on GPUs"),
        ({"update_on": "workers"}, "update_on: workers runs the optimizer on the workers, so no host core updates"),
    ],
)
def test_one_core_that_updates_nothing_is_refused(options, message):
    with pytest.raises(ValidationError, match=message):
        Servers(one_core=True, **options)
