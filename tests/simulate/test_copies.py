"""Gradients copied into buckets and back: what copies them, for how long, and when nothing does."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import clustersim
from clustersim.errors import InputError
from clustersim.hardware import load_cpu, load_gpu
from clustersim.kernels import moved_s
from clustersim.scenario import load_scenario
from clustersim.simulate.forecast import forecast
from clustersim.simulate.programs import programs_of
from clustersim.simulate.setup import Setup

LAYERS, BYTES = 3, 40e6
WORKLOAD = "name: layers\nlayers:\n" + "".join(
    f"  - {{name: {name}, parameter_bytes: {BYTES:.0f}, activation_bytes: 4000, forward_s: 0.01, backward_s: 0.02}}\n"
    for name in "abc"
)
RING = {"kind": "all-reduce", "algorithm": "ring"}
AFTER = {**RING, "overlap": False, "buckets": "whole"}
STAR = {"kind": "star", "num_hosts": 4, "gpu": "p100", "link": "10 GB/s", "hop": "1 us"}


@pytest.fixture
def asked(tmp_path: Path) -> dict[str, Any]:
    (tmp_path / "layers.yaml").write_text(WORKLOAD)
    model = str(tmp_path / "layers.yaml")
    return {
        "model": model,
        "num_gpus": 4,
        "batch": {"per_gpu": 8},
        "topology": STAR,
        "software": "plain",
        "strategy": AFTER,
    }


def more(asked: dict[str, Any], copies: str, **changes: Any) -> dict[str, float]:
    """Return what copies add to each part of an iteration."""
    strategy = changes.pop("strategy", asked["strategy"])
    runs = [
        clustersim.simulate(
            {**asked, **changes, "software": {"name": "plain", "bucket_copies": each}, "strategy": strategy}
        ).breakdown_s
        for each in ("none", copies)
    ]
    return {part: runs[1][part] - runs[0][part] for part in ("compute", "communication_exposed")}


def once_s(num_layers: int = LAYERS) -> float:
    """Return what it takes to read and write the gradients of so many layers once, by a kernel for each."""
    return moved_s(2 * num_layers * BYTES, load_gpu("p100"), num_layers)


@pytest.mark.parametrize(("copies", "times"), [("pytorch", 2), ("pytorch-view", 1)])
def test_pytorch_reads_and_writes_gradients_into_buckets_and_back_or_where_they_are(asked, copies, times):
    added = more(asked, copies)
    assert added["compute"] == pytest.approx(times * once_s(), rel=1e-6)
    assert added["communication_exposed"] == pytest.approx(0, abs=1e-9)


def test_horovod_copies_in_and_out_beside_what_is_computed(asked):
    added = more(asked, "horovod")
    assert added["communication_exposed"] == pytest.approx(2 * once_s(), rel=1e-6)
    assert added["compute"] == pytest.approx(0, abs=1e-9)


@pytest.mark.parametrize("buckets", ["whole", "layer"])
def test_theano_mpi_divides_all_before_they_travel_together_or_alone(asked, buckets):
    added = more(asked, "theano-mpi", strategy={**AFTER, "buckets": buckets})
    assert added["communication_exposed"] == pytest.approx(once_s(), rel=1e-6)
    assert added["compute"] == pytest.approx(0, abs=1e-9)


def test_where_messages_start_in_host_memory_the_gpu_divides_for_theano_mpi(asked):
    host = {"template": "single-socket", "gpu": "p100", "cpu": "xeon-e5-2698-v4"}
    staged = {"topology": {"kind": "star", "num_hosts": 4, "link": "10 GB/s", "host": host}, "transport": "mpi"}
    assert more(asked, "theano-mpi", **staged)["communication_exposed"] == pytest.approx(once_s(), rel=1e-6)


def test_horovod_copies_one_buffer_after_the_other(asked):
    """Of three layers two travel together and one alone, which is not copied."""
    added = more(asked, "horovod", strategy={**RING, "overlap": False, "buckets": f"{1.5 * BYTES:.0f} B"})
    assert added["communication_exposed"] == pytest.approx(2 * once_s(2), rel=1e-6)


def test_what_horovod_copies_while_backward_runs_is_hidden(asked):
    apart = {**asked, "topology": {**STAR, "link": "100000 GB/s"}}
    assert more(apart, "horovod", strategy={**RING, "buckets": f"{1.5 * BYTES:.0f} B"}) == pytest.approx(
        {"compute": 0, "communication_exposed": 0}, abs=1e-5
    )


def test_where_messages_start_in_host_memory_a_core_copies_for_horovod(asked):
    host = {"template": "single-socket", "gpu": "p100", "cpu": "xeon-e5-2698-v4"}
    staged = {"topology": {"kind": "star", "num_hosts": 4, "link": "10 GB/s", "host": host}, "transport": "mpi"}
    added = more(asked, "horovod", **staged)
    rate = load_cpu("xeon-e5-2698-v4").core_bytes_per_s
    assert added["communication_exposed"] == pytest.approx(4 * LAYERS * BYTES / rate, rel=1e-6)


@pytest.mark.parametrize("copies", ["pytorch", "horovod", "theano-mpi"])
@pytest.mark.parametrize("transport", ["ideal", "mpi"])
def test_shortcuts_change_nothing_of_copies(asked, copies, transport):
    asked |= {
        "software": {"name": "plain", "bucket_copies": copies},
        "strategy": {**RING, "buckets": "50 MB"},
        "transport": transport,
    }
    asked["stragglers"] = [{"kind": "lognormal", "sigma": 0.3}]
    quick, exact = (clustersim.simulate(asked, exact=each).breakdown_s for each in (False, True))
    assert quick == pytest.approx(exact, rel=1e-9, abs=1e-12)


def test_copies_are_made_once_for_many_batches_that_are_added_up(asked):
    asked |= {"batch": {"global": 32}, "parallelism": {"micro_batches": 4}}
    assert more(asked, "pytorch")["compute"] == pytest.approx(2 * once_s(), rel=1e-6)
    assert more(asked, "horovod")["communication_exposed"] == pytest.approx(2 * once_s(), rel=1e-6)


@pytest.mark.parametrize(
    ("changes", "copies"),
    [
        ({}, "pytorch"),
        ({"parallelism": {"micro_batches": 4}}, "pytorch"),
        ({"strategy": {**RING, "buckets": "layer"}}, "none"),
        ({"strategy": {**RING, "buckets": "megatron"}}, "none"),
        ({"parallelism": {"pipeline": 2, "micro_batches": 2}}, "none"),
        ({"parallelism": {"sharding": "zero-1"}}, "none"),
        ({"compression": "fp16"}, "none"),
        ({"compression": "fp16", "precision": "fp16"}, "pytorch"),
        ({"num_gpus": 1}, "none"),
    ],
)
def test_by_default_pytorch_copies_gradients_of_whole_models_in_its_buckets(asked, changes, copies):
    asked |= {"batch": {"global": 32}, **changes}
    by_default, said = (
        clustersim.simulate(
            {**asked, "software": {"name": "plain", "bucket_copies": each}, "strategy": asked["strategy"]}
        ).iteration_s
        for each in ("auto", copies)
    )
    assert by_default == said


@pytest.mark.parametrize("copies", ["auto", "none", "pytorch", "pytorch-view", "horovod", "theano-mpi"])
def test_what_leaves_short_gradients_as_they_are_saves_no_copies(asked, copies):
    asked |= {"precision": "fp16", "software": {"name": "plain", "bucket_copies": copies}, "strategy": AFTER}
    plain, as_short = (clustersim.simulate({**asked, "compression": each}) for each in ("none", "fp16"))
    assert as_short.breakdown_s == plain.breakdown_s
    found = forecast(load_scenario({**asked, "compression": "fp16"}).points()[0].point).warnings
    assert not [each for each in found if "software.bucket_copies" in each]


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        (
            {"software": {"name": "plain", "bucket_copies": "horovod"}, "strategy": {**RING, "buckets": "layer"}},
            "Horovod does not copy a gradient",
        ),
        ({"parallelism": {"sharding": "zero-1"}}, "with sharding, offload or pipedream"),
        ({"compression": "fp16"}, "fp16 already writes gradients into their buckets"),
    ],
)
def test_a_warning_names_copies_that_are_not_made(asked, changes, words):
    asked |= {"software": {"name": "plain", "bucket_copies": "pytorch"}, "strategy": AFTER, **changes}
    assert [each for each in forecast(load_scenario(asked).points()[0].point).warnings if words in each]


@pytest.mark.parametrize("copies", ["horovod", "theano-mpi"])
def test_a_program_cannot_express_copies_of_workers(asked, copies):
    asked |= {"software": {"name": "plain", "bucket_copies": copies}, "strategy": AFTER}
    with pytest.raises(InputError, match="a program cannot express that") as error:
        programs_of(Setup(load_scenario(asked).points()[0].point))
    assert error.value.mistakes[0].key == "software.bucket_copies"
