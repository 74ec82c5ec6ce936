"""Scenarios drawn at random from fabrics, hosts, layouts and strategies: the default result equals the exact one."""

from __future__ import annotations

import os
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import clustersim
from clustersim.errors import InputError
from tests.models import write_experts

NUM_GPUS = 16
COUNT = 300 if os.environ.get("CLUSTERSIM_FUZZ") else 15

SOCKETS = ["socket0", "socket1", *(f"gpu{number}" for number in range(4)), "nic0"]
PCIE = [
    *({"a": f"socket{number // 2}", "b": f"gpu{number}"} for number in range(4)),
    {"a": "socket0", "b": "socket1"},
    {"a": "socket0", "b": "nic0"},
]
PAIRS = [{"a": "gpu0", "b": "gpu1", "count": 4}, {"a": "gpu2", "b": "gpu3", "count": 4}]
RING = [*PAIRS, {"a": "gpu1", "b": "gpu2", "count": 2}, {"a": "gpu0", "b": "gpu3", "count": 2}]

LAYOUTS: list[dict[str, Any]] = [
    {},
    {"tensor": 2},
    {"tensor": 4, "sequence_parallel": True},
    {"context": 2},
    {"pipeline": 4, "micro_batches": 8},
    {"pipeline": 4, "micro_batches": 8, "schedule": "dualpipe"},
    {"pipeline": 2, "micro_batches": 8, "schedule": "dualpipe", "tensor": 2},
    {"pipeline": 2, "micro_batches": 8, "schedule": "dualpipe-v", "tensor": 2},
    {"pipeline": 2, "micro_batches": 8, "schedule": "zero-bubble", "tensor": 2},
    {"tensor": 8},
    {"sharding_over": 2, "sharding": "zero-2"},
]
OF_EXPERTS: list[dict[str, Any]] = [
    {},
    {"expert": 4, "pipeline": 2, "micro_batches": 8, "schedule": "dualpipe"},
    {"expert": 4, "pipeline": 2, "micro_batches": 8, "schedule": "dualpipe-v"},
]

FABRICS = st.one_of(
    st.fixed_dictionaries(
        {"kind": st.just("fat-tree"), "k": st.just(4), "routing": st.sampled_from(["adaptive", "hashed"])}
    ),
    st.fixed_dictionaries(
        {
            **{"kind": st.just("leaf-spine"), "num_leaves": st.just(2), "hosts_per_leaf": st.just(2)},
            **{"oversubscription": st.just(2), "routing": st.sampled_from(["adaptive", "hashed"])},
        }
    ),
    st.just({"kind": "star", "num_hosts": 4}),
)
HOSTS_OF_FOUR = st.one_of(
    st.sampled_from([2, 4]).map(lambda nics: {"template": "dgx-h100", "num_gpus": 4, "nics": nics}),
    st.sampled_from([[], PAIRS, RING]).map(
        lambda links: {"template": "explicit", "gpu": "h100", "nodes": SOCKETS, "links": [*PCIE, *links]}
    ),
    st.integers(1, 4).map(lambda trays: {"template": "superchip", "gpu": "gb200", "nvlink_domain": trays}),
    st.just({"template": "dual-socket", "gpu": "h100", "num_gpus": 4, "nics": 2, "cpu": "xeon-platinum-8480"}),
)
TOPOLOGIES = st.one_of(
    st.tuples(FABRICS, HOSTS_OF_FOUR).map(lambda drawn: {**drawn[0], "host": drawn[1], "link": "50 Gbit/s"}),
    st.sampled_from(["frontier-node", "azure-nd-mi300x-v5", "dgx-h100"]).map(
        lambda host: {"kind": "star", "num_hosts": 2, "host": host, "link": "infiniband-ndr"}
    ),
    st.just({"kind": "torus", "dims": [4, 4], "host": {"gpu": "tpu-v4"}, "link": "ici-v4"}),
)


@st.composite
def scenarios(draw: st.DrawFn) -> dict[str, Any]:
    """Draw a scenario of 16 GPUs, whose `model` is `experts` or `dense`; some of them are refused."""
    experts = draw(st.booleans())
    layout = {"sharding": draw(st.sampled_from([None, "zero-1", "zero-3"]))} | draw(
        st.sampled_from(OF_EXPERTS if experts else LAYOUTS)
    )
    if experts:
        layout = {"expert": draw(st.sampled_from([4, 8])), **layout}
        layout["expert_exchange"] = draw(st.sampled_from(["all-to-all", "two-hop", "low-latency"]))
        if layout["expert_exchange"] == "two-hop":
            layout["expert_hosts"] = draw(st.sampled_from([None, 1, 2]))
    outer = {"kind": "local", "steps": 2, "outer": "nesterov"}
    return {
        "model": "experts" if experts else "dense",
        "num_gpus": NUM_GPUS,
        "batch": {"per_gpu": 8},
        "precision": "amp-bf16",
        "optimizer": draw(st.sampled_from(["adam", "muon"])),
        "software": "plain",
        "transport": "nccl",
        "topology": {"hop": "1 us", **draw(TOPOLOGIES)},
        "placement": {"kind": draw(st.sampled_from(["block", "spread"]))},
        "strategy": draw(st.sampled_from([{"kind": "all-reduce"}, {"kind": "all-reduce"}, outer])),
        "parallelism": layout,
        "memory_check": False,
        "num_iterations": 2,
    }


@pytest.fixture(scope="module")
def models(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """Small models with eight experts, and without any."""
    folder = tmp_path_factory.mktemp("experts")
    return {"experts": write_experts(folder, num_blocks=4, num_experts=8), "dense": "gpt-8x512x8-seq128"}


@given(asked=scenarios())
@settings(max_examples=COUNT, suppress_health_check=[HealthCheck.too_slow])
def test_default_equals_exact(models: dict[str, str], asked: dict[str, Any]) -> None:
    """Seconds to 1e-8, and the bytes of links of each kind to 1e-6."""
    asked = {**asked, "model": models[asked["model"]]}
    try:
        quick = clustersim.sweep(asked).runs[0]
    except InputError:
        return
    exact = clustersim.sweep(asked, exact=True).runs[0]
    assert quick.iteration_s == pytest.approx(exact.iteration_s, rel=1e-8)
    carried, truly = ({each.kind: each.num_bytes for each in run.link_classes} for run in (quick, exact))
    assert carried == pytest.approx(truly, rel=1e-6, abs=1e-6)
