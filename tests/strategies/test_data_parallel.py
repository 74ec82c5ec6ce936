"""PyTorch's DataParallel: reduction, broadcast, scatter and gather, on the GPUs of one host."""

import numpy as np
import pytest

import clustersim
from clustersim.collectives.chain import default_num_chunks
from clustersim.errors import InputError
from clustersim.program import assign_buckets
from clustersim.strategies import STRATEGIES, DataParallel
from clustersim.strategies.data_parallel import BUFFER
from tests.strategies.jobs import MB, RATE, play

HOST = {"template": "single-socket", "gpu": "k80", "num_gpus": 4, "pcie": "1 GB/s"}
LAYERS = [(0.01, 0.02, 64 * MB)]


def piece_bytes(num_ranks: int) -> float:
    """Return the size of the pieces into which a chain splits the buffer."""
    return 64 * MB / default_num_chunks(64 * MB, num_ranks - 1)


def exchanged_s(num_ranks: int, **options: object) -> float:
    """Return the exchange time of one iteration of GPUs on one switch, each with a link of 1 GB/s."""
    job = play(DataParallel(buckets="whole", **options), num_ranks, layers=LAYERS, hop="0 s")
    times = job.times
    return float((times.exchanged_s - times.computed_s)[0, -1])


@pytest.mark.parametrize("num_ranks", [2, 4])
def test_gradients_go_down_a_chain_and_weights_up_it(num_ranks):
    """Each way the whole buffer crosses each link, and one piece fills each further hop: 2 (b + (n - 2) piece)."""
    num_bytes = 2 * (64 * MB + (num_ranks - 2) * piece_bytes(num_ranks))
    assert exchanged_s(num_ranks) == pytest.approx(num_bytes / RATE, rel=1e-6)


def test_it_takes_twice_a_ring_of_two():
    ring = play(STRATEGIES["all-reduce"](algorithm="ring", overlap=False, buckets="whole"), 2, layers=LAYERS)
    ring_s = float((ring.times.exchanged_s - ring.times.computed_s)[0, -1])
    assert exchanged_s(2) == pytest.approx(2 * ring_s, rel=1e-3)


@pytest.mark.parametrize("num_ranks", [2, 4])
def test_inputs_and_outputs_go_from_gpu_to_gpu_one_after_another(num_ranks):
    """The first piece of the chain may be sent to the next GPU while the last output is still in transit."""
    extra_s = exchanged_s(num_ranks, scattered="8 MB", gathered="24 MB") - exchanged_s(num_ranks)
    piece_s = piece_bytes(num_ranks) / RATE if num_ranks > 2 else 0.0
    assert extra_s == pytest.approx((num_ranks - 1) * 32 * MB / RATE, abs=piece_s * 1.001 + 1e-6)


@pytest.mark.parametrize("num_ranks", [2, 3])
def test_arrays_and_processes_agree(num_ranks):
    member = DataParallel(buckets="2 MB", scattered="1 MB", gathered="3 MB")
    layers = [(0.01, 0.02, 3 * MB), (0.02, 0.01, 0.4 * MB), (0.01, 0.03, 5 * MB)]
    slowdown = np.random.default_rng(0).lognormal(0, 0.2, (num_ranks, 5))
    vectorized, simulated = (play(member, num_ranks, slowdown, layers, 3, exact=exact).times for exact in (False, True))
    np.testing.assert_allclose(vectorized.end_s, simulated.end_s, rtol=1e-9)


def test_one_gpu_sends_nothing():
    assert exchanged_s(1, scattered="8 MB", gathered="24 MB") == 0


def test_a_buffer_closes_before_a_gradient_that_does_not_fit_and_a_single_one_may_be_larger():
    member = DataParallel()
    assert member.bucket_caps(4.0, 8, None) == BUFFER
    sizes = [size * 2**20 for size in (4, 5, 2, 30, 1)]
    assert assign_buckets(sizes, BUFFER) == [[0, 1], [2], [3], [4]]


def test_nothing_overlaps_backward():
    assert not DataParallel().overlaps_backward
    with pytest.raises(ValueError, match="overlap"):
        DataParallel(overlap=True)


SCENARIO = {
    "model": "resnet50",
    "num_gpus": 4,
    "batch": {"per_gpu": 8},
    "topology": {"kind": "star", "num_hosts": 2, "link": "1 GB/s", "host": HOST | {"nics": 1}},
    "software": "plain",
    "transport": "nccl",
    "strategy": {"kind": "data-parallel"},
    "memory_check": False,
}


def test_a_process_has_the_gpus_of_one_host():
    assert {row[2] for row in clustersim.simulate(SCENARIO).buckets} == {"reduce and broadcast"}
    with pytest.raises(InputError, match="DataParallel is one process, and the 8 GPUs are on 2 hosts"):
        clustersim.simulate(SCENARIO | {"num_gpus": 8})


def test_sharding_and_gradients_that_cannot_be_added_are_refused():
    with pytest.raises(InputError, match="data-parallel needs whole replicas, and sharding zero-1 divides them"):
        clustersim.simulate(SCENARIO | {"parallelism": {"sharding": "zero-1"}})
    with pytest.raises(InputError, match="data-parallel adds gradients, but"):
        clustersim.simulate(SCENARIO | {"compression": {"kind": "top-k", "density": 0.01}})


def test_a_model_over_several_gpus_is_refused():
    with pytest.raises(InputError, match="data-parallel is one process with the whole model on each GPU"):
        clustersim.simulate(SCENARIO | {"parallelism": {"pipeline": 2, "micro_batches": 2}})


def test_gradients_in_a_buffer_are_copied_twice_and_single_ones_are_not():
    plain = clustersim.simulate(SCENARIO | {"strategy": {"kind": "data-parallel", "buckets": "layer"}})
    together = clustersim.simulate(SCENARIO)
    assert plain.breakdown_s["communication_exposed"] != together.breakdown_s["communication_exposed"]
