"""Exchanges of tokens with experts in a training: bytes, exact results, and what is refused."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import clustersim
from clustersim.errors import InputError
from clustersim.model import Layer
from clustersim.parallelism.experts import TokenExchange
from clustersim.program.token_route import TokenRoute
from clustersim.scenario import load_scenario
from clustersim.simulate.programs import programs_of
from clustersim.simulate.setup import Setup
from tests.models import write_experts
from tests.placed import placed
from tests.simulate.shortcut_checks import check_is_exact

TOKENS, FEATURES, BATCH, NUM_GPUS = 64, 256, 8, 4
PAIRS = {
    **{"kind": "star", "num_hosts": 2, "link": "10 GB/s", "hop": "1 us"},
    "host": {"template": "dgx-a100", "gpu": "a100"},
}


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> str:
    return write_experts(tmp_path_factory.mktemp("experts"))


def scenario(model: str, parallelism: dict[str, Any], **other: Any) -> dict[str, Any]:
    return placed(
        {
            "model": model,
            "num_gpus": NUM_GPUS,
            "batch": {"per_gpu": BATCH},
            "topology": PAIRS,
            "placement": {"kind": "spread"},
            "precision": "amp-bf16",
            "strategy": {"kind": "all-reduce", "algorithm": "ring"},
            "parallelism": {"expert": NUM_GPUS, **parallelism},
            "num_iterations": 2,
            **other,
        }
    )


@pytest.mark.parametrize(("dispatched", "there"), [("activations", 2.0), ("fp8", 1 + 4 / 128)])
def test_tokens_cross_the_network_once_for_each_host(model: str, dispatched: str, there: float) -> None:
    """Two of four experts on two hosts of two: p(host) = 1 - C(2, 2) / C(4, 2) = 5 / 6, in both passes, each way."""
    assert TokenRoute(4, 2).chances(2, 2)[0] == pytest.approx(5 / 6)
    layout = {"expert_exchange": "two-hop", "dispatched": dispatched}
    sent = clustersim.simulate(scenario(model, layout)).link_classes
    plain = clustersim.simulate(scenario(model, {})).link_classes
    less = sum(each.num_bytes for each in plain if each.kind == "access") / 2
    less -= sum(each.num_bytes for each in sent if each.kind == "access") / 2
    tokens = NUM_GPUS * BATCH * TOKENS * FEATURES
    assert less == pytest.approx(2 * tokens * (2 * 2 * 2 / 4 * 2.0 - 5 / 6 * (there + 2.0)), rel=1e-9)


@pytest.mark.parametrize("exchange", ["two-hop", "low-latency"])
@pytest.mark.parametrize(
    "layout", [{}, {"expert": 2, "sharding": "zero-1"}, {"expert": 2, "micro_batches": 4, "sharding": "zero-3"}]
)
def test_shortcuts_give_the_exact_result(model: str, exchange: str, layout: dict[str, Any]) -> None:
    for transport in ("ideal", "nccl"):
        check_is_exact(scenario(model, {"expert_exchange": exchange, **layout}, transport=transport))


@pytest.mark.parametrize("num_gpus", [4, 8])
@pytest.mark.parametrize("most_hosts", [1, 2])
def test_a_dispatch_and_a_combine_of_equal_bytes_are_different_collectives(
    model: str, num_gpus: int, most_hosts: int
) -> None:
    """On links through sockets they take different times."""
    host = {"template": "dual-socket", "gpu": "h100", "num_gpus": 4, "nics": 2, "cpu": "xeon-platinum-8480"}
    layout = {"expert_exchange": "two-hop", "expert_hosts": most_hosts}
    topology = {**PAIRS, "host": host, "link": "infiniband-ndr"}
    check_is_exact(scenario(model, layout, num_gpus=num_gpus, topology=topology, transport="nccl"))


@pytest.mark.parametrize("most_hosts", [None, 1])
def test_hosts_of_one_nvlink_domain_are_one_host(tmp_path: Path, most_hosts: int | None) -> None:
    """Two trays of four GPUs take as long for two hops, and hold the same buffers, as one host of eight."""
    model = write_experts(tmp_path, num_experts=8)
    hosts = (
        {"num_hosts": 2, "host": {"template": "superchip", "gpu": "gb200", "nvlink_domain": 2}},
        {"num_hosts": 1, "host": {"template": "dgx-b200", "gpu": "gb200", "num_gpus": 8}},
    )
    exposed, buffers = [], []
    for each in hosts:
        layout = {"expert": 8, "expert_exchange": "two-hop", "expert_hosts": most_hosts}
        topology = {"kind": "star", "link": "infiniband-ndr", "hop": "1 us", **each}
        placement = {"kind": "block"}
        asked = scenario(model, layout, num_gpus=8, topology=topology, transport="nccl", placement=placement)
        point = load_scenario(asked).points()[0].point
        laid_out = Setup(point).laid_out
        assert laid_out is not None
        buffers.append(laid_out.memory[0]["dispatch buffers"])
        exposed.append(clustersim.simulate(asked).breakdown_s["communication_exposed"])
    assert exposed[0] == pytest.approx(exposed[1], rel=1e-9)
    assert buffers == [pytest.approx(10 * 8 * 288 * (2 * FEATURES + 2048))] * 2


def test_two_hops_slow_what_computes_meanwhile_and_the_low_latency_mode_does_not(tmp_path: Path) -> None:
    """20 of the 108 multiprocessors of an A100, while a pair of passes computes beside its exchanges."""
    model = write_experts(tmp_path, num_blocks=4)
    layout = {"pipeline": 2, "expert": 2, "micro_batches": 8, "schedule": "dualpipe"}
    slowed = []
    for exchange in ("two-hop", "low-latency"):
        asked = scenario(model, {**layout, "expert_exchange": exchange}, transport="nccl", batch={"global": 64})
        slowed.append(clustersim.simulate(asked).breakdown_s.get("slowed", 0.0))
    assert slowed[0] > slowed[1]


def test_buffers_of_both_hops_and_of_the_low_latency_mode_are_held(model: str) -> None:
    """DeepEP's sizes: 10 channels x (2 GPUs x 288 + 2 x 2 hosts x 128) tokens of 2,560 bytes; 4 E T messages."""
    for exchange, size in (
        ("two-hop", 10 * (2 * 288 + 2 * 2 * 128) * (2 * FEATURES + 2048)),
        ("low-latency", 4 * 4 * BATCH * TOKENS * (2 * FEATURES + FEATURES / 128 * 4)),
    ):
        setup = Setup(load_scenario(scenario(model, {"expert_exchange": exchange})).points()[0].point)
        assert setup.laid_out is not None
        assert setup.laid_out.memory[0]["dispatch buffers"] == pytest.approx(size)
    setup = Setup(load_scenario(scenario(model, {})).points()[0].point)
    assert setup.laid_out is not None
    assert "dispatch buffers" not in setup.laid_out.memory[0]


