"""What names a layer in a trace of torch.profiler and what does not: marks, communication, recomputation, graphs."""

from __future__ import annotations

import gzip
import json
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from clustersim.cli import main
from clustersim.errors import InputError
from clustersim.interchange.kineto import import_kineto
from clustersim.interchange.kineto.trace import MAX_BYTES
from tests.interchange.test_kineto import LINEAR, Recorder, recorded, times, write
from tests.mutations import check_mutations

RELU = {"Input Dims": [[8, 100]], "Input type": ["float"]}


class Passes(Recorder):
    """Records training steps of a linear layer, a ReLU and another linear layer, as functions without modules."""

    def mark(self, name: str, start: float) -> None:
        """Put a mark around all operators since `start`."""
        self.add("user_annotation", name, start - 3, self.now - start - 4)

    def forward_op(self, name: str, kernel_us: float, **args: Any) -> int:
        self.sequence += 1
        self.launch(name, {f"k{name}": kernel_us}, 1, **{"Sequence number": self.sequence, **args})
        return self.sequence

    def training_step(self, **marks: Any) -> None:
        """Add a step; `marks` name ranges around the passes and the middle of the forward pass."""
        start = self.now
        first = self.forward_op("aten::linear", 10.0, **LINEAR)
        middle = self.now
        relu = self.forward_op("aten::relu", 2.0, **RELU)
        if "around_relu" in marks:
            self.mark(marks["around_relu"], middle)
        last = self.forward_op("aten::linear", 20.0, **LINEAR)
        if "around_relu_and_linear" in marks:
            self.mark(marks["around_relu_and_linear"], middle)
        if "forward" in marks:
            self.mark(marks["forward"], start)
        begin_backward = self.now
        self.launch("aten::ones_like", {"fill": 1.0}, 1)
        for name, sequence, kernel_us in (("Addmm", last, 40.0), ("Relu", relu, 4.0), ("Addmm", first, 15.0)):
            dims = {"Input Dims": [[8, 10], [1, 2]]}
            self.backward(f"{name}Backward0", sequence, "aten::mm", {"k": kernel_us}, **dims)
        if "backward" in marks:
            self.mark(marks["backward"], begin_backward)
        begin_update = self.now
        self.add("user_annotation", "Optimizer.step#SGD.step", self.now - 2, 20.0)
        self.launch("aten::_foreach_add_", {"multi_tensor": 9.0}, 1)
        if "optimizer" in marks:
            self.mark(marks["optimizer"], begin_update)


def rows_of(path: Path, **more: Any) -> dict[str, tuple[int, int, int]]:
    return {row["name"]: times(row) for row in import_kineto(path, **more).document["layers"]}


PLAIN = {"linear": (10, 15, 0), "relu": (2, 4, 0), "linear#2": (20, 40, 0)}


@pytest.mark.parametrize(
    "marks",
    [
        {},
        {"forward": "## forward ##"},
        {"forward": "## forward ##", "backward": "## backward ##", "optimizer": "## optimizer ##"},
        {"around_relu_and_linear": "block", "backward": "loss.backward", "optimizer": "update"},
    ],
)
def test_marks_around_passes_and_several_modules_name_no_layer(tmp_path: Path, marks: dict[str, str]) -> None:
    recorder = Passes()
    recorder.training_step(**marks)
    imported = import_kineto(write(tmp_path, recorder.document()))
    assert {row["name"]: times(row) for row in imported.document["layers"]} == PLAIN
    (whole,) = imported.document["whole"]
    assert (whole["optimizer_s"], whole["other_s"]) == (pytest.approx(9e-6), pytest.approx(1e-6))
    noted = [name for name in ("## forward ##", "block") if name in marks.values()]
    assert any("name no layer" in note for note in imported.notes) == bool(noted)
    for name in noted:
        assert any(f"several modules name no layer: '{name}'." in note for note in imported.notes), imported.notes


def test_a_mark_around_one_module_names_it(tmp_path: Path) -> None:
    recorder = Passes()
    recorder.training_step(around_relu="act", forward="## forward ##")
    assert list(rows_of(write(tmp_path, recorder.document()))) == ["linear", "act", "linear#2"]


def test_a_mark_that_lasts_while_backward_runs_on_another_thread_names_no_layer(tmp_path: Path) -> None:
    """On a GPU, backward runs on a thread of its own, while the thread of the mark waits."""
    recorder = Passes()
    start = recorder.now
    recorder.training_step()
    recorder.add("user_annotation", "step", start - 3, recorder.now - start)
    assert rows_of(write(tmp_path, recorder.document())) == PLAIN


