"""Graphs of ranks simulated on a cluster: closed forms, and exported programs against their exact run.

Collectives hold no multiprocessors here, and no host issues kernels: a node of a graph computes for the time that it
says.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from clustersim.communicator.algorithm import schedule_collective
from clustersim.errors import InputError
from clustersim.hardware import load_transport
from clustersim.program.graph import COLLECTIVE, COMPUTE, NOTHING, RECEIVE, SEND, TaskNode
from clustersim.scenario import load_scenario
from clustersim.simulate.collective import simulate_schedule
from clustersim.simulate.programs import one_point, programs_of
from clustersim.simulate.replicate import simulate_job
from clustersim.simulate.setup import Setup
from clustersim.simulate.traces import simulate_traces
from clustersim.topology import load_topology
from tests.simulate.nccl_sheet import sheet

LATENCY_S, RATE = 3e-6, 2e9  # of a route through the switch, and of each link
STAR = {"kind": "star", "num_hosts": 8, "link": "2 GB/s", "hop": "1.5 us"}
DGX = {"kind": "star", "num_hosts": 4, "host": "dgx-a100", "link": "infiniband-hdr", "hop": "1 us"}


def scenario(layout: dict[str, Any], **other: Any) -> dict[str, Any]:
    return {
        "model": "gpt2-small",
        "num_gpus": 8,
        "batch": {"per_gpu": 4},
        "topology": DGX,
        "software": {"name": "plain", "launch": "graphs"},
        "transport": "nccl",
        "strategy": {"kind": "all-reduce"},
        "parallelism": layout,
        **other,
    }


@pytest.fixture(scope="module")
def nccl(tmp_path_factory: pytest.TempPathFactory) -> str:
    return sheet(tmp_path_factory.mktemp("sheet"), 0)


def graphs_of(setup: Setup) -> list[list[TaskNode]]:
    programs = programs_of(setup)
    stages = programs.tasks()
    ranks = range(programs.grid.num_ranks)
    return [[programs.node(task, rank) for task in stages[programs.grid.stage(rank)]] for rank in ranks]


@pytest.mark.parametrize(
    "layout",
    [
        {},
        {"pipeline": 4, "micro_batches": 4, "schedule": "gpipe"},
        {"tensor": 2, "pipeline": 2, "micro_batches": 2, "schedule": "zero-bubble"},
        {"pipeline": 2, "micro_batches": 4, "schedule": "interleaved", "recompute": "full"},
        {"sharding": "zero-3"},
        {"sharding": "zero-1", "micro_batches": 2},
        {"tensor": 2, "sequence_parallel": True, "sharding": "zero-2"},
        {"context": 2, "pipeline": 2, "micro_batches": 2},
    ],
)
def test_a_program_simulated_as_a_graph_takes_as_long_as_the_exact_run_of_one_iteration(
    layout: dict[str, Any], nccl: str
) -> None:
    setup = Setup(load_scenario(scenario(layout, transport=nccl)).points()[0].point)
    run = simulate_job(setup, 0, 1, True, 0.0, lambda share: None)
    run_s = max(float(job.times.end_s[:, 0].max()) for job in run.jobs)
    simulated = simulate_traces(graphs_of(setup), setup.topology, "nccl", exact=True)
    assert simulated["end_s"] == pytest.approx(run_s, rel=1e-9)


@pytest.mark.parametrize(
    ("model", "layout"),
    [
        ("mixtral-8x7b", {"expert": 4, "tensor": 2, "sharding": "zero-1"}),
        ("alexnet", {"kind": "one-weird-trick"}),
        ("vgg11", {"kind": "local-fields", "tiles": [2, 2]}),
        ("local-autoencoder-185m", {"kind": "local-fields", "data": 2}),
    ],
)
def test_so_do_experts_and_other_kinds_of_layouts(model: str, layout: dict[str, Any], nccl: str) -> None:
    other = {"model": model, "transport": nccl, "memory_check": False, "batch": {"per_gpu": 8}}
    setup = Setup(load_scenario(scenario(layout, **other)).points()[0].point)
    run = simulate_job(setup, 0, 1, True, 0.0, lambda share: None)
    run_s = max(float(job.times.end_s[:, 0].max()) for job in run.jobs)
    assert simulate_traces(graphs_of(setup), setup.topology, "nccl")["end_s"] == pytest.approx(run_s, rel=1e-9)


@pytest.mark.parametrize("strategy", [{"overlap": False}, {"buckets": "layer"}, {"buckets": "whole"}])
def test_so_does_plain_training_with_fewer_bits_on_the_wire(strategy: dict[str, Any], nccl: str) -> None:
    training = scenario({}, strategy={"kind": "all-reduce", "algorithm": "ring", **strategy}, compression="fp16")
    setup = Setup(load_scenario(training | {"model": "googlenet", "transport": nccl}).points()[0].point)
    run = simulate_job(setup, 0, 1, True, 0.0, lambda share: None)
    simulated = simulate_traces(graphs_of(setup), setup.topology, "nccl")
    assert simulated["end_s"] == pytest.approx(float(run.jobs[0].times.end_s[:, 0].max()), rel=1e-9)


def test_a_message_takes_its_latency_and_its_bytes_and_leaves_its_sender_computing() -> None:
    sender = [TaskNode(1, SEND, "out", num_bytes=4e6, peer=1, tag=7), TaskNode(2, COMPUTE, "on", seconds=1e-3)]
    receiver = [
        TaskNode(1, RECEIVE, "in", num_bytes=4e6, peer=0, tag=7),
        TaskNode(2, COMPUTE, "then", (1,), seconds=5e-4),
    ]
    simulated = simulate_traces([sender, receiver], STAR)
    arrived_s = LATENCY_S + 4e6 / RATE
    assert simulated["ranks"][1]["end_s"] == pytest.approx(arrived_s + 5e-4, rel=1e-9)
    assert simulated["ranks"][1]["exposed_s"] == pytest.approx(arrived_s, rel=1e-9)
    assert simulated["ranks"][0] == pytest.approx(
        {"rank": 0, "end_s": arrived_s, "compute_s": 1e-3, "exposed_s": arrived_s - 1e-3, "waiting_s": 0.0}, rel=1e-9
    )


def test_a_collective_takes_its_closed_form_from_when_the_last_rank_enters() -> None:
    group = (0, 1, 2, 3)
    graphs = [
        [
            TaskNode(1, COMPUTE, "work", seconds=1e-3 * (rank + 1)),
            TaskNode(2, COLLECTIVE, "sum", (1,), num_bytes=8e6, op="all-reduce", group=group, algorithm="ring"),
        ]
        for rank in group
    ]
    simulated = simulate_traces(graphs, STAR)
    assert simulated["end_s"] == pytest.approx(4e-3 + 6 * (LATENCY_S + 2e6 / RATE), rel=1e-9)
    assert simulated["ranks"][0]["waiting_s"] == pytest.approx(3e-3, rel=1e-9)


def test_a_gpu_computes_one_node_at_a_time_in_the_order_of_its_trace_and_its_host_beside_it() -> None:
    graph = [
        TaskNode(5, COMPUTE, "first", seconds=1.0),
        TaskNode(3, COMPUTE, "second", seconds=2.0),
        TaskNode(4, COMPUTE, "beside", seconds=2.5, on_host=True),
        TaskNode(6, NOTHING, "joined", (3, 4, 5)),
    ]
    row = simulate_traces([graph], STAR)["ranks"][0]
    assert row == {"rank": 0, "end_s": 3.0, "compute_s": 3.0, "exposed_s": 0.0, "waiting_s": 0.0}


def test_collectives_of_a_group_follow_one_another_and_messages_of_a_tag_come_in_order() -> None:
    one = [TaskNode(number, COLLECTIVE, "sum", num_bytes=2e6, op="all-reduce", group=(0, 1)) for number in (1, 2)]
    once = simulate_traces([one[:1], one[:1]], STAR)["end_s"]
    assert simulate_traces([one, one], STAR)["end_s"] == pytest.approx(2 * once, rel=1e-9)
    sends = [TaskNode(1, SEND, "a", num_bytes=1e6, peer=1), TaskNode(2, SEND, "b", (1,), num_bytes=1e6, peer=1)]
    takes = [TaskNode(1, RECEIVE, "a", num_bytes=1e6, peer=0), TaskNode(2, RECEIVE, "b", num_bytes=1e6, peer=0)]
    assert simulate_traces([sends, takes], STAR)["end_s"] == pytest.approx(2 * (LATENCY_S + 1e6 / RATE), rel=1e-9)


def test_staged_messages_go_through_the_memory_of_both_hosts() -> None:
    cluster = {"kind": "star", "num_hosts": 2, "host": "dgx-1", "link": "infiniband-edr", "hop": "1 us"}
    sums = [TaskNode(1, COLLECTIVE, "sum", num_bytes=2e6, op="all-reduce", group=(0, 8))]
    graphs = [sums if rank in (0, 8) else [] for rank in range(16)]
    topology, library = load_topology(cluster), load_transport("mpi")
    _, schedule = schedule_collective("all-reduce", "auto", topology, np.array([0, 8]), 2e6, library.library)
    alone_s = simulate_schedule(topology, np.array([0, 8]), schedule, 2e6, library)
    assert simulate_traces(graphs, topology, "mpi")["end_s"] == pytest.approx(alone_s, rel=1e-9)


def test_programs_are_those_of_one_point_and_of_an_all_reduce() -> None:
    with pytest.raises(InputError, match=r"'overlap-10gbe' has 8 points, .* set num_gpus, strategy.overlap"):
        one_point("overlap-10gbe")
    with pytest.raises(InputError, match=r"has several jobs, .* set jobs=1"):
        one_point(scenario({}, jobs=2, num_gpus=4))
    for other, words in (
        ({"strategy": {"kind": "server"}}, "all-reduce has programs"),
        ({"compression": "one-bit"}, "one-bit gradients are gathered"),
    ):
        with pytest.raises(InputError, match=words):
            programs_of(Setup(one_point(scenario({}, **other))[1]))
