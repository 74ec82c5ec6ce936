"""Transfers and collectives take the time that a formula says."""

from __future__ import annotations

import gc
from weakref import ref

import networkx as nx
import numpy as np
import pytest
import simpy
from hypothesis import given, settings
from hypothesis import strategies as st

from clustersim.collectives import ALL_REDUCE, Schedule, Transfer, closed_form
from clustersim.communicator.algorithm import schedule_collective
from clustersim.errors import InputError
from clustersim.hardware import load_cpu
from clustersim.network import FlowRate, Network, max_min_rates
from clustersim.topology import load_topology

from .clusters import line, star, time_schedule

pytestmark = pytest.mark.usefixtures("engine")


def network_on(graph: nx.DiGraph, **costs: float) -> Network:
    return Network(simpy.Environment(), load_topology(graph), **costs)


def test_a_lone_transfer_takes_latency_and_bytes_over_rate():
    network = network_on(star(2))
    times = network.env.run(network.transfer(0, 1, 5e6))
    assert times == pytest.approx((0.0, 2e-6 + 5e-3, 5e6), abs=1e-15)


def test_overhead_adds_and_efficiency_divides():
    network = network_on(star(2), overhead_s=3e-6, efficiency=0.5)
    assert network.env.run(network.transfer(0, 1, 5e6)).end_s == pytest.approx(5e-6 + 1e-2, rel=1e-12)


def test_no_bytes_take_the_latency_and_a_node_to_itself_takes_nothing():
    network = network_on(star(2), overhead_s=1e-6)
    empty, own = network.transfer(0, 1, 0), network.transfer(1, 1, 1e9)
    assert network.env.run(own).end_s == 0.0
    assert network.env.run(empty).end_s == pytest.approx(3e-6, rel=1e-12)


def test_two_into_one_share_its_link_and_both_directions_are_free():
    network = network_on(star(3, latency_s=0.0))
    events = [network.transfer(0, 2, 1e9), network.transfer(1, 2, 1e9), network.transfer(2, 0, 1e9)]
    assert [network.env.run(event).end_s for event in events] == pytest.approx([2.0, 2.0, 1.0], rel=1e-12)


def test_a_weight_of_three_gets_three_parts_of_four():
    network = network_on(star(3, latency_s=0.0))
    heavy, light = network.transfer(0, 2, 0.75e9, weight=3.0), network.transfer(1, 2, 1e9)
    assert network.env.run(heavy).end_s == pytest.approx(1.0, rel=1e-12)
    assert network.env.run(light).end_s == pytest.approx(1.75, rel=1e-12)


def test_a_late_flow_slows_the_early_one_only_from_then_on():
    network = network_on(star(3, latency_s=0.0))

    def late(env: simpy.Environment):
        yield env.timeout(0.5)
        return (yield network.transfer(1, 2, 1e9))

    process = network.env.process(late(network.env))
    early = network.transfer(0, 2, 1e9)
    assert network.env.run(early).end_s == pytest.approx(1.5, rel=1e-12)
    assert network.env.run(process).end_s == pytest.approx(2.0, rel=1e-12)


def test_names_and_gpu_numbers_mean_the_same_node():
    network = network_on(star(2))
    by_name, by_number = network.transfer("gpu0", "gpu1", 1e6), network.transfer(0, 1, 1e6)
    assert network.env.run(by_name).end_s == network.env.run(by_number).end_s


@pytest.mark.parametrize("name", ALL_REDUCE)
@pytest.mark.parametrize("num_ranks", [1, 2, 3, 5, 8, 13, 16])
def test_an_all_reduce_on_an_idle_star_takes_its_closed_form(name, num_ranks):
    simulated = time_schedule(star(num_ranks, 7e9), ALL_REDUCE[name](num_ranks, 1e8))
    expected = closed_form("all-reduce", name, num_ranks, 1e8, 2e-6, 7e9)
    assert simulated == pytest.approx(expected, rel=1e-9, abs=1e-15)


