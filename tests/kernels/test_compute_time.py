"""Measured times are preferred to published rates, and those to estimates."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import ValidationError

from clustersim.errors import InputError
from clustersim.hardware import load_gpu
from clustersim.kernels import ComputeSpec, OptimizerSpec, SingleGpuRate, build_workload, estimate_layers
from clustersim.kernels.host_issue import with_issue
from clustersim.kernels.published_rates import find_curve, published_rates
from clustersim.model import PRECISIONS, LayerTime, Workload, load_model, precision_on
from clustersim.simulate.setup import alone_s
from clustersim.software import load_host

MOMENTUM = OptimizerSpec()
NOTHING = ComputeSpec()
NIN = load_model("nin")


def workload(gpu: str = "k20x", batch: int = 8, compute: ComputeSpec = NOTHING, model: str = "nin") -> Workload:
    return build_workload(load_model(model), load_gpu(gpu), batch, "fp32", MOMENTUM, compute)


def rate(samples_per_s: float, batch: int, gpu: str | None = None) -> ComputeSpec:
    return ComputeSpec(single_gpu=SingleGpuRate(samples_per_s=samples_per_s, batch=batch, gpu=gpu, source="a paper"))


def test_a_single_gpu_trains_at_the_published_rate() -> None:
    built = workload("k20", 32, rate(45.15, 32), model="googlenet-aux")
    assert 32 / alone_s(built) == pytest.approx(45.15, rel=1e-12)
    assert built.provenance() == pytest.approx({"measured": 0, "published": 1, "estimated": 0})


def test_another_gpu_and_batch_take_the_same_factor_on_their_own_estimates() -> None:
    compute = rate(45.15, 32, "k20")
    here = workload("k20", 32, compute, model="googlenet-aux")
    plain = estimate_layers(load_model("googlenet-aux"), load_gpu("k20"), 32, "fp32").layers
    factor = here.forward_s / sum(layer.forward_s for layer in plain)
    there = workload("k20x", 8, compute, model="googlenet-aux")
    expected = estimate_layers(load_model("googlenet-aux"), load_gpu("k20x"), 8, "fp32").layers
    assert [layer.backward_s for layer in there.layers] == pytest.approx(
        [factor * layer.backward_s for layer in expected]
    )
    assert "k20x is assumed to need the same factor" in there.assumptions[0]


def test_another_model_takes_the_same_factor_on_its_own_estimates() -> None:
    known = SingleGpuRate(samples_per_s=45.15, batch=32, model="googlenet-aux", source="a paper")
    same = workload("k20", 32, rate(45.15, 32), model="googlenet-aux")
    there = workload("k20", 64, ComputeSpec(single_gpu=known), model="nin")
    factors = []
    for built in (same, there):
        plain = estimate_layers(built.model, load_gpu("k20"), built.batch, "fp32").layers
        factors.append(built.forward_s / sum(layer.forward_s for layer in plain))
    assert factors[0] == pytest.approx(factors[1])
    assert "images/s of googlenet-aux (a paper); nin is assumed to need the same factor" in there.assumptions[0]


def test_a_rate_of_gradients_that_were_added_up_has_that_much_less_of_an_update_in_it() -> None:
    once = workload("k20", 8, rate(100, 8))
    eighth = SingleGpuRate(samples_per_s=100, batch=8, batches_per_update=8, source="a paper")
    added_up = workload("k20", 8, ComputeSpec(single_gpu=eighth))
    assert alone_s(once) == pytest.approx(8 / 100)
    first_kernel_s = added_up.layers[0].forward_issue.host_s
    passes_s = first_kernel_s + 8 * (added_up.forward_s + added_up.backward_s)
    assert passes_s + added_up.optimizer_s == pytest.approx(8 * 8 / 100)


def test_a_rate_of_an_unknown_model_is_refused() -> None:
    with pytest.raises(ValueError, match="did you mean 'googlenet-aux'"):
        SingleGpuRate(samples_per_s=1, batch=1, model="googlenet-axu", source="a paper")


def test_a_rate_faster_than_the_update_alone_is_refused() -> None:
    with pytest.raises(InputError, match="less than its optimizer's update alone; check samples_per_s"):
        workload("k20", 32, rate(1e6, 32))


def test_nothing_given_takes_the_published_rate_where_there_is_one() -> None:
    built = workload("v100", 32, model="resnet50")
    assert 32 / alone_s(built) == pytest.approx(298.51)
    assert built.provenance()["published"] == pytest.approx(1)
    assert "MXNet" in built.assumptions[0]


def test_a_batch_between_published_ones_lies_between_their_rates() -> None:
    built = workload("v100", 48, model="resnet50")
    assert 298.51 < 48 / alone_s(built) < 343.19


def test_a_batch_beyond_the_published_ones_says_so() -> None:
    assert "no rate is published at batch 16" in workload("p100", 16, model="resnet50").assumptions[0]
    assert "nothing was published" not in workload("p100", 64, model="resnet50").assumptions[0]


def test_the_same_chip_with_more_memory_takes_the_same_rates() -> None:
    there, here = (workload(gpu, 32, model="resnet50") for gpu in ("v100-32gb", "v100"))
    assert there.layers == here.layers
    assert alone_s(there) == alone_s(here)


def test_without_a_published_rate_everything_is_estimated() -> None:
    built = workload("m40", 32)
    assert built.provenance() == pytest.approx({"measured": 0, "published": 0, "estimated": 1})
    alone = estimate_layers(NIN, load_gpu("m40"), 32, "fp32").layers
    assert built.layers == with_issue(alone, load_host("compiled"), "fp32")
    assert build_workload(NIN, load_gpu("m40"), 32, "fp32", MOMENTUM, ComputeSpec(launch="graphs")).layers == alone


def test_a_users_model_takes_the_published_rate_of_the_one_that_multiplies_the_same_matrices() -> None:
    famous, gpu = load_model("resnet50"), load_gpu("v100")
    other = replace(famous, layers=famous.layers[1:])
    assert find_curve(other, gpu, 32, "fp32") is None
    assert find_curve(replace(famous, weight_share=0.5), gpu, 32, "fp32") is None
    renamed = tuple(replace(layer, name=f"my.{layer.name}") for layer in famous.layers if layer.op != "relu")
    own = replace(famous, name="mine", layers=renamed)
    assert find_curve(own, gpu, 32, "fp32") == find_curve(famous, gpu, 32, "fp32") is not None


def test_a_users_model_is_scaled_as_the_catalogues_equal_model_and_keeps_its_other_operations() -> None:
    famous = load_model("resnet50")
    own = replace(famous, name="mine", layers=(*famous.layers, *(replace(famous.layers[2], name="again"),)))
    theirs, mine = (
        build_workload(model, load_gpu("v100"), 32, "fp32", OptimizerSpec(), ComputeSpec()) for model in (famous, own)
    )
    assert [one.forward_s for one in mine.layers[:-1]] == pytest.approx([one.forward_s for one in theirs.layers])
    assert mine.layers[-1].forward_s > 0
    assert "These are rates of resnet50, which has the same matrix products as mine." in mine.assumptions[0]


def test_every_published_curve_names_a_model_a_gpu_and_a_precision_it_has() -> None:
    for curve in published_rates():
        precision_on(load_gpu(curve.gpu), curve.precision)
        assert load_model(curve.model).name == curve.model
        assert all(batch > 0 and value > 0 for batch, value in curve.samples_per_s.items())
        assert curve.source
        assert curve.software
        assert find_curve(load_model(curve.model), load_gpu(curve.gpu), max(curve.samples_per_s), curve.precision)


def test_half_as_many_bytes_of_gradient_are_half_the_exchange() -> None:
    full, half = (
        build_workload(NIN, load_gpu("k20x"), 8, "fp32", MOMENTUM, NOTHING, gradient_bytes=size) for size in (4.0, 2.0)
    )
    assert half.gradient_bytes == full.gradient_bytes / 2 == 2 * NIN.num_parameters


@pytest.mark.parametrize(("kind", "passes"), [("sgd", 3), ("momentum", 5), ("adagrad", 5), ("adam", 7), ("lamb", 13)])
def test_an_update_takes_the_time_of_its_bytes(kind: str, passes: int) -> None:
    gpu = load_gpu("k20x")
    optimizer = OptimizerSpec.model_validate({"kind": kind})
    seconds = optimizer.update_s(1e8, gpu, launches=3) - 3 * gpu.launch_s
    assert seconds == pytest.approx(4 * passes * 1e8 / (0.63 * 250e9), rel=0.02)
    assert optimizer.update_s(0, gpu) == 0


@pytest.mark.parametrize(("kind", "passes"), [("sgd", 3), ("momentum", 5), ("adagrad", 5), ("adam", 7), ("lamb", 13)])
def test_kernels_of_an_update_move_no_less_than_one_for_all(kind: str, passes: int) -> None:
    one = OptimizerSpec.model_validate({"kind": kind})
    least = OptimizerSpec.model_validate({"kind": kind, "passes": passes})
    assert least.moved_bytes_per_parameter == one.moved_bytes_per_parameter
    with pytest.raises(
        ValidationError, match=f"{kind} reads and writes at least {passes} tensors, those of one fused kernel"
    ):
        OptimizerSpec.model_validate({"kind": kind, "passes": passes - 1})


def test_a_precision_the_gpu_does_not_have_is_refused_with_those_it_has() -> None:
    with pytest.raises(InputError, match="does not compute in amp-fp16: its sheet gives no peak for it") as error:
        precision_on(load_gpu("k20x"), "amp-fp16")
    assert error.value.mistakes[0].allowed == "fp32"
    with pytest.raises(InputError, match="no precision is called 'fp23'; did you mean 'fp32'"):
        precision_on(load_gpu("k20x"), "fp23")


@pytest.mark.parametrize("precision", ["tf32", "amp-fp16", "amp-bf16"])
def test_tensor_cores_make_a_network_faster(precision: str) -> None:
    gpu, model = load_gpu("h100"), load_model("resnet50")
    plain, fast = (estimate_layers(model, gpu, 64, name).layers for name in ("fp32", precision))
    assert sum(layer.forward_s for layer in fast) < sum(layer.forward_s for layer in plain)
    assert PRECISIONS[precision].units == "tensor"


def test_two_sources_of_times_are_refused() -> None:
    with pytest.raises(ValidationError, match="keep one"):
        ComputeSpec(single_gpu=SingleGpuRate(samples_per_s=1, batch=1, source="x"), profile="p.json")


# measured times


def test_times_of_a_workload_file_stay_as_they_are() -> None:
    given_times: list[LayerTime | None] = [None] * len(NIN.layers)
    given_times[0] = LayerTime(NIN.layers[0], 1.0, 2.0, 3.0, "measured")
    built = build_workload(NIN, load_gpu("k20x"), 8, "fp32", MOMENTUM, NOTHING, given_times)
    assert built.layers[0].forward_s == 1.0
    assert built.layers[1].provenance == "estimated"
    assert f"1 of {len(NIN.layers)} layers are measured" in built.assumptions[0]
    with pytest.raises(InputError, match="and compute give layer times"):
        build_workload(NIN, load_gpu("k20x"), 8, "fp32", MOMENTUM, rate(10, 8), given_times)


def profile(path: Path, **changes: Any) -> ComputeSpec:
    rows: list[dict[str, Any]] = [
        {
            "name": layer.name, "op": layer.op, "shape": {}, "batch": batch, "precision": "fp32", "layout": "nchw",
            "forward_s": 1e-3 * batch, "backward_data_s": 2e-3 * batch, "backward_weights_s": 1e-3, "spread_s": 0.0,
        }
        for layer in NIN.layers
        for batch in (8, 32)
    ]  # fmt: skip
    document = {"schema": "clustersim.profile/1", "device": "Tesla K20X", "layers": rows, **changes}
    path.write_text(json.dumps(document))
    return ComputeSpec(profile=str(path))


@settings(deadline=None, max_examples=25)
@given(batch=st.integers(8, 32))
def test_measured_times_are_interpolated_between_batches(batch: int) -> None:
    import tempfile

    with tempfile.TemporaryDirectory() as folder:
        built = workload(batch=batch, compute=profile(Path(folder) / "p.json"))
    for layer in built.layers:
        assert 8e-3 <= layer.forward_s <= 32e-3
        assert layer.backward_data_s == pytest.approx(2 * 1e-3 * batch) or layer.layer.flop
        assert layer.backward_weights_s == pytest.approx(1e-3)
    assert built.provenance()["measured"] == pytest.approx(1)


def test_layers_missing_in_a_profile_are_estimated_and_counted(tmp_path: Path) -> None:
    document = json.loads(Path(str(profile(tmp_path / "p.json").profile)).read_text())
    compute = profile(tmp_path / "p.json", layers=document["layers"][2:])
    built = workload(compute=compute)
    assert built.layers[0].provenance == "estimated"
    assert any("1 layers, such as" in sentence for sentence in built.assumptions)


@pytest.mark.parametrize(
    ("changes", "batch", "message"),
    [
        ({"device": "Tesla V100-SXM2-16GB"}, 8, "was measured on 'Tesla V100-SXM2-16GB', and the cluster has"),
        ({"schema": "clustersim.result/1"}, 8, "schema: not a clustersim.profile/1"),
        ({"layers": []}, 8, "layers: not a clustersim.profile/1"),
    ],
)
def test_a_profile_that_does_not_apply_is_refused(
    tmp_path: Path, changes: dict[str, Any], batch: int, message: str
) -> None:
    with pytest.raises(InputError, match=message):
        workload(batch=batch, compute=profile(tmp_path / "p.json", **changes))


@pytest.mark.parametrize(
    ("key", "value", "message"),
    [
        ("layout", "nhwc", "times in several layouts"),
        ("batch", 32, "twice at one batch"),
        ("forward_s", -1.0, "layers.0.forward_s: not a clustersim.profile/1"),
    ],
)
def test_rows_that_contradict_each_other_are_refused(tmp_path: Path, key: str, value: object, message: str) -> None:
    compute = profile(tmp_path / "p.json")
    document = json.loads(Path(str(compute.profile)).read_text())
    document["layers"][0][key] = value
    compute = profile(tmp_path / "p.json", layers=document["layers"])
    with pytest.raises(InputError, match=message):
        workload(compute=compute)


def test_a_profile_in_another_precision_is_refused(tmp_path: Path) -> None:
    compute = profile(tmp_path / "p.json")
    document = json.loads(Path(str(compute.profile)).read_text())
    layers = [row | {"precision": "fp16"} for row in document["layers"]]
    with pytest.raises(InputError, match="has no times in fp32; it was measured in fp16"):
        workload(compute=profile(tmp_path / "p.json", layers=layers))


def test_a_profile_of_another_model_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="layers of resnet152 that compute, such as"):
        workload(compute=profile(tmp_path / "p.json"), model="resnet152")


@pytest.mark.parametrize("content", [b"{", b"\xff\xfe\x00", b"[]"])
def test_a_file_that_is_no_profile_is_refused(tmp_path: Path, content: bytes) -> None:
    file = tmp_path / "p.json"
    file.write_bytes(content)
    with pytest.raises(InputError, match=r"not a clustersim.profile/1|JSON in UTF-8"):
        workload(compute=ComputeSpec(profile=str(file)))


def test_a_missing_profile_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="cannot read this profile: No such file"):
        workload(compute=ComputeSpec(profile=str(tmp_path / "none.json")))


def test_a_compressed_model_exchanges_and_holds_fewer_bytes_and_computes_as_long() -> None:
    dense, short = (
        build_workload(load_model(name), load_gpu("v100"), 32, "fp32", OptimizerSpec(), ComputeSpec())
        for name in ("squeezenet-1.0", "squeezenet-1.0-pruned-8-bit")
    )
    assert short.gradient_bytes / dense.gradient_bytes == pytest.approx(0.66 / 4.8)
    assert short.memory_bytes["weights"] / dense.memory_bytes["weights"] == pytest.approx(0.66 / 4.8)
    assert short.compute_s == dense.compute_s
    assert "assumed to shrink by the same factor" in short.assumptions[-1]
