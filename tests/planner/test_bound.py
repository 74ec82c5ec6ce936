"""Bounds of layouts are at most the simulated times; their peak memory equals that of simulated layouts."""

from __future__ import annotations

from dataclasses import replace
from functools import lru_cache
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from clustersim.errors import InputError
from clustersim.planner.bound import mean_compute_s, min_compute_s, min_iteration_s
from clustersim.planner.layout_costs import LayoutCosts, point_of
from clustersim.planner.pass_order import stage_passes
from clustersim.planner.peak_memory import PeakMemory
from clustersim.planner.played import played_s
from clustersim.planner.space import Choice, Divisible, Space
from clustersim.scenario import Point, load_scenario
from clustersim.simulate import Workloads, forecast
from clustersim.simulate.setup import Setup
from tests.models import write_experts

HOSTS = {"kind": "star", "link": "100 Gbit/s", "hop": "600 ns"}
CLUSTERS: dict[str, dict[str, Any]] = {
    "one GPU a host": {**HOSTS, "num_hosts": 8, "gpu": "v100-32gb"},
    "four GPUs and one adapter a host": {
        **HOSTS,
        "num_hosts": 2,
        "host": {"template": "dual-socket", "gpu": "v100-32gb", "num_gpus": 4},
    },
    "NVLink in a host": {**HOSTS, "num_hosts": 2, "host": {"template": "dgx-1", "gpu": "v100-32gb"}},
}
NUM_GPUS, BATCH = 4, 8


@lru_cache(maxsize=32)
def costs(
    cluster: str,
    transport: str = "nccl",
    overlap: bool = True,
    model: str = "vgg11",
    algorithm: str = "auto",
    copies: str = "auto",
    launch: str = "queued",
) -> LayoutCosts:
    scenario = {
        "model": model,
        "num_gpus": NUM_GPUS,
        "batch": {"global": BATCH},
        "topology": CLUSTERS[cluster],
        "software": {"name": "plain", "launch": launch, "bucket_copies": copies},
        "transport": transport,
        "strategy": {"kind": "all-reduce", "overlap": overlap, "algorithm": algorithm},
        "memory_check": False,
        "num_iterations": 2,
    }
    return LayoutCosts(load_scenario(scenario).points()[0].point, Workloads())


@lru_cache(maxsize=1)
def choices() -> list[Choice]:
    families = Space({NUM_GPUS: [BATCH]}, NUM_GPUS, {}).families({})
    return [choice for family in families for choice in family if not choice.layout.sequence_parallel]


def simulated_s(point: Point, choice: Choice) -> float:
    return forecast(point_of(point, choice)).run.iteration_s


def checked_bound_s(of: LayoutCosts, choice: Choice) -> float | None:
    """Return the bound of a choice after a check against its simulated time; None if both refuse the choice."""
    try:
        least_s = min_iteration_s(of, choice)
    except InputError:
        with pytest.raises(InputError):
            simulated_s(of.point, choice)
        return None
    played, _ = played_s(of, choice, Workloads())
    assert 0 < max(least_s, played) <= simulated_s(of.point, choice) * (1 + 1e-9)
    return least_s


def check_bounded_and_held(of: LayoutCosts, choice: Choice) -> None:
    """Check bound and memory of a choice against its simulation, or that both refuse it."""
    if checked_bound_s(of, choice) is None:
        return
    setup = Setup(point_of(of.point, choice))
    assert PeakMemory(of).peak_bytes(choice) == pytest.approx(sum(setup.memory_bytes(of.kind).values()), rel=1e-9)


@settings(max_examples=25, deadline=None)
@given(
    cluster=st.sampled_from(list(CLUSTERS)),
    transport=st.sampled_from(["nccl", "nccl-one-socket", "ideal", "mpi"]),
    overlap=st.booleans(),
    algorithm=st.sampled_from(["auto", "ring", "hierarchical"]),
    number=st.integers(0, 10_000),
)
def test_no_layout_is_simulated_in_less_than_its_bound(
    cluster: str, transport: str, overlap: bool, algorithm: str, number: int
) -> None:
    of = costs(cluster, transport, overlap, algorithm=algorithm)
    choice = choices()[number % len(choices())]
    if choice.layout.sharding and of.point.strategy.sharding_mistakes(choice.layout.sharding):
        return
    least_s = checked_bound_s(of, choice)
    if least_s is not None:
        assert 0 < min_compute_s(of, choice) <= least_s * (1 + 1e-9)