def test_rings_of_each_dimension_on_an_idle_torus_take_their_closed_form():
    dims = (4, 3, 2)
    torus = load_topology({"kind": "torus", "dims": list(dims), "link": "7 GB/s", "hop": "1 us"})
    schedule = ALL_REDUCE["torus-ring"](24, 1e8, dims=dims)
    hops = _wire_hops(torus)
    expected = 0.0
    share = 1e8
    for extent in dims:
        share /= extent
        expected += 2 * (extent - 1) * (hops * 1e-6 + share / 7e9)
    assert time_schedule(torus, schedule) == pytest.approx(expected, rel=1e-9)


def _wire_hops(torus) -> int:
    return len(torus.route(int(torus.gpus[0]), int(torus.gpus[1])))


def test_doubling_on_a_torus_takes_the_largest_link_load_of_each_step():
    torus = load_topology({"kind": "torus", "dims": [4, 4], "link": "1 GB/s", "hop": "0 s"})
    schedule = ALL_REDUCE["doubling"](16, 1e8)
    expected = 0.0
    for number in range(schedule.num_steps):
        step = schedule.step(number)
        load = np.zeros(len(torus.links))
        for src, dst, size in zip(step.src, step.dst, step.num_bytes, strict=True):
            load[torus.route(int(torus.gpus[src]), int(torus.gpus[dst]))] += size
        expected += load.max() / 1e9
    assert time_schedule(torus, schedule) == pytest.approx(expected, rel=1e-9)


@given(
    sizes=st.lists(
        st.tuples(st.integers(0, 4), st.integers(0, 4), st.integers(0, 50), st.sampled_from([1.0, 0.5, 3.0])),
        min_size=1,
        max_size=14,
    ),
    starts=st.lists(st.integers(0, 6), min_size=14, max_size=14),
)
@settings(max_examples=60, deadline=None)
def test_every_instant_has_the_rates_of_a_full_solve(sizes, starts):
    """Flows start and end all the time; solving only what can change gives what solving everything gives."""
    network = network_on(line(5, 1e9))
    capacity = np.append(network.topology.links.bytes_per_s, np.inf)
    rates_seen = []

    def look(time_s: float, flows: list[FlowRate]) -> None:
        longest = max((len(flow.links) for flow in flows), default=1)
        padded = [(*flow.links, *[len(capacity) - 1] * (longest - len(flow.links))) for flow in flows]
        weights = np.array([flow.weight for flow in flows])
        full = max_min_rates(np.array(padded, dtype=np.int64).reshape(len(flows), longest), weights, capacity)
        assert [flow.bytes_per_s for flow in flows] == pytest.approx(full, rel=1e-9)
        rates_seen.extend(full)

    def send(env: simpy.Environment, src: int, dst: int, size: int, start: int, weight: float):
        yield env.timeout(start * 0.01)
        yield network.transfer(src, dst, size * 1e6, weight)

    network.watch(look)
    for (src, dst, size, weight), start in zip(sizes, starts, strict=False):
        network.env.process(send(network.env, src, dst, size, start, weight))
    network.env.run()
    assert len(rates_seen) >= sum(src != dst and size > 0 for src, dst, size, _ in sizes)
    moved = {(src, dst): 0.0 for src, dst, _, _ in sizes}
    for src, dst, size, _ in sizes:
        moved[src, dst] += size * 1e6
    expected = np.zeros(len(network.topology.links))
    for (src, dst), size in moved.items():
        expected[network.topology.route(network.topology.node(src), network.topology.node(dst))] += size
    assert network.link_bytes == pytest.approx(expected)


@given(num_ranks=st.sampled_from([2, 3, 5, 8]), seed=st.integers(0, 1000))
@settings(max_examples=30, deadline=None)
def test_a_jittered_ring_follows_its_recurrence(num_ranks, seed):
    """On a star no messages share a link: a step begins when both ends have finished the one before."""
    rng = np.random.default_rng(seed)
    schedule = ALL_REDUCE["ring"](num_ranks, 1e6)
    enter = rng.exponential(1e-4, num_ranks)
    delay = rng.exponential(1e-4, (num_ranks, schedule.num_steps))
    ready = enter.copy()
    for step in range(schedule.num_steps):
        ready = ready + delay[:, step]
        sent = np.maximum(ready, np.roll(ready, -1)) + 2e-6 + 1e6 / num_ranks / 1e9
        ready = np.maximum(sent, np.roll(sent, 1))
    network = network_on(star(num_ranks))
    result = network.env.run(network.play(schedule, range(num_ranks), enter_s=enter, delay_s=delay))
    assert result.end_s == pytest.approx(ready, rel=1e-12)


