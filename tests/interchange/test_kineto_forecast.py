"""From a trace of torch.profiler to a forecast: the layers' times are those of the trace, and so is communication."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import clustersim
from clustersim.interchange.kineto import import_kineto
from clustersim.interchange.kineto.kinds import KIND_OF
from clustersim.model import load_model
from clustersim.profiling.document import rounded, write_document
from tests.interchange.test_kineto import Recorder, write

MODEL, BATCH, NUM_GPUS, NUM_STEPS = "nin", 8, 2, 3
RATE, HOP_S = 10e9 / 8, 1e-6
OPERATOR = {kind: name for name, kind in reversed(KIND_OF.items())}
SCENARIO = {
    "name": "from-a-trace",
    "model": MODEL,
    "num_gpus": NUM_GPUS,
    "batch": {"per_gpu": BATCH},
    "transport": "ideal",
    "topology": {
        "kind": "star", "num_hosts": NUM_GPUS, "host": {"gpu": "h200"}, "link": "10 Gbit/s", "hop": "1 us",
    },
    "software": "plain",
    "strategy": {"kind": "all-reduce", "algorithm": "ring", "buckets": "whole"},
}  # fmt: skip


class Training(Recorder):
    """Records steps of a model's layers under DistributedDataParallel, each kernel of a length of its own."""

    def training_step(self, number: int, all_reduce_us: float) -> None:
        start, layers = self.now, load_model(MODEL).layers
        sequences = []
        for place, layer in enumerate(layers):
            self.sequence += 1
            shapes = {"Input Dims": [[BATCH, 3, 32, 32], [16, 3, 3, 3]], "Input type": ["float", "float"]}
            kernels = {"forward": 100.0 + place}
            self.launch(OPERATOR[layer.op], kernels, 1, **{"Sequence number": self.sequence, **shapes})
            sequences.append(self.sequence)
        for place, sequence in reversed(list(enumerate(sequences))):
            kernels = {"dgrad": 200.0 + place}
            if layers[place].num_parameters:
                kernels["wgrad"] = 300.0 + place
            self.backward("SomeBackward0", sequence, "aten::some_backward", kernels)
        self.launch("c10d::allreduce_", {"ncclDevKernel_AllReduce_Sum_f32_RING_LL": all_reduce_us}, 2)
        self.add("user_annotation", "Optimizer.step#SGD.step", self.now - 5, 20.0)
        self.launch("aten::_foreach_add_", {"multi_tensor": 9.0}, 1)
        self.add("user_annotation", f"ProfilerStep#{number}", start, self.now - start)


@pytest.fixture
def all_reduce_s() -> float:
    """The closed form of a ring over an idle star: 2 (n - 1) steps of two hops and a part of the buffer."""
    num_bytes = 4 * load_model(MODEL).num_parameters
    return 2 * (NUM_GPUS - 1) * (2 * HOP_S + num_bytes / NUM_GPUS / RATE)


def test_a_forecast_takes_its_layers_and_its_communication_is_that_of_the_trace(
    tmp_path: Path, all_reduce_s: float
) -> None:
    recorder = Training()
    for number in range(NUM_STEPS):
        recorder.training_step(number, 1e6 * all_reduce_s)
    imported = import_kineto(write(tmp_path, recorder.document()), model=MODEL)
    layers = load_model(MODEL).layers
    assert f"{len(layers)} layers take the names of {MODEL}." in imported.notes
    (whole,) = imported.document["whole"]
    profile = tmp_path / "profile.json"
    write_document(rounded(imported.document), profile)
    run = _run({"profile": str(profile)})
    assert run.provenance == pytest.approx({"measured": 1.0, "published": 0.0, "estimated": 0.0})
    for place, (row, layer) in enumerate(zip(run.layers, layers, strict=True)):
        has_weights = bool(layer.num_parameters)
        assert row[0] == layer.name
        assert row[2] == pytest.approx(1e-6 * (100 + place))
        backward_us = 200 + place + has_weights * (300 + place)
        assert row[3] == pytest.approx(1e-6 * backward_us)
    spans = run.spans
    simulated_s = sum(
        end - start
        for kind, rank, start, end in zip(spans.kind, spans.rank, spans.start_s, spans.end_s, strict=True)
        if (kind, rank) == ("communication", 0)
    ) / len({*spans.iteration})  # fmt: skip
    assert simulated_s == pytest.approx(whole["communication_s"], rel=1e-6)
    assert simulated_s == pytest.approx(all_reduce_s, rel=1e-9)


def _run(compute: dict[str, Any]) -> Any:
    return clustersim.simulate(clustersim.load_scenario({**SCENARIO, "compute": compute}))
