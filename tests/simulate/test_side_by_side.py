"""Two shortcuts against the exact run: timed collectives of groups that split layers, and no warm-up iteration."""

from __future__ import annotations

from typing import Any

import pytest

from clustersim.execution import layout_collectives
from clustersim.network import Network
from clustersim.scenario import load_scenario
from clustersim.simulate.forecast import forecast
from tests.placed import placed
from tests.simulate.shortcut_checks import check_folded_is_exact, check_is_exact, check_shortcut_is_exact

FIRST = "Simulated no warm-up iteration"
OVER = {"sharding": "zero-1", "gather_overlap": True, "micro_batches": 2}
PIPELINE = {"pipeline": 2, "micro_batches": 4}  # stages end at different times
PIPELINES = [PIPELINE, {**PIPELINE, "tensor": 2}, {**PIPELINE, "schedule": "interleaved", "chunks": 2}]


def asked(layout: dict[str, Any], num_gpus: int = 32, host: Any = "dgx-h100", **other: Any) -> dict[str, Any]:
    """A small language model whose layers are split, and whose copies exchange beside that."""
    return placed(
        {
            "model": "gpt-4x512x8-seq256",
            "num_gpus": num_gpus,
            "batch": {"global": 64},
            "topology": {"kind": "star", "num_hosts": 8, "host": host, "link": "infiniband-hdr", "hop": "1 us"},
            "transport": "nccl",
            "strategy": {"kind": "all-reduce", "buckets": "4 MiB"},
            "precision": "amp-bf16",
            "parallelism": layout,
            "num_iterations": 2,
            **other,
        }
    )


LAYOUTS: list[dict[str, Any]] = [
    {"tensor": 4},
    {"tensor": 4, **OVER},
    {"tensor": 4, **OVER, "sequence_parallel": True},
    {"tensor": 8, **OVER},  # switches of the hosts add
    {"tensor": 2, **OVER, "sharding": "zero-2"},
]


@pytest.mark.parametrize("host", ["dgx-a100", "dgx-h100"])
@pytest.mark.parametrize("layout", LAYOUTS)
def test_groups_beside_what_copies_exchange_are_those_of_the_exact_run(layout: dict[str, Any], host: str) -> None:
    check_folded_is_exact(asked(layout, host=host))


TIMED = "as the time that one takes alone"
STAGES: list[dict[str, Any]] = [
    {"tensor": 2, "sharding": "zero-1"},
    {"tensor": 2, "pipeline": 2, "sharding": "zero-1", "micro_batches": 3},
    {"tensor": 2, "pipeline": 2, "sharding": "zero-1", "micro_batches": 3, "messages": "awaited"},
    {
        "tensor": 2,
        "pipeline": 2,
        "sharding": "zero-1",
        "micro_batches": 3,
        "messages": "paired",
        "sequence_parallel": True,
    },
]


@pytest.mark.parametrize("overlap", [False, True])
@pytest.mark.parametrize("layout", STAGES)
def test_groups_with_a_program_per_rank_are_those_of_the_exact_run(layout: dict[str, Any], overlap: bool) -> None:
    """With one adapter per host, ranks end what copies exchange at different times: each is simulated."""
    strategy = {"kind": "all-reduce", "buckets": "4 MiB", "overlap": overlap}
    host = {"template": "dgx-a100", "nics": 4}
    given = asked(layout, batch={"global": 96}, strategy=strategy, transport="nccl-omni-path")
    check_shortcut_is_exact({**given, "topology": {**given["topology"], "host": host}}, TIMED)


def test_every_collective_is_simulated_if_ranks_are_not_together(monkeypatch: pytest.MonkeyPatch) -> None:
    given = asked(STAGES[0], transport="nccl-omni-path")
    given["topology"]["host"] = {"template": "dgx-a100", "nics": 4}
    point = load_scenario(given).points()[0].point
    kept_together = forecast(point)
    monkeypatch.setattr(layout_collectives, "is_same_time", lambda times_s: False)
    apart = forecast(point)
    assert any(TIMED in shortcut for shortcut in kept_together.shortcuts)
    assert not any(TIMED in shortcut for shortcut in apart.shortcuts)
    assert apart.run.iteration_s == pytest.approx(kept_together.run.iteration_s, rel=1e-9)


