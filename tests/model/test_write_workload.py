"""A written workload file is read back as the same model."""

from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from clustersim.errors import InputError
from clustersim.model import MODELS, Layer, Model, load_model, read_workload_file
from clustersim.model.write_workload import workload_text, write_workload_file

CONVOLUTION = {
    "channels": 3, "height": 8, "width": 8, "kernel_h": 3, "kernel_w": 3, "stride_h": 1, "stride_w": 1, "pad_h": 0,
    "pad_w": 1, "out_height": 6, "out_width": 8, "filters": 4, "groups": 1,
}  # fmt: skip
SMALL = ["alexnet-caffe", "bert-base", "googlenet", "gpt2-small", "lstm-lm", "resnet18", "squeezenet-1.0", "vgg16"]


@pytest.mark.parametrize("name", SMALL)
def test_a_model_of_the_catalogue_comes_back_layer_by_layer(tmp_path: Path, name: str) -> None:
    model = load_model(name)
    again, times = read_workload_file(write_workload_file(model, tmp_path / "model.yaml"))
    assert again.layers == model.layers
    assert (again.name, again.sample, again.source, times) == (model.name, model.sample, model.source, None)


def test_the_whole_catalogue_comes_back_through_one_file(tmp_path: Path) -> None:
    """One layer of each sort of each model: sorts differ in their operation, shape keys, and what is left out."""
    sorts: dict[object, Layer] = {}
    for name in MODELS:
        for layer in load_model(name).layers:
            zero = (layer.flop_backward_data == 0, layer.flop_backward_weights == 0, layer.num_parameters == 0)
            sorts.setdefault((layer.op, zero, layer.kept_bytes, *layer.shape), layer)
    layers = tuple(
        Layer(
            f"layer{n}", each.op, each.flop, each.flop_backward_data, each.flop_backward_weights, each.num_parameters,
            each.input_elements, each.output_elements, each.shape, each.kept_bytes,
        )
        for n, each in enumerate(sorts.values())
    )  # fmt: skip
    assert {layer.op for layer in layers} == {layer.op for name in MODELS for layer in load_model(name).layers}
    path = write_workload_file(Model("all", "all", layers, source="everywhere"), tmp_path / "all.yaml")
    assert read_workload_file(path)[0].layers == layers


counts = st.integers(0, 10**15)
names = st.text(st.characters(codec="utf-8", exclude_categories=["Cs", "Cc", "Zl", "Zp"]), min_size=1, max_size=12)


@settings(deadline=None)
@given(
    layers=st.lists(st.tuples(names.filter(str.strip), counts, counts, counts, counts, counts), min_size=1, max_size=5)
)
def test_any_numbers_and_names_come_back(tmp_path_factory: pytest.TempPathFactory, layers: list[tuple]) -> None:
    made = tuple(
        Layer(
            f"{n}{name}",
            "matmul" if flop else name,
            float(flop),
            float(data),
            float(weights),
            7 * n,
            float(read),
            float(written),
        )
        for n, (name, flop, data, weights, read, written) in enumerate(layers)
    )
    model = Model("a: b", "a: b", made, sample="yes", source="#1, 'quoted' \\ \"twice\"")
    path = write_workload_file(model, tmp_path_factory.mktemp("files") / "net.yaml")
    again, _ = read_workload_file(path)
    assert again.layers == made
    assert (again.name, again.sample, again.source) == (model.name, model.sample, model.source)


def test_weights_stored_in_fewer_bits_come_back(tmp_path: Path) -> None:
    model = replace(load_model("nin"), weight_share=0.1375)
    assert read_workload_file(write_workload_file(model, tmp_path / "short.yaml"))[0].weight_share == 0.1375
    assert "weight_share" not in workload_text(load_model("nin"))


@pytest.mark.parametrize("share", ["0", "1.5", "nan", "half", "[1]"])
def test_a_share_of_weights_is_above_0_and_at_most_1(tmp_path: Path, share: str) -> None:
    path = tmp_path / "net.yaml"
    path.write_text(f"name: n\nweight_share: {share}\nlayers:\n  - {{name: a, flop: 8}}\n")
    with pytest.raises(InputError, match="expected a number above 0 and at most 1") as error:
        read_workload_file(path)
    assert error.value.mistakes[0].key == "weight_share"


