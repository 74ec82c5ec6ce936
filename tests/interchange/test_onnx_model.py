"""An ONNX file gives the parameters, FLOP and shapes of its operators."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from clustersim.cli import main
from clustersim.errors import InputError
from clustersim.interchange.imported import Imported
from clustersim.interchange.onnx_model import import_onnx
from clustersim.model import Layer, Model, load_model, read_workload_file

FLOAT, INT64 = TensorProto.FLOAT, TensorProto.INT64
Sides = Sequence[int | str | None]


def elsewhere(name: str, sides: tuple[int, ...]) -> TensorProto:
    """Return a float tensor whose numbers are in another file, as those of large models are."""
    tensor = TensorProto(name=name, dims=sides, data_type=FLOAT, data_location=TensorProto.EXTERNAL)
    tensor.external_data.add(key="location", value="weights-that-are-elsewhere.bin")
    return tensor


def save(
    path: Path,
    nodes: Sequence[onnx.NodeProto],
    inputs: Mapping[str, tuple[int, Sides]],
    weights: Mapping[str, Any],
    outputs: Sequence[str] = ("y",),
    domains: Sequence[str] = (),
) -> Path:
    """Write a model; a tuple in `weights` is a float tensor of that shape in a file that is not there."""
    graph = helper.make_graph(
        nodes,
        "net",
        [helper.make_tensor_value_info(name, kind, list(sides)) for name, (kind, sides) in inputs.items()],
        [helper.make_tensor_value_info(name, FLOAT, None) for name in outputs],
        [
            elsewhere(name, each) if isinstance(each, tuple) else numpy_helper.from_array(np.asarray(each), name)
            for name, each in weights.items()
        ],
    )
    opsets = [helper.make_opsetid("", 23), *(helper.make_opsetid(domain, 1) for domain in domains)]
    onnx.save(helper.make_model(graph, opset_imports=opsets), str(path))
    return path


RELU = [helper.make_node("Relu", ["x"], ["y"])]
DENSE = [helper.make_node("MatMul", ["x", "w"], ["y"], name="dense")]


@pytest.fixture
def imported(tmp_path: Path) -> Any:
    def make(nodes: Any, inputs: Any, weights: Any, sizes: Mapping[str, int] | None = None) -> Imported:
        return import_onnx(save(tmp_path / "net.onnx", nodes, inputs, weights), sizes)

    return make


def by_name(model: Model) -> dict[str, Layer]:
    return {layer.name: layer for layer in model.layers}


class Writer:
    """Writes ONNX operators one after the other."""

    def __init__(self) -> None:
        self.nodes: list[onnx.NodeProto] = []
        self.weights: dict[str, Any] = {}

    def add(self, op: str, x: str, name: str, weights: Sequence[tuple[int, ...]] = (), **attributes: Any) -> str:
        names = [f"{name}.{index}" for index in range(len(weights))]
        self.weights |= dict(zip(names, weights, strict=True))
        self.nodes.append(helper.make_node(op, [x, *names], [f"{name}.y"], name=f"/{name}", **attributes))
        return f"{name}.y"


def alexnet_of(catalogue: Model) -> Writer:
    """Write the layers of a chain of the catalogue as an exporter would."""
    net, x, flat = Writer(), "x", False
    for layer in catalogue.layers[:-1]:
        size = layer.shape
        if layer.op == "convolution":
            attributes: dict[str, Any] = {
                "strides": [size["stride_h"], size["stride_w"]],
                "pads": [size["pad_h"], size["pad_w"]] * 2,
                "group": size["groups"],
            }
            kernel = (size["filters"], size["channels"] // size["groups"], size["kernel_h"], size["kernel_w"])
            x = net.add("Conv", x, layer.name, [kernel, (size["filters"],)], **attributes)
        elif layer.op == "pooling":
            window = {"kernel_shape": [size["kernel_h"], size["kernel_w"]], "strides": [size["stride_h"]] * 2}
            x = net.add("MaxPool", x, layer.name, **window)
        elif layer.op == "fully-connected":
            x = x if flat else net.add("Flatten", x, "flatten")
            flat = True
            weights = [(size["outputs"], size["inputs"]), (size["outputs"],)]
            x = net.add("Gemm", x, layer.name, weights, transB=1)
        elif layer.op == "lrn":
            x = net.add("LRN", x, layer.name, size=5)
        else:
            x = net.add({"relu": "Relu", "dropout": "Dropout"}[layer.op], x, layer.name)
    net.nodes[-1].output[0] = "y"
    return net


@pytest.mark.parametrize("name", ["alexnet", "caffenet", "vgg11"])
@pytest.mark.parametrize("batch", ["batch", 1, 4])
def test_a_chain_of_the_catalogue_comes_back_without_its_weights_being_read(
    imported: Any, name: str, batch: int | str
) -> None:
    catalogue = load_model(name)
    first = catalogue.layers[0].shape
    net = alexnet_of(catalogue)
    sides = [batch, first["channels"], first["height"], first["width"]]
    model = imported(net.nodes, {"x": (FLOAT, sides)}, net.weights).model
    assert model.layers == catalogue.layers
    assert model.sample == "image"


def test_a_chain_of_convolutions_and_norms_needs_gradients_above_the_first(imported: Any) -> None:
    net = Writer()
    x = net.add("Conv", "x", "conv1", [(8, 3, 3)], pads=[1, 1])
    x = net.add("BatchNormalization", x, "norm", [(8,), (8,), (8,), (8,)])
    net.add("ConvTranspose", x, "up", [(8, 4, 2)], strides=[2])
    net.nodes[-1].output[0] = "y"
    found = imported(net.nodes, {"x": (FLOAT, ["N", 3, 10])}, net.weights)
    conv, norm, up, loss = found.model.layers
    assert (conv.flop, conv.flop_backward_data, conv.flop_backward_weights) == (
        2 * 3 * 3 * 8 * 10,
        0,
        2 * 3 * 3 * 8 * 10,
    )
    assert (conv.shape["kernel_h"], conv.shape["kernel_w"], conv.shape["pad_w"], conv.shape["height"]) == (1, 3, 1, 1)
    assert (norm.op, norm.num_parameters) == ("batch-norm", 16)
    assert up.flop == up.flop_backward_data == 2 * 8 * 4 * 2 * 10
    assert up.shape == {"rows": 10, "inputs": 8, "outputs": 8, "count": 1}
    assert (loss.op, loss.input_elements) == ("loss", 80)
    assert found.notes == ("2 constants are not counted as parameters, such as norm.2 (statistics, masks)",)


def attention_nodes() -> tuple[list[onnx.NodeProto], dict[str, Any]]:
    """Write attention as exporters do, with shapes that are computed on the way."""

    def node(op: str, inputs: Sequence[str], output: str, **attributes: Any) -> onnx.NodeProto:
        return helper.make_node(op, inputs, [output], name=f"/{output}", **attributes)

    heads = np.array([4, 8], np.int64)
    nodes = [
        node("Gather", ["table", "ids"], "words"),
        node("Gather", ["places", "positions"], "shifts"),
        node("Add", ["words", "shifts"], "x"),
        node("MatMul", ["x", "w_qkv"], "qkv_product"),
        node("Add", ["b_qkv", "qkv_product"], "qkv"),
        node("Split", ["qkv"], "query_flat", axis=2, num_outputs=3),
        node("Shape", ["query_flat"], "shape"),
        node("Slice", ["shape", "zero", "two"], "front"),
        node("Concat", ["front", "heads"], "split_shape", axis=0),
    ]
    nodes[5].output.extend(["key_flat", "value_flat"])
    for name, turned in (("query", [0, 2, 1, 3]), ("key", [0, 2, 3, 1]), ("value", [0, 2, 1, 3])):
        nodes.append(node("Reshape", [f"{name}_flat", "split_shape"], f"{name}_split"))
        nodes.append(node("Transpose", [f"{name}_split"], name, perm=turned))
    nodes += [
        node("MatMul", ["query", "key"], "scores"),
        node("Add", ["scores", "mask"], "masked"),
        node("Softmax", ["masked"], "weights", axis=-1),
        node("MatMul", ["weights", "value"], "context"),
        node("Transpose", ["context"], "turned", perm=[0, 2, 1, 3]),
        node("Shape", ["x"], "shape_back"),
        node("Reshape", ["turned", "shape_back"], "joined"),
        node("Transpose", ["w_out"], "w_turned", perm=[1, 0]),
        node("MatMul", ["joined", "w_turned"], "projected"),
        node("LayerNormalization", ["projected", "scale", "shift"], "normed"),
        node("Transpose", ["table"], "table_turned", perm=[1, 0]),
        node("MatMul", ["normed", "table_turned"], "y"),
    ]
    weights = {
        "table": (100, 32), "places": (64, 32), "w_qkv": (32, 96), "b_qkv": (96,), "w_out": (32, 32),
        "scale": (32,), "shift": (32,), "mask": (1, 1, 16, 16), "heads": heads,
        "zero": np.array([0]), "two": np.array([2]), "positions": np.arange(16),
    }  # fmt: skip
    return nodes, weights


@pytest.mark.parametrize("batch", [1, 3])
def test_attention_is_products_with_tied_weights_counted_once(imported: Any, batch: int) -> None:
    nodes, weights = attention_nodes()
    found = imported(nodes, {"ids": (INT64, [batch, "tokens"])}, weights, {"tokens": 16})
    layers = by_name(found.model)
    assert layers["scores"].flop == layers["context"].flop == 2 * 16 * 16 * 32
    assert layers["scores"].flop_backward_data == 2 * layers["scores"].flop
    assert layers["scores"].shape == {"rows": 16, "inputs": 8, "outputs": 16, "count": 4}
    assert layers["context"].shape == {"rows": 16, "inputs": 16, "outputs": 8, "count": 4}
    assert layers["qkv_product"].shape == {"rows": 16, "inputs": 32, "outputs": 96, "count": 1}
    assert (layers["words"].op, layers["words"].num_parameters) == ("embedding", 3200)
    assert (layers["x"].num_parameters, layers["qkv"].num_parameters) == (64 * 32, 96)
    assert (layers["projected"].num_parameters, layers["y"].num_parameters) == (1024, 0)
    assert layers["y"].flop_backward_weights == layers["y"].flop == 2 * 16 * 32 * 100
    assert found.model.num_parameters == 3200 + 2048 + 32 * 96 + 96 + 1024 + 64
    assert found.notes == ("1 constants are not counted as parameters, such as mask (statistics, masks)",)
    assert {"query", "turned", "split_shape", "shape"}.isdisjoint(layers)
    assert (found.model.sample, found.model.tokens) == ("sequence", 16)


@pytest.mark.parametrize(("op", "gates", "kept"), [("LSTM", 4, 6), ("GRU", 3, 4), ("RNN", 1, 1)])
@pytest.mark.parametrize("ways", [1, 2])
def test_recurrent_layers_are_one_product_a_token(imported: Any, op: str, gates: int, kept: int, ways: int) -> None:
    weights = {"w": (ways, gates * 6, 5), "r": (ways, gates * 6, 6), "b": (ways, 2 * gates * 6)}
    direction = "bidirectional" if ways == 2 else "forward"
    nodes = [helper.make_node(op, ["x", "w", "r", "b"], ["y"], name="net", hidden_size=6, direction=direction)]
    model = imported(nodes, {"x": (FLOAT, [7, 1, 5])}, weights, None).model
    layer = model.layers[0]
    assert layer.name == ("net" if ways == 1 else "net.forward")
    assert model.num_parameters == ways * gates * 6 * (5 + 6 + 2)
    assert layer.num_parameters == gates * 6 * (5 + 6 + 2)


def test_an_lstm_with_its_batch_first_is_what_its_formula_says(imported: Any) -> None:
    weights = {"w": (1, 24, 5), "r": (1, 24, 6)}
    nodes = [helper.make_node("LSTM", ["x", "w", "r"], ["y"], name="net", hidden_size=6, layout=1)]
    layer = imported(nodes, {"x": (FLOAT, ["N", 7, 5])}, weights).model.layers[0]
    assert layer.flop == layer.flop_backward_weights == 2 * 7 * (5 + 6) * 24
    assert layer.shape == {"rows": 1, "inputs": 11, "outputs": 24, "count": 7}
    assert layer.output_elements == 7 * 6 * 6


def test_where_the_sequence_comes_first_the_batch_can_be_said(tmp_path: Path) -> None:
    path = save(tmp_path / "net.onnx", DENSE, {"x": (FLOAT, [7, 2, 4])}, {"w": (4, 8)})
    layer = import_onnx(path, batch=2).model.layers[0]
    assert (layer.flop, layer.shape["rows"], layer.input_elements) == (2 * 7 * 4 * 8, 7, 28)
    path = save(tmp_path / "net.onnx", DENSE, {"x": (FLOAT, ["T", "N", 4])}, {"w": (4, 8)})
    assert import_onnx(path, {"T": 7, "N": 2}, batch=2).model.layers[0] == layer
    with pytest.raises(InputError, match="the size of T, N is open; add --dim T=SIZE --dim N=SIZE"):
        import_onnx(path, batch=2)


def test_a_slope_is_a_parameter_and_a_scale_is_none(imported: Any) -> None:
    nodes = [
        helper.make_node("PRelu", ["x", "slope"], ["a"], name="slope"),
        helper.make_node("Mul", ["a", "scale"], ["y"], name="scale"),
    ]
    layers = by_name(imported(nodes, {"x": (FLOAT, ["N", 4])}, {"slope": (1,), "scale": (1,)}).model)
    assert (layers["slope"].num_parameters, layers["scale"].num_parameters) == (1, 0)


def test_fused_attention_is_two_products(imported: Any) -> None:
    nodes = [
        helper.make_node("MatMul", ["x", "w"], ["q"], name="q"),
        helper.make_node("Attention", ["q", "q", "q"], ["y"], name="mix", q_num_heads=4, kv_num_heads=4),
    ]
    layers = by_name(imported(nodes, {"x": (FLOAT, ["N", 16, 32])}, {"w": (32, 32)}).model)
    assert layers["mix.scores"].flop == layers["mix.context"].flop == 2 * 16 * 16 * 32
    assert layers["mix.scores"].shape == {"rows": 16, "inputs": 8, "outputs": 16, "count": 4}


def test_an_einsum_costs_two_flop_for_each_combination(imported: Any) -> None:
    nodes = [helper.make_node("Einsum", ["x", "w"], ["y"], name="mix", equation="btf,fg->btg")]
    layer = imported(nodes, {"x": (FLOAT, [2, 16, 32])}, {"w": (32, 8)}).model.layers[0]
    assert layer.flop == layer.flop_backward_weights == 2 * 16 * 32 * 8
    assert (layer.op, layer.num_parameters, dict(layer.shape)) == ("fully-connected", 256, {})


def test_pads_that_are_left_to_the_runtime_are_those_that_fit(imported: Any) -> None:
    nodes = [helper.make_node("Conv", ["x", "w"], ["y"], name="conv", auto_pad="SAME_UPPER", strides=[2, 2])]
    shape = imported(nodes, {"x": (FLOAT, [1, 3, 9, 9])}, {"w": (4, 3, 3, 3)}).model.layers[0].shape
    assert (shape["pad_h"], shape["pad_w"], shape["out_height"]) == (1, 1, 5)


@pytest.mark.parametrize(
    ("nodes", "sides", "message"),
    [
        (RELU, ["N", 4], "it has no weights: there is nothing to train"),
        (DENSE, ["N", "T", 4], "the size of T is open; add --dim T=SIZE"),
        (DENSE, [None, None, 4], "the size of x.1 is open; add --dim x.1=SIZE"),
        (DENSE, [], "its first input has no batch"),
        (DENSE, [2, 5], "the shape of 'y' at MatMul 'dense' cannot be inferred"),
        (
            [helper.make_node("If", ["x"], ["y"], name="which", then_branch=helper.make_graph([], "a", [], []))],
            [2, 4],
            "If 'which' does work that depends on data",
        ),
        (
            [helper.make_node("MatMulInteger", ["x", "w"], ["y"], name="q")],
            [2, 4],
            "MatMulInteger 'q' computes with integers: a quantised model cannot be trained",
        ),
        (
            [helper.make_node("Relu", ["x"], ["y"]), helper.make_node("Conv", ["y"], ["y"], name="conv")],
            [2, 4],
            "Conv 'conv' does not follow ONNX (IndexError: ",
        ),
    ],
)
def test_invalid_files_are_reported_with_their_path(tmp_path: Path, nodes: Any, sides: Sides, message: str) -> None:
    path = save(tmp_path / "net.onnx", nodes, {"x": (FLOAT, sides)}, {} if nodes is RELU else {"w": (4, 8)})
    with pytest.raises(InputError) as caught:
        import_onnx(path)
    assert str(caught.value).startswith(f"{path}: {message}")
    assert caught.value.exit_status == 3


def test_a_dimension_that_is_not_open_is_refused(tmp_path: Path) -> None:
    path = save(tmp_path / "net.onnx", DENSE, {"x": (FLOAT, ["N", "tokens", 4])}, {"w": (4, 8)})
    with pytest.raises(InputError, match="no open dimension is called 'token'; did you mean 'tokens'"):
        import_onnx(path, {"token": 5})


def test_a_name_that_is_no_text_is_reported(tmp_path: Path) -> None:
    path = save(tmp_path / "net.onnx", DENSE, {"x": (FLOAT, ["N", 4])}, {"w": (4, 8)})
    path.write_bytes(path.read_bytes().replace(b"dense", b"den\xc1e"))
    with pytest.raises(InputError, match="a name in it is not text in UTF-8"):
        import_onnx(path)


@pytest.mark.parametrize("content", [b"", b"name: net\n", b"\x08\x07\x12", b"\xff" * 40])
def test_a_file_that_is_none_is_reported(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "net.onnx"
    path.write_bytes(content)
    with pytest.raises(InputError, match="this is not an ONNX file"):
        import_onnx(path)


def test_the_command_writes_a_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    save(Path("net.onnx"), DENSE, {"x": (FLOAT, ["N", "T", 4])}, {"w": (4, 8)})
    assert main(["import", "onnx", "net.onnx", "--dim", "T=5", "-o", "mine.yaml"]) == 0
    assert capsys.readouterr().out.startswith("workload: mine.yaml\nmine: 2 layers, 0.000 M parameters")
    assert read_workload_file("mine.yaml")[0].layers == import_onnx("net.onnx", {"T": 5}).model.layers
    for arguments in (["net.onnx", "--dim", "T=0"], ["net.onnx", "--dim", "5"], ["nowhere.onnx"], ["."]):
        assert main(["import", "onnx", *arguments]) == 3
    assert "Traceback" not in capsys.readouterr().err
