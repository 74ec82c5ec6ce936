"""Measured layer times: the choice of rows, and interpolation to batches that were not measured."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from clustersim.errors import InputError
from clustersim.hardware import load_gpu
from clustersim.kernels import ComputeSpec, OptimizerSpec, build_workload, estimate_layers, read_profile
from clustersim.kernels.batch_interpolation import BatchInterpolation
from clustersim.model import LayerTime, Workload, load_model
from clustersim.simulate.setup import alone_s

NIN = load_model("nin")
H200 = load_gpu("h200")
DEVICE = {"name": "NVIDIA H200", "num_multiprocessors": 132}
Row = dict[str, Any]


def rows_of(estimates: dict[int, tuple[LayerTime, ...]], factor: float = 1.0) -> list[Row]:
    """Return the rows of a GPU that takes so many times what the kernel model says."""
    return [
        {
            "name": time.layer.name, "op": time.layer.op, "shape": {}, "batch": batch, "precision": "fp32",
            "layout": "nchw", "forward_s": factor * time.forward_s, "backward_data_s": factor * time.backward_data_s,
            "backward_weights_s": factor * time.backward_weights_s, "spread_s": 0.0,
        }
        for batch, times in estimates.items()
        for time in times
    ]  # fmt: skip


def model_rows(*batches: int, factor: float = 1.0) -> list[Row]:
    return rows_of({batch: estimate_layers(NIN, H200, batch, "fp32").layers for batch in batches}, factor)


def write(folder: Path, rows: list[Row], **more: Any) -> Path:
    path = folder / "p.json"
    document = {"schema": "clustersim.profile/1", "device": DEVICE, "model": "nin", "layers": rows, **more}
    path.write_text(json.dumps(document))
    return path


def build(path: Path, batch: int = 8, gpu: str = "h200", **more: Any) -> Workload:
    compute = ComputeSpec(profile=str(path), **more)
    return build_workload(NIN, load_gpu(gpu), batch, "fp32", OptimizerSpec(), compute)


# batches that were not measured


@settings(deadline=None, max_examples=30)
@given(
    low_s=st.floats(1e-6, 1.0), high_s=st.floats(1e-6, 1.0), batch=st.integers(8, 64), index=st.integers(0, 20),
    phase=st.integers(0, 2),
)  # fmt: skip
def test_between_two_batches_a_time_lies_between_theirs(
    low_s: float, high_s: float, batch: int, index: int, phase: int
) -> None:
    seconds = BatchInterpolation(NIN, H200, "fp32", batch).seconds(index, phase, [8, 64], [low_s, high_s])
    assert min(low_s, high_s) <= seconds * (1 + 1e-12)
    assert seconds <= max(low_s, high_s) * (1 + 1e-12)
    if batch in (8, 64):
        assert seconds == (low_s if batch == 8 else high_s)


@pytest.mark.parametrize("batch", [3, 11, 16, 23, 40, 64, 200])
def test_a_gpu_that_steps_as_the_model_does_is_predicted_exactly(batch: int) -> None:
    exact = estimate_layers(NIN, H200, batch, "fp32").layers
    curve = BatchInterpolation(NIN, H200, "fp32", batch)
    known = {batch: estimate_layers(NIN, H200, batch, "fp32").layers for batch in (8, 32, 64)}
    for index, time in enumerate(exact):
        measured = [1.3 * known[each][index].forward_s for each in (8, 32, 64)]
        assert curve.seconds(index, 0, [8, 32, 64], measured) == pytest.approx(1.3 * time.forward_s)


def test_beyond_measured_batches_kernels_shrink_as_kernels_do_without_the_gaps_of_their_issue() -> None:
    """Of NIN at one image, issuing takes longer than the kernels; measured kernels have no such gaps in them."""
    small, large = (estimate_layers(NIN, H200, batch, "fp32").layers for batch in (1, 64))
    curve = BatchInterpolation(NIN, H200, "fp32", 1)
    for index, time in enumerate(small):
        assert curve.seconds(index, 0, [64], [large[index].forward_s]) == pytest.approx(time.forward_s)


def test_a_kernel_that_fills_no_wave_costs_the_same_at_any_batch() -> None:
    curve = BatchInterpolation(NIN, H200, "fp32", 12)
    assert curve.seconds(0, 1, [8, 16], [5e-6, 5e-6]) == 5e-6


def test_a_layer_that_the_model_does_not_know_goes_by_the_batch() -> None:
    index = next(index for index, layer in enumerate(NIN.layers) if layer.op == "relu")
    inside, beyond = BatchInterpolation(NIN, H200, "fp32", 12), BatchInterpolation(NIN, H200, "fp32", 32)
    assert inside.seconds(index, 2, [8, 16], [1.0, 2.0]) == pytest.approx(1.5)
    assert beyond.seconds(index, 2, [8, 16], [1.0, 2.0]) == pytest.approx(4.0)


@pytest.mark.parametrize("batch", [2, 128])
def test_beyond_the_measured_batches_times_are_estimated_and_said_to_be(tmp_path: Path, batch: int) -> None:
    path = write(tmp_path, model_rows(8, 32, factor=2.0))
    built = build(path, batch)
    expected = estimate_layers(NIN, H200, batch, "fp32").layers
    assert [time.forward_s for time in built.layers] == pytest.approx([2.0 * time.forward_s for time in expected])
    assert built.provenance() == pytest.approx({"measured": 0, "published": 0, "estimated": 1})
    assert any("are extrapolated from measured times" in sentence for sentence in built.assumptions)


def test_at_and_between_measured_batches_everything_is_measured(tmp_path: Path) -> None:
    built = build(write(tmp_path, model_rows(8, 32)), 17)
    assert built.provenance()["measured"] == pytest.approx(1)
    assert built.assumptions[0].startswith(f"Times of {len(NIN.layers)} of {len(NIN.layers)} layers are measured")


# which rows apply


def test_layers_of_one_shape_share_a_row(tmp_path: Path) -> None:
    rows = model_rows(8)
    short = [{**rows[0], "also": [row["name"] for row in rows[1:]]}]
    built = build(write(tmp_path, short))
    assert {time.forward_s for time in built.layers} == {rows[0]["forward_s"]}
    assert built.provenance()["measured"] == pytest.approx(1)


def test_what_another_layers_kernel_does_takes_no_time_of_its_own(tmp_path: Path) -> None:
    rows = model_rows(8)
    fused = [{**rows[0], "fused": [rows[1]["name"]]}, *rows[2:]]
    built = build(write(tmp_path, fused))
    assert (built.layers[0].forward_s, built.layers[1].forward_s) == (rows[0]["forward_s"], 0.0)
    assert built.layers[1].provenance == "measured"


def test_a_layout_is_chosen_and_never_mixed(tmp_path: Path) -> None:
    rows = model_rows(8)
    both = [*rows, *({**row, "layout": "nhwc", "forward_s": 2 * row["forward_s"]} for row in rows)]
    path = write(tmp_path, both)
    with pytest.raises(
        InputError, match=r"times in several layouts \(nchw, nhwc\).*select one with software\.image_layout"
    ):
        build(path)
    assert build(path, layout="nhwc").forward_s == pytest.approx(2 * build(path, layout="nchw").forward_s)
    with pytest.raises(InputError, match="has no times in layout nhwc; it was measured in nchw"):
        build(write(tmp_path, [*rows, rows[0] | {"name": "more"}]), layout="nhwc")


@pytest.mark.parametrize(
    ("device", "gpu", "message"),
    [
        ({"name": "NVIDIA H100 80GB HBM3"}, "h200", "was measured on 'NVIDIA H100 80GB HBM3', and the cluster has"),
        ({"name": "Tesla P100-PCIE-16GB"}, "p100", "which is p100-pcie, and the cluster has"),
        ({"name": "NVIDIA A100-SXM4-40GB"}, "a100", "which is a100-40gb, and the cluster has"),
        ({"name": "NVIDIA H200", "num_multiprocessors": 114}, "h200", "was measured on 114 multiprocessors"),
        ({}, "h200", "was measured on ''"),
    ],
)
def test_a_profile_of_another_gpu_is_refused(tmp_path: Path, device: Row, gpu: str, message: str) -> None:
    with pytest.raises(InputError, match=message):
        build(write(tmp_path, model_rows(8), device=device), gpu=gpu)


@pytest.mark.parametrize(
    ("device", "gpu"),
    [("Tesla V100-SXM2-32GB", "v100"), ("Tesla V100-SXM2-16GB", "v100"), ("Tesla P100-PCIE-16GB", "p100-pcie")],
)
def test_the_same_chip_is_taken_by_the_name_that_its_driver_gives(tmp_path: Path, device: str, gpu: str) -> None:
    assert build(write(tmp_path, model_rows(8), device={"name": device}), gpu=gpu).provenance()["measured"] == 1


# the optimizer's step


def test_a_measured_step_is_taken_for_the_rule_it_was_measured_with(tmp_path: Path) -> None:
    steps = [
        {"rule": "momentum", "implementation": "fused", "step_s": 1.0},
        {"rule": "momentum", "implementation": "foreach", "step_s": 2.0},
    ]
    path = write(tmp_path, model_rows(8), optimizers=steps)
    assert build(path).optimizer_s == 2.0
    adam = build_workload(NIN, H200, 8, "fp32", OptimizerSpec(kind="adam"), ComputeSpec(profile=str(path)))
    assert adam.optimizer_s < 1.0
    assert build(write(tmp_path, model_rows(8), optimizers=steps, model="other")).optimizer_s < 1.0


def test_a_measured_step_of_no_time_is_taken_as_measured(tmp_path: Path) -> None:
    nothing = [{"rule": "momentum", "step_s": 0.0}]
    assert build(write(tmp_path, model_rows(8), optimizers=nothing)).optimizer_s == 0


# files


@pytest.mark.parametrize("key", ["name", "batch", "precision", "forward_s", "backward_data_s", "backward_weights_s"])
def test_a_missing_field_is_reported_with_its_place(tmp_path: Path, key: str) -> None:
    rows = model_rows(8)
    del rows[2][key]
    with pytest.raises(InputError, match=rf"layers\.2\.{key}: not a clustersim.profile/1: this key is missing"):
        read_profile(write(tmp_path, rows))


def test_profiled_layers_wait_for_the_launches_that_were_measured(tmp_path: Path) -> None:
    """All of the host's launches, and the last layer's gradients and the update: kernels are far shorter."""
    rows = [{**row, "host_s": {"forward": 2e-3, "backward": 5e-3}} for row in model_rows(8)]
    alone, launched = build(write(tmp_path, model_rows(8))), build(write(tmp_path, rows))
    last = alone.layers[0].backward_s
    assert alone_s(launched) == pytest.approx(len(NIN.layers) * 7e-3 + last + launched.optimizer_s)
    assert launched.compute_s == pytest.approx(alone_s(alone)) == pytest.approx(alone.compute_s)
    rows[0].pop("host_s")
    assert build(write(tmp_path, rows)).layers == alone.layers
    quick = [{**row, "host_s": {"forward": 1e-9, "backward": 1e-9}} for row in model_rows(8)]
    assert alone_s(build(write(tmp_path, quick))) == pytest.approx(alone.compute_s + 1e-9, rel=1e-12)


def test_a_fused_layer_is_launched_with_the_kernel_that_includes_it(tmp_path: Path) -> None:
    rows = [{**row, "host_s": {"forward": 2e-3, "backward": 5e-3}} for row in model_rows(8)]
    fused = [{**rows[0], "fused": [rows[1]["name"]]}, *rows[2:]]
    apart, joined = build(write(tmp_path, rows)), build(write(tmp_path, fused))
    assert alone_s(apart) - alone_s(joined) == pytest.approx(7e-3)


def test_a_profile_cut_in_half_and_another_document_are_reported(tmp_path: Path) -> None:
    whole = write(tmp_path, model_rows(8))
    whole.write_text(whole.read_text()[:100])
    with pytest.raises(InputError, match="not a complete JSON document; profile again") as cut:
        read_profile(whole)
    assert cut.value.mistakes[0].file == str(whole)
    whole.write_text("[1]")
    with pytest.raises(InputError, match=r"not a clustersim.profile/1: expected a map of 'key: value' \(got a list\)"):
        read_profile(whole)


def test_a_profile_that_has_changed_is_read_again(tmp_path: Path) -> None:
    first = build(write(tmp_path, model_rows(8)))
    again = build(write(tmp_path, model_rows(8, factor=3.0)))
    assert again.forward_s == pytest.approx(3 * first.forward_s)


def test_a_scenario_runs_on_measured_times(tmp_path: Path) -> None:
    import clustersim

    scenario = {
        "name": "measured", "model": "nin", "num_gpus": 2, "batch": {"per_gpu": 8}, "transport": "nccl",
        "topology": {"kind": "star", "num_hosts": 2, "host": {"gpu": "h200"}, "link": "ethernet-10g"},
        "software": "plain", "strategy": {"kind": "all-reduce", "algorithm": "ring"},
    }  # fmt: skip
    profile = {"profile": str(write(tmp_path, model_rows(4, 16, factor=5.0)))}
    run = clustersim.simulate(clustersim.load_scenario({**scenario, "compute": profile}))
    assert run.provenance == pytest.approx({"measured": 1.0, "published": 0.0, "estimated": 0.0})
    plain = clustersim.simulate(clustersim.load_scenario(scenario))
    assert run.breakdown_s["compute"] > 2 * plain.breakdown_s["compute"]
