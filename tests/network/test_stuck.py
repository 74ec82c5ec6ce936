"""A stuck simulation raises an error with what waits and for what, and does not end quietly."""

from __future__ import annotations

import pytest
import simpy

from clustersim.collectives import ALL_REDUCE, Schedule, Transfer
from clustersim.errors import SimulationError
from clustersim.network import Environment, Stuck
from clustersim.topology import load_topology

from .clusters import link_between, make_network, star

pytestmark = pytest.mark.usefixtures("engine")


def test_a_rank_that_never_enters_is_named_by_the_ranks_that_wait_for_it():
    network = make_network(star(3))
    ring = network.begin(ALL_REDUCE["ring"](3, 1e6), range(3))
    ring.enter(0, 1)
    with pytest.raises(SimulationError) as error:
        network.env.run(ring.finished)
    lines = str(error.value).splitlines()
    assert lines[0] == "at 0.0003353333333333333 s the simulation is stuck, and these wait for ever:"
    assert [line.strip() for line in lines[1:]] == [
        "rank 0 at step 0 waits for rank 2, which has not entered",
        "rank 1 at step 0 waits for rank 2, which has not entered",
    ]
    assert error.value.exit_status == 1


def test_a_rank_behind_is_named_with_the_step_it_is_at():
    schedule = Schedule.from_transfers([Transfer(0, 0, 3, 1.0), Transfer(1, 0, 1, 1.0), Transfer(1, 1, 2, 1.0)])
    network = make_network(star(4))
    collective = network.begin(schedule, range(4))
    collective.enter(0, 1, 2)
    network.env.run(1.0)
    assert network.stuck() == [
        Stuck(0, 0, "waits for rank 3, which has not entered"),
        Stuck(1, 1, "waits for rank 0, which is at step 0"),
    ]


@pytest.mark.parametrize("until", [None, "event"])
def test_a_message_over_a_link_that_stands_still_is_told_with_the_link(until):
    network = make_network(star(2, latency_s=0.0))
    network.set_rate(link_between(network, "switch", "gpu1"), 0.0)
    done = network.play(Schedule.from_transfers([Transfer(0, 0, 1, 1e6)]), [0, 1])
    with pytest.raises(
        SimulationError, match=r"rank 0 at step 0 waits for its message to rank 1, which stands still"
    ) as error:
        network.env.run(done if until else None)
    assert "rank 1 at step 0 waits for the message from rank 0, which" in str(error.value)
    assert "the link 3 (switch > gpu1), which has 0 bytes/s" in str(error.value)


def test_adding_in_a_memory_that_stands_still_is_told():
    cluster = load_topology({"kind": "star", "num_hosts": 2, "host": {"gpu": "k20x"}, "link": "1 GB/s", "hop": "0 s"})
    network = make_network(cluster, adds=True)
    network.set_rate(cluster.adders[int(cluster.gpus[1])], 0.0)
    done = network.play(Schedule.from_transfers([Transfer(0, 0, 1, 1e6, reduce=True)]), [0, 1])
    with pytest.raises(SimulationError, match="waits for the adding of the message from rank 0 to rank 1"):
        network.env.run(done)


def test_an_eager_receive_that_never_comes_is_told_and_its_sender_is_not_to_blame():
    schedule = Schedule.from_transfers([Transfer(0, 0, 1, 1.0), Transfer(0, 2, 1, 1.0)])
    network = make_network(star(3), eager_bytes=8.0)
    collective = network.begin(schedule, range(3))
    collective.enter(0, 1)
    network.env.run(1.0)
    assert network.stuck() == [Stuck(1, 0, "waits for rank 2, which has not entered")]


def test_a_transfer_that_stands_still_is_told():
    network = make_network(star(2))
    network.set_rate(0, 0.0)
    network.transfer(0, 1, 5e6)
    with pytest.raises(SimulationError, match="a transfer of 5e\\+06 bytes stands still on the link 0"):
        network.env.run()


def test_waiting_for_a_rank_that_has_not_entered_is_reported():
    network = make_network(star(2))
    collective = network.begin(ALL_REDUCE["ring"](2, 1e6), range(2))
    with pytest.raises(SimulationError, match="rank 1 has not entered its collective, for which a process waits"):
        network.env.run(collective.done(1))
    for rank in (0, 1):
        with pytest.raises(SimulationError, match=f"rank {rank} has not entered"):
            network.env.run(collective.finished)


def test_of_many_who_wait_a_few_are_told_and_the_rest_counted():
    network = make_network(star(1000))
    collective = network.begin(ALL_REDUCE["ring"](1000, 1e6), range(1000))
    collective.enter(*range(0, 1000, 2))
    with pytest.raises(SimulationError, match="and 992 more") as error:
        network.env.run(collective.finished)
    assert len(str(error.value).splitlines()) == 10


def test_nobody_is_stuck_while_something_can_still_happen_or_all_is_done():
    network = make_network(star(2))
    collective = network.begin(ALL_REDUCE["ring"](2, 1e6), range(2))
    network.env.run()  # no rank is in it, and nothing waits for it
    collective.enter(0)

    def late():
        yield network.env.timeout(2.0)
        collective.enter(1)

    other = network.transfer(0, 1, 1e9)
    network.env.run(0.5)
    assert network.stuck() == []
    network.env.process(late())
    network.env.run(other)
    network.env.run(collective.finished)
    assert network.stuck() == []


def test_an_error_in_a_process_is_not_hidden_by_those_who_then_wait():
    network = make_network(star(2))
    collective = network.begin(ALL_REDUCE["ring"](2, 1e6), range(2))

    def broken():
        collective.enter(0)
        yield network.env.timeout(1.0)
        raise RuntimeError("no reason")

    network.env.process(broken())
    with pytest.raises(RuntimeError, match="no reason"):
        network.env.run(collective.finished)


def test_without_networks_that_wait_the_clock_is_simpys():
    env = Environment()
    env.timeout(3.0)
    env.run()
    assert env.now == 3.0
    with pytest.raises(RuntimeError, match="No scheduled events left"):
        env.run(env.event())


def test_a_plain_simpy_environment_goes_on_working():
    network = make_network(star(2), simpy.Environment())
    collective = network.begin(ALL_REDUCE["ring"](2, 1e6), range(2))
    collective.enter(0)
    with pytest.raises(RuntimeError, match="No scheduled events left"):
        network.env.run(collective.finished)
    assert network.stuck() == [Stuck(0, 0, "waits for rank 1, which has not entered")]


def test_what_others_do_at_one_time_comes_before_the_network():
    network = make_network(star(2, latency_s=0.0))
    order = []
    sent = network.transfer(0, 1, 1e9)
    sent.callbacks.append(lambda event: order.append("network"))

    def other():
        yield network.env.timeout(1.0)
        order.append("first")
        yield network.env.timeout(0.0)
        order.append("second")

    network.env.process(other())
    network.env.run()
    assert order == ["first", "second", "network"]
