"""A GPU that computes during a collective has the multiprocessors that the channels leave free."""

from __future__ import annotations

from typing import Any

import pytest

import clustersim
from clustersim.errors import InputError
from clustersim.execution.vectorized_workers import VECTORIZED
from clustersim.model import write_workload_file
from clustersim.model.builder import Builder
from clustersim.results import Run
from clustersim.scenario import load_scenario
from clustersim.simulate.replicate import simulate_replicate
from clustersim.simulate.setup import Setup
from tests.execution.test_vectorized_workers import assert_same_times
from tests.placed import placed
from tests.simulate.nccl_sheet import sheet
from tests.simulate.shortcut_checks import check_folded_is_exact

SMALL_S, LONG_S = 0.001, 0.05
A100 = {"kind": "star", "num_hosts": 2, "host": "dgx-a100", "link": "infiniband-hdr", "hop": "1 us"}
SHARE = 24 / 108  # of eight A100 behind NVSwitch


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> str:
    """A model in which only the last layer has gradients; then a long backward pass of another layer follows."""
    path = tmp_path_factory.mktemp("long") / "long.yaml"
    common = "op: fully-connected, flop: 1e9, activation_bytes: 10"
    rows = [
        f"{{name: long, {common}, parameter_bytes: 0, forward_s: {SMALL_S}, backward_s: {LONG_S}}}",
        f"{{name: first, {common}, parameter_bytes: 4e8, forward_s: {SMALL_S}, backward_s: {SMALL_S}}}",
    ]
    path.write_text("name: long\nlayers:\n" + "".join(f"  - {row}\n" for row in rows))
    return str(path)


def scenario(model: str, **other: Any) -> dict[str, Any]:
    return placed(
        {
            "model": model,
            "num_gpus": 8,
            "batch": {"per_gpu": 4},
            "topology": A100,
            "transport": "nccl",
            "strategy": {"kind": "all-reduce", "buckets": "whole"},
            "num_iterations": 2,
            "memory_check": False,
            **other,
        }
    )


def run(asked: dict[str, Any], exact: bool = False) -> Run:
    return clustersim.sweep(asked, exact=exact).runs[0]


def alone_s(model: str, **other: Any) -> float:
    """Return the time of the exchange when nothing is computed."""
    apart = scenario(model, **{"strategy": {"kind": "all-reduce", "buckets": "whole", "overlap": False}, **other})
    return run(apart).breakdown_s["communication_exposed"]


@pytest.mark.parametrize("exact", [False, True])
def test_an_exchange_within_a_pass_costs_its_share_of_its_time(model, exact):
    found, free = run(scenario(model), exact), run(scenario(model, transport="ideal"))
    exchange_s = alone_s(model)
    assert exchange_s < LONG_S
    assert found.breakdown_s["slowed"] == pytest.approx(SHARE * exchange_s, rel=1e-9)
    assert found.breakdown_s["compute"] == pytest.approx(free.breakdown_s["compute"], rel=1e-9)
    assert found.iteration_s == pytest.approx(found.breakdown_s["compute"] + SHARE * exchange_s, rel=1e-9)
    assert sum(found.breakdown_s.values()) == pytest.approx(found.iteration_s, rel=1e-9)


@pytest.mark.parametrize("exact", [False, True])
def test_a_pass_that_ends_before_the_exchange_is_slow_to_its_end(model, exact):
    link = {"topology": {**A100, "link": "1 Gbit/s"}, "num_gpus": 16}
    found, exchange_s = run(scenario(model, **link), exact), alone_s(model, **link)
    assert exchange_s > 2 * LONG_S
    share = 16 / 108
    assert found.breakdown_s["slowed"] == pytest.approx(LONG_S / (1 - share) - LONG_S, rel=1e-9)
    assert found.breakdown_s["communication_exposed"] == pytest.approx(exchange_s - LONG_S / (1 - share), rel=1e-6)


def test_an_exchange_after_backward_costs_no_compute(model):
    apart = {"kind": "all-reduce", "overlap": False}
    assert run(scenario(model, strategy=apart)).breakdown_s["slowed"] == 0.0


def test_a_gpu_that_waits_for_a_slower_one_in_an_exchange_is_slow_as_long(model):
    late = [{"kind": "constant", "factor": 3, "of": [5]}]
    found = run(scenario(model, stragglers=late))
    own = found.worker_breakdown_s[0]["slowed"]
    assert own == pytest.approx(LONG_S / (1 - SHARE) - LONG_S, rel=1e-9)  # it waits for longer than it computes