@pytest.mark.parametrize("overlap", [False, True])
@pytest.mark.parametrize("copies", ["pytorch", "pytorch-view", "horovod"])
@pytest.mark.parametrize("sharding", [None, "zero-1", "zero-2", "zero-3"])
def test_gradient_copies_are_bounded(sharding: str | None, copies: str, overlap: bool) -> None:
    """Sharded gradients are not copied."""
    of = costs("NVLink in a host", overlap=overlap, copies=copies)
    choice = next(
        each
        for each in choices()
        if each.grid.data == 4 and each.layout.micro_batches == 1 and each.layout.sharding == sharding
    )
    assert any(of.copies(choice)) == (sharding is None)
    least_s = min_iteration_s(of, choice)
    assert 0 < least_s <= simulated_s(of.point, choice) * (1 + 1e-9)
    if sharding:
        assert least_s == min_iteration_s(costs("NVLink in a host", overlap=overlap, copies="none"), choice)


@lru_cache(maxsize=1)
def hybrid_choices() -> list[Choice]:
    """Return choices of eight GPUs whose replicas shard in groups."""
    families = Space({8: [8]}, 8, {}, also=["sharding_over"]).families({})
    every = [choice for family in families for choice in family]
    return [each for each in every if each.layout.sharding_over and not each.layout.sequence_parallel]


@settings(max_examples=25, deadline=None)
@given(
    cluster=st.sampled_from(["one GPU a host", "four GPUs and one adapter a host", "NVLink in a host"]),
    transport=st.sampled_from(["nccl", "ideal"]),
    overlap=st.booleans(),
    number=st.integers(0, 10_000),
)
def test_sharding_groups_are_bounded_and_held_as_simulated(
    cluster: str, transport: str, overlap: bool, number: int
) -> None:
    of = costs(cluster, transport, overlap)
    of = LayoutCosts(of.point.model_copy(update={"num_gpus": 8}), Workloads())
    choice = hybrid_choices()[number % len(hybrid_choices())]
    check_bounded_and_held(of, choice)


@lru_cache(maxsize=1)
def offloading_choices() -> list[Choice]:
    families = Space({NUM_GPUS: [BATCH]}, NUM_GPUS, {}, also=["offload"]).families({})
    every = [choice for family in families for choice in family]
    return [each for each in every if each.layout.offload != "none" and not each.layout.sequence_parallel]


@settings(max_examples=25, deadline=None)
@given(
    cluster=st.sampled_from(["four GPUs and one adapter a host", "NVLink in a host"]),
    overlap=st.booleans(),
    number=st.integers(0, 10_000),
)
def test_offloading_is_bounded_and_held_as_simulated(cluster: str, overlap: bool, number: int) -> None:
    of = costs(cluster, overlap=overlap)
    choice = offloading_choices()[number % len(offloading_choices())]
    check_bounded_and_held(of, choice)


@pytest.fixture(scope="module")
def experts(tmp_path_factory: pytest.TempPathFactory) -> str:
    """Return the file of a model of one block, whose attention is fused and which has four experts."""
    return write_experts(tmp_path_factory.mktemp("experts"))


@lru_cache(maxsize=1)
def divided_choices() -> list[Choice]:
    """Return choices that divide experts or tokens, or have products in turns."""
    divisible = Divisible(experts=4, tokens=64, in_rings=True)
    in_turns = {"sequence_parallel": True, "tensor_overlap": True}
    plain, turned = (
        [choice for family in Space({NUM_GPUS: [BATCH]}, NUM_GPUS, fixed, divisible).families({}) for choice in family]
        for fixed in ({}, in_turns)
    )
    divided = [choice for choice in plain if choice.grid.expert * choice.grid.context > 1]
    return divided + [choice for choice in turned if choice.grid.tensor > 1]