# communication


def with_communication(mark: str | None, op: str, kernel: str) -> Recorder:
    recorder = Passes()
    recorder.training_step()
    start = recorder.now
    recorder.launch(op, {kernel: 2000.0, "Memcpy DtoD (Device -> Device)": 300.0}, 1)
    if mark is not None:
        recorder.mark(mark, start)
    return recorder


@pytest.mark.parametrize("mark", [None, "## alltoall_fwd ##", "nccl:all_reduce", "FSDP::all_gather (layers.0)"])
@pytest.mark.parametrize(
    ("op", "kernel"),
    [
        ("c10d::alltoall_base_", "ncclKernel_SendRecv_RING_SIMPLE_Sum_int8_t(ncclDevComm*)"),
        ("record_param_comms", "ncclDevKernel_AllReduce_Sum_f32_RING_LL(ncclDevKernelArgsStorage<4096ul>)"),
        ("_c10d_functional::all_gather_into_tensor", "ncclDevKernel_AllGather_RING_LL"),
        ("symm_mem::one_shot_all_reduce", "one_shot_all_reduce_kernel"),
    ],
)
def test_communication_is_no_layer_and_its_time_is_told(tmp_path: Path, mark: str | None, op: str, kernel: str) -> None:
    """The kernels of NCCL, and the copies of the operator around them."""
    imported = import_kineto(write(tmp_path, with_communication(mark, op, kernel).document()))
    assert {row["name"]: times(row) for row in imported.document["layers"]} == PLAIN
    assert imported.document["whole"][0]["communication_s"] == pytest.approx(2300e-6)
    assert any(note.startswith("2.3 ms per step are communication") for note in imported.notes)


def test_a_kernel_of_nccl_under_a_module_with_a_gradient_is_none_either(tmp_path: Path) -> None:
    recorder = Recorder()
    recorder.step(0)
    recorder.module("nn.Module: Linear_9", "ColumnParallel", {"gemm": 3.0, "ncclDevKernel_AllGather": 50.0},
                    "python_function", **LINEAR)  # fmt: skip
    document = recorder.document()
    document["traceEvents"] = [event for event in document["traceEvents"] if "ProfilerStep" not in event["name"]]
    imported = import_kineto(write(tmp_path, document))
    assert {row["name"]: times(row) for row in imported.document["layers"]}["Linear_9"] == (3, 0, 0)
    assert imported.document["whole"][0]["communication_s"] == pytest.approx(50e-6)


# steps


def test_steps_without_a_schedule_end_with_those_of_the_optimizer(tmp_path: Path) -> None:
    recorder = Passes()
    for _ in range(3):
        recorder.training_step()
    imported = import_kineto(write(tmp_path, recorder.document()))
    assert {row["name"]: times(row) for row in imported.document["layers"]} == PLAIN
    assert any("no ProfilerStep marks: its 3 steps end with those of the optimizer" in note for note in imported.notes)
    assert any("if the profiler has a schedule= and the loop calls prof.step()" in note for note in imported.notes)
    assert imported.document["whole"][0]["iteration_s"] == pytest.approx(160e-6)


def test_two_optimizers_of_one_step_end_one_step(tmp_path: Path) -> None:
    recorder = Passes()
    for _ in range(2):
        recorder.training_step()
        recorder.add("user_annotation", "Optimizer.step#Muon.step", recorder.now - 2, 20.0)
        recorder.launch("aten::_foreach_add_", {"multi_tensor": 9.0}, 1)
    imported = import_kineto(write(tmp_path, recorder.document()))
    assert imported.notes[0] == "3 layers over 2 step(s); times are medians."
    assert imported.document["whole"][0]["optimizer_s"] == pytest.approx(18e-6)


# computed again


