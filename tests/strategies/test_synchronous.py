"""The iteration time of synchronous strategies: compute plus the exchange, minus the part that backward hides."""

from __future__ import annotations

from typing import Literal

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from clustersim.collectives import closed_form, server_seconds
from clustersim.communicator.algorithm import schedule_collective
from clustersim.errors import InputError
from clustersim.execution import Job
from clustersim.model import load_model
from clustersim.model.tensors import parameter_tensors
from clustersim.results import parts
from clustersim.strategies import STRATEGIES, AllReduce, Server, Servers
from clustersim.strategies.hierarchical import Hierarchical
from clustersim.strategies.local_sums import push_parts
from clustersim.strategies.synchronous import Synchronous
from tests.strategies.jobs import HOP, MB, RATE, play, result, star


def iteration_s(job: Job) -> float:
    return float((job.times.end_s - job.times.begin_s).mean())


@pytest.mark.parametrize("algorithm", ["ring", "tree", "server", "doubling", "halving-doubling"])
@pytest.mark.parametrize("num_ranks", [2, 5, 8])
def test_without_overlap_an_iteration_is_compute_plus_the_closed_form(algorithm, num_ranks):
    job = play(AllReduce(algorithm=algorithm, overlap=False, buckets="whole"), num_ranks)
    exchange = closed_form("all-reduce", algorithm, num_ranks, 16 * MB, 2 * HOP, RATE)
    assert job.times.end_s[:, 0].max() == pytest.approx(6.5 + exchange, rel=1e-9)


def test_one_gpu_exchanges_nothing():
    assert iteration_s(play(AllReduce(), 1)) == pytest.approx(6.5)


def test_backward_hides_all_but_the_last_bucket():
    overlapping = play(AllReduce(algorithm="ring", buckets="layer"), 4)
    last = closed_form("all-reduce", "ring", 4, 8 * MB, 2 * HOP, RATE)
    assert iteration_s(overlapping) == pytest.approx(6.5 + last, rel=1e-9)
    assert parts(overlapping.times)["communication_exposed"].mean() == pytest.approx(last, rel=1e-9)


def test_buckets_of_one_rank_go_one_after_the_other():
    job = play(AllReduce(algorithm="ring", buckets="layer"), 4, layers=[(1.0, 1e-4, 8 * MB)] * 3)
    one = closed_form("all-reduce", "ring", 4, 8 * MB, 2 * HOP, RATE)
    assert iteration_s(job) == pytest.approx(3.5 + 1e-4 + 3 * one, rel=1e-9)


def test_all_ranks_wait_for_the_slow_rank_and_the_slow_rank_does_not_wait():
    slowdown = np.ones((4, 2))
    slowdown[2] = 3.0
    job = play(AllReduce(algorithm="ring", overlap=False, buckets="whole"), 4, slowdown)
    waiting = parts(job.times)["waiting"]
    exchange = closed_form("all-reduce", "ring", 4, 16 * MB, 2 * HOP, RATE)
    assert waiting[2] == pytest.approx([0.0, 0.0], abs=1e-12)
    assert waiting[0, 1] == pytest.approx(13.0 + exchange - exchange)  # 2 x 6 s of layers and 2 x 0.5 s of update
    assert job.times.end_s.max() == pytest.approx(2 * (3 * 6.5 + exchange), rel=1e-9)


@pytest.mark.parametrize("num_ranks", [1, 2, 6])
def test_a_server_takes_push_and_pull_over_its_one_link(num_ranks):
    strategy = Server(overlap=False, buckets="whole", servers=Servers(num=1, on="own-hosts"))
    job = play(strategy, num_ranks, num_hosts=num_ranks + 1)
    exchange = 2 * (2 * HOP + num_ranks * 16 * MB / RATE)
    assert iteration_s(job) == pytest.approx(6.0 + exchange, rel=1e-9)


def test_servers_share_the_bytes():
    strategy = Server(overlap=False, buckets="whole", servers=Servers(num=4, on="own-hosts"))
    job = play(strategy, 4, num_hosts=8)
    assert iteration_s(job) == pytest.approx(6.0 + 2 * (2 * HOP + 16 * MB / RATE), rel=1e-9)


def test_whole_buckets_go_largest_first_to_the_server_with_the_fewest_bytes():
    assert Servers(num=3, whole=True).server_of_whole_buckets([1, 5, 2, 9, 2]) == [2, 1, 2, 0, 2]
    assert Servers(num=1, whole=True).server_of_whole_buckets([1, 5]) == [0, 0]


