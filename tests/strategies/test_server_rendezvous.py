"""Servers that update in turn, or hand all out together, take what that comes to; days and arithmetic agree on it."""

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
    """Return what the exchange of three buckets takes of a lone worker whose server is in its host's memory."""
    strategy = Server(buckets="layer", servers=Servers(num=1, on="host-memory", **options))
    return exchange_s(play(strategy, 1, layers=AT_ONCE, host=HOST))


@pytest.mark.parametrize("num_ranks", [1, 2, 5])
def test_parameters_handed_out_together_share_the_link_when_all_is_pushed(num_ranks):
    strategy = Server(overlap=False, buckets="layer", servers=Servers(num=1, on="own-hosts", pull="together"))
    job = play(strategy, num_ranks, num_hosts=num_ranks + 1)
    pushed, pulled = 2 * (2 * HOP + num_ranks * 8 * MB / RATE), 2 * HOP + num_ranks * 16 * MB / RATE
    assert exchange_s(job) == pytest.approx(pushed + pulled, rel=1e-9)
    each = play(Server(overlap=False, buckets="layer", servers=Servers(num=1, on="own-hosts")), num_ranks, num_hosts=6)
    assert exchange_s(job) - exchange_s(each) == pytest.approx(num_ranks * 8 * MB / RATE, rel=1e-9)


def test_one_core_updates_one_bucket_after_another_and_others_each_as_it_comes():
    copy_s = 8 * MB / load_link("pcie-3-x16").bytes_per_s
    assert in_host_memory() == pytest.approx(4 * copy_s + MOVED / CPU.core_bytes_per_s, rel=1e-2)
    assert copy_s < MOVED / CPU.core_bytes_per_s
    assert in_host_memory(one_core=True) == pytest.approx(2 * copy_s + 3 * MOVED / CPU.core_bytes_per_s, rel=1e-2)


def test_of_one_core_what_is_handed_out_together_waits_for_the_last_update():
    copy_s = 8 * MB / load_link("pcie-3-x16").bytes_per_s
    together = in_host_memory(one_core=True, pull="together")
    assert together == pytest.approx(4 * copy_s + 3 * MOVED / CPU.core_bytes_per_s, rel=1e-2)


def test_workers_that_update_for_themselves_take_their_own_time_and_servers_none():
    def iteration_s(**options: Any) -> float:
        strategy = Server(buckets="layer", servers=Servers(num=1, on="host-memory", **options))
        job = play(strategy, 1, layers=AT_ONCE, host=HOST, update_s=0.25)
        return float((job.times.end_s - job.times.begin_s)[:, 0].mean())

    spared = 3 * MOVED / CPU.core_bytes_per_s - 2 * 8 * MB / load_link("pcie-3-x16").bytes_per_s  # copies queue instead
    assert iteration_s(update_on="workers") - iteration_s(one_core=True) == pytest.approx(0.25 - spared, rel=1e-3)


def handed_out_s(num_gpus: int, **options: Any) -> float:
    """Return what the exchange of two buckets takes whose server is the first GPU of a host with two sockets."""
    servers = Servers(num=1, on="gpu0", pull="together", **options)
    host = {"template": "dual-socket", "gpu": "k80", "num_gpus": num_gpus, "plx_per_socket": 0, "cpu": CPU.name}
    return exchange_s(
        play(Server(overlap=False, buckets="layer", servers=servers), num_gpus, layers=AT_ONCE[:2], host=host)
    )


def test_of_one_stream_copies_to_a_slow_socket_do_not_go_beside_those_to_a_quick_one():
    slot, across = load_link("pcie-3-x16").bytes_per_s, load_link("qpi").bytes_per_s
    near = slot * CPU.peer_share
    beside, one_by_one = handed_out_s(4), handed_out_s(4, one_stream=True)
    in_turn = 2 * 8 * MB * (1 / near + 2 / across)  # one GPU of the same socket, and two of the other
    at_once = 2 * 8 * MB * max(3 / slot, 2 / across)
    assert one_by_one - beside == pytest.approx(in_turn - at_once, rel=1e-2)
    assert handed_out_s(2, one_stream=True) == pytest.approx(handed_out_s(2), rel=1e-2)  # one copy of each has no other


@pytest.mark.parametrize("options", [{"pull": "together"}, {"one_core": True}, {"one_core": True, "pull": "together"}])
@pytest.mark.parametrize("local_sum", [False, True])
@pytest.mark.parametrize("whole", [False, True])
def test_days_and_arithmetic_agree_on_patient_servers(options, local_sum, whole):
    servers = Servers(num=2, on="workers", whole=whole, local_sum=local_sum, **options)
    strategy = Server(buckets="layer", servers=servers)
    host = HOST | {"num_gpus": 2}
    marched, played = (
        play(strategy, 4, num_hosts=2, layers=AT_ONCE, host=host, num_iterations=2, exact=exact)
        for exact in (False, True)
    )
    assert marched.times.end_s == pytest.approx(played.times.end_s, rel=1e-9, nan_ok=True)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"pull": "together"}, "pull says how servers update where all workers wait for all: strategy `server`"),
        ({"one_core": True}, "one_core says how servers update"),
        ({"one_stream": True, "on": "gpus"}, "one_stream says how servers update"),
        ({"update_on": "workers"}, "update_on says how servers update"),
    ],
)
def test_servers_of_workers_at_their_own_pace_have_no_such_ways(options, message):
    with pytest.raises(ValidationError, match=message):
        Async(servers=Servers(num=1, **options))


def test_sums_that_servers_hand_out_cannot_be_of_gradients_that_cannot_be_added():
    mistakes = Server(servers=Servers(update_on="workers", local_sum=True)).gathering_mistakes("top-k")
    assert [mistake.key for mistake in mistakes] == ["servers.local_sum", "servers.update_on"]
    assert "servers add gradients and hand sums out, and top-k ones cannot be added" in mistakes[1].message


@pytest.mark.parametrize("whole", [False, True])
@pytest.mark.parametrize("local_sum", [False, True])
@pytest.mark.parametrize("pull", ["each", "together"])
def test_days_and_arithmetic_agree_on_one_stream(pull, whole, local_sum):
    servers = Servers(num=3, on="gpus", pull=pull, one_stream=True, whole=whole, local_sum=local_sum)
    host = {"template": "dual-socket", "gpu": "k80", "num_gpus": 4, "plx_per_socket": 0, "cpu": CPU.name}
    strategy = Server(buckets="layer", servers=servers)
    marched, played = (
        play(strategy, 4, layers=AT_ONCE, host=host, num_iterations=2, exact=exact) for exact in (False, True)
    )
    assert marched.times.end_s == pytest.approx(played.times.end_s, rel=1e-9, nan_ok=True)


@pytest.mark.parametrize("on", ["workers", "host-memory", "own-hosts"])
def test_a_stream_of_no_gpu_is_refused(on):
    with pytest.raises(ValidationError, match="one_stream has GPUs hand out one copy after another"):
        Servers(one_stream=True, on=on)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"on": "gpus"}, "on: gpus has GPUs update what lies in their memory, and no core of a host"),
        ({"on": "gpu0", "whole": True}, "on: gpu0 has GPUs update"),
        ({"update_on": "workers"}, "update_on: workers leaves servers nothing to update, and no core of a host"),
    ],
)
def test_a_core_that_updates_nothing_is_refused(options, message):
    with pytest.raises(ValidationError, match=message):
        Servers(one_core=True, **options)