@pytest.mark.parametrize("is_module", [True, False])
def test_forward_passes_inside_backward_are_computed_again_and_no_gradients(tmp_path: Path, is_module: bool) -> None:
    """As with torch.utils.checkpoint: operators with sequence numbers of their own, or modules, inside backward."""
    recorder = Passes()
    recorder.training_step()
    start = recorder.now
    inner: dict[str, Any] = {} if is_module else {"Sequence number": 9000}
    recorder.launch("aten::linear", {"again": 30.0}, 2, **LINEAR, **inner)
    if is_module:
        recorder.add("python_function", "nn.Module: Linear_0", start - 1, 18.0, 2)
    recorder.launch("aten::mm", {"gradient": 7.0}, 2)
    recorder.add("cpu_op", "autograd::engine::evaluate_function: ReluBackward0", start - 2, 40.0, 2,
                 **{"Sequence number": 102})  # fmt: skip
    imported = import_kineto(write(tmp_path, recorder.document()))
    rows = {row["name"]: times(row) for row in imported.document["layers"]}
    assert rows["relu"] == (2, 11, 0)
    assert imported.document["whole"][0]["recomputed_s"] == pytest.approx(30e-6)
    assert any("0.03 ms per step compute forward passes again" in note for note in imported.notes)


def test_a_backward_operator_with_hooks_has_the_number_of_the_one_inside(tmp_path: Path) -> None:
    """As under FSDP2, whose hooks run before it: torch then writes no number for the operator around."""
    recorder = Passes()
    recorder.training_step()
    for event in list(recorder.events):
        if event["name"].startswith("autograd::engine::evaluate_function: "):
            inner = {**event, "name": event["name"].rpartition(" ")[2], "ts": event["ts"] + 1, "dur": event["dur"] - 2}
            event["args"] = {}
            recorder.events.append(inner)
    imported = import_kineto(write(tmp_path, recorder.document()))
    assert {row["name"]: times(row) for row in imported.document["layers"]} == PLAIN
    assert imported.document["whole"][0]["recomputed_s"] == 0


def test_work_of_other_accelerators_is_refused(tmp_path: Path) -> None:
    recorder = Passes()
    recorder.training_step()
    for event in recorder.events:
        event["cat"] = {"kernel": "mtia_ccp_events", "cuda_runtime": "mtia_runtime"}.get(event["cat"], event["cat"])
    with pytest.raises(InputError, match="has work of the category mtia_ccp_events, which is not read"):
        import_kineto(write(tmp_path, recorder.document()))


# CUDA graphs and torch.compile


def with_graph(share: float, has_node: bool = False) -> dict[str, Any]:
    """Return a trace in which a share of the time of kernels is that of one replayed graph."""
    recorder = Passes()
    recorder.training_step()
    kernels_us = sum(event["dur"] for event in recorder.events if event["cat"] == "kernel")
    correlation = 10_000
    if not has_node:
        recorder.add("cuda_runtime", "cudaGraphLaunch", recorder.now, 5.0, correlation=correlation)
    args = {"graph node id": 25769803776, "graph id": 6} if has_node else {}
    for _ in range(4):
        duration_us = kernels_us * share / (1 - share) / 4
        recorder.add("kernel", "triton_poi_fused_0", recorder.now + 9, duration_us, 99, correlation=correlation, **args)
    return recorder.document()


@pytest.mark.parametrize("has_node", [False, True])
def test_a_trace_of_cuda_graphs_is_refused_with_what_to_do(tmp_path: Path, has_node: bool) -> None:
    with pytest.raises(InputError, match=r"80% of the time of kernels was launched as CUDA graphs.*mode='default'"):
        import_kineto(write(tmp_path, with_graph(0.8, has_node)))
    imported = import_kineto(write(tmp_path, with_graph(0.04, has_node)))
    assert {row["name"]: times(row) for row in imported.document["layers"]} == PLAIN
    assert any("are kernels of CUDA graphs, whose operators a trace does not have" in note for note in imported.notes)


def test_a_region_of_torch_compile_is_one_layer_and_says_so(tmp_path: Path) -> None:
    recorder = Passes()
    recorder.training_step()
    start = recorder.now
    recorder.sequence += 1
    for name, kernel_us in (("triton_poi_fused_relu_0", 5.0), ("aten::mm", 50.0)):
        recorder.launch(name, {name: kernel_us}, 1)
    around = {"Sequence number": recorder.sequence}
    recorder.add("cpu_op", "CompiledFunction", start - 1, recorder.now - start, **around)
    recorder.add("cpu_op", "Torch-Compiled Region: 0/0", start - 2, recorder.now - start + 2)
    recorder.backward("CompiledFunctionBackward", recorder.sequence, "CompiledFunctionBackward", {"triton_red": 90.0})
    imported = import_kineto(write(tmp_path, recorder.document()))
    assert {row["name"]: times(row) for row in imported.document["layers"]} == PLAIN | {"CompiledFunction": (55, 90, 0)}
    note = next(note for note in imported.notes if "torch.compile" in note)
    assert "1 of 4 layers are regions of torch.compile, 61% of the layers' time" in note
    assert "profile without torch.compile" in note


