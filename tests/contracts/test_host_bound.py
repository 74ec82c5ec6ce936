"""GPUs that wait for their hosts: the default result equals the exact one, and parts add up to the iteration.

A small batch on fast GPUs, whose kernels take less time than a host needs to issue them.
"""

from __future__ import annotations

from typing import Any

import pytest

import clustersim
from tests.contracts.exactness import REL, check_exact
from tests.models import write_experts

MANY = {"pipeline": 4, "micro_batches": 16}
CASES: dict[str, dict[str, Any]] = {
    "copies": {},
    "copies without overlap": {"strategy": {"kind": "all-reduce", "overlap": False}},
    "more kernels than calls": {"batch": {"global": 256}},
    "split layers": {"parallelism": {"tensor": 4}},
    "split tokens": {"parallelism": {"tensor": 4, "sequence_parallel": True}},
    "many micro-batches": {"parallelism": MANY, "batch": {"global": 32}},
    "all forward first": {"parallelism": {**MANY, "schedule": "gpipe"}, "batch": {"global": 32}},
    "chunks": {"parallelism": {**MANY, "schedule": "interleaved", "chunks": 3}, "batch": {"global": 32}},
    "weights put off": {"parallelism": {**MANY, "schedule": "zero-bubble"}, "batch": {"global": 32}},
    "without a flush": {"parallelism": {**MANY, "schedule": "pipedream"}, "batch": {"global": 32}},
    "split layers of stages": {
        "parallelism": {"tensor": 2, "pipeline": 2, "micro_batches": 16},
        "batch": {"global": 32},
    },
    "stages that the GPU sets the pace of": {"parallelism": MANY, "batch": {"global": 1024}},
    "optimizer in shares": {"parallelism": {"sharding": "zero-1"}},
    "gradients in shares": {"parallelism": {"sharding": "zero-2", "micro_batches": 4}, "batch": {"global": 32}},
    "weights in shares": {"parallelism": {"sharding": "zero-3"}},
    "weights in shares of many micro-batches": {
        "parallelism": {"sharding": "zero-3", "micro_batches": 8},
        "batch": {"global": 64},
    },
    "a host that waits for messages": {
        "software": {"name": "plain", "library": "megatron", "host": "megatron"},
        "parallelism": MANY,
        "batch": {"global": 32},
    },
    "a host that waits for messages of split layers": {
        "software": {"name": "plain", "library": "megatron", "host": "megatron"},
        "parallelism": {"tensor": 2, "pipeline": 2, "micro_batches": 16},
        "batch": {"global": 32},
    },
    "a host that waits for messages of a slow GPU": {
        "software": {"name": "plain", "library": "megatron", "host": "megatron"},
        "parallelism": MANY,
        "batch": {"global": 1024},
    },
    "experts": {"parallelism": {"expert": 4}},
    "offload": {"parallelism": {"sharding": "zero-2", "offload": "optimizer"}},
    "recomputation": {"parallelism": {"pipeline": 2, "micro_batches": 8, "recompute": "full"}, "batch": {"global": 32}},
    "jitter": {"stragglers": [{"kind": "lognormal", "cv": 0.3}]},
    "jitter of layers": {"stragglers": [{"kind": "lognormal", "cv": 0.3, "per": "layer"}]},
    "jitter of split layers": {"parallelism": {"tensor": 2}, "stragglers": [{"kind": "lognormal", "cv": 0.3}]},
    "a slow GPU": {"stragglers": [{"kind": "constant", "factor": 4, "of": [0]}]},
    "a fast GPU": {"stragglers": [{"kind": "constant", "factor": 0.2, "of": [0]}]},
    "pauses": {"stragglers": [{"kind": "pauses", "every": "40 ms", "lasts": "5 ms"}]},
    "an exchange every other iteration": {"strategy": {"kind": "local", "steps": 2}, "num_iterations": 4},
    "servers": {"strategy": {"kind": "server", "servers": {"num": 2}}},
    "slow input": {"input": {"decode": "900 samples/s"}},
    "two jobs": {"jobs": 2, "num_gpus": 4},
}


@pytest.fixture(scope="module")
def experts(tmp_path_factory: pytest.TempPathFactory) -> str:
    """Return the file of a model of one block with four experts."""
    return write_experts(tmp_path_factory.mktemp("experts"))


def scenario(case: str, experts: str) -> dict[str, Any]:
    """Return a small language model on H100s of two hosts, by operators of eager PyTorch."""
    case_keys = {**CASES[case], **({"model": experts} if case == "experts" else {})}
    host = {"template": "dgx-h100", "gpu": "h100", "num_gpus": 4, "nics": 4}
    return {
        "model": "gpt-6x256x4-seq128-vocab1000",
        "num_gpus": 8,
        "batch": {"global": 16},
        "precision": "amp-bf16",
        "topology": {"kind": "star", "num_hosts": 2, "link": "infiniband-ndr", "host": host},
        "software": {"name": "plain", "library": "eager", "host": "pytorch-eager"},
        "transport": "nccl",
        "strategy": {"kind": "all-reduce"},
        "num_iterations": 3,
        "memory_check": False,
        **case_keys,
    }


@pytest.mark.parametrize("case", CASES)
def test_default_equals_exact(case: str, experts: str) -> None:
    check_exact(scenario(case, experts))


@pytest.mark.parametrize("case", CASES)
def test_parts_add_up_to_the_iteration(case: str, experts: str) -> None:
    run = clustersim.sweep(scenario(case, experts)).runs[0]
    assert sum(run.breakdown_s.values()) == pytest.approx(run.iteration_s, rel=REL)
    for parts in (run.breakdown_s, *run.worker_breakdown_s):
        assert min(parts.values()) >= -1e-12


@pytest.mark.parametrize("case", ["copies", "split layers", "many micro-batches", "weights in shares"])
def test_gpus_wait_for_their_hosts_and_not_where_graphs_issue_all(case: str, experts: str) -> None:
    """What the GPU computes is the same."""
    queued, graphs = (
        clustersim.simulate(
            {
                **scenario(case, experts),
                "software": {"name": "plain", "library": "eager", "launch": launch, "host": "pytorch-eager"},
            }
        )
        for launch in ("queued", "graphs")
    )
    assert queued.breakdown_s["host"] > 0.2 * queued.iteration_s
    assert graphs.breakdown_s["host"] == 0
    assert queued.breakdown_s["compute"] == pytest.approx(graphs.breakdown_s["compute"], rel=REL)