@pytest.mark.parametrize(("num", "least", "most"), [(5, 0.07, 0.39), (10, 0.0, 0.39)])
def test_hashed_arrays_are_spread_unevenly_over_servers(num, least, most):
    """Convolutions with biases and batch norms have four arrays each, so few servers have the weights."""
    layers = [layer for layer in load_model("inception-bn-28-small").layers if layer.num_parameters]
    names = [f"{layer.name}{end}" for layer in reversed(layers) for end in ("", ", tensor 2")]
    sizes = [4.0 * size for layer in reversed(layers) for size in parameter_tensors(layer)]
    assigned = np.zeros(num)
    for size, servers in zip(sizes, Servers(num=num, whole="hashed").servers_of_buckets(sizes, names), strict=True):
        assigned[servers] += size / len(servers)
    assert assigned.min() / sum(sizes) == pytest.approx(least, abs=0.01)
    assert assigned.max() / sum(sizes) == pytest.approx(most, abs=0.01)


@pytest.mark.parametrize("whole", [True, "as-made", "hashed"])
@pytest.mark.parametrize("kind", [Server, Hierarchical])
def test_an_array_on_one_of_two_servers_takes_the_time_of_a_single_server(kind, whole):
    """This holds for 2 MB. `hashed` splits an array of 4 MB over all servers, as without `whole`."""
    times = {}
    for size in (2 * MB, 4 * MB):
        for num, asked in ((1, False), (2, False), (2, whole)):
            strategy = kind(overlap=False, buckets="layer", servers=Servers(num=num, on="own-hosts", whole=asked))
            outcome = result(strategy, 3, 4, num_hosts=5, layers=[(1.0, 2.0, size)])
            times[size, num, asked] = outcome.iteration_s
    assert times[2 * MB, 2, whole] == pytest.approx(times[2 * MB, 1, False], rel=1e-9)
    like = (2, False) if whole == "hashed" else (1, False)
    assert times[4 * MB, 2, whole] == pytest.approx(times[(4 * MB, *like)], rel=1e-9)
    assert times[4 * MB, 1, False] > times[4 * MB, 2, False]


@pytest.mark.parametrize(("whole", "bytes_of_a_bucket"), [(True, 8 * MB), (False, 4 * MB), ("hashed", 4 * MB)])
def test_a_whole_bucket_crosses_the_link_of_its_server(whole, bytes_of_a_bucket):
    """The first bucket is pulled while the second is pushed to the other server: three times n b / rate."""
    strategy = Server(overlap=False, buckets="layer", servers=Servers(num=2, on="own-hosts", whole=whole))
    transfer_s = 2 * HOP + 4 * bytes_of_a_bucket / RATE
    assert iteration_s(play(strategy, 4, num_hosts=6)) == pytest.approx(6.0 + 3 * transfer_s, rel=1e-9)


@pytest.mark.parametrize("num_ranks", [2, 8, 16])
def test_while_one_bucket_is_pulled_the_next_is_pushed_so_one_direction_counts(num_ranks):
    """Pipelined over many buckets, a server takes |W| p / rate, as FireCaffe counts it."""
    layers = [(0.0, 0.0, 1 * MB)] * 64
    strategy = Server(overlap=False, buckets="layer", servers=Servers(num=1, on="own-hosts"))
    exchange = iteration_s(play(strategy, num_ranks, layers=layers, num_hosts=num_ranks + 1))
    assert exchange == pytest.approx(server_seconds(64 * MB, num_ranks, RATE), rel=0.03)


def test_a_local_sum_pushes_once_a_host_from_one_gpu_or_from_all():
    def pushed(local_sum: bool | Literal["scattered"]) -> float:
        servers = Servers(num=1, on="own-hosts", local_sum=local_sum)
        host = {"template": "single-socket", "gpu": "k80", "num_gpus": 4}
        job = play(Server(overlap=False, buckets="whole", servers=servers), 8, num_hosts=3, host=host)
        links = job.network.topology.links
        return sum(
            size
            for size, rate in zip(job.network.link_bytes, links.bytes_per_s, strict=True)
            if rate == pytest.approx(RATE)
        )

    assert pushed(False) == pytest.approx(4 * pushed(True))
    assert pushed("scattered") == pytest.approx(pushed(True))


def test_a_scattered_sum_saves_the_bytes_that_one_gpu_gets_beyond_its_quarter():
    host = {"template": "single-socket", "gpu": "k80", "num_gpus": 4, "nic_link": "direct"}
    kinds: tuple[bool | Literal["scattered"], ...] = (True, "scattered")
    one, scattered = (
        iteration_s(
            play(
                Server(overlap=False, buckets="whole", servers=Servers(num=1, on="own-hosts", local_sum=kind)),
                4,
                num_hosts=2,
                host=host,
            )
        )
        for kind in kinds
    )
    out_of_a_slot, from_others = 12e9, 10e9  # through a processor GPUs receive 5/6 of the rate of a slot
    one_s, scattered_s = 3 / from_others + 3 / out_of_a_slot, 2 * 3 / 4 / from_others
    assert one - scattered == pytest.approx(16 * MB * (one_s - scattered_s), rel=1e-6)