def test_triton_kernels_launched_by_the_driver_belong_to_their_operator(tmp_path: Path) -> None:
    document = recorded()
    for event in document["traceEvents"]:
        if event["cat"] == "cuda_runtime":
            event["cat"], event["name"] = "cuda_driver", "cuLaunchKernelEx"
    assert rows_of(write(tmp_path, document)) == {"Conv2d_0": (30, 40, 50), "Linear_0": (8, 5, 8)}


def test_layers_stand_in_the_order_of_their_calls_whatever_that_of_the_file(tmp_path: Path) -> None:
    recorder = Passes()
    for _ in range(2):
        recorder.training_step()
    document = recorder.document()
    document["traceEvents"].reverse()
    assert list(rows_of(write(tmp_path, document))) == list(PLAIN)


def test_operators_whose_gradient_is_not_computed_are_no_layers(tmp_path: Path) -> None:
    """They have the sequence number of the next operator that has a gradient: casts of inputs, counters, buffers."""
    recorder = Passes()
    for name, number in (("aten::to", 101), ("aten::zero_", 101), ("aten::add_", 55)):
        recorder.launch(name, {"elementwise": 5.0}, 1, **{"Sequence number": number})
    start = recorder.now
    recorder.launch("aten::copy_", {"elementwise": 5.0}, 1, **{"Sequence number": 101})
    recorder.mark("## data_load ##", start)
    recorder.training_step()
    imported = import_kineto(write(tmp_path, recorder.document()))
    assert {row["name"]: times(row) for row in imported.document["layers"]} == PLAIN
    assert imported.document["whole"][0]["other_s"] == pytest.approx(21e-6)


def test_kernels_without_an_operator_are_not_lost(tmp_path: Path) -> None:
    recorder = Recorder()
    recorder.step(0)
    recorder.add("kernel", "stray", recorder.now - 30, 40.0, 99, correlation=77777)
    imported = import_kineto(write(tmp_path, recorder.document()))
    assert imported.document["whole"][0]["other_s"] == pytest.approx(40e-6)


# several ranks and packed files


def test_ranks_of_one_model_give_medians_over_them(tmp_path: Path) -> None:
    paths = []
    for rank, scale in enumerate((1.0, 2.0, 9.0)):
        paths.append(tmp_path / f"rank{rank}.json")
        paths[-1].write_text(json.dumps(recorded(2, scale=scale)))
    imported = import_kineto(paths)
    assert imported.notes[0] == "2 layers over 3 ranks of 2, 2, 2 steps; times are medians."
    assert {row["name"]: times(row) for row in imported.document["layers"]}["Conv2d_0"] == (60, 40, 50)
    assert import_kineto(tmp_path).document == imported.document, "a folder"
    with zipfile.ZipFile(tmp_path / "ranks.zip", "w") as archive:
        for path in paths[:2]:
            archive.write(path, path.name)
        archive.writestr("rank2.json.gz", gzip.compress(paths[2].read_bytes()))
    assert import_kineto(tmp_path / "ranks.zip").document == imported.document


def test_ranks_with_other_layers_are_refused(tmp_path: Path) -> None:
    other = Passes()
    other.training_step()
    first, second = write(tmp_path, recorded()), tmp_path / "other.json"
    second.write_text(json.dumps(other.document()))
    with pytest.raises(InputError, match=r"other\.json: has other layers than .* \(Conv2d_0, Linear_0, linear"):
        import_kineto([first, second])


def test_a_folder_or_a_zip_without_traces_is_refused(tmp_path: Path) -> None:
    with zipfile.ZipFile(tmp_path / "none.zip", "w"):
        pass
    for path in (tmp_path, tmp_path / "none.zip"):
        with pytest.raises(InputError, match="there is no trace in"):
            import_kineto(path)


