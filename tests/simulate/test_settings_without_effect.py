"""A warning names each key of a layout that changes nothing; a named algorithm is the one that is simulated."""

from __future__ import annotations

from typing import Any

import pytest

import clustersim
from clustersim.errors import InputError
from clustersim.scenario import load_scenario
from clustersim.simulate.forecast import forecast
from tests.placed import placed

ASKED: dict[str, Any] = {
    "model": "gpt-4x512x8-seq256",
    "num_gpus": 8,
    "batch": {"global": 16},
    "topology": {"kind": "star", "num_hosts": 8, "host": {"gpu": "v100"}, "link": "10 GB/s", "hop": "1 us"},
    "software": "plain",
    "strategy": {"kind": "all-reduce"},
    "num_iterations": 2,
}


def warnings(layout: dict[str, Any], **strategy: Any) -> list[str]:
    asked = placed({**ASKED, "parallelism": layout, "strategy": {"kind": "all-reduce", **strategy}})
    return [each for each in forecast(load_scenario(asked).points()[0].point).warnings if "changes nothing:" in each]


@pytest.mark.parametrize(
    ("layout", "strategy", "key"),
    [
        ({"data": 8, "expert_imbalance": 1.5}, {}, "parallelism.expert_imbalance"),
        ({"data": 8, "balance": "memory"}, {}, "software.balance"),
        ({"data": 8, "messages": "awaited"}, {}, "software.messages"),
        ({"pipeline": 2, "stages": [6, 8], "balance": "time"}, {}, "software.balance"),
        ({"data": 8, "schedule": "gpipe"}, {}, "parallelism.schedule"),
        ({"data": 8, "sharding": "zero-3"}, {"overlap": False}, "strategy.overlap"),
        ({"data": 8, "sharding": "zero-3"}, {"overlap": True}, "strategy.overlap"),
        ({"data": 8, "sharding": "zero-3"}, {"buckets": "layer"}, "strategy.buckets"),
        ({"data": 1, "pipeline": 8, "micro_batches": 2}, {"copies": "pytorch"}, "software.bucket_copies"),
        ({"tensor": 8, "sharding": "zero-3", "sharding_copies": "flat"}, {}, "software.sharding_copies"),
        ({"sharding": "zero-3", "sharding_over": 8, "joined_sums": "1 GiB"}, {}, "software.joined_sums"),
        ({"data": 8, "gradient_kernels": "autograd"}, {}, "software.gradient_kernels"),
    ],
)
def test_a_warning_names_a_key_that_changes_nothing(layout: dict[str, Any], strategy: dict[str, Any], key: str) -> None:
    if "stages" in layout:
        num_layers = len(clustersim.simulate({**ASKED, "num_gpus": 1}).layers)
        layout = {**layout, "stages": [num_layers // 2, num_layers - num_layers // 2]}
    found = warnings(layout, **strategy)
    assert len(found) == 1
    assert found[0].startswith(f"{key} changes nothing")


@pytest.mark.parametrize(("precision", "is_warned"), [("fp32", True), ("amp-fp8", False)])
def test_a_warning_names_casts_to_8_bits_where_nothing_is_cast(precision: str, is_warned: bool) -> None:
    topology = {**ASKED["topology"], "host": {"gpu": "h100"}}
    asked = {**ASKED, "topology": topology, "precision": precision, "software": {"name": "plain", "casts": "te"}}
    found = forecast(load_scenario(asked).points()[0].point).warnings
    assert any(each.startswith("software.casts changes nothing") for each in found) == is_warned


@pytest.mark.parametrize(
    ("layout", "strategy"),
    [
        ({"data": 8}, {}),
        ({"pipeline": 2, "balance": "memory", "schedule": "gpipe", "micro_batches": 2}, {}),
        ({"data": 8, "micro_batches": 2, "schedule": "gpipe"}, {}),
        ({"data": 8, "sharding": "zero-1"}, {"overlap": False, "buckets": "layer"}),
        ({"data": 8, "sharding": "zero-2"}, {"buckets": "layer"}),
    ],
)
def test_there_is_no_warning_about_a_key_that_changes_something(
    layout: dict[str, Any], strategy: dict[str, Any]
) -> None:
    assert warnings(layout, **strategy) == []


@pytest.mark.parametrize("kind", ["attention", "selective", "full", "pointwise", "pointwise+attention"])
@pytest.mark.parametrize("model", ["resnet18", "gpt-4x512x8-seq256"])
def test_a_warning_names_recomputation_that_repeats_nothing(kind: str, model: str) -> None:
    asked = {**ASKED, "model": model, "parallelism": {"data": 8, "recompute": kind}}
    found = forecast(load_scenario(asked).points()[0].point).warnings
    is_warned = any(each.startswith("parallelism.recompute changes nothing") for each in found)
    assert is_warned == (model == "resnet18" and kind != "full")


def test_a_warning_names_copies_of_a_single_gpu() -> None:
    alone = {**ASKED, "num_gpus": 1, "batch": {"global": 2}}
    runs = []
    for copies in ("none", "pytorch"):
        asked = {**alone, "software": {"name": "plain", "bucket_copies": copies}, "strategy": {"kind": "all-reduce"}}
        runs.append(forecast(load_scenario(asked).points()[0].point))
    assert runs[0].run.iteration_s == runs[1].run.iteration_s
    found = [sum("software.bucket_copies changes nothing" in each for each in one.warnings) for one in runs]
    assert found == [0, 1]


@pytest.mark.parametrize(("buckets", "is_warned"), [("whole", True), ("layer", False)])
def test_a_warning_names_a_barrier_of_one_bucket(buckets: str, is_warned: bool) -> None:
    found = []
    for pull in ("each", "together"):
        strategy = {"kind": "server", "buckets": buckets, "servers": {"on": "own-hosts"}}
        software = {"name": "plain", "servers_pull": pull}
        found.append(
            forecast(
                load_scenario({**ASKED, "num_gpus": 4, "software": software, "strategy": strategy}).points()[0].point
            )
        )
    seconds = [each.run.iteration_s for each in found]
    assert (seconds[0] == pytest.approx(seconds[1], rel=1e-9)) == is_warned
    assert any("software.servers_pull changes nothing" in each for each in found[1].warnings) == is_warned


def test_sharded_copies_exchange_by_the_algorithm_that_is_named() -> None:
    """MPI gathers few bytes by recursive doubling, in fewer messages than a ring has."""
    asked = {**ASKED, "transport": "mpi-cuda", "parallelism": {"sharding": "zero-3"}}
    chosen, ring = (
        clustersim.simulate({**asked, "strategy": {"kind": "all-reduce", "algorithm": algorithm}}).iteration_s
        for algorithm in ("auto", "ring")
    )
    assert ring > chosen


def test_experts_are_exchanged_by_the_algorithm_that_is_named() -> None:
    asked = {
        **ASKED,
        "model": "mixtral-8x7b",
        "batch": {"global": 8},
        "parallelism": {"expert": 2},
        "memory_check": False,
    }
    ring, server = (
        clustersim.simulate({**asked, "strategy": {"kind": "all-reduce", "algorithm": algorithm}}).iteration_s
        for algorithm in ("ring", "server")
    )
    assert server > 1.5 * ring


def test_an_algorithm_that_cannot_shard_is_refused() -> None:
    strategy = {"kind": "all-reduce", "algorithm": "double-tree"}
    with pytest.raises(InputError, match="double-tree does not do; write one of: auto, ring") as error:
        clustersim.simulate({**ASKED, "strategy": strategy, "parallelism": {"sharding": "zero-1"}})
    assert error.value.mistakes[0].key == "strategy.algorithm"


def all_warnings(**keys: Any) -> list[str]:
    asked = placed({**ASKED, **keys})
    return [each for each in forecast(load_scenario(asked).points()[0].point).warnings if "changes nothing:" in each]


@pytest.mark.parametrize(
    ("precision", "casts", "same"),
    [
        ("amp-nvfp4", "te", None),
        ("amp-nvfp4", "te-cached", None),
        ("amp-nvfp4", "torchao", "te"),
        ("amp-nvfp4", "torchao-rowwise", "te"),
        ("amp-nvfp4", "te-current-cached", "te-cached"),
        ("amp-mxfp8", "torchao", None),
        ("amp-mxfp8", "torchao-rowwise", "torchao"),
        ("amp-mxfp8", "te-block", "te"),
        ("amp-fp8", "te-block", None),
    ],
)
def test_a_warning_names_casts_that_a_precision_does_not_tell_apart(
    precision: str, casts: str, same: str | None
) -> None:
    found = all_warnings(
        topology={**ASKED["topology"], "host": {"gpu": "b200"}},
        precision=precision,
        software={"name": "plain", "casts": casts},
    )
    assert len(found) == (same is not None)
    assert same is None or f"is simulated as {same}" in found[0]


@pytest.mark.parametrize(("routing", "is_warned"), [("adaptive", True), ("hashed", False)])
def test_a_warning_names_spines_that_adaptive_routing_joins(routing: str, is_warned: bool) -> None:
    leaves = {"num_leaves": 2, "hosts_per_leaf": 4, "spines": 2, "host": {"gpu": "v100"}, "link": "1 GB/s"}
    found = all_warnings(topology={"kind": "leaf-spine", "routing": routing, **leaves})
    assert any(each.startswith("topology.spines changes nothing") for each in found) == is_warned


@pytest.mark.parametrize(("prices", "is_warned"), [({"h100": 2}, True), ({"h100": 2, "v100": 1}, False)])
def test_a_warning_names_prices_of_no_gpu_of_the_run(prices: dict[str, float], is_warned: bool) -> None:
    found = all_warnings(prices=prices)
    assert any(each.startswith("prices changes nothing") for each in found) == is_warned


def test_a_domain_of_more_hosts_than_there_are_is_refused() -> None:
    def cluster(num_hosts: int | None, domain: int) -> dict[str, Any]:
        host = {"template": "superchip", "gpu": "gb200", "nvlink_domain": domain}
        count = {} if num_hosts is None else {"num_hosts": num_hosts}
        return {"kind": "star", "link": "infiniband-ndr", "host": host, **count}

    with pytest.raises(InputError, match="domain of 3 hosts is larger than its cluster, which has 2") as error:
        load_scenario({**ASKED, "topology": cluster(2, 3)})
    assert [each.key for each in error.value.mistakes] == ["topology.host.nvlink_domain"]
    for num_hosts, domain in ((2, 2), (3, 2), (None, 18)):
        load_scenario({**ASKED, "topology": cluster(num_hosts, domain)})
    groups = [{"count": count, "host": cluster(1, 2)["host"]} for count in (2, 1)]
    with pytest.raises(InputError, match="domain of 2") as error:
        load_scenario({**ASKED, "topology": {"kind": "star", "link": "infiniband-ndr", "hosts": groups}})
    assert [each.key for each in error.value.mistakes] == ["topology.hosts.1.host.nvlink_domain"]