def test_a_limit_of_hosts_needs_an_exchange_by_hosts(model: str) -> None:
    with pytest.raises(InputError, match="give expert_exchange: two-hop"):
        load_scenario(scenario(model, {"expert_hosts": 1})).points()


@pytest.mark.parametrize("key", [{"expert_exchange": "two-hop"}, {"dispatched": "fp8"}, {"expert_hosts": 1}])
def test_what_changes_nothing_without_experts_on_other_gpus_is_said(model: str, key: dict[str, Any]) -> None:
    warnings = clustersim.sweep(scenario(model, {"expert": 1, **key})).warnings
    assert any("changes nothing: experts are not distributed" in warning for warning in warnings)


def test_hosts_with_unequal_parts_of_a_group_are_refused(model: str) -> None:
    asked = scenario(model, {"expert_exchange": "two-hop"}, placement={"kind": "block"})
    asked["topology"] = {**PAIRS, "num_hosts": 2, "host": {"template": "dgx-a100", "gpu": "a100", "num_gpus": 3}}
    with pytest.raises(InputError) as refused:
        clustersim.simulate(asked)
    assert "equal numbers of GPUs" in str(refused.value)
    assert "parallelism.expert_exchange" in str(refused.value)


def test_a_trace_is_refused(model: str) -> None:
    setup = Setup(load_scenario(scenario(model, {"expert_exchange": "two-hop"})).points()[0].point)
    with pytest.raises(InputError, match="a trace has no node"):
        programs_of(setup).tasks()


def test_experts_without_a_router_are_refused() -> None:
    into = Layer("in", "experts", 1.0, 1.0, 1.0, 1, 8.0, 8.0, {"experts": 4, "inputs": 4, "outputs": 4, "rows": 1})
    with pytest.raises(InputError, match="there is none before 'in'"):
        TokenExchange(2.0, 2.0, "two-hop").calls(into, None, 1.0)