@given(factor=st.sampled_from([2.0, 7.0]), name=st.sampled_from(sorted(ALL_REDUCE)))
@settings(max_examples=20, deadline=None)
def test_links_so_many_times_as_fast_with_less_delay_take_so_many_times_less(factor, name):
    slow = time_schedule(line(6, 1e9, 1e-5), ALL_REDUCE[name](6, 1e7))
    fast = time_schedule(line(6, 1e9 * factor, 1e-5 / factor), ALL_REDUCE[name](6, 1e7))
    assert fast * factor == pytest.approx(slow, rel=1e-9)


@pytest.mark.parametrize("name", ALL_REDUCE)
def test_no_rank_leaves_an_all_reduce_before_the_last_one_entered(name):
    network = network_on(star(7))
    enter = np.array([0.0, 0.0, 0.3, 0.0, 0.1, 0.0, 0.0])
    result = network.env.run(network.play(ALL_REDUCE[name](7, 1e6), range(7), enter_s=enter))
    assert (result.end_s > 0.3).all()


def test_adding_takes_the_time_of_the_receivers_memory():
    cluster = load_topology({"kind": "star", "num_hosts": 2, "host": {"gpu": "k20x"}, "link": "1 GB/s", "hop": "0 s"})
    gpu = int(cluster.gpus[1])
    memory_rate = float(cluster.links.bytes_per_s[cluster.adders[gpu]])
    schedule = Schedule.from_transfers([Transfer(0, 0, 1, 1e8, reduce=True)])
    plain = time_schedule(cluster, schedule)
    adding = time_schedule(cluster, schedule, adds=True)
    assert adding - plain == pytest.approx(3e8 / memory_rate, rel=1e-9)


def test_ranks_of_a_socket_add_on_a_core_each_and_share_its_memory():
    host = {"template": "single-socket", "gpu": "k80", "num_gpus": 8, "cpu": "xeon-e5-2650-v2"}
    cluster = load_topology({"kind": "star", "num_hosts": 1, "host": host, "link": "1 GB/s", "hop": "0 s"})
    cpu = load_cpu("xeon-e5-2650-v2")
    memory = cluster.node_names[cluster.memory[0]]

    def seconds(num_adders: int) -> float:
        rows = [Transfer(0, 8 + rank, rank, 1e8, reduce=True) for rank in range(num_adders)]
        network = Network(simpy.Environment(), cluster, adds=True)
        schedule = Schedule.from_transfers(rows, num_ranks=16)
        return float(network.env.run(network.play(schedule, [memory] * 16)).end_s.max())

    assert seconds(1) == pytest.approx(3e8 / cpu.core_bytes_per_s)
    assert seconds(8) == pytest.approx(8 * 3e8 / min(8 * cpu.core_bytes_per_s, cpu.memory_bytes_per_s))


def test_a_library_may_add_at_its_own_rate():
    cluster = load_topology({"kind": "star", "num_hosts": 2, "host": {"gpu": "k20x"}, "link": "1 GB/s", "hop": "0 s"})
    schedule = Schedule.from_transfers([Transfer(0, 0, 1, 1e8, reduce=True)])
    adding = time_schedule(cluster, schedule, adds=True, add_s_per_byte=0.25e-9)
    assert adding - time_schedule(cluster, schedule) == pytest.approx(0.025, rel=1e-9)


