"""The worker under torchrun, over gloo: three processes that pause instead of computing, and one that computes."""

from __future__ import annotations

import doctest
import json
import os
import subprocess
import sys
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest

from clustersim.data import data_folder
from clustersim.validation.real import validate_real
from clustersim.validation.real_file import read_real_run
from clustersim.validation.real_pack import write_worker

pytestmark = pytest.mark.torch


def torchrun(script: Path, num_ranks: int, output: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", str(num_ranks)]
    command += [str(script), "--device", "cpu", "--output", str(output), "--batch", "1", *arguments]
    return subprocess.run(
        command, cwd=output.parent, env={**os.environ, "OMP_NUM_THREADS": "1"},
        capture_output=True, text=True, timeout=180, check=False,
    )  # fmt: skip


@pytest.fixture(scope="module")
def run_file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Measure everything but kernels, on three ranks, with the single file."""
    output = tmp_path_factory.mktemp("real") / "run.json"
    script = write_worker(output.parent / "real_run.pyz")
    quick = ("--paced", "60", "--iterations", "3", "--warm-up", "2", "--max-bytes", "1048576")
    done = torchrun(script, 3, output, *quick)
    assert done.returncode == 0, done.stderr
    return output


@pytest.fixture
def document(run_file: Path) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(run_file.read_text(encoding="utf-8"))
    return found


def test_all_planned_phases_are_there(document: dict[str, Any]) -> None:
    assert document["complete"]
    assert [phase["name"] for phase in document["phases"]] == document["planned"]
    kinds = {phase["kind"] for phase in document["phases"]}
    assert kinds == {"all-reduce", "compute", "communication", "overlap", "no-overlap", "server", "async"}


def test_one_machine_has_one_clock_and_one_host(document: dict[str, Any]) -> None:
    assert [rank["host"] for rank in document["facts"]["ranks"]] == [0, 0, 0]
    assert [rank["clock_offset_s"] for rank in document["facts"]["ranks"]] == [0.0, 0.0, 0.0]
    assert os.uname().nodename not in json.dumps(document["facts"]) or len(os.uname().nodename) < 4


def test_no_rank_leaves_an_all_reduce_before_the_last_one_entered(document: dict[str, Any]) -> None:
    for phase in document["phases"]:
        if phase["kind"] in ("overlap", "no-overlap", "communication"):
            columns = [phase["spans"][name] for name in ("kind", "iteration", "name", "start_s", "end_s")]
            by_bucket: dict[tuple[int, str], list[tuple[float, float]]] = {}
            for kind, iteration, name, start_s, end_s in zip(*columns, strict=True):
                if kind == "communication":
                    by_bucket.setdefault((iteration, name), []).append((start_s, end_s))
            assert len(by_bucket) == 3 * len(phase["buckets"])
            for spans in by_bucket.values():
                assert len(spans) == 3
                assert max(start_s for start_s, _ in spans) <= min(end_s for _, end_s in spans)


def test_pauses_take_at_least_their_time(document: dict[str, Any]) -> None:
    (compute,) = [phase for phase in document["phases"] if phase["kind"] == "compute"]
    assert compute["forward_s"] > 0.019
    assert compute["backward_s"] > 0.039
    assert sum(layer["forward_s"] for layer in compute["layers"]) > 0.019
    assert sum(layer["backward_s"] for layer in compute["layers"]) > 0.039
    assert sum(compute["buckets"]) == pytest.approx(4 * 1_248_424)


def test_a_straggler_slows_all_ranks(document: dict[str, Any]) -> None:
    slow, even = (
        next(phase for phase in document["phases"] if phase["name"].endswith(name))
        for name in ("all-reduce with a straggler", "all-reduce after backward")
    )
    assert slow["straggler"] == {"rank": 1, "factor": 2.0}
    assert min(slow["iterations_s"]) > 0.115
    assert even["straggler"] is None


def test_asynchronous_staleness_follows_the_speed_of_the_others(document: dict[str, Any]) -> None:
    for phase in document["phases"]:
        if phase["kind"] == "async":
            updates = phase["updates"]
            assert updates["version_written"] == list(range(5, 11))  # two warm up on each of two workers
            assert set(updates["worker"]) <= {1, 2}
            assert phase["staleness"]["mean"] >= 0
            assert updates["time_s"] == sorted(updates["time_s"])


def test_every_phase_is_simulated_and_compared(run_file: Path) -> None:
    found = validate_real(run_file)
    assert not found.verdict.skipped
    (case,) = found.verdict.cases
    assert len(found.answered) == 9
    assert {point.role for point in case.points} == {"calibration", "prediction"}
    assert all(-0.9 < point.error < 9 for point in case.points)


def small(net: Any) -> None:
    """Write down a model that takes no time."""
    x = net.conv("conv", net.image(3, 8, 8), 4, kernel=3, pad=1)
    net.loss("loss", net.fully_connected("fc", x, 10))


@pytest.fixture
def in_this_process(monkeypatch: pytest.MonkeyPatch) -> Any:
    """Return the worker's own command, for one rank and a small model."""
    from clustersim.profiling.models import MODELS

    monkeypatch.syspath_prepend(str(data_folder("validate")))
    monkeypatch.setitem(MODELS, "small", small)
    for name in ("RANK", "WORLD_SIZE", "LOCAL_RANK"):
        monkeypatch.delenv(name, raising=False)
    main = import_module("real_run.command").main
    arguments = ["--device", "cpu", "--models", "small", "--iterations", "4", "--kernel-ms", "0.1"]
    return lambda *more: main([*arguments, *map(str, more)])


def test_a_phase_that_fails_leaves_those_before_it(
    in_this_process: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import torch.distributed as dist

    def burn(ranks: Any, job: Any, kernel_s: float) -> None:
        raise RuntimeError("it burns")

    monkeypatch.setattr(import_module("real_run.layers"), "single_layers", burn)
    try:
        with pytest.raises(RuntimeError, match="it burns"):
            in_this_process("--phases", "compute,layers", "--output", tmp_path / "run.json")
    finally:
        dist.destroy_process_group()
    run = read_real_run(tmp_path / "run.json")
    assert [phase.name for phase in run.phases] == ["small: compute only"]
    assert run.missing == ("small: layers: the job failed here (RuntimeError: it burns)",)


def test_one_process_times_layers_and_iterations(in_this_process: Any, tmp_path: Path) -> None:
    assert in_this_process("--output", tmp_path / "run.json") == 0
    run = read_real_run(tmp_path / "run.json")
    assert run.missing == ()
    layers, compute = run.phases
    assert [row.name for row in layers.layers] == [row.name for row in compute.layers] == ["conv", "fc", "loss"]
    assert min(row.forward_s for row in layers.layers) > 0
    assert compute.iteration_s == pytest.approx(compute.forward_s + compute.backward_s + compute.update_s, rel=0.5)
    assert set(compute.spans.kind) == {"forward", "backward", "update"}


@pytest.mark.parametrize("name", ["exchanges", "layer_times", "sweep"])
def test_examples_in_the_worker_are_right(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(data_folder("validate")))
    found = doctest.testmod(import_module(f"real_run.{name}"))
    assert (found.failed, found.attempted > 0) == (0, True)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--models", "resnet51"], "no model is called 'resnet51'"),
        (["--phases", "all"], "no phase is called 'all'"),
        (["--straggler", "fast"], "write RANK:FACTOR, such as 1:2"),
        (["--straggler", "0:2"], "as rank 0 is the server"),
        (["--straggler", "1:1"], "factor above 1"),
        (["--iterations", "0"], "--iterations must be at least 1 (got 0)"),
        (["--backend", "nccl", "--device", "cpu"], "nccl needs GPUs"),
        (["--device", "cpu", "--phases", "compute", "--models", "nin", "-o", "/proc/run.json"], "cannot write /proc"),
    ],
)
def test_what_cannot_be_measured_is_refused(
    arguments: list[str], message: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.syspath_prepend(str(data_folder("validate")))
    assert import_module("real_run.command").main(arguments) == 3
    assert message in capsys.readouterr().err
