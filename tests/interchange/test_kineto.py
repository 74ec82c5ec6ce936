"""A trace of torch.profiler becomes a layer profile: kernel to launch to operator to module, backward by sequence."""

from __future__ import annotations

import gzip
import json
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from clustersim.cli import main
from clustersim.errors import InputError
from clustersim.interchange.kineto import import_kineto
from clustersim.kernels import read_profile

CONV = {"Input Dims": [[8, 3, 32, 32], [16, 3, 3, 3]], "Input type": ["float", "float"]}
LINEAR = {"Input Dims": [[8, 100], [10, 100], [10]], "Input type": ["float", "float", "float"]}


class Recorder:
    """Writes what torch would write of two modules on a GPU, with seconds that the test chooses (in microseconds)."""

    def __init__(self) -> None:
        self.events: list[dict[str, Any]] = []
        self.now = 1e12  # Kineto counts from long ago
        self.correlation = 0
        self.sequence = 100

    def add(self, category: str, name: str, start: float, duration: float, tid: int = 1, **args: Any) -> None:
        event = {"ph": "X", "cat": category, "name": name, "pid": 7, "tid": tid, "ts": start, "dur": duration}
        self.events.append({**event, "args": args})

    def launch(self, op: str, kernels: dict[str, float], tid: int, **args: Any) -> None:
        """Add an operator of ten microseconds that launches kernels."""
        self.add("cpu_op", op, self.now, 10.0, tid, **args)
        for kernel, duration in kernels.items():
            self.correlation += 1
            self.add("cuda_runtime", "cudaLaunchKernel", self.now + 1, 1.0, tid, correlation=self.correlation)
            self.add("kernel", kernel, self.now + 500, duration, 99, correlation=self.correlation, stream=99)
        self.now += 20

    def module(self, name: str, op: str, kernels: dict[str, float], category: str, **args: Any) -> int:
        self.sequence += 1
        self.add(category, name, self.now - 5, 20.0)
        self.launch(op, kernels, 1, **{"Sequence number": self.sequence, **args})
        return self.sequence

    def backward(self, name: str, sequence: int, op: str, kernels: dict[str, float], **args: Any) -> None:
        around = f"autograd::engine::evaluate_function: {name}"
        self.add("cpu_op", around, self.now - 2, 15.0, 2, **{"Sequence number": sequence, "Fwd thread id": 1})
        self.launch(op, kernels, 2, **args)

    def step(self, number: int, category: str = "python_function", scale: float = 1.0, fork: float = 0.0) -> None:
        """Add one training step of a convolution and a linear layer."""
        start, prefix = self.now, "nn.Module: " if category == "python_function" else ""
        self.now += 10
        conv = self.module(f"{prefix}Conv2d_0", "aten::conv2d", {"fprop": 30.0 * scale}, category, **CONV)
        linear = self.module(
            f"{prefix}Linear_0", "aten::linear", {"gemm": 7.0 * scale, "bias": 1.0}, category, **LINEAR
        )
        dims = {"Input Dims": [[8, 10], [10, 100]]}
        self.backward("AddmmBackward0", linear, "aten::mm", {"gemm_nn": 5.0}, **dims)
        dims = {"Input Dims": [[10, 8], [8, 100]]}
        self.backward("AddmmBackward0", linear, "aten::mm", {"gemm_tn": 6.0}, **dims)
        self.backward("AddmmBackward0", linear, "aten::sum", {"reduce": 2.0})
        kernels = {"sm90_xmma_dgrad": 40.0, "sm90_xmma_wgrad": 50.0}
        self.backward("ConvolutionBackward0", conv, "aten::convolution_backward", kernels)
        if fork:
            self.launch("aten::add", {"elementwise": fork}, 2)
        self.add("user_annotation", "Optimizer.step#SGD.step", self.now - 5, 20.0)
        self.launch("aten::_foreach_add_", {"multi_tensor": 9.0}, 1)
        self.add("user_annotation", f"ProfilerStep#{number}", start, self.now - start)

    def document(self, device: str = "NVIDIA H200") -> dict[str, Any]:
        return {"schemaVersion": 1, "deviceProperties": [{"id": 0, "name": device}], "traceEvents": self.events}


def recorded(num_steps: int = 1, **more: Any) -> dict[str, Any]:
    recorder = Recorder()
    for number in range(num_steps):
        recorder.step(number, **more)
    return recorder.document()


def write(folder: Path, document: Any) -> Path:
    path = folder / "trace.json"
    path.write_text(json.dumps(document))
    return path