def test_a_message_inside_a_host_has_an_overhead_of_its_own():
    host = {"template": "single-socket", "gpu": "k80", "num_gpus": 2}
    cluster = load_topology({"kind": "star", "num_hosts": 2, "host": host, "link": "1 GB/s", "hop": "0 s"})
    network = Network(simpy.Environment(), cluster, overhead_s=14e-6, host_overhead_s=4e-6)
    inside, outside = network.transfer(0, 1, 0), network.transfer(0, 2, 0)
    assert network.env.run(inside).end_s == pytest.approx(4e-6)
    assert network.env.run(outside).end_s == pytest.approx(14e-6)


@pytest.fixture
def slow_connections():
    """Return two hosts of two GPUs, 1 GB/s between them and less on a connection, and how long messages take."""
    host = {"template": "single-socket", "gpu": "k80", "num_gpus": 2}
    cluster = load_topology({"kind": "star", "num_hosts": 2, "host": host, "link": "1 GB/s", "hop": "0 s"})

    def seconds(*ends: tuple[int, int]) -> list[float]:
        network = Network(simpy.Environment(), cluster, connection_bytes_per_s=0.4e9)
        sent = [network.transfer(src, dst, 1e9) for src, dst in ends]
        return [float(network.env.run(each).end_s) for each in sent]

    return seconds


def test_a_connection_to_another_host_carries_no_more_than_its_rate(slow_connections):
    """Between GPUs of a host there is none; two of them share the link, and messages on one share the connection."""
    inside, outside = slow_connections((0, 1)), slow_connections((0, 2))
    assert inside[0] < 0.2
    assert outside == pytest.approx([2.5])
    assert slow_connections((0, 2), (2, 0)) == pytest.approx([2.5, 2.5])
    assert slow_connections((0, 2), (1, 3)) == pytest.approx([2.5, 2.5])
    assert slow_connections((0, 2), (0, 2)) == pytest.approx([5.0, 5.0])
    assert slow_connections((0, 2), (0, 3), (1, 2)) == pytest.approx([3.0, 3.0, 3.0])


def test_a_ring_goes_at_the_rate_of_its_connections():
    """Of 2 (n - 1) steps each has a hop between two hosts, and takes b / n over the connection's rate."""
    host = {"template": "single-socket", "gpu": "k80", "num_gpus": 2}
    cluster = load_topology({"kind": "star", "num_hosts": 4, "host": host, "link": "1 GB/s", "hop": "0 s"})
    ring = ALL_REDUCE["ring"](8, 8e9)
    assert time_schedule(cluster, ring, connection_bytes_per_s=0.25e9) == pytest.approx(14 * 4.0, rel=1e-9)
    assert time_schedule(cluster, ring, connection_bytes_per_s=4e9) == pytest.approx(14 * 1.0, rel=1e-9)


@pytest.mark.parametrize("exact", [False, True])
def test_a_ring_whose_ranks_send_ahead_goes_at_the_rate_of_its_connections_too(exact):
    host = {"template": "single-socket", "gpu": "k80", "num_gpus": 2}
    cluster = load_topology({"kind": "star", "num_hosts": 4, "host": host, "link": "1 GB/s", "hop": "0 s"})
    _, ring = schedule_collective("all-reduce", "ring", cluster, np.arange(8), 8e9, "nccl-sockets")
    assert ring.relays is not None
    seconds = time_schedule(cluster, ring, connection_bytes_per_s=0.25e9, exact=exact)
    assert seconds == pytest.approx(56.0 + ring.wait_s, rel=1e-9)


def test_one_network_carries_collectives_and_transfers_at_once():
    network = network_on(star(3, latency_s=0.0))
    ring = network.play(ALL_REDUCE["ring"](3, 3e9), range(3))
    beside = network.transfer(0, 1, 1e9)
    assert network.env.run(ring).end_s.max() > 4.0  # alone: 4 steps of 1 s
    assert beside.processed
    assert beside.value.end_s == pytest.approx(2.0)