@pytest.mark.parametrize("num_iterations", [1, 3])
@pytest.mark.parametrize("layout", [{"sharding": "zero-3"}, *LAYOUTS[1:], *PIPELINES])
def test_the_first_iteration_is_every_one_where_the_next_is_the_same(
    layout: dict[str, Any], num_iterations: int
) -> None:
    compute = {"launch": "graphs"} if layout in PIPELINES else {}
    check_shortcut_is_exact(asked(layout, num_iterations=num_iterations, compute=compute), FIRST)


@pytest.mark.parametrize("batch", [32, 128])
def test_hosts_of_stages_that_end_early_are_further_ahead_in_the_next_iteration(batch: int) -> None:
    """Where the GPU waits for its host: the host of a stage that ends early begins the next iteration early."""
    slow_host = {"template": "dgx-h100", "cpu": "xeon-e5-2698-v4"}
    layout, eager = {"pipeline": 4, "micro_batches": 8}, {"library": "eager", "host": "pytorch-eager"}
    bound = asked(layout, num_gpus=8, host=slow_host, batch={"global": batch}, compute=eager)
    assert not any(FIRST in shortcut for shortcut in check_is_exact(bound))


@pytest.mark.parametrize(
    "other",
    [
        {"parallelism": {**PIPELINE, **OVER}},  # stages that end at different times begin by gathering weights
        {"stragglers": [{"kind": "constant", "factor": 1.5, "of": [3]}]},
    ],
)
def test_else_another_one_comes_before(other: dict[str, Any]) -> None:
    found = forecast(load_scenario(asked({"tensor": 4}, **other)).points()[0].point)
    assert not any(FIRST in shortcut for shortcut in found.shortcuts)


@pytest.mark.parametrize("layout", [{"tensor": 4, **OVER}])
def test_more_groups_make_no_more_collectives(layout: dict[str, Any], monkeypatch: pytest.MonkeyPatch) -> None:
    begun: list[int] = []

    def begin(network: Network, schedule: Any, *rest: Any) -> Any:
        begun.append(schedule.num_ranks)
        return true_begin(network, schedule, *rest)

    true_begin = Network.begin
    monkeypatch.setattr(Network, "begin", begin)
    counts = []
    for num_gpus in (16, 64):
        begun.clear()
        forecast(load_scenario(asked(layout, num_gpus)).points()[0].point)
        counts.append(len(begun))
    assert counts[0] == counts[1]


@pytest.mark.parametrize("sequence_parallel", [False, True])
@pytest.mark.parametrize("num_gpus", [8, 16])
def test_layers_over_two_hosts_are_as_quick_as_in_the_exact_run(num_gpus: int, sequence_parallel: bool) -> None:
    """There, GPUs that split layers end a collective one after another: each has another time."""
    host = {"template": "single-root", "gpu": "a100-pcie", "num_gpus": 4}
    topology = {"kind": "star", "num_hosts": 4, "host": host, "link": "10 Gbit/s", "hop": "1 us"}
    layout = {"tensor": 8, "micro_batches": 4, "sequence_parallel": sequence_parallel}
    check_is_exact(asked(layout, num_gpus, topology=topology, memory_check=False))


def test_an_exchange_that_the_first_rank_ends_before_others_is_not_folded() -> None:
    """In a double tree ranks end at two times, the first at the earlier one."""
    asked = {
        "model": "gpt-2x128x2-seq64-vocab1000",
        "num_gpus": 16,
        "batch": {"global": 64},
        "topology": {
            "kind": "star",
            "num_hosts": 4,
            "host": {"template": "single-root", "gpu": "v100", "num_gpus": 4},
            "link": "100 Gbit/s",
            "hop": "600 ns",
        },
        "software": "plain",
        "transport": "nccl",
        "strategy": {"kind": "all-reduce", "overlap": False, "algorithm": "double-tree"},
        "parallelism": {"tensor": 2},
        "num_iterations": 1,
        "memory_check": False,
    }
    assert not any("simulated as one" in shortcut for shortcut in check_is_exact(asked))