def times(row: dict[str, Any]) -> tuple[int, int, int]:
    """Return a row's phases in microseconds."""
    phases = ("forward_s", "backward_data_s", "backward_weights_s")
    forward, data, weights = (round(row[key] * 1e6) for key in phases)
    return forward, data, weights


@pytest.mark.parametrize("category", ["python_function", "user_annotation"])
def test_every_kernel_finds_its_layer_and_phase(tmp_path: Path, category: str) -> None:
    profile = import_kineto(write(tmp_path, recorded(category=category))).document
    rows = {row["name"]: row for row in profile["layers"]}
    assert list(rows) == ["Conv2d_0", "Linear_0"]
    assert times(rows["Conv2d_0"]) == (30, 40, 50)
    assert times(rows["Linear_0"]) == (8, 5, 8)
    assert [row["op"] for row in rows.values()] == ["convolution", "fully-connected"]
    assert rows["Conv2d_0"]["batch"] == 8
    assert rows["Conv2d_0"]["precision"] == "fp32"
    assert rows["Conv2d_0"]["layout"] == "nchw"
    assert profile["device"] == {"name": "NVIDIA H200"}


def test_every_microsecond_is_somewhere(tmp_path: Path) -> None:
    document = recorded(3, fork=4.0)
    kernels_s = sum(event["dur"] for event in document["traceEvents"] if event["cat"] == "kernel") / 1e6
    profile = import_kineto(write(tmp_path, document)).document
    (whole,) = profile["whole"]
    layers_s = sum(sum(times(row)) for row in profile["layers"]) / 1e6
    assert whole["other_s"] == pytest.approx(4e-6)
    assert whole["optimizer_s"] == pytest.approx(9e-6)
    assert 3 * (layers_s + whole["other_s"] + whole["optimizer_s"]) == pytest.approx(kernels_s)


def test_times_are_medians_over_steps(tmp_path: Path) -> None:
    recorder = Recorder()
    for number, scale in enumerate((1.0, 1.0, 9.0)):
        recorder.step(number, scale=scale)
    (conv, _) = import_kineto(write(tmp_path, recorder.document())).document["layers"]
    assert times(conv) == (30, 40, 50)
    assert conv["spread_s"] == pytest.approx(240e-6)


def test_work_between_steps_counts_for_none(tmp_path: Path) -> None:
    recorder = Recorder()
    recorder.step(0)
    recorder.now += 1000
    recorder.module("nn.Module: Conv2d_0", "aten::conv2d", {"fprop": 999.0}, "python_function", **CONV)
    (conv, _) = import_kineto(write(tmp_path, recorder.document())).document["layers"]
    assert times(conv)[0] == 30


def test_a_compressed_trace_is_the_same(tmp_path: Path) -> None:
    plain = import_kineto(write(tmp_path, recorded())).document
    packed = tmp_path / "trace.json.gz"
    packed.write_bytes(gzip.compress(json.dumps(recorded()).encode()))
    assert import_kineto(packed).document == plain


def test_what_the_trace_does_not_say_can_be_given(tmp_path: Path) -> None:
    path = write(tmp_path, recorded())
    (row, _) = import_kineto(path, batch=64, precision="tf32", layout="nhwc", device="Tesla V100").document["layers"]
    assert (row["batch"], row["precision"], row["layout"]) == (64, "tf32", "nhwc")


def test_layers_take_the_names_of_a_model_where_their_numbers_agree(tmp_path: Path) -> None:
    from clustersim.model.catalogue import load_model

    recorder = Recorder()
    names = [layer.name for layer in load_model("alexnet").layers if layer.op == "convolution"]
    for number in range(len(names)):
        module = f"nn.Module: Conv2d_{number}"
        sequence = recorder.module(module, "aten::conv2d", {"fprop": 1.0 + number}, "python_function", **CONV)
        recorder.backward("ConvolutionBackward0", sequence, "aten::convolution_backward", {"dgrad": 1.0})
    imported = import_kineto(write(tmp_path, recorder.document()), model="alexnet")
    assert [row["name"] for row in imported.document["layers"]] == names
    assert any("fully-connected (0 in the trace, 3 in alexnet)" in note for note in imported.notes)
    with pytest.raises(InputError, match="no model is called 'alexnot'"):
        import_kineto(write(tmp_path, recorder.document()), model="alexnot")


