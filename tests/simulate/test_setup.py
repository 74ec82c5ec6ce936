"""The setup of a point before the simulation, and the parts of it that the points of a sweep share."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import clustersim
from clustersim import hardware
from clustersim.errors import InputError
from clustersim.hardware.sheet import Gpu
from clustersim.model import Workload
from clustersim.model.layer import Model
from clustersim.scenario import layout, load_scenario
from clustersim.simulate import Workloads, forecast
from clustersim.simulate.setup import Setup

SCENARIO = {
    "name": "small",
    "model": "squeezenet-1.0",
    "num_gpus": [1, 2, 4],
    "batch": {"per_gpu": 4},
    "topology": {"kind": "star", "num_hosts": 4, "gpu": "k80", "link": "1 GB/s"},
    "software": "plain",
    "strategy": {"kind": "all-reduce", "algorithm": "ring"},
    "num_iterations": 1,
}


@pytest.fixture
def built(monkeypatch: pytest.MonkeyPatch) -> list[tuple[object, ...]]:
    """Return the list of what work is worked out from now on: GPU, batch, precision."""
    calls: list[tuple[object, ...]] = []
    build = layout.build_workload

    def note(model: Model, gpu: Gpu, batch: int, precision: str, *others: Any) -> Workload:
        calls.append((gpu.name, batch, precision))
        return build(model, gpu, batch, precision, *others)

    monkeypatch.setattr(layout, "build_workload", note)
    return calls


def test_the_points_of_a_sweep_work_out_the_same_iteration_once(built: list[tuple[object, ...]]) -> None:
    clustersim.sweep(SCENARIO)
    assert built == [("k80", 4, "fp32")]


def test_points_that_differ_in_their_work_share_none(built: list[tuple[object, ...]]) -> None:
    clustersim.sweep({**SCENARIO, "batch": {"global": 8}, "num_gpus": [2, 4], "optimizer": ["sgd", "adam"]})
    assert sorted(built) == [("k80", 2, "fp32")] * 2 + [("k80", 4, "fp32")] * 2 + [("k80", 8, "fp32")] * 2


def test_shared_work_is_the_work_of_a_point_alone() -> None:
    points = [each.point for each in load_scenario({**SCENARIO, "optimizer": ["sgd", "adam"]}).points()]
    shared = Workloads()
    for point in points:
        assert Setup(point, shared).reference == Setup(point).reference
    assert len({id(Setup(point, shared).reference) for point in points}) == 2


def test_the_oldest_work_is_forgotten(built: list[tuple[object, ...]]) -> None:
    point = load_scenario({**SCENARIO, "num_gpus": 1}).points()[0].point
    shared = Workloads()
    for batch in range(1, 66):
        Setup(point, shared).workload("k80", batch)
    assert len(built) == 65
    Setup(point, shared).workload("k80", 65)
    assert len(built) == 65
    Setup(point, shared).workload("k80", 1)
    assert len(built) == 66


def test_a_sheet_of_the_users_own_forecasts_as_the_shipped_one_that_it_copies(tmp_path: Path) -> None:
    sheet = (Path(hardware.__file__).parent / "gpus" / "p40.yaml").read_text()
    (tmp_path / "mine.yaml").write_text(sheet.replace("name: p40", "name: mine"))
    ours, shipped = (
        clustersim.sweep(load_scenario({**SCENARIO, "topology": {**SCENARIO["topology"], "gpu": gpu}}))
        for gpu in (str(tmp_path / "mine.yaml"), "p40")  # of which no rates were published
    )
    assert [run.samples_per_s for run in ours.runs] == [run.samples_per_s for run in shipped.runs]


OWN_TRANSPORT = """\
name: mine
title: MPI as measured here
library: mpi
overhead_s: {value: 1 ms, source: our log}
efficiency: {value: 0.5, source: our log}
buffers: {value: gpu, source: our log}
adds: {value: false, source: our log}
"""


def test_a_transport_sheet_is_found_from_the_scenarios_file_and_costs_what_it_says(tmp_path: Path) -> None:
    """Doubling between two: both send the whole buffer once, at half of the link's rate, after 1 ms."""
    (tmp_path / "mine.yaml").write_text(OWN_TRANSPORT, encoding="utf-8")
    (tmp_path / "tiny.yaml").write_text(
        "{model: squeezenet-1.0, num_gpus: 2, batch: {per_gpu: 4}, transport: mine.yaml, num_iterations: 1, "
        "topology: {kind: star, num_hosts: 2, gpu: k80, link: 1 GB/s, hop: 0 s, host: {gpudirect: true, gpu: k80}}, "
        "strategy: {kind: all-reduce, algorithm: doubling, overlap: false, buckets: whole}}",
        encoding="utf-8",
    )
    run = clustersim.sweep(tmp_path / "tiny.yaml").runs[0]
    assert run.breakdown_s["communication_exposed"] == pytest.approx(1e-3 + 4 * 1_248_424 / 0.5e9, rel=0.01)