def test_a_rank_that_is_waited_for_tells_when_it_is_done():
    network = network_on(star(4))
    collective = network.begin(ALL_REDUCE["tree"](4, 1e6), range(4))
    collective.enter(0, 1, 2, 3)
    ended = [network.env.run(collective.done(rank)) or network.env.now for rank in (3, 0)]
    assert collective.finished.triggered
    assert ended == sorted(ended)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda n: n.transfer(0, 9, 1.0), "no node called 9"),
        (lambda n: n.transfer(0, 1, -1.0), "num_bytes must be a finite number of at least 0"),
        (lambda n: n.transfer(0, 1, float("nan")), "num_bytes must be a finite number of at least 0"),
        (lambda n: n.transfer(0, 1, 1.0, weight=0.0), "weight must be a finite number above 0"),
        (lambda n: Network(n.env, n.topology, connection_bytes_per_s=0.0), "connection_bytes_per_s must be a finite"),
        (lambda n: n.play(ALL_REDUCE["ring"](3, 1.0), range(2)), "3 ranks"),
        (lambda n: n.play(ALL_REDUCE["ring"](2, 1.0), range(2), enter_s=[0.0]), "each of 2 ranks"),
        (lambda n: n.play(ALL_REDUCE["ring"](2, 1.0), range(2), enter_s=[0.0, -1.0]), "none before now"),
        (lambda n: n.play(ALL_REDUCE["ring"](2, 1.0), range(2), delay_s=np.zeros((2, 9))), "shape"),
        (lambda n: Network(n.env, n.topology, efficiency=0.0), "efficiency"),
        (lambda n: Network(n.env, n.topology, overhead_s=-1.0), "overhead_s"),
    ],
)
def test_what_makes_no_sense_is_refused_with_the_value(call, message):
    with pytest.raises(InputError, match=message):
        call(network_on(star(2)))


def test_entering_twice_is_refused():
    network = network_on(star(2))
    collective = network.begin(ALL_REDUCE["ring"](2, 1.0), range(2))
    collective.enter(0)
    with pytest.raises(InputError, match="entered this collective before"):
        collective.enter(0)


@pytest.mark.parametrize(("rank", "step"), [(4, 0), (-1, 0), (0, 7), (0, -1)])
def test_a_rank_or_a_step_that_there_is_not_is_refused(rank, step):
    network = Network(simpy.Environment(), star(4))
    collective = network.begin(ALL_REDUCE["ring"](4, 8.0), range(4))
    with pytest.raises(InputError, match="ranks 0 to 3 and steps 0 to 6"):
        collective.reached(rank, step)
    with pytest.raises(InputError, match="enters a collective once"):
        collective.enter(1, 2, 1)
    collective.enter(0, 1, 2, 3)
    network.env.run(collective.finished)


@pytest.mark.parametrize("exact", [False, True])
def test_a_collective_that_is_over_goes_without_a_search_for_garbage(exact: bool):
    """A job has tens of thousands of them: searching what they leave took a sixth of the time."""
    network = Network(simpy.Environment(), load_topology(star(8)), exact=exact)
    gc.disable()
    try:
        for together in (True, False):  # known at once, and message by message since others act meanwhile
            collective = network.begin(ALL_REDUCE["ring"](8, 1e6), range(8))
            collective.enter(*range(4))
            if not together:
                network.env.run(network.env.now + 1e-6)
            collective.enter(*range(4, 8))
            done, finished = collective.done(0), collective.finished
            network.env.run(finished)
            network.env.run()
            assert done.processed
            over = ref(collective)
            del collective, done, finished
            assert over() is None
    finally:
        gc.enable()


def test_taking_part_is_entering_and_being_done():
    def ends_s(takes_part: bool) -> list[float]:
        env = simpy.Environment()
        network = Network(env, load_topology(star(4, bytes_per_s=2.0, latency_s=0.5)))
        collective = network.begin(ALL_REDUCE["ring"](4, 8.0), range(4))
        found: list[float] = []

        def rank(number: int):
            yield env.timeout(number / 8)
            if takes_part:
                yield collective.take_part(number)
            else:
                collective.enter(number)
                yield collective.done(number)
            found.append(float(env.now))

        for number in range(4):
            env.process(rank(number))
        env.run()
        return found

    assert len(ends_s(True)) == 4
    assert ends_s(True) == ends_s(False)