def test_the_profile_is_one_that_forecasts_read(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    output = tmp_path / "out" / "profile.json"
    assert main(["import", "kineto", str(write(tmp_path, recorded())), "-o", str(output)]) == 0
    shown = capsys.readouterr()
    assert shown.out == f"profile: {output}\n"
    assert "note: 2 layers over 1 step(s)" in shown.err
    assert {row.name for row in read_profile(output).content.layers} == {"Conv2d_0", "Linear_0"}
    assert main(["import", "kineto", str(write(tmp_path, recorded()))]) == 0
    assert json.loads(capsys.readouterr().out)["schema"] == "clustersim.profile/1"


# precision


def autocast(document: dict[str, Any], kind: str, only: str = "aten::") -> dict[str, Any]:
    """Put into each forward operator the one that autocast calls inside it, with inputs of another type."""
    for event in list(document["traceEvents"]):
        if "Input type" in event["args"] and event["name"].startswith(only):
            types = [kind] * len(event["args"]["Input type"])
            inner = {**event, "dur": event["dur"] / 2, "args": {**event["args"], "Input type": types}}
            document["traceEvents"].append(inner)
    return document


@pytest.mark.parametrize(("kind", "precision"), [("c10::BFloat16", "amp-bf16"), ("c10::Half", "amp-fp16")])
def test_what_autocast_casts_inside_an_operator_is_the_precision(tmp_path: Path, kind: str, precision: str) -> None:
    imported = import_kineto(write(tmp_path, autocast(recorded(), kind)))
    assert {row["precision"] for row in imported.document["layers"]} == {precision}
    assert imported.document["whole"][0]["precision"] == precision
    assert not any("precision" in note for note in imported.notes)


def test_layers_of_two_precisions_are_noted(tmp_path: Path) -> None:
    path = write(tmp_path, autocast(recorded(), "c10::Half", only="aten::linear"))
    imported = import_kineto(path)
    assert {row["precision"] for row in imported.document["layers"]} == {"amp-fp16"}
    assert any("1 of 2 layers that multiply matrices compute in another" in note for note in imported.notes)
    assert not any("another precision" in note for note in import_kineto(path, precision="amp-fp16").notes)


@pytest.mark.parametrize(("major", "doubtful"), [(None, True), (7, False), (8, True), (9, True)])
def test_tf32_is_noted_where_float_may_be_that(tmp_path: Path, major: int | None, doubtful: bool) -> None:
    document = recorded()
    if major is not None:
        document["deviceProperties"][0]["computeMajor"] = major
    path = write(tmp_path, document)
    imported = import_kineto(path)
    assert imported.document["whole"][0]["precision"] == "fp32"
    assert any("TF32 is recorded as float" in note for note in imported.notes) == doubtful
    assert not any("TF32" in note for note in import_kineto(path, precision="fp32").notes), "it was said"
    mixed = import_kineto(write(tmp_path, autocast(document, "c10::Half")))
    assert not any("TF32" in note for note in mixed.notes)


# what is wrong with a file


@pytest.mark.parametrize("share", [0.3, 0.5, 0.9, 0.999])
def test_a_file_cut_in_half_says_so(tmp_path: Path, share: float) -> None:
    path = write(tmp_path, recorded(3))
    text = path.read_text()
    path.write_text(text[: int(share * len(text))])
    with pytest.raises(InputError, match=r"trace\.json: is truncated after [\d,]+ characters.*copy the whole file"):
        import_kineto(path)


def test_a_cut_behind_a_brace_is_one_too(tmp_path: Path) -> None:
    path = write(tmp_path, recorded(3))
    text = path.read_text()
    path.write_text(text[: text.index("}", len(text) // 2) + 1])
    with pytest.raises(InputError, match="is truncated after"):
        import_kineto(path)


def test_a_compressed_file_cut_in_half_says_so(tmp_path: Path) -> None:
    packed = gzip.compress(json.dumps(recorded(3)).encode())
    path = tmp_path / "trace.json.gz"
    path.write_bytes(packed[: len(packed) // 2])
    with pytest.raises(InputError, match="is truncated: the gzip data ends too early"):
        import_kineto(path)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"[1, 2]", "has no list 'traceEvents'"),
        (b'{"traceEvents": 3}', "has no list 'traceEvents'"),
        (b'{"traceEvents": []}', "has no operators"),
        (b'{"traceEvents": [{"ph": "X", "cat": "kernel", "name": "k", "ts": 1, "dur": 2}]}', "has no operators"),
        (b"time,loss", "is not JSON"),
        (b"\xff\xfe\x00\x01", "it is not text"),
        (b"", "is not JSON"),
    ],
)
def test_other_files_are_refused(tmp_path: Path, content: bytes, message: str) -> None:
    path = tmp_path / "trace.json"
    path.write_bytes(content)
    with pytest.raises(InputError, match=message):
        import_kineto(path)


def test_a_file_that_is_not_there_is_reported_with_status_3(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["import", "kineto", str(tmp_path / "none.json")]) == 3
    assert "cannot be read: No such file" in capsys.readouterr().err


def without(document: dict[str, Any], key: str) -> dict[str, Any]:
    for event in document["traceEvents"]:
        event["args"].pop(key, None)
    return document


@pytest.mark.parametrize(
    ("key", "message"),
    [
        ("Input Dims", "does not have the batch size.*record_shapes=True; give it with --batch"),
        ("Input type", "does not say what the precision was; give it as --precision"),
        ("Sequence number", "has no backward pass that belongs to a forward one"),
    ],
)
def test_a_trace_without_what_is_needed_says_what_to_do(tmp_path: Path, key: str, message: str) -> None:
    with pytest.raises(InputError, match=message):
        import_kineto(write(tmp_path, without(recorded(), key)))


# against torch itself


@pytest.mark.torch
@pytest.mark.parametrize("named", [True, False])
def test_a_real_trace_of_torch(tmp_path: Path, named: bool) -> None:
    import torch
    from torch import nn
    from torch.profiler import ProfilerActivity, profile, record_function, schedule

    class Named(nn.Module):
        def __init__(self, name: str, module: nn.Module):
            super().__init__()
            self.name, self.module = name, module

        def forward(self, x: Any) -> Any:
            if not named:
                return self.module(x)
            with record_function(self.name):
                return self.module(x)

    layers = {"conv": nn.Conv2d(3, 4, 3), "bn": nn.BatchNorm2d(4), "flat": nn.Flatten(), "fc": nn.Linear(144, 10)}
    model = nn.Sequential(*(Named(name, module) for name, module in layers.items()))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    images, labels = torch.randn(5, 3, 8, 8), torch.randint(10, (5,))
    path = tmp_path / "trace.json"
    plan = schedule(wait=0, warmup=1, active=2)
    keep = partial(torch.profiler.profile.export_chrome_trace, path=str(path))
    with profile(activities=[ProfilerActivity.CPU], record_shapes=True, schedule=plan, on_trace_ready=keep) as profiler:
        for _ in range(3):
            optimizer.zero_grad()
            nn.functional.cross_entropy(model(images), labels).backward()
            optimizer.step()
            profiler.step()
    document = import_kineto(path).document
    rows = {row["op"]: row for row in document["layers"]}
    assert {"convolution", "batch-norm", "fully-connected", "loss"} <= set(rows)
    assert rows["convolution"]["batch"] == 5
    assert all(row["forward_s"] > 0 and row["backward_data_s"] + row["backward_weights_s"] > 0 for row in rows.values())
    assert document["whole"][0]["optimizer_s"] > 0
    if named:
        assert [row["name"] for row in document["layers"]][:4] == list(layers)


@pytest.mark.torch
@pytest.mark.parametrize("first", ["convolution", "embedding"])
@pytest.mark.parametrize("precision", ["fp32", "amp-bf16", "amp-fp16"])
def test_a_real_trace_under_autocast_has_its_precision(tmp_path: Path, first: str, precision: str) -> None:
    import torch
    from torch import nn
    from torch.profiler import ProfilerActivity, profile

    parts = {
        "convolution": [nn.Conv2d(3, 4, 3), nn.ReLU(), nn.Flatten(), nn.Linear(144, 10)],
        "embedding": [nn.Embedding(20, 8), nn.Flatten(), nn.Linear(56, 10)],
    }
    inputs = {"convolution": torch.randn(5, 3, 8, 8), "embedding": torch.randint(20, (5, 7))}[first]
    model, labels = nn.Sequential(*parts[first]), torch.randint(10, (5,))
    half = torch.float16 if precision == "amp-fp16" else torch.bfloat16
    with profile(activities=[ProfilerActivity.CPU], record_shapes=True) as profiler:
        with torch.autocast("cpu", dtype=half, enabled=precision != "fp32"):
            loss = nn.functional.cross_entropy(model(inputs), labels)
        loss.backward()
    path = tmp_path / "trace.json"
    profiler.export_chrome_trace(str(path))
    imported = import_kineto(path)
    assert {row["op"] for row in imported.document["layers"]} >= {first, "fully-connected"}
    assert {row["precision"] for row in imported.document["layers"]} == {precision}
    assert not any("TF32" in note or "another precision" in note for note in imported.notes)