@pytest.fixture(scope="module")
def decoder(tmp_path_factory: pytest.TempPathFactory) -> str:
    """Two blocks of a small decoder."""
    net = Builder("decoder", "decoder", sample="sequence")
    x = net.embedding("embedding", 1024, 1024, rows=[1000])
    for block in range(2):
        net.linear(f"{block}.qkv", net.rms_norm(f"{block}.norm", x), 3072)
        y = net.fused_attention(f"{block}.a", x, x, 16, causal=True)
        x = net.add(f"{block}.add", x, net.linear(f"{block}.out", y, 1024))
    net.loss("loss", net.linear("head", x, 1000))
    return str(write_workload_file(net.model(), tmp_path_factory.mktemp("model") / "decoder.yaml"))


def laid_out(decoder: str, layout: dict[str, Any]) -> dict[str, Any]:
    return scenario(
        decoder,
        num_gpus=16,
        batch={"global": 64},
        precision="amp-bf16",
        strategy={"kind": "all-reduce", "buckets": "layer"},
        parallelism=layout,
    )


STRAGGLERS: dict[str, list[dict[str, Any]]] = {
    "none": [],
    "iterations": [{"kind": "lognormal", "cv": 0.2}],
    "layers": [{"kind": "lognormal", "cv": 0.2, "per": "layer"}],
    "pauses": [{"kind": "lognormal", "cv": 0.1}, {"kind": "pauses", "every": "30 ms", "lasts": "5 ms"}],
}


@pytest.mark.parametrize("stragglers", STRAGGLERS)
def test_vectorized_ranks_are_slowed_as_processes_are(stragglers):
    asked = scenario(
        "resnet18",
        num_gpus=4,
        batch={"per_gpu": 16},
        precision="amp-fp16",
        strategy={"kind": "all-reduce", "buckets": "1 MiB"},
        stragglers=STRAGGLERS[stragglers],
    )
    setup = Setup(load_scenario(asked).points()[0].point)
    vectorized, simulated = (simulate_replicate(setup, 0, exact, lambda share: None) for exact in (False, True))
    assert (VECTORIZED in vectorized.shortcuts) == (stragglers != "pauses")
    assert_same_times(vectorized.times.select(slice(-1, None)), simulated.times.select(slice(-1, None)), 1e-9)
    assert vectorized.times.slowed_s.all()


LAYOUTS: dict[str, dict[str, Any]] = {
    "zero-1": {"sharding": "zero-1", "gather_overlap": True},
    "zero-2": {"sharding": "zero-2", "micro_batches": 2},
    "zero-3": {"sharding": "zero-3", "micro_batches": 2},
    "tensor": {"tensor": 4, "micro_batches": 2},
    "tensor and zero-3": {"tensor": 4, "sharding": "zero-3"},
    "beside products": {"tensor": 4, "sequence_parallel": True, "tensor_overlap": True, "micro_batches": 2},
    "stages": {"pipeline": 2, "tensor": 2, "micro_batches": 4, "sharding": "zero-1", "gather_overlap": True},
}


@pytest.mark.parametrize("layout", LAYOUTS)
def test_folded_ranks_are_slowed_as_all_ranks_are(decoder, layout):
    asked = laid_out(decoder, LAYOUTS[layout])
    check_folded_is_exact(asked)
    assert run(asked).breakdown_s["slowed"] > 0


@pytest.mark.parametrize("layout", ["zero-2", "stages"])
def test_channels_make_no_rank_faster_and_without_channels_none_is_slowed(decoder, layout, tmp_path):
    asked = laid_out(decoder, LAYOUTS[layout])
    runs = [run({**asked, "transport": sheet(tmp_path, channels)}) for channels in (0, 4, 16)]
    assert [each.breakdown_s["slowed"] > 0 for each in runs] == [False, True, True]
    assert runs[0].iteration_s < runs[1].iteration_s < runs[2].iteration_s


def test_a_sheet_with_as_many_channels_as_nccl_has_gives_what_nccl_does(model, tmp_path):
    own, shipped = (run(scenario(model, transport=name)) for name in (sheet(tmp_path, 24), "nccl"))
    assert own.iteration_s == shipped.iteration_s


def test_jobs_beside_each_other_are_slowed_alike(model):
    one, two = (run(scenario(model, num_gpus=8, jobs=jobs)) for jobs in (1, 2))
    assert two.breakdown_s["slowed"] == pytest.approx(one.breakdown_s["slowed"], rel=1e-9)


def test_collectives_of_other_libraries_slow_no_rank(model):
    assert run(scenario(model, transport="mpi-cuda")).breakdown_s["slowed"] == 0.0


def test_a_gpu_must_keep_a_multiprocessor(model, tmp_path):
    with pytest.raises(InputError, match=r"occupy 108 multiprocessors.*a100 has 108: none is left") as raised:
        run(scenario(model, transport=sheet(tmp_path, 108)))
    assert raised.value.mistakes[0].key == "transport"
