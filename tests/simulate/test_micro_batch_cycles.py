"""Extrapolated micro-batches: the same times, parts, bytes and timelines as if all were simulated."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from clustersim.errors import InputError
from clustersim.execution.folded_layout_executor import FoldedLayoutExecutor
from clustersim.execution.layout_executor import LayoutExecutor
from clustersim.results import Timesheet
from clustersim.scenario import load_scenario
from clustersim.simulate.forecast import Forecast, forecast
from tests.placed import placed
from tests.simulate.shortcut_checks import check_is_exact, check_shortcut_is_exact

NOTE = "identical micro-batches extrapolated"
GRAPHS = {"launch": "graphs"}  # no GPU waits for its host
PAIRS = {"template": "dgx-a100", "nics": 4}  # of GPUs that share an adapter
BOX = {"template": "dual-socket", "gpu": "v100", "num_gpus": 4, "nics": 1}


def asked(layout: dict[str, Any], num_gpus: int = 16, host: Any = "dgx-a100", **other: Any) -> dict[str, Any]:
    """A small language model in many micro-batches."""
    split = layout.get("pipeline", 1) * layout.get("tensor", 1)
    return placed(
        {
            "model": "gpt-4x1024x16-seq512",
            "num_gpus": num_gpus,
            "batch": {"global": layout["micro_batches"] * num_gpus // split},
            "topology": {"kind": "star", "num_hosts": 4, "host": host, "link": "infiniband-hdr", "hop": "1 us"},
            "transport": "nccl",
            "strategy": {"kind": "all-reduce", "buckets": "4 MiB"},
            "precision": "amp-fp16",
            "parallelism": layout,
            "num_iterations": 2,
            "memory_check": False,
            **other,
        }
    )


LAYOUTS: list[dict[str, Any]] = [
    {},
    {"sharding": "zero-1", "gather_overlap": True},
    {"sharding": "zero-2"},
    {"sharding": "zero-2", "sharding_over": 2},
    {"sharding": "zero-3"},
    {"sharding": "zero-1", "sharding_by": "tensors"},
    {"tensor": 4, "sequence_parallel": True},
    {"tensor": 2, "sharding": "zero-2"},
    {"pipeline": 4},
    {"pipeline": 2, "tensor": 2, "sharding": "zero-1"},
    {"pipeline": 2, "messages": "awaited"},
    {"pipeline": 4, "messages": "paired", "recompute": True},
    {"pipeline": 4, "schedule": "zero-bubble", "micro_batches": 32},  # the slowest stage sets the pace only late
    {"pipeline": 2, "schedule": "interleaved", "chunks": 2},
    {"pipeline": 2, "schedule": "dualpipe", "micro_batches": 48},
    {"pipeline": 4, "schedule": "dualpipe", "micro_batches": 64, "sharding": "zero-1"},
    {"pipeline": 2, "schedule": "dualpipe-v", "micro_batches": 32, "sharding": "zero-2"},
    {"offload": "activations", "micro_batches": 12},
]


@pytest.mark.parametrize("layout", LAYOUTS, ids=str)
def test_extrapolated_cycles_are_those_of_the_exact_run(layout: dict[str, Any]) -> None:
    check_shortcut_is_exact(asked({"micro_batches": 20, **layout}, num_gpus=8, compute=GRAPHS), NOTE)


@pytest.mark.parametrize("layout", LAYOUTS, ids=str)
def test_so_they_are_with_a_host(layout: dict[str, Any]) -> None:
    """None are extrapolated while a host loses its lead, as the GPU will wait for it later."""
    check_is_exact(asked({"micro_batches": 20, **layout}, num_gpus=8))


@pytest.mark.parametrize("layout", [{"pipeline": 2, "tensor": 2}, {"sharding": "zero-3"}], ids=str)
def test_so_it_is_without_folded_ranks(layout: dict[str, Any]) -> None:
    """On hosts with one adapter, ranks end what copies exchange at different times."""
    given = asked({**layout, "micro_batches": 20}, num_gpus=8, host=BOX, transport="nccl-omni-path")
    check_shortcut_is_exact(given, NOTE)


def in_both_ways(given: dict[str, Any]) -> tuple[Forecast, Forecast]:
    """Return forecasts with cycles left out and with all of them simulated, other shortcuts being taken in both."""
    point = load_scenario(given).points()[0].point
    quick = forecast(point)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(LayoutExecutor, "_loops", lambda self: [])
        patch.setattr(FoldedLayoutExecutor, "_loops", lambda self: [])
        return quick, forecast(point)


def check_both_ways(given: dict[str, Any]) -> bool:
    """Check that cycles left out change nothing, timelines included; return whether any were."""
    quick, whole = in_both_ways(given)
    slack_s = 1e-9 * whole.run.iteration_s
    assert quick.run.iteration_s == pytest.approx(whole.run.iteration_s, rel=1e-9)
    assert quick.run.breakdown_s == pytest.approx(whole.run.breakdown_s, abs=slack_s)
    carried, truly = ({link.name: link.num_bytes for link in each.run.links} for each in (quick, whole))
    assert carried == pytest.approx(truly, rel=1e-9)
    rows, expected = (sorted(_long_enough(each, slack_s)) for each in (quick, whole))
    assert [row[:4] for row in rows] == [row[:4] for row in expected]
    times_s, expected_s = ([time_s for row in each for time_s in row[4:]] for each in (rows, expected))
    assert times_s == pytest.approx(expected_s, abs=slack_s)
    assert [len(line.time_s) for line in quick.run.memory_lines] == [
        len(line.time_s) for line in whole.run.memory_lines
    ]
    return any(NOTE in shortcut for shortcut in quick.shortcuts)


def _long_enough(simulated: Forecast, slack_s: float) -> list[tuple[Any, ...]]:
    """Return rank, kind, name, cause, start and end of spans that are no mere rounding."""
    rows = simulated.run.spans.rows()
    return [
        (rank, kind, name, cause, start_s, end_s)
        for kind, rank, _, start_s, end_s, name, cause in rows
        if end_s - start_s > slack_s
    ]


@pytest.mark.parametrize("layout", LAYOUTS, ids=str)
def test_timelines_have_every_micro_batch_by_its_number(layout: dict[str, Any]) -> None:
    assert check_both_ways(asked({"micro_batches": 20, **layout}, num_gpus=8, compute=GRAPHS))
    check_both_ways(asked({"micro_batches": 20, **layout}, num_gpus=8))


@st.composite
def scenarios(draw: st.DrawFn) -> dict[str, Any]:
    layout: dict[str, Any] = {
        "pipeline": draw(st.sampled_from([1, 1, 2, 4])),
        "tensor": draw(st.sampled_from([1, 1, 2, 4])),
        "micro_batches": draw(st.sampled_from([8, 9, 16])),
        "schedule": draw(st.sampled_from(["1f1b", "1f1b", "interleaved", "zero-bubble", "gpipe"])),
    }
    if layout["schedule"] == "interleaved":
        layout["chunks"] = 2
    options: dict[str, Any] = {
        "sharding": st.sampled_from(["zero-1", "zero-2", "zero-3"]),
        "messages": st.sampled_from(["awaited", "paired"]),
        "sharding_by": st.just("tensors"),
        "sharding_over": st.just(2),
        "offload": st.sampled_from(["activations", "optimizer"]),
        **dict.fromkeys(("gather_overlap", "sequence_parallel", "recompute"), st.just(True)),
    }
    for key in draw(st.sets(st.sampled_from(sorted(options)), max_size=3)):
        layout[key] = draw(options[key])
    return asked(
        layout,
        num_gpus=draw(st.sampled_from([4, 8])),
        host=draw(st.sampled_from(["dgx-h100", PAIRS, BOX])),
        transport=draw(st.sampled_from(["nccl", "mpi", "nccl-omni-path"])),
        strategy={"kind": "all-reduce", "buckets": "4 MiB", "overlap": draw(st.booleans())},
    )


@settings(max_examples=15)
@given(scenarios())
def test_so_it_is_of_any_layout(given: dict[str, Any]) -> None:
    try:
        load_scenario(given).points()
        check_both_ways(given)
    except InputError:
        assume(False)


def test_micro_batches_that_may_differ_are_all_simulated() -> None:
    """So it is in an exact run, and with randomness."""
    layout = {"pipeline": 4, "micro_batches": 20}
    sure, unsure = (
        load_scenario(asked(layout, compute=GRAPHS, **other)).points()[0].point
        for other in ({}, {"stragglers": [{"kind": "lognormal", "cv": 0.1}]})
    )
    for point, exact, is_warned in [(sure, False, True), (sure, True, False), (unsure, False, False)]:
        assert any(NOTE in shortcut for shortcut in forecast(point, exact=exact).shortcuts) is is_warned


def test_what_follows_left_out_cycles_is_that_much_later() -> None:
    times = Timesheet.blank(1, 2, 1)
    times.begin_s[0], times.end_s[0], times.called_s[0] = (1.0, 4.0), (4.0, 9.0), (0.5, 2.5)
    later = times.delayed([2.0, 6.0], [10.0, 100.0])
    assert later.begin_s.tolist() == [[1.0, 14.0]]
    assert later.end_s.tolist() == [[14.0, 119.0]]
    assert later.called_s.tolist() == [[0.5, 2.5]]
    assert np.isnan(later.ready_s).all()


def test_a_run_gives_the_same_bytes_whenever_it_is_simulated() -> None:
    point = load_scenario(asked({"pipeline": 4, "micro_batches": 20})).points()[0].point
    one, other = (forecast(point).run.to_dict() for _ in range(2))
    assert one == other


def test_without_detail_figures_are_the_same_to_the_last_digit() -> None:
    point = load_scenario(asked({"pipeline": 4, "micro_batches": 20})).points()[0].point
    one, other = (forecast(point, detail=detail).run.to_dict(detail=False) for detail in (True, False))
    assert one == other