@pytest.mark.parametrize("num_servers", [1, 2, 3])
@pytest.mark.parametrize("groups", [[[0, 1, 2, 3]], [[0, 1], [2, 3, 4]], [[2], [0, 1]]])
def test_scattered_parts_cover_the_bucket_of_each_host_and_each_server_gets_its_share(groups, num_servers):
    pieces = push_parts(groups, num_servers, scattered=True)
    for group in groups:
        own = np.isin(pieces.rank, group)
        covered = [range(a, a + n) for a, n in zip(pieces.first[own], pieces.num_chunks[own], strict=True)]
        assert sorted(chunk for part in covered for chunk in part) == list(range(pieces.granularity))
    push = pieces.to_servers(num_servers, 8.0)
    got = np.bincount(push.dst, push.num_bytes)
    assert got == pytest.approx([8.0 * len(groups) / num_servers] * num_servers)
    assert (push.chunk // (pieces.granularity // num_servers)).tolist() == push.dst.tolist()


def test_servers_need_hosts_that_no_worker_uses():
    with pytest.raises(InputError, match="the cluster has 0 left"):
        play(Server(servers=Servers(num=1, on="own-hosts")), 4)


def test_torus_rings_need_the_ranks_along_each_dimension():
    with pytest.raises(InputError, match=r"strategy\.dims"):
        play(AllReduce(algorithm="torus-ring"), 4)
    job = play(AllReduce(algorithm="torus-ring", dims=(2, 2), overlap=False, buckets="whole"), 4)
    assert iteration_s(job) > 6.5


@pytest.mark.parametrize("gpus", [[0, 1, 2, 3, 4, 5, 6, 7], [0, 4, 1, 5, 2, 6, 3, 7]])
def test_a_hierarchical_all_reduce_sums_inside_each_host_whatever_the_order_of_ranks(gpus):
    host = {"template": "single-socket", "gpu": "k80", "num_gpus": 4}
    cluster = star(2, host=host)
    name, schedule = schedule_collective("all-reduce", "hierarchical", cluster, np.array(gpus), 8 * MB, "ideal")
    hosts = cluster.gpu_hosts[gpus]
    outside = sum(t.num_bytes for t in schedule.transfers() if hosts[t.src] != hosts[t.dst])
    assert name == "hierarchical"
    assert outside == pytest.approx(2 * 8 * MB)  # 2 hosts x 4 shards of a quarter, sent 2 (2 - 1) / 2 times each


def test_a_schedule_is_computed_once_for_the_same_gpus_of_a_cluster():
    cluster, other = star(4), star(4)

    def made(topology, num_gpus: int, num_bytes: float):
        return schedule_collective("all-reduce", "ring", topology, np.arange(num_gpus), num_bytes, "ideal")[1]

    first = made(cluster, 4, 8 * MB)
    assert made(cluster, 4, 8 * MB) is first
    assert all(again is not first for again in (made(other, 4, 8 * MB), made(cluster, 3, 8 * MB), made(cluster, 4, MB)))
    for num_bytes in range(1, 65):
        made(cluster, 4, num_bytes)
    assert made(cluster, 4, 8 * MB) is not first


def test_an_unknown_algorithm_is_refused_with_the_nearest_name():
    with pytest.raises(ValueError, match="did you mean 'ring'"):
        AllReduce(algorithm="rng")


@pytest.mark.parametrize("kind", [kind for kind in STRATEGIES if issubclass(STRATEGIES[kind], Synchronous)])
@given(seed=st.integers(0, 100), overlap=st.booleans(), buckets=st.sampled_from(["layer", "whole", "10 MB"]))
@settings(max_examples=8, deadline=None)
def test_parts_fill_every_iteration_and_are_not_negative(kind, seed, overlap, buckets):
    slowdown = np.random.default_rng(seed).lognormal(0, 0.3, (5, 8))
    may_choose = STRATEGIES[kind].model_fields["overlap"].annotation is bool
    knobs = {"buckets": buckets, **({"overlap": overlap} if may_choose else {})}
    job = play(STRATEGIES[kind](**knobs), 5, slowdown, layers=[(0.01, 0.02, 9 * MB)] * 4)
    split = parts(job.times)
    total = sum(split.values())
    assert total == pytest.approx(job.times.end_s - job.times.begin_s, rel=1e-9)
    assert min(part.min() for part in split.values()) >= -1e-12
