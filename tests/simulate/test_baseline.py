"""What a speedup and an efficiency are over: a training that can be, with the settings of the run."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import clustersim
from clustersim.errors import InputError
from clustersim.hardware import load_gpu
from clustersim.model import load_workload
from clustersim.results import Run
from clustersim.scenario import gpu_memory, load_scenario
from tests.contracts.test_drawn_scenarios import COUNT, scenarios
from tests.models import write_experts

HOSTS = {"kind": "star", "num_hosts": 8, "host": "dgx-h100", "link": "infiniband-ndr"}
LLAMA: dict[str, Any] = {
    "model": "llama-3.2-3b", "num_gpus": 16, "batch": {"per_gpu": 2}, "precision": "amp-bf16", "optimizer": "adam",
    "software": "plain", "transport": "nccl", "topology": HOSTS, "num_iterations": 2,
}  # fmt: skip
FSDP = {"sharding": "zero-3", "recompute": "full"}


def simulate(**changes: Any) -> Run:
    return clustersim.simulate({**LLAMA, **changes})


def test_one_gpu_that_holds_it_has_the_batch_of_a_gpu_and_no_reason() -> None:
    run = simulate(model="resnet50", batch={"per_gpu": 32})
    assert run.baseline is not None
    assert (run.baseline.num_gpus, run.baseline.batch, run.baseline.micro_batches, run.baseline.why) == (1, 32, 1, "")
    alone = simulate(model="resnet50", batch={"per_gpu": 32}, num_gpus=1)
    assert run.baseline.samples_per_s == pytest.approx(alone.samples_per_s, rel=1e-9)
    assert run.speedup == pytest.approx(run.samples_per_s / alone.samples_per_s, rel=1e-9)
    assert run.baseline.text in run.speedup_basis


@pytest.mark.parametrize(
    "changes",
    [
        {"parallelism": {"recompute": "full"}},
        {"parallelism": {"recompute": "full"}, "lora": {"rank": 16}},
        {"parallelism": {"offload": "optimizer"}},
        {"parallelism": {"micro_batches": 2}},
        {"software": "megatron-core", "parallelism": {"micro_batches": 2}},
        {"parallelism": FSDP},
        {"optimizer": "muon", "model": "llama-3.2-1b"},
        {"packing": {"lengths": [2048, 512]}},
    ],
)
def test_the_efficiency_of_one_gpu_is_one_whatever_its_settings(changes: dict[str, Any]) -> None:
    run = simulate(num_gpus=1, **{"model": "llama-3.2-1b", **changes})
    assert run.efficiency == pytest.approx(1.0, rel=1e-9)
    assert run.speedup == pytest.approx(1.0, rel=1e-9)


@pytest.mark.parametrize(
    ("changes", "software"),
    [({"recompute": "full"}, "plain"), ({"offload": "optimizer"}, "plain"), ({}, "megatron-core")],
)
def test_replicas_have_the_settings_of_their_baseline(changes: dict[str, Any], software: str) -> None:
    """Where messages take no time, replicas are as quick as one GPU that does the same."""
    asked = {"model": "llama-3.2-1b", "transport": "ideal", "parallelism": changes, "software": software}
    run, alone = simulate(num_gpus=4, **asked), simulate(num_gpus=1, **asked)
    assert run.baseline is not None
    assert run.baseline.samples_per_s == pytest.approx(alone.samples_per_s, rel=1e-6)
    assert 0.5 < run.efficiency <= 1.001
    assert all(f"{key}: {value}" in run.baseline.text for key, value in changes.items())


def test_a_global_batch_that_one_gpu_does_not_hold_is_in_the_fewest_micro_batches_that_fit() -> None:
    asked = {**LLAMA, "model": "resnet50", "precision": "fp32", "batch": {"global": 4096}}
    found = clustersim.simulate(asked).baseline
    assert found is not None
    assert (found.num_gpus, found.batch) == (1, 4096)
    assert "needs" in found.why
    point = load_scenario({**asked, "num_gpus": 1, "memory_check": False}).points()[0].point
    holds, (model, _) = load_gpu("h100").memory_bytes, load_workload("resnet50")
    sizes = [4096 // found.micro_batches, 4096 * 2 // found.micro_batches]
    fits = [sum(gpu_memory(point, model, batch=size).values()) <= holds for size in sizes]
    assert fits == [True, False]
    accumulates = {**asked, "num_gpus": 1, "parallelism": {"micro_batches": found.micro_batches}}
    assert clustersim.simulate(accumulates).samples_per_s == pytest.approx(found.samples_per_s, rel=1e-9)


@pytest.mark.parametrize(
    "parallelism",
    [
        FSDP,
        {"tensor": 2, "sharding": "zero-1", "recompute": "full"},
        {"pipeline": 4, "micro_batches": 8, "recompute": "full"},
    ],
)
def test_what_one_gpu_does_not_hold_is_on_the_fewest_gpus_that_do(parallelism: dict[str, Any]) -> None:
    """The baseline is a run that can be simulated, at the same rate; one with half of its GPUs is refused."""
    asked = {**LLAMA, "model": "llama-3.1-8b", "num_gpus": 32, "parallelism": parallelism}
    run = clustersim.simulate(asked)
    found = run.baseline
    assert found is not None
    assert 1 < found.num_gpus < 32
    assert found.batch == 2 * found.num_gpus
    fewest = clustersim.simulate({**asked, "num_gpus": found.num_gpus})
    assert fewest.samples_per_s == pytest.approx(found.samples_per_s, rel=1e-9)
    assert fewest.efficiency == pytest.approx(1.0, rel=1e-9)
    assert run.speedup == pytest.approx(run.samples_per_s / fewest.samples_per_s, rel=1e-9)
    assert run.efficiency == pytest.approx(run.speedup * found.num_gpus / 32, rel=1e-12)
    with pytest.raises(InputError):
        clustersim.simulate({**asked, "num_gpus": found.num_gpus // 2})


def test_all_sizes_of_a_fixed_global_batch_have_one_baseline() -> None:
    asked = {**LLAMA, "model": "llama-3.1-8b", "num_gpus": [16, 32, 64], "batch": {"global": 256}}
    runs = clustersim.sweep({**asked, "parallelism": {**FSDP, "micro_batches": 4}}).runs
    assert len({run.baseline for run in runs}) == 1
    assert runs[0].baseline is not None
    assert 1 < runs[0].baseline.num_gpus < 16


def test_a_run_that_no_fewer_gpus_hold_is_its_own_baseline_without_its_stragglers() -> None:
    layout = {"tensor": 8, "pipeline": 4, "micro_batches": 32, "recompute": "full"}
    changes: dict[str, Any] = {"model": "llama-3.1-70b", "num_gpus": 32, "parallelism": layout}
    run = simulate(**changes)
    assert run.baseline is not None
    assert (run.baseline.num_gpus, run.efficiency, run.speedup) == (32, 1.0, 1.0)
    assert "not fewer GPUs" in run.baseline.why
    late = simulate(**changes, stragglers=[{"kind": "constant", "factor": 2, "of": [0]}])
    assert late.baseline == run.baseline
    assert late.efficiency < 0.7


def test_unchecked_memory_is_not_checked_for_the_baseline_either_and_is_named() -> None:
    found = simulate(model="llama-3.1-8b", parallelism=FSDP, memory_check=False).baseline
    assert found is not None
    assert found.num_gpus == 1
    assert "memory is not checked: one h100 holds" in found.why


def test_gpus_that_share_an_update_may_be_quicker_than_one_that_makes_it_alone_and_the_reason_is_given() -> None:
    shared = {"model": "llama-3.2-1b", "optimizer": "muon", "parallelism": FSDP}
    run = simulate(**shared)
    assert run.baseline is not None
    assert run.efficiency > 1.01
    assert "share less of the update" in run.baseline.why
    same = simulate(**shared, batch={"global": 32})
    assert same.samples_per_s == pytest.approx(run.samples_per_s, rel=1e-9)
    assert same.efficiency <= 1.0


def test_times_from_a_file_are_scaled_to_the_batch_of_the_baseline(tmp_path: Path) -> None:
    """A layer of 10 ms for the 8 samples of a GPU: one GPU takes 80 ms for all 64."""
    path = tmp_path / "model.yaml"
    path.write_text(
        "name: timed\nlayers:\n  - {name: a, op: custom, flop: 1, parameter_bytes: 4, activation_bytes: 4,\n"
        "     forward_s: 0.004, backward_s: 0.006}\n"
    )
    found = simulate(model=str(path), precision="fp32", optimizer="sgd", num_gpus=8, batch={"global": 64}).baseline
    assert found is not None
    assert 64 / found.samples_per_s == pytest.approx(0.08, rel=1e-3)


@pytest.fixture(scope="module")
def models(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """Small models with eight experts, and without any."""
    folder = tmp_path_factory.mktemp("experts")
    return {"experts": write_experts(folder, num_blocks=4, num_experts=8), "dense": "gpt-8x512x8-seq128"}


@given(asked=scenarios(), batch=st.sampled_from([128, 512]), recompute=st.sampled_from(["none", "full"]))
@settings(max_examples=COUNT, suppress_health_check=[HealthCheck.too_slow])
def test_no_gpu_is_quicker_than_one_that_trains_the_same_batch(
    models: dict[str, str], asked: dict[str, Any], batch: int, recompute: str
) -> None:
    """Whatever the layout, and even if messages take no time; one GPU has all of a global batch at once."""
    layout = {**asked["parallelism"], "recompute": recompute}
    changes = {"model": models[asked["model"]], "batch": {"global": batch}, "parallelism": layout, "transport": "ideal"}
    try:
        run = clustersim.simulate({**asked, **changes, "memory_check": True})
    except InputError:
        return
    assert run.baseline is not None
    assert run.baseline.num_gpus == 1
    assert run.efficiency <= 1.005


@pytest.mark.parametrize(
    "name", ["gpipe-bubble", "gpt-3d", "hierarchical", "local-fields", "offload", "one-weird-trick", "paths"]
)
def test_no_shipped_scenario_has_an_efficiency_above_one(name: str) -> None:
    assert max(run.efficiency for run in clustersim.sweep(name).runs) <= 1.001
