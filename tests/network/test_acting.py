"""Transfers with a cap, transfers called off, and links whose rate changes: exactly the rest is solved again."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from clustersim.collectives import ALL_REDUCE
from clustersim.errors import InputError
from clustersim.network import FlowRate, Network
from clustersim.topology import load_topology

from .clusters import fair_rates, line, link_between, make_network, star

pytestmark = pytest.mark.usefixtures("engine")


def at(network: Network, time_s: float, act: Callable[[], object]) -> None:
    """Act at a time."""

    def process():
        yield network.env.timeout(time_s)
        act()

    network.env.process(process())


def ends(network: Network, *sent) -> list[float]:
    network.env.run()
    return [event.value.end_s for event in sent]


def test_a_cap_holds_a_transfer_back_and_leaves_the_rest_to_others():
    network = make_network(star(3, latency_s=0.0))
    capped = network.transfer(0, 2, 1e8, cap_bytes_per_s=1e8)
    other = network.transfer(1, 2, 9e8)
    assert ends(network, capped, other) == pytest.approx([1.0, 1.0], rel=1e-12)


def test_a_cap_above_the_fair_share_changes_nothing():
    network = make_network(star(3, latency_s=0.0))
    capped = network.transfer(0, 2, 1e9, cap_bytes_per_s=6e8)
    assert ends(network, capped, network.transfer(1, 2, 1e9)) == pytest.approx([2.0, 2.0], rel=1e-12)


def test_a_cap_belongs_to_one_transfer_only_and_is_kept_within_a_node():
    network = make_network(star(2, latency_s=0.0))
    twice = [network.transfer(0, 1, 1e8, cap_bytes_per_s=2e8) for _ in range(2)]
    own = network.transfer(0, 0, 1e8, cap_bytes_per_s=1e8)
    assert ends(network, *twice, own) == pytest.approx([0.5, 0.5, 1.0], rel=1e-12)


def test_a_cancelled_transfer_delivers_what_it_has_moved_and_frees_its_share():
    network = make_network(star(3, latency_s=0.0))
    called_off, other = network.transfer(0, 2, 1e9), network.transfer(1, 2, 1e9)
    at(network, 0.5, lambda: network.cancel(called_off))
    assert ends(network, called_off, other) == pytest.approx([0.5, 1.25], rel=1e-12)
    assert called_off.value.num_bytes == pytest.approx(0.25e9, rel=1e-12)
    assert other.value.num_bytes == 1e9
    assert network.link_bytes[link_between(network, "switch", "gpu2")] == pytest.approx(1.25e9, rel=1e-12)


def test_cancelling_alone_on_the_wire_or_before_the_first_byte_ends_at_once():
    network = make_network(star(2, latency_s=0.5))
    early, late = network.transfer(0, 1, 1e9), network.transfer(1, 0, 1e9)
    at(network, 0.25, lambda: network.cancel(early))
    at(network, 1.5, lambda: network.cancel(late))
    assert ends(network, early, late) == [0.25, 1.5]
    assert early.value.num_bytes == 0.0
    assert late.value.num_bytes == pytest.approx(0.5e9, rel=1e-12)


def test_one_of_two_that_left_together_may_be_cancelled_on_its_way():
    network = make_network(star(3, latency_s=0.5))
    first, second = network.transfer(0, 2, 1e9), network.transfer(1, 2, 1e9)
    at(network, 0.1, lambda: network.cancel(first))
    assert ends(network, first, second) == pytest.approx([0.1, 2.0], rel=1e-12)


def test_cancelling_a_finished_transfer_changes_nothing_even_at_its_last_instant():
    network = make_network(star(2, latency_s=0.0))
    sent = network.transfer(0, 1, 1e9)
    at(network, 1.0, lambda: network.cancel(sent))
    at(network, 2.0, lambda: network.cancel(sent))
    assert ends(network, sent) == [1.0]
    assert sent.value.num_bytes == 1e9


def test_adding_may_be_cancelled_and_counts_the_bytes_that_are_added():
    cluster = load_topology({"kind": "star", "num_hosts": 2, "host": {"gpu": "k20x"}, "link": "1 GB/s", "hop": "0 s"})
    network = make_network(cluster)
    whole = network.add(0, 1e9)
    network.env.run()
    half = network.add(0, 1e9)
    begun_s = network.env.now
    at(network, whole.value.end_s / 4, lambda: network.cancel(half))
    network.env.run()
    assert half.value.end_s - begun_s == pytest.approx(whole.value.end_s / 4)
    assert half.value.num_bytes == pytest.approx(0.25e9, rel=1e-9)
    assert network.link_bytes.max() == pytest.approx(3 * 1.25e9, rel=1e-9)


def test_a_link_that_gets_slower_slows_what_is_on_it_from_then_on():
    network = make_network(line(3))
    through, beside = network.transfer(0, 2, 1e9), network.transfer(1, 2, 1e9)
    at(network, 1.0, lambda: network.set_rate(link_between(network, "switch0", "switch1"), 2.5e8))
    assert ends(network, through, beside) == pytest.approx([3.0, 1.0 + 0.5 / 0.75], rel=1e-12)


def test_a_link_that_gets_faster_releases_what_it_held_back():
    network = make_network(line(3))
    network.set_rate(link_between(network, "switch0", "switch1"), 2.5e8)
    through, beside = network.transfer(0, 2, 1e9), network.transfer(1, 2, 1.5e9)
    at(network, 1.0, lambda: network.set_rate(link_between(network, "switch0", "switch1"), 1e9))
    assert ends(network, through, beside) == pytest.approx([2.5, 2.5], rel=1e-12)


def test_a_transfer_alone_on_its_path_follows_its_narrowest_link():
    network = make_network(star(2, latency_s=0.0), efficiency=0.5)
    up, down = link_between(network, "gpu0", "switch"), link_between(network, "switch", "gpu1")
    sent = network.transfer(0, 1, 1e9)
    at(network, 1.0, lambda: network.set_rate(down, 5e8))  # half of it is payload
    at(network, 2.0, lambda: network.set_rate(down, 2e9))
    at(network, 2.2, lambda: network.set_rate(up, 4e8))
    assert ends(network, sent) == pytest.approx([2.2 + 0.15 / 0.2], rel=1e-12)


def test_a_link_that_stands_still_holds_everything_until_it_comes_back():
    network = make_network(star(3, latency_s=0.0))
    down = link_between(network, "switch", "gpu2")
    alone, shared = network.transfer(0, 2, 1e9), network.transfer(1, 2, 1e9)
    at(network, 1.0, lambda: network.set_rate(down, 0.0))
    at(network, 1.5, lambda: started.append(network.transfer(0, 2, 1e8)))
    at(network, 2.0, lambda: seen.extend(flow.bytes_per_s for flow in network.flows()))
    at(network, 3.0, lambda: network.set_rate(down, 1e9))
    started, seen = [], []
    assert ends(network, alone, shared, *started) == pytest.approx([4.1, 4.1], rel=1e-12)
    assert seen == [0.0, 0.0, 0.0]
    assert started[0].value.end_s == pytest.approx(3.3, rel=1e-12)


def test_what_starts_alone_on_a_link_that_stands_still_waits_for_it_and_can_be_cancelled():
    network = make_network(star(3, latency_s=0.0))
    network.set_rate(link_between(network, "switch", "gpu1"), 0.0)
    network.set_rate(link_between(network, "switch", "gpu2"), 0.0)
    waits, called_off = network.transfer(0, 1, 1e9), network.transfer(0, 2, 1e9)
    at(network, 1.0, lambda: network.set_rate(link_between(network, "switch", "gpu1"), 1e9))
    at(network, 5.0, lambda: network.cancel(called_off))
    assert ends(network, waits, called_off) == pytest.approx([2.0, 5.0], rel=1e-12)
    assert called_off.value.num_bytes == 0.0


def test_a_collective_over_a_slower_link_takes_the_time_of_that_link():
    network = make_network(star(4, latency_s=0.0))
    network.set_rate(link_between(network, "gpu1", "switch"), 2.5e8)
    times = network.env.run(network.play(ALL_REDUCE["ring"](4, 4e9), range(4)))
    assert times.end_s.max() == pytest.approx(6 * 4.0, rel=1e-12)


acts = st.tuples(
    st.floats(0, 0.4),
    st.sampled_from(["send", "cap", "cancel", "rate"]),
    st.integers(0, 30),
    st.sampled_from([0.0, 1e3, 2e8, 1e9, 3e9]),
)


@given(acts=st.lists(acts, min_size=1, max_size=25))
@settings(max_examples=60, deadline=None)
def test_after_every_act_rates_are_those_of_a_full_solve(acts):
    network = make_network(line(4, 1e9))
    capacity = network.topology.links.bytes_per_s.copy()
    sent, num_links = [], len(network.topology.links)

    def look(time_s: float, flows: list[FlowRate]) -> None:
        full = fair_rates(flows, capacity, 2e8)
        assert [flow.bytes_per_s for flow in flows] == pytest.approx(full, rel=1e-9)

    def act(kind: str, which: int, rate: float) -> None:
        src, dst = which % 4, (which // 4) % 4
        if kind == "send":
            sent.append(network.transfer(src, dst, 1e8 + which * 1e6))
        elif kind == "cap":
            sent.append(network.transfer(src, dst, 1e8, cap_bytes_per_s=2e8))
        elif kind == "cancel" and sent:
            network.cancel(sent[which % len(sent)])
        elif kind == "rate":
            capacity[which % num_links] = rate
            network.set_rate(which % num_links, rate)

    def restore() -> None:
        for link in range(num_links):
            capacity[link] = 1e9
            network.set_rate(link, 1e9)

    network.watch(look)
    for time_s, *what in acts:
        at(network, time_s, lambda what=what: act(*what))
    at(network, 1e3, restore)
    network.env.run()
    assert all(event.processed for event in sent)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda n: n.transfer(0, 1, 1.0, cap_bytes_per_s=0.0), r"cap_bytes_per_s must be .* above 0 \(got 0.0\)"),
        (lambda n: n.cancel(n.env.event()), "only a transfer of this network can be cancelled"),
        (lambda n: n.cancel(make_network(star(2)).transfer(0, 1, 1.0)), "only a transfer of this network"),
        (lambda n: n.set_rate(99, 1.0), r"links have the numbers 0 to 3 \(got 99\)"),
        (lambda n: n.set_rate(-1, 1.0), "links have the numbers"),
        (lambda n: n.set_rate(0, -1.0), r"rate of a link is 0 or more \(got -1.0\)"),
        (lambda n: n.set_rate(0, float("inf")), "rate of a link is 0 or more"),
    ],
)
def test_what_makes_no_sense_is_refused_with_the_value(call, message):
    with pytest.raises(InputError, match=message):
        call(make_network(star(2)))
