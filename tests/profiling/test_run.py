"""A campaign from end to end on the CPU, on small models; and what interrupts one."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

pytestmark = pytest.mark.torch

TIMES = ("forward_s", "backward_data_s", "backward_weights_s")


def tiny_images(net: Any) -> None:
    """Write two branches that meet, with most kinds of layers of images."""
    x = net.relu("relu1", net.batch_norm("bn1", net.conv("conv1", net.image(3, 16, 16), 4, 3, pad=1, bias=False)))
    y = net.lrn("norm", net.conv("left", x, 4, 1))
    x = net.max_pool("pool", net.concat("join", net.add("add", y, x, inplace=True), net.conv("right", x, 4, 1)), 2, 2)
    net.loss("loss", net.dropout("drop", net.fully_connected("fc", x, 10)))


def tiny_words(net: Any) -> None:
    """Write two blocks of one shape, attention and an LSTM."""
    embedding = net.embedding("words", net.words(8), 50, 16, num_positions=8)
    x = embedding
    for number in range(2):
        y = net.linear(f"qkv{number}", net.layer_norm(f"norm{number}", x), 48)
        x = net.add(f"add{number}", x, net.attention(f"mix{number}", y, 2, 0.1, fused=(f"softmax{number}",)))
    net.loss("loss", net.tied("head", net.lstm("lstm", net.gelu("gelu", x), 16), embedding))


@pytest.fixture
def profile(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Any:
    """Return what profiles a tiny model in a folder of the test and returns the profile."""
    from clustersim.profiling import models, node
    from clustersim.profiling.main import make_campaign
    from clustersim.profiling.run import run_campaign

    monkeypatch.setitem(models.MODELS, "tiny-images", tiny_images)
    monkeypatch.setitem(models.MODELS, "tiny-words", tiny_words)
    monkeypatch.setattr(node, "SIZES", (1024, 4096))

    def run(model: str, batch: str = "2", precision: str = "fp32", layout: str = "nchw", **more: Any) -> dict[str, Any]:
        compact = more.pop("compact", False)
        more = {"kernel_ms": 0.1} | more
        campaign = make_campaign(model, more.pop("device", "cpu"), batch, precision, layout, **more)
        path, document = run_campaign(campaign, tmp_path, lambda share, what: None, compact)
        if document["layers"]:
            assert json.loads(path.read_text()) == document
        return document

    return run


def test_every_layer_has_its_phases(profile: Any) -> None:
    document = profile("tiny-images", "2,4")
    rows = {row["name"]: row for row in document["layers"] if row["batch"] == 2}
    assert [row["name"] for row in document["layers"] if row["batch"] == 4] == list(rows)
    assert all(row["forward_s"] > 0 for row in rows.values())
    assert rows["conv1"]["backward_data_s"] == 0, "images need no gradient"
    assert rows["conv1"]["backward_weights_s"] > 0
    assert min(rows["left"][key] for key in TIMES) > 0
    assert rows["right"]["shape"] == {
        "input": [2, 4, 16, 16], "output": [2, 4, 16, 16],
        "kernel": [1, 1], "stride": [1, 1], "pad": [0, 0], "groups": 1,
    }  # fmt: skip
    assert all(row["backward_data_s"] > 0 for name, row in rows.items() if name != "conv1")


def test_whole_iterations_stand_beside_the_sum_of_their_layers(profile: Any) -> None:
    (row,) = profile("tiny-images")["whole"]
    assert row["iteration_s"] >= row["forward_s"] > 0
    assert row["sum_of_layers"]["backward_s"] > 0
    memory = row["memory"]
    assert memory["parameter_bytes"] == 4 * (3 * 4 * 9 + 2 * 4 + 2 * (4 * 4 + 4) + (8 * 8 * 8 + 1) * 10)
    assert memory["optimizer_bytes"] == memory["parameter_bytes"], "momentum keeps one number a parameter"
    assert memory["saved_for_backward_bytes"] > 4 * 2 * (3 + 4) * 16 * 16
    assert row["optimizer"] == {"rule": "momentum", "implementation": "foreach"}


def test_the_node_and_the_optimizers_are_measured_once(profile: Any) -> None:
    document = profile("tiny-images", "2,4")
    assert {(row["rule"], row["implementation"]) for row in document["optimizers"]} >= {
        ("sgd", "foreach"), ("momentum", "foreach"), ("adam", "foreach")
    }  # fmt: skip
    states = {row["rule"]: row["state_bytes"] for row in document["optimizers"]}
    assert states["sgd"] == 0
    assert states["adam"] >= 2 * states["momentum"] > 0
    assert [row["num_bytes"] for row in document["node"]["add"]["rows"]] == [1024, 4096]
    assert document["device"]["kind"] == "cpu"
    assert document["device"]["name"]
    assert document["software"]["torch"]


def test_layers_of_one_shape_are_measured_once(profile: Any) -> None:
    document = profile("tiny-words")
    rows = {row["name"]: row for row in document["layers"]}
    assert len(rows) == len(document["layers"])
    assert [rows["qkv0"][key] for key in TIMES] == [rows["qkv1"][key] for key in TIMES]
    assert rows["mix1"]["fused"] == ["softmax1"]
    assert rows["words"]["backward_weights_s"] > 0
    assert rows["words"]["backward_data_s"] > 0, "two layers read it: their gradients are added"
    assert rows["norm0"]["backward_weights_s"] == 0, "one kernel gives both gradients"
    assert {row["layout"] for row in document["layers"]} == {"none"}


def test_a_compact_profile_has_the_same_layers(profile: Any) -> None:
    full, compact = profile("tiny-words"), profile("tiny-words", compact=True)
    names = [name for row in compact["layers"] for name in (row["name"], *row.get("also", []))]
    assert sorted(names) == sorted(row["name"] for row in full["layers"])
    assert len(compact["layers"]) < len(full["layers"])


def test_precisions_and_layouts_are_points_of_their_own(profile: Any) -> None:
    document = profile("tiny-images", precision="fp32,amp-bf16", layout="nchw,nhwc")
    points = [(row["precision"], row["layout"]) for row in document["whole"]]
    assert points == [("fp32", "nchw"), ("fp32", "nhwc"), ("amp-bf16", "nchw"), ("amp-bf16", "nhwc")]


def test_an_interrupted_campaign_goes_on_where_it_stopped(profile: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    from clustersim.profiling import run

    measured: list[str] = []
    real = run.measure_layer

    def interrupted(traced: Any, *arguments: Any) -> Any:
        if len(measured) == 9:
            raise KeyboardInterrupt
        measured.append(traced.layer.name)
        return real(traced, *arguments)

    def counted(traced: Any, *arguments: Any) -> Any:
        measured.append(traced.layer.name)
        return real(traced, *arguments)

    monkeypatch.setattr(run, "measure_layer", interrupted)
    with pytest.raises(KeyboardInterrupt):
        profile("tiny-images", "2,4")
    monkeypatch.setattr(run, "measure_layer", counted)
    document = profile("tiny-images", "2,4")
    num_kinds = len({json.dumps({**row, "name": ""}) for row in document["layers"]})
    assert len(measured) == num_kinds, "nothing was measured twice"
    assert profile("tiny-images", "2,4") == document
    assert len(measured) == num_kinds


def test_what_was_measured_with_other_care_is_refused(profile: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    from clustersim.profiling import run
    from clustersim.profiling.errors import ProfilingError

    document = profile("tiny-images")
    with pytest.raises(ProfilingError, match=r"measured with kernel_s = 0\.0001, and this is 0\.02; .*never mixed"):
        profile("tiny-images", kernel_ms=20.0)
    assert profile("tiny-images") == document
    monkeypatch.setattr(run, "TOOL_VERSION", "0")
    with pytest.raises(ProfilingError, match="measured with tool = '2', and this is '0'"):
        profile("tiny-images")


def test_a_batch_that_does_not_fit_is_skipped_with_the_larger_ones(
    profile: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    from clustersim.profiling import run

    real = run.measure_whole

    def small_memory(graph: Any, batch: Any, *arguments: Any) -> Any:
        if len(batch[0]) > 2:
            raise RuntimeError("CUDA out of memory. Tried to allocate 2.00 GiB")
        return real(graph, batch, *arguments)

    monkeypatch.setattr(run, "measure_whole", small_memory)
    document = profile("tiny-images", "2,4,8")
    assert [row["batch"] for row in document["whole"]] == [2]
    assert [(row["batch"], row["reason"]) for row in document["skipped"]] == [
        (4, "out of memory"), (8, "out of memory")
    ]  # fmt: skip
    monkeypatch.setattr(run, "measure_whole", real)
    assert [row["batch"] for row in profile("tiny-images", "2,4,8")["whole"]] == [2, 4, 8]


def test_time_that_is_up_leaves_whole_points_and_a_list_of_the_rest(
    profile: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    from clustersim.profiling import run

    now = [0.0]
    monkeypatch.setattr(run.time, "monotonic", lambda: now[0])
    real = run.measure_whole

    def slow(*arguments: Any) -> Any:
        now[0] += 60.0
        return real(*arguments)

    monkeypatch.setattr(run, "measure_whole", slow)
    document = profile("tiny-images", "2,4,8", max_seconds=90.0)
    assert [row["batch"] for row in document["whole"]] == [2, 4]
    assert document["skipped"] == [{"precision": "fp32", "layout": "nchw", "batch": 8, "reason": "out of time"}]


def test_a_batch_to_check_with_has_whole_iterations_only_until_it_is_profiled(profile: Any) -> None:
    profile("tiny-images", "2")
    document = profile("tiny-images", "2", check="3")
    assert {row["batch"] for row in document["layers"]} == {2}
    assert [(row["batch"], row["sum_of_layers"] is None) for row in document["whole"]] == [(2, False), (3, True)]
    assert profile("tiny-images", "2", check="3") == document
    document = profile("tiny-images", "3")
    assert {row["batch"] for row in document["layers"]} == {2, 3}
    assert [(row["batch"], row["sum_of_layers"] is None) for row in document["whole"]] == [(2, False), (3, False)]


def test_rounds_are_averaged_and_an_interrupted_one_goes_on(profile: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    from clustersim.profiling import run

    seconds = iter([1.0, 2.0, 6.0])
    real = run.measure_whole
    monkeypatch.setattr(run, "measure_whole", lambda *each: {**real(*each), "iteration_s": next(seconds)})
    (row,) = profile("tiny-images")["whole"]
    assert row["iteration_s"] == 1.0
    (third,) = profile("tiny-images", rounds=3)["whole"]
    assert third["iteration_s"] == 3.0, "the first round was not measured again"
    assert third["samples"] > row["samples"]
    assert profile("tiny-images", rounds=3)["whole"] == [third]


def test_rounds_and_batches_to_check_that_are_none_are_refused(profile: Any) -> None:
    from clustersim.profiling.errors import ProfilingError

    with pytest.raises(ProfilingError, match=r"--rounds is a number from 1 \(got 0\)"):
        profile("tiny-images", rounds=0)
    with pytest.raises(ProfilingError, match="'x' of --check x is not a batch"):
        profile("tiny-images", check="x")


def test_a_processor_keeps_the_memory_of_its_tensors_as_a_gpu_does(profile: Any) -> None:
    import ctypes

    assert profile("tiny-images")["flags"]["keeps_memory"] == hasattr(ctypes.CDLL(None), "mallopt")


def test_a_processors_pooling_compares_the_models_own_numbers(profile: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """How long its branches take depends on the numbers; of other layers only shapes count."""
    import torch

    from clustersim.profiling import run

    kept: dict[str, bool] = {}
    real = run.measure_layer

    def looked_at(traced: Any, *arguments: Any) -> Any:
        kept[traced.layer.op] = traced.inputs[0].sample is not None
        if traced.layer.op == "pooling":
            given = traced.inputs[0].tensor(torch.device("cpu"))
            assert torch.equal(given, traced.inputs[0].sample)
            assert given.data_ptr() != traced.inputs[0].sample.data_ptr()
        return real(traced, *arguments)

    monkeypatch.setattr(run, "measure_layer", looked_at)
    profile("tiny-images")
    assert kept["pooling"]
    assert not kept["convolution"]


def test_what_torch_refuses_is_a_reason_and_not_a_crash(profile: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    from clustersim.profiling import run

    def refuse(*arguments: Any) -> Any:
        raise ValueError("Expected more than 1 value per channel when training\nmore")

    monkeypatch.setattr(run, "measure_whole", refuse)
    (row,) = profile("tiny-images")["skipped"]
    assert row["reason"] == "torch refuses: Expected more than 1 value per channel when training"


def test_a_gpu_that_is_not_there_is_refused(profile: Any) -> None:
    import torch

    from clustersim.profiling.errors import ProfilingError

    number = torch.cuda.device_count() + 7
    with pytest.raises(ProfilingError, match=r"there is no (CUDA device here|cuda:\d+)"):
        profile("tiny-images", device=f"cuda:{number}")
    with pytest.raises(ProfilingError, match="no device is called 'tpu'"):
        profile("tiny-images", device="tpu")
    with pytest.raises(ProfilingError, match="tf32 is a format of CUDA devices"):
        profile("tiny-images", precision="tf32")


def test_a_model_without_a_torch_builder_is_refused_with_the_known_ones(tmp_path: Path) -> None:
    from clustersim.cli import main

    assert main(["profile", "gpt-3", "--device", "cpu", "-o", str(tmp_path)]) == 3
    assert list(tmp_path.iterdir()) == []


def test_a_hyphen_before_a_digit_makes_no_difference() -> None:
    from clustersim.profiling.models import canonical

    assert canonical("resnet-50") == "resnet50"
    assert canonical("squeezenet-1.0") == "squeezenet-1.0"
    assert canonical("missing-7") == "missing-7"


def test_ctrl_c_says_where_the_measured_part_is(
    profile: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    from clustersim.cli import main
    from clustersim.profiling import main as own
    from clustersim.profiling import run

    def interrupted(*arguments: Any) -> Any:
        raise KeyboardInterrupt

    monkeypatch.setattr(run, "measure_layer", interrupted)
    arguments = ["tiny-images", "--device", "cpu", "--batch", "2", "--kernel-ms", "0.1", "-o", str(tmp_path)]
    assert own.main(arguments) == 130
    assert f"measurements are kept in {tmp_path}: call again to resume" in capsys.readouterr().err
    assert main(["profile", *arguments]) == 130
    assert f"measurements are kept in {tmp_path}" in capsys.readouterr().err
    assert [path.suffix for path in tmp_path.iterdir()] == [".jsonl"]


def test_the_command_prints_one_document(profile: Any, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    from clustersim.cli import main

    arguments = ["profile", "tiny-images", "--device", "cpu", "--batch", "2", "--kernel-ms", "0.1", "-o", str(tmp_path)]
    assert main([*arguments, "--json"]) == 0
    document = json.loads(capsys.readouterr().out)
    assert document["schema"] == "clustersim.profile/1"
    assert main(arguments) == 0
    shown = capsys.readouterr().out
    assert "fp32 nchw batch 2:" in shown
    assert "layers add up to" in shown
    assert str(tmp_path) in shown


def test_a_model_whose_optimizer_does_not_fit_is_reported(profile: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    from clustersim.profiling import optimizers
    from clustersim.profiling.errors import ProfilingError

    def full(*arguments: Any) -> Any:
        raise RuntimeError("CUDA out of memory. Tried to allocate 2.00 GiB")

    monkeypatch.setattr(optimizers, "make_optimizer", full)
    with pytest.raises(ProfilingError, match="the weights of tiny-images and an optimizer's state do not fit"):
        profile("tiny-images")