@settings(max_examples=12, deadline=None)
@given(
    cluster=st.sampled_from(["one GPU a host", "four GPUs and one adapter a host", "NVLink in a host"]),
    algorithm=st.sampled_from(["auto", "ring"]),
    number=st.integers(0, 10_000),
)
def test_divided_experts_and_tokens_are_bounded_and_held_as_simulated(
    experts: str, cluster: str, algorithm: str, number: int
) -> None:
    of = costs(cluster, model=experts, algorithm=algorithm)
    choice = divided_choices()[number % len(divided_choices())]
    check_bounded_and_held(of, choice)


@pytest.mark.parametrize("sharding", ["zero-1", "zero-2", "zero-3"])
def test_sharding_is_bounded_by_the_algorithm_of_the_scenario(
    sharding: str,
) -> None:
    """An unknown name is refused by every collective."""
    shared = next(choice for choice in choices() if choice.layout.sharding == sharding and choice.grid.data == 4)
    of = costs("one GPU a host")
    assert min_iteration_s(of, shared) > 0
    with pytest.raises(InputError, match="of-no-name"):
        min_iteration_s(of, replace(shared, exchange=(("algorithm", "of-no-name"),)))


@settings(max_examples=30, deadline=None)
@given(number=st.integers(0, 10_000))
def test_what_a_choice_holds_is_what_its_layout_holds(number: int) -> None:
    of = costs("NVLink in a host")
    choice = choices()[number % len(choices())]
    try:
        held = PeakMemory(of).peak_bytes(choice)
    except InputError:
        return
    setup = Setup(point_of(of.point, choice))
    assert held == pytest.approx(sum(setup.memory_bytes(of.kind).values()), rel=1e-9)


def test_casts_once_an_update_are_bounded_whatever_the_number_of_micro_batches() -> None:
    """Weights that were cast for each micro-batch would take longer than what is simulated."""
    host = {"template": "dgx-1", "gpu": "h100", "num_gpus": 4, "nvlink": "100 GB/s"}
    scenario = {
        "model": "gpt-4x1024x16-seq1024-vocab5120", "num_gpus": NUM_GPUS, "batch": {"global": BATCH},
        "precision": "amp-fp8", "software": {"name": "plain", "casts": "te-cached"},
        "compute": {"variability": 0.1}, "transport": "nccl",
        "topology": {**HOSTS, "num_hosts": 1, "host": host}, "strategy": {"kind": "all-reduce"},
        "memory_check": False, "num_iterations": 2,
    }  # fmt: skip
    of = LayoutCosts(load_scenario(scenario).points()[0].point, Workloads())
    split = [each for each in choices() if each.layout.tensor == 2 and each.grid.pipeline == 1]
    assert {each.layout.micro_batches for each in split} > {1, 4}
    for choice in split:
        check_bounded_and_held(of, choice)


def test_alone_the_bound_is_what_the_gpu_computes() -> None:
    of = costs("one GPU a host", "ideal")
    alone = Choice(1, BATCH, next(choice for choice in choices()).layout.model_copy(update={"data": 1}))
    of = LayoutCosts(of.point.model_copy(update={"num_gpus": 1}), Workloads())
    work = of.setup.workload(of.kind, BATCH)
    assert min_iteration_s(of, alone) == pytest.approx(work.compute_s, rel=1e-12)


def test_the_bound_of_replicas_is_exact_for_one_exchange_at_the_end() -> None:
    of = costs("one GPU a host", "ideal", overlap=False, launch="graphs")
    copies = next(choice for choice in choices() if choice.layout.data == NUM_GPUS)
    assert copies.layout.micro_batches == 1
    assert min_iteration_s(of, copies) == pytest.approx(simulated_s(of.point, copies), rel=1e-9)