def test_a_missing_transport_sheet_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"none\.yaml: cannot be read"):
        load_scenario(SCENARIO | {"transport": "none.yaml"})


def test_tensors_of_a_layer_are_ready_together_and_travel_each_by_itself() -> None:
    """AlexNet has eight layers with weights and biases: 16 messages where layers are eight, of the same bytes."""

    def buckets(rule: str) -> list[tuple[str, float, float]]:
        strategy = {"kind": "all-reduce", "algorithm": "ring", "buckets": rule}
        point = load_scenario({**SCENARIO, "model": "alexnet", "num_gpus": 2, "strategy": strategy}).points()[0].point
        return [(bucket.name, bucket.num_bytes, bucket.ready_s) for bucket in Setup(point).first_plan.buckets]

    layers, tensors = buckets("layer"), buckets("tensor")
    assert (len(layers), len(tensors)) == (8, 16)
    for whole, weights, biases in zip(layers, tensors[::2], tensors[1::2], strict=True):
        assert weights[0] == whole[0]
        assert biases[0] == f"{whole[0]}, tensor 2"
        assert weights[1] + biases[1] == whole[1]
        assert weights[2] == biases[2] == pytest.approx(whole[2])


@pytest.mark.parametrize("layout", [{}, {"parallelism": {"pipeline": 2, "micro_batches": 2}}])
def test_a_forecast_without_detail_is_the_same_run_without_its_rows(layout: dict[str, Any]) -> None:
    point = load_scenario({**SCENARIO, "num_gpus": 2, **layout}).points()[0].point
    whole, short = forecast(point).run, forecast(point, detail=False).run
    assert short.to_dict(detail=False) == whole.to_dict(detail=False)
    assert (short.rank_names, short.buckets, short.links) == (whole.rank_names, whole.buckets, whole.links)
    assert whole.spans.kind
    assert not short.spans.kind


def test_a_layout_that_was_checked_is_the_one_that_runs() -> None:
    """And points of a sweep, or the same scenario read again, have layouts of their own."""
    written = {**SCENARIO, "num_gpus": 2, "parallelism": {"pipeline": 2, "micro_batches": [2, 4]}}
    first, second = (each.point for each in load_scenario(written).points())
    checked, again = Setup(first).laid_out, load_scenario(written).points()[0].point
    assert checked is not None
    assert Setup(first).laid_out is checked
    assert Setup(second).laid_out != checked
    assert Setup(again).laid_out == checked


def test_points_of_a_sweep_cast_weights_as_often_as_each_alone() -> None:
    """RankWork is shared by points of as many passes alone, since a pass has its part of the casts of weights."""
    host = {"template": "dgx-1", "gpu": "h100", "num_gpus": 4, "nvlink": "100 GB/s"}
    file = {
        "model": "gpt-2x1024x16-seq1024-vocab5120", "batch": {"per_gpu": 4}, "precision": "amp-fp8",
        "software": {"name": "plain", "casts": "te-cached"}, "transport": "nccl",
        "topology": {"kind": "star", "num_hosts": 1, "link": "100 Gbit/s", "hop": "1 us", "host": host},
        "strategy": {"kind": "all-reduce"}, "parallelism": {"micro_batches": 2}, "compute": {},
        "num_gpus": 4, "memory_check": False, "num_iterations": 2,
    }  # fmt: skip
    more = {**file, "batch": {"per_gpu": 8}, "parallelism": {"micro_batches": 4}}
    shared = Workloads()
    points = [load_scenario(each).points()[0].point for each in (file, more)]
    works = [Setup(point, shared).workload("h100", 2) for point in points]
    assert [work.casts.num_passes for work in works] == [2, 4]
    assert Setup(points[1]).workload("h100", 2) == works[1] != works[0]