def test_the_same_model_gives_the_same_bytes() -> None:
    assert workload_text(load_model("resnet50")) == workload_text(load_model("resnet50"))


def test_what_follows_from_the_rest_is_not_written() -> None:
    text = workload_text(load_model("vgg16"))
    assert "backward" not in text.replace("backward_data_flop: 0", "", 1)
    assert len(text.splitlines()) == len(load_model("vgg16").layers) + 4


def test_a_file_that_no_scenario_would_take_is_not_written(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"a workload file ends in \.yaml"):
        write_workload_file(load_model("nin"), tmp_path / "model.json")
    assert not list(tmp_path.iterdir())


def test_a_file_that_would_be_too_large_to_read_is_not_written(tmp_path: Path) -> None:
    layers = tuple(Layer(f"step{n}" + "x" * 1000, "add", 0.0, 0.0, 0.0, 0, 1.0, 1.0) for n in range(1100))
    with pytest.raises(InputError, match=r"1,100 layers make a file of 1\.2 MB; the limit is 1 MiB"):
        write_workload_file(Model("long", "long", layers), tmp_path / "long.yaml")


def read_layer(tmp_path: Path, layer: str) -> Layer:
    path = tmp_path / "net.yaml"
    path.write_text(f"name: n\nlayers:\n  - {{name: first, flop: 8}}\n  - {{name: a, flop: 8{layer}}}\n")
    return read_workload_file(path)[0].layers[1]


def test_given_keys_take_the_place_of_what_would_follow(tmp_path: Path) -> None:
    layer = read_layer(
        tmp_path, ", input_bytes: 40, kept_bytes: 8, backward_data_flop: 3 MFLOP, backward_weights_flop: 5"
    )
    assert (layer.input_elements, layer.kept_bytes) == (10, 8)
    assert (layer.flop_backward_data, layer.flop_backward_weights) == (3e6, 5)
    assert read_layer(tmp_path, "").kept_bytes is None


@pytest.mark.parametrize(
    ("layer", "key", "message"),
    [
        (", shape: 5", "shape", "expected a map of rows, inputs, outputs, count"),
        (", shape: {rows: 1, inputs: 2, outputs: 3}", "shape.count", "is missing"),
        (", shape: {rows: 1, inputs: 2, outputs: 3, count: 0}", "shape.count", "expected a whole number of at least 1"),
        (", shape: {rows: 1.5, inputs: 2, outputs: 3, count: 1}", "shape.rows", "expected a whole number"),
        (", shape: {rows: 1, inputs: [2], outputs: 3, count: 1}", "shape.inputs", "expected a whole number"),
        (f", shape: {{rows: 1, inputs: 2, outputs: 3, count: 1{'0' * 12}1}}", "shape.count", "expected a whole number"),
        (", shape: {row: 1, inputs: 2, outputs: 3, count: 1}", "shape.row", "did you mean 'rows'?"),
        (", op: convolution, shape: {rows: 1, inputs: 2}", "shape.rows", "no key is called 'rows'"),
        (
            ", op: matmul, shape: {rows: 1, inputs: 2, outputs: 3, count: 1, flash: 4}",
            "shape.flash",
            "expected a kernel of fused attention: 1 (FlashAttention), 2 (FlashAttention-2), 3 (FlashAttention-3)",
        ),
        (", backward_data_flop: -1", "backward_data_flop", "expected a number of at least 0"),
        (", input_bytes: 3 Mb", "input_bytes", "expected a size"),
    ],
)
def test_wrong_shapes_are_reported_with_their_key(tmp_path: Path, layer: str, key: str, message: str) -> None:
    with pytest.raises(InputError) as caught:
        read_layer(tmp_path, layer)
    wrong = next(mistake for mistake in caught.value.mistakes if mistake.key == f"layers.1.{key}")
    assert message in wrong.message
    assert wrong.line == 4


def test_the_shape_of_a_convolution_is_read_for_the_kernel_model(tmp_path: Path) -> None:
    shape = ", ".join(f"{key}: {size}" for key, size in CONVOLUTION.items())
    assert read_layer(tmp_path, f", op: convolution, shape: {{{shape}}}").shape == CONVOLUTION