@pytest.mark.parametrize(("schedule", "chunks"), [("1f1b", 1), ("gpipe", 1), ("interleaved", 2), ("zero-bubble", 1)])
def test_the_shape_of_a_schedule_counts_every_pass(schedule: str, chunks: int) -> None:
    for shape in stage_passes(schedule, 4, 8, chunks):
        assert np.array_equal(shape.every[:2], np.full((2, chunks), 8))
        assert shape.every[2].sum() == (8 if schedule == "zero-bubble" else 0)

        assert all((before <= shape.every).all() for before in shape.before)


def test_a_pipeline_of_equal_stages_is_bounded_by_its_bubble() -> None:
    """(m + p - 1) passes of the slowest stage at most, and of the mean stage at least."""
    of = costs("one GPU a host", "ideal")
    piped = next(
        choice
        for choice in choices()
        if choice.layout.pipeline == 2 and choice.layout.data == 2 and choice.layout.micro_batches == 4
    )
    timed, begins = of.timed(piped), of.begins(piped)
    passes = [timed.forward_s + timed.backward_data_s + timed.backward_weights_s]
    stages = np.add.reduceat(passes[0], np.array(begins))
    least_s = min_iteration_s(of, piped)
    assert least_s >= 4 * stages.max() + stages.min()


def test_a_bound_of_stages_alone_is_what_is_simulated() -> None:
    """Where no two messages share a link, every pass begins when the one before it and its message are over.

    So it is with 1F1B: interleaved stages send for several chunks at once, and those of zero-bubble are not all done
    when the first one begins again.
    """
    of = costs("one GPU a host", "ideal", launch="graphs")
    piped = next(
        choice
        for choice in choices()
        if (choice.grid.pipeline, choice.layout.micro_batches) == (NUM_GPUS, BATCH) and choice.layout.schedule == "1f1b"
    )
    assert min_iteration_s(of, piped) == pytest.approx(simulated_s(of.point, piped), rel=1e-9)


@lru_cache(maxsize=1)
def choices_on_request() -> list[Choice]:
    """Return choices of eight GPUs that are compared on request only."""
    divisible = Divisible(experts=4, tokens=64, in_rings=False)
    also = ["dualpipe", "expert_exchange", "recompute"]
    every = [choice for family in Space({8: [16]}, 8, {}, divisible, also=also).families({}) for choice in family]
    return [each for each in every if not each.has_closed_form and not each.layout.sequence_parallel]


@settings(max_examples=15, deadline=None)
@given(
    cluster=st.sampled_from(["one GPU a host", "four GPUs and one adapter a host", "NVLink in a host"]),
    transport=st.sampled_from(["nccl", "ideal"]),
    overlap=st.booleans(),
    number=st.integers(0, 100_000),
)
def test_programs_without_a_closed_form_are_bounded(
    experts: str, cluster: str, transport: str, overlap: bool, number: int
) -> None:
    of = costs(cluster, transport, overlap, model=experts)
    batch = of.point.batch.model_copy(update={"global_": 16})
    of = LayoutCosts(of.point.model_copy(update={"num_gpus": 8, "batch": batch}), Workloads())
    choice = choices_on_request()[number % len(choices_on_request())]
    try:
        least_s, expected_s = played_s(of, choice, Workloads())
    except InputError:
        return
    assert 0 < mean_compute_s(of, choice)
    assert max(least_s, mean_compute_s(of, choice)) <= simulated_s(of.point, choice) * (1 + 1e-9)
    assert expected_s >= least_s


def test_what_is_played_is_what_is_simulated_where_no_group_delays_another() -> None:
    """Also if collectives occupy multiprocessors, and so slow down compute."""
    for number in (0, 1):
        of = costs("NVLink in a host", overlap=True, launch="graphs")
        shared = [each for each in choices() if each.layout.sharding in ("zero-2", "zero-3") and each.grid.data == 4]
        choice = [each for each in shared if each.layout.recompute == "none"][number]
        least_s, _ = played_s(of, choice, Workloads())
        assert least_s == pytest.approx(simulated_s(of.point, choice), rel=2e-2)
        assert least_s > min_iteration_s(of, choice)
