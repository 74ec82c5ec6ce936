"""Speeds: time scales with all rates, and kernels with other rates are those of a sheet that has them."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from clustersim.hardware import load_gpu
from clustersim.hardware.speeds import GPU_FLOP, GPU_KERNELS, GPU_MEMORY, HOST, LINK, Speeds, gpu_at
from clustersim.kernels import ComputeSpec, OptimizerSpec, build_workload
from clustersim.kernels.faster import work_at
from clustersim.kernels.layer_times import estimate_layers
from clustersim.model.catalogue import load_model
from clustersim.results import Run
from clustersim.scenario import Point, load_scenario
from clustersim.sensitivity.forecasts import forecast_alone
from clustersim.sensitivity.resources import resources_of
from clustersim.simulate import Workloads
from clustersim.simulate.setup import Setup

SMALL = ("num_iterations=2",)
SHIPPED = {
    "firecaffe-googlenet": ("num_gpus=32",),
    "overlap-10gbe": ("num_gpus=16", "strategy.overlap=true"),
    "server-versus-tree": ("num_gpus=8", "strategy={kind: server, overlap: false, servers: {num: 2}}"),
    "gpt-3d": ("parallelism.tensor=8", "parallelism.pipeline=2"),
    "asynchronous": ("num_gpus=4", "num_iterations=20"),
    "local-sgd": ("num_gpus=8",),
    "gossip": ("num_gpus=8",),
    "offload": (),
    "two-jobs": (),
    "input-bound": ("num_gpus=8", "num_iterations=4"),
}
"""Scenarios, and settings that make them small, whose library is not NCCL: that has times of its own."""


def _point(name: str, *texts: str) -> Point:
    point = load_scenario(name, texts).points()[0].point
    return point if point.transport != "nccl" else load_scenario(name, [*texts, "transport=mpi"]).points()[0].point


def _forecast(point: Point) -> Run:
    return forecast_alone(point, False, Workloads())


def _every(point: Point, run: Run, factor: float) -> Speeds:
    return Speeds.of({each.name: factor for each in resources_of(Setup(point, detail=False), run)})


@pytest.mark.parametrize("name", SHIPPED)
def test_if_everything_is_as_much_faster_so_is_the_run(name: str) -> None:
    point = _point(name, *SHIPPED[name])
    before = _forecast(point)
    after = _forecast(point.at_speeds(_every(point, before, 1.25)))
    assert after.samples_per_s == pytest.approx(1.25 * before.samples_per_s, rel=1e-6)
    for part, seconds in before.breakdown_s.items():
        assert after.breakdown_s[part] == pytest.approx(seconds / 1.25, rel=1e-6, abs=1e-9 * before.iteration_s)


@given(st.floats(0.3, 5.0))
@settings(max_examples=8, deadline=None)
def test_time_scales_with_any_factor(factor: float) -> None:
    point = _point("firecaffe-nin", "num_gpus=8", *SMALL)
    before = _forecast(point)
    after = _forecast(point.at_speeds(_every(point, before, factor)))
    assert after.iteration_s == pytest.approx(before.iteration_s / factor, rel=1e-9)


def _work(gpu: str, kernels: str, library: str = "megatron", **compute: Any) -> tuple[Any, OptimizerSpec]:
    spec = ComputeSpec(library=library, kernels=kernels, host="pytorch-eager", **compute)  # type: ignore[arg-type]
    optimizer = OptimizerSpec(kind="adam")
    return build_workload(load_model("gpt2-small"), load_gpu(gpu), 4, "amp-bf16", optimizer, spec), optimizer


def test_estimates_are_those_of_a_sheet_with_the_rates() -> None:
    work, optimizer = _work("a100", "law")
    speeds = Speeds.of({GPU_FLOP: 1.3, GPU_MEMORY: 0.8})
    found = work_at(work, speeds, optimizer, "megatron")
    other = replace(gpu_at(work.gpu, 1.3, 0.8), of_sheet=None)
    spec = ComputeSpec(library="megatron", kernels="law", host="pytorch-eager")
    wanted = build_workload(work.model, other, 4, "amp-bf16", optimizer, spec)
    assert [each.forward_s for each in found.layers] == pytest.approx([each.forward_s for each in wanted.layers])
    assert [each.backward_s for each in found.layers] == pytest.approx([each.backward_s for each in wanted.layers])
    assert found.optimizer_s == pytest.approx(wanted.optimizer_s)


@pytest.mark.parametrize("launch", ["queued", "blocking"])
def test_a_faster_host_is_one_that_needs_less_time(launch: str) -> None:
    work, optimizer = _work("a100", "law", launch=launch)
    found = work_at(work, Speeds.of({HOST: 1.25}), optimizer, "megatron")
    spec = ComputeSpec(library="megatron", kernels="law", host="pytorch-eager", launch=launch)  # type: ignore[arg-type]
    wanted = build_workload(work.model, work.gpu, 4, "amp-bf16", optimizer, spec, issue_factor=0.8)
    assert found.optimizer_s == pytest.approx(wanted.optimizer_s)
    for one, other in zip(found.layers, wanted.layers, strict=True):
        assert (one.forward_s, one.backward_s) == pytest.approx((other.forward_s, other.backward_s))
        assert one.forward_issue.host_s == pytest.approx(other.forward_issue.host_s)
        assert one.backward_issue.host_s == pytest.approx(other.backward_issue.host_s)
    assert found.host.exchange_s == pytest.approx(wanted.host.exchange_s)
    assert found.host.update.host_s == pytest.approx(wanted.host.update.host_s)


def test_a_published_rate_does_not_undo_a_faster_gpu() -> None:
    rate = {"samples_per_s": 40.0, "batch": 4, "source": "test"}
    plain, optimizer = _work("a100", "law")
    scaled, _ = _work("a100", "law", single_gpu=rate)
    speeds = Speeds.of({GPU_FLOP: 2.0})
    ratios = [work_at(work, speeds, optimizer, "megatron").forward_s / work.forward_s for work in (plain, scaled)]
    assert ratios[0] == pytest.approx(ratios[1])
    assert 0.5 <= ratios[0] < 0.95


@pytest.mark.tables
def test_times_from_tables_change_as_the_law_does() -> None:
    gpu, model = load_gpu("h100"), load_model("llama-3.1-8b")
    known = {
        kernels: [
            estimate_layers(model, on, 1, "amp-bf16", library="megatron", kernels=kernels).layers  # type: ignore[arg-type]
            for on in (gpu, gpu_at(gpu, 1.1, 1.1))
        ]
        for kernels in ("law", "measured")
    }
    for before, after in known.values():
        ratio = sum(each.forward_s for each in after) / sum(each.forward_s for each in before)
        assert 1 / 1.1 - 1e-9 <= ratio < 0.92
    assert known["law"][0] != known["measured"][0]


def test_overhead_of_kernels_is_what_rates_do_not_divide() -> None:
    work, optimizer = _work("a100", "law")
    tiny = 1e-4
    parts = [
        work.compute_s / work_at(work, Speeds.of({name: 1 + tiny}), optimizer, "megatron").compute_s - 1
        for name in (GPU_FLOP, GPU_MEMORY, GPU_KERNELS)
    ]
    assert sum(parts) == pytest.approx(tiny, rel=1e-2)
    assert min(parts) > 0


def test_other_jobs_of_the_cluster_are_faster_too() -> None:
    point = load_scenario("two-jobs").points()[0].point
    speeds = Speeds.of({LINK + "x": 2.0})
    assert all(job.point.speeds == speeds for job in point.at_speeds(speeds).each_job())


def test_speeds_share_routes_and_change_no_other_cluster() -> None:
    point = _point("firecaffe-nin", "num_gpus=8")
    before = Setup(point, detail=False).topology
    link = before.links.kind.index("gemini-y")
    after = Setup(point.at_speeds(Speeds.of({"link.gemini-y": 2.0, "latency": 4.0})), detail=False).topology
    assert after.links.bytes_per_s[link] == 2 * before.links.bytes_per_s[link]
    assert after.links.latency_s == pytest.approx(before.links.latency_s / 4)
    assert after.route(int(after.gpus[0]), int(after.gpus[5])) is before.route(int(before.gpus[0]), int(before.gpus[5]))