def test_the_command_takes_several_ranks(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    first, second = write(tmp_path, recorded()), tmp_path / "other.json"
    second.write_text(json.dumps(recorded()))
    assert main(["import", "kineto", str(first), str(second), "-o", str(tmp_path / "profile.json")]) == 0
    assert "2 layers over 2 ranks of 1, 1 steps" in capsys.readouterr().err


def test_what_a_packed_trace_unpacks_to_is_bounded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert MAX_BYTES == 2_000_000_000
    monkeypatch.setattr("clustersim.interchange.kineto.trace.MAX_BYTES", 30_000_000)
    for name, packed in (("a.gz", gzip.compress(b"0" * 40_000_000)), ("b.json", b" " * 40_000_000)):
        (tmp_path / name).write_bytes(packed)
        with pytest.raises(InputError, match="the file is too large; at most 30 MB, unpacked"):
            import_kineto(tmp_path / name)
    with zipfile.ZipFile(tmp_path / "c.zip", "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("a.json", b"0" * 40_000_000)
    with pytest.raises(InputError, match="the file is too large"):
        import_kineto(tmp_path / "c.zip")
    (tmp_path / "c.zip").write_bytes((tmp_path / "c.zip").read_bytes()[:200])
    with pytest.raises(InputError, match="is a zip file that cannot be unpacked"):
        import_kineto(tmp_path / "c.zip")


# wrong types


def _changed(key: str, value: Any, number: int = 0) -> dict[str, Any]:
    document = recorded()
    events = document["traceEvents"]
    kernel = next(at for at, event in enumerate(events) if event["cat"] == "kernel")
    at = (0, 1, kernel)[number]
    holder = events[at]
    *outer, last = key.split(".")
    for part in outer:
        holder = holder[part]
    holder[last] = value
    return document


@pytest.mark.parametrize(
    ("key", "value", "number", "allowed"),
    [
        ("cat", ["kernel"], 0, "text"),
        ("name", 7, 0, "text"),
        ("ts", "soon", 1, "microseconds"),
        ("ts", 1e300, 1, "microseconds"),
        ("dur", None, 1, "microseconds"),
        ("dur", -1, 1, "microseconds"),
        ("dur", True, 1, "microseconds"),
        ("dur", 10**400, 1, "microseconds"),
        ("tid", [1], 1, "a number or text"),
        ("pid", {}, 1, "a number or text"),
        ("args", 7, 2, "a map"),
        ("args.correlation", {"a": 1}, 2, "a number"),
        ("args.Sequence number", [5], 1, "a number"),
        ("args.Input Dims", [[8, 3], 7], 1, "a list of sizes for each input"),
        ("args.Input Dims", [[8, {}]], 1, "a list of sizes for each input"),
        ("args.Input Dims", [[[8], 3]], 1, "a list of sizes for each input"),
        ("args.Input Dims", "all", 1, "a list"),
        ("args.Input type", 3, 1, "a list"),
    ],
)
def test_a_wrong_type_is_told_with_its_line_and_key(
    tmp_path: Path, key: str, value: Any, number: int, allowed: str
) -> None:
    document = _changed(key, value, number)
    path = tmp_path / "trace.json"
    head, _, events = json.dumps(document).partition('"traceEvents": [')
    lines = events.replace('{"ph": ', '\n{"ph": ')
    path.write_text(f'{head}"traceEvents": [{lines}')
    with pytest.raises(InputError) as caught:
        import_kineto(path)
    (mistake,) = caught.value.mistakes
    events = document["traceEvents"]
    at = (0, 1, next((at for at, event in enumerate(events) if event["cat"] == "kernel"), 0))[number]
    assert (mistake.file, mistake.line, mistake.key) == (str(path), at + 2, f"traceEvents.{at}.{key}")
    assert allowed in mistake.message


def test_lists_of_tensors_and_numbers_as_text_are_right(tmp_path: Path) -> None:
    document = _changed("args.Input Dims", [[8, 3, 32, 32], [[8, 3], [8]], []], 1)
    document["traceEvents"][0]["tid"] = "stream 7"
    assert len(import_kineto(write(tmp_path, document)).document["layers"]) == 2


@pytest.mark.parametrize("kind", ["modules", "marks", "packed"])
def test_mutated_traces_are_read_or_refused(tmp_path: Path, kind: str) -> None:
    recorder = Passes()
    for _ in range(2):
        recorder.training_step(forward="## forward ##", backward="## backward ##")
    documents = {"modules": recorded(), "marks": recorder.document(), "packed": recorded()}
    data = json.dumps(documents[kind]).encode()
    if kind == "packed":
        data = gzip.compress(data)
    num_read, num_refused = check_mutations(lambda path: import_kineto(path), data, tmp_path / "trace.json")
    assert num_refused > 100
    assert num_read > 20


def test_a_deep_nest_of_operators_is_read(tmp_path: Path) -> None:
    document = recorded()
    for depth in range(5000):
        inner = {"ph": "X", "cat": "cpu_op", "name": "aten::mul", "pid": 7, "tid": 5}
        document["traceEvents"].append({**inner, "ts": depth, "dur": 20000 - 2 * depth, "args": {}})
    assert len(import_kineto(write(tmp_path, document)).document["layers"]) == 2


# against torch itself


def _real_trace(path: Path, kind: str) -> None:
    """Write the trace of four steps of two blocks and a head; the first step is left out by the schedule."""
    import torch
    from torch import nn
    from torch.profiler import ProfilerActivity, profile, record_function, schedule
    from torch.utils.checkpoint import checkpoint

    class Blocks(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.blocks = nn.ModuleList(nn.Sequential(nn.Linear(16, 32), nn.ReLU(), nn.Linear(32, 16)) for _ in "ab")
            self.head = nn.Linear(16, 8)

        def forward(self, x: Any) -> Any:
            for block in self.blocks:
                x = checkpoint(block, x, use_reentrant=False) if kind == "checkpoint" else block(x)
            return self.head(x)

    model: Any = Blocks()
    if kind in ("ddp", "fsdp"):
        model = _distributed(model, kind, path.parent)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    called: Any = torch.compile(model, backend="aot_eager") if kind == "compile" else model
    images, labels = torch.randn(4, 16), torch.randint(8, (4,))

    def one_step() -> None:
        optimizer.zero_grad()
        with record_function("## forward ##"):
            loss = nn.functional.cross_entropy(called(images), labels)
        with record_function("## backward ##"):
            loss.backward()
        with record_function("## optimizer ##"):
            optimizer.step()

    one_step()
    plan = None if kind == "no schedule" else schedule(wait=0, warmup=1, active=3)
    with profile(activities=[ProfilerActivity.CPU], record_shapes=True, with_stack=kind == "stack", schedule=plan,
                 on_trace_ready=None if plan is None else lambda profiler: profiler.export_chrome_trace(str(path))
                 ) as profiler:  # fmt: skip
        for _ in range(4):
            one_step()
            profiler.step()
    if plan is None:
        profiler.export_chrome_trace(str(path))


def _distributed(model: Any, kind: str, folder: Path) -> Any:
    """Return the model as the only rank of a group has it."""
    import torch.distributed as dist
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.fsdp import fully_shard
    from torch.nn.parallel import DistributedDataParallel

    dist.init_process_group("gloo", init_method=f"file://{folder}/group", rank=0, world_size=1)
    if kind == "ddp":
        return DistributedDataParallel(model)
    mesh = init_device_mesh("cpu", (1,))
    for block in (*model.blocks, model):
        fully_shard(block, mesh=mesh)
    return model


@pytest.fixture
def no_group_left() -> Iterator[None]:
    yield
    import torch.distributed as dist

    if dist.is_initialized():
        dist.destroy_process_group()


@pytest.mark.torch
@pytest.mark.usefixtures("no_group_left")
@pytest.mark.parametrize("kind", ["marks", "stack", "checkpoint", "no schedule", "compile", "ddp", "fsdp"])
def test_a_real_trace_with_marks_around_passes(tmp_path: Path, kind: str) -> None:
    _real_trace(tmp_path / "trace.json", kind)
    given: dict[str, Any] = {"batch": 4, "precision": "fp32"} if kind == "compile" else {}
    imported = import_kineto(tmp_path / "trace.json", **given)
    rows = imported.document["layers"]
    kinds = ["fully-connected", "relu", "fully-connected"] * 2 + ["fully-connected", "loss"]
    assert [row["op"] for row in rows] == (["other", "loss"] if kind == "compile" else kinds)
    assert not any("##" in row["name"] for row in rows)
    assert imported.notes[0].startswith(f"{len(rows)} layers over {4 if kind == 'no schedule' else 3} step(s)")
    assert (imported.document["whole"][0]["recomputed_s"] > 0) == (kind == "checkpoint")
    assert any("regions of torch.compile" in note for note in imported.notes) == (kind == "compile")
    assert imported.document["whole"][0]["optimizer_s"] > 0
    assert (imported.document["whole"][0]["communication_s"] > 0) == (kind in ("ddp", "fsdp"))
    assert all(row["backward_data_s"] + row["backward_weights_s"] > 0 for row in rows)
