"""The GPUs of a job."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import TypeAdapter, ValidationError

from clustersim.errors import InputError
from clustersim.topology import PLACEMENTS, Placement, load_topology, place

TORUS = load_topology({"kind": "torus", "dims": [6, 4, 5], "hosts_per_router": 2, "link": "1 Gbit/s"})
HOSTS = load_topology({"kind": "star", "num_hosts": 4, "link": "1 Gbit/s", "host": {"gpu": "k80", "num_gpus": 3}})
READ = TypeAdapter(Placement).validate_python


@settings(max_examples=80, deadline=None)
@given(
    kind=st.sampled_from([kind for kind in PLACEMENTS if kind != "explicit"]),
    num_ranks=st.integers(1, 40),
    seed=st.integers(0, 5),
)
def test_every_rank_has_a_separate_gpu(kind, num_ranks, seed):
    spec = READ({"kind": kind, "free": 0.5} if kind == "fragmented" else kind)
    gpus = place(spec, TORUS, num_ranks, seed)
    assert len(gpus) == num_ranks == len(set(gpus.tolist()))
    assert gpus.min() >= 0
    assert gpus.max() < TORUS.num_gpus


def test_block_fills_a_host_first_and_spread_alternates():
    assert place(READ("block"), HOSTS, 5, 0).tolist() == [0, 1, 2, 3, 4]
    assert place(READ("spread"), HOSTS, 6, 0).tolist() == [0, 3, 6, 9, 1, 4]
    assert place(READ("round-robin"), HOSTS, 6, 0).tolist() == place(READ("spread"), HOSTS, 6, 0).tolist()


def test_spread_alternates_over_hosts_of_different_sizes():
    groups = [{"count": 1, "host": {"gpu": "k80", "num_gpus": 3}}, {"count": 2, "host": {"gpu": "k80"}}]
    topology = load_topology({"kind": "star", "link": "1 Gbit/s", "hosts": groups})
    assert place(READ("spread"), topology, 5, 0).tolist() == [0, 3, 4, 1, 2]


def test_a_list_gives_each_rank_its_gpu():
    assert place(READ([7, 2, 5]), HOSTS, 3, 0).tolist() == [7, 2, 5]
    assert place(READ({"kind": "explicit", "numbers": [7, 2, 5]}), HOSTS, 2, 0).tolist() == [7, 2]


@pytest.mark.parametrize(
    ("num_ranks", "sides"), [(16, (2, 2, 2)), (54, (3, 3, 3)), (6, (1, 1, 3)), (1, (1, 1, 1)), (240, (6, 4, 5))]
)
def test_compact_is_the_most_cubic_block_of_routers(num_ranks, sides):
    routers = np.unravel_index(place(READ("compact"), TORUS, num_ranks, 0) // 2, TORUS.torus_dims)
    assert tuple(int(axis.max()) + 1 for axis in routers) == sides


def test_random_and_fragmented_follow_the_seed():
    for kind in ("random", "fragmented"):
        spec = READ({"kind": kind, "free": 0.3} if kind == "fragmented" else kind)
        assert place(spec, TORUS, 20, 1).tolist() == place(spec, TORUS, 20, 1).tolist()
        assert place(spec, TORUS, 20, 1).tolist() != place(spec, TORUS, 20, 2).tolist()


@pytest.mark.parametrize("seed", range(5))
def test_fragmented_visits_the_machine_once_in_its_linear_order(seed):
    gpus = place(READ({"kind": "fragmented", "free": 0.5}), TORUS, 60, seed)
    steps = np.diff(gpus) % TORUS.num_gpus
    assert steps.sum() < TORUS.num_gpus
    assert steps.mean() == pytest.approx(2, rel=0.5)


def test_a_larger_fragmented_job_begins_with_the_gpus_of_a_smaller_one():
    spec = READ({"kind": "fragmented", "free": 0.5})
    assert place(spec, TORUS, 60, 3)[:20].tolist() == place(spec, TORUS, 20, 3).tolist()


def test_with_all_hosts_free_all_are_used():
    gpus = place(READ({"kind": "fragmented", "free": 1}), TORUS, TORUS.num_gpus, 0)
    assert sorted(gpus.tolist()) == list(range(TORUS.num_gpus))


@pytest.mark.parametrize(
    ("written", "num_ranks", "message"),
    [
        ("block", 13, "13 GPUs are asked for, but the cluster 'star' has 12"),
        ("compact", 2, "needs a torus"),
        ([0, 99], 2, "there is no GPU 99"),
        ([0, 0], 2, "more than one rank"),
        ([0], 2, "lists 1 GPUs for 2 ranks"),
        ({"kind": "fragmented", "free": 0.01}, 12, "raise `free`"),
    ],
)
def test_an_impossible_placement_is_refused(written, num_ranks, message):
    with pytest.raises(InputError, match=message):
        place(READ(written), HOSTS, num_ranks, 0)


def test_compact_needs_equally_many_gpus_on_every_router():
    topology = load_topology({"kind": "torus", "dims": [3], "hosts_per_router": 2, "num_hosts": 5, "link": "1 Gbit/s"})
    with pytest.raises(InputError, match="on every router"):
        place(READ("compact"), topology, 2, 0)


@pytest.mark.parametrize(
    ("written", "message"),
    [
        ("blok", "did you mean 'block'"),
        ({"kind": "fragmented", "free": 2}, "less than or equal to 1"),
        ([-1], "greater than or equal to 0"),
        (3, "dictionary"),
        ({"kind": ["block"]}, "no placement is called"),
    ],
)  # fmt: skip
def test_an_invalid_placement_is_refused(written, message):
    with pytest.raises(ValidationError, match=message):
        READ(written)


def test_a_machine_has_its_own_order_of_hosts():
    """On Titan a cabinet is a pair along y and all of z; the next cabinet is the next x."""
    titan = load_topology("titan")
    routers = titan.host_order[::2] // 2
    x, y, z = np.unravel_index(routers, titan.torus_dims)
    assert sorted(titan.host_order.tolist()) == list(range(titan.num_hosts))
    assert (y[:48] // 2 == 0).all()
    assert (x[:48] == 0).all()
    assert set(z[:48].tolist()) == set(range(24))
    assert (x[48:96] == 1).all()
    assert (y[: 25 * 48] < 2).all()


@pytest.mark.parametrize("order", ["x y", "z x x", "y3 z x y", "q", "y2 z x"])
def test_an_order_that_misses_routers_is_refused(order):
    with pytest.raises(ValueError, match="does not visit every router"):
        load_topology({"kind": "torus", "dims": [2, 4, 2], "link": "1 GB/s", "hop": "0 s", "host_order": order})
