"""Each GPU's part of a model under tensor parallelism, and what the group exchanges."""

from __future__ import annotations

from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from clustersim.errors import InputError
from clustersim.model import Layer, Model, load_model
from clustersim.model.builder import Builder, Tensor
from clustersim.model.catalogue.gpt import gpt
from clustersim.parallelism.pieces import part_of
from clustersim.parallelism.split import CLASS_BYTES, GroupCall, Piece, calls_bytes, split_model

MODELS = ("alexnet", "alexnet-caffe", "vgg16", "resnet50", "gpt2-small", "bert-base", "lstm-lm", "googlenet-aux")
BYTES = 2.0


def ring_volume(pieces: tuple[Piece, ...], degree: int) -> float:
    """Bytes that one GPU sends for a sample by ring collectives."""
    factors = {"all-reduce": 2.0, "all-gather": 1.0, "reduce-scatter": 1.0}
    return sum(factors[op] * calls_bytes(pieces, op) for op in factors) * (degree - 1) / degree


def named(pieces: tuple[Piece, ...], name: str) -> Piece:
    return next(piece for piece in pieces if piece.layer.name == name)


@pytest.mark.parametrize("name", MODELS)
def test_one_gpu_has_every_layer_as_it_is(name: str) -> None:
    model = load_model(name)
    pieces = split_model(model, 1, BYTES)
    assert tuple(piece.layer for piece in pieces) == model.layers
    assert not any(piece.calls or piece.is_split for piece in pieces)


@pytest.mark.parametrize("degree", [2, 4])
@pytest.mark.parametrize("name", MODELS)
def test_the_parts_of_a_split_layer_are_the_whole_layer(name: str, degree: int) -> None:
    model = load_model(name)
    for whole, piece in zip(model.layers, split_model(model, degree, BYTES), strict=True):
        has = degree if piece.is_split else 1
        padded = 1 + degree / whole.shape.get("outputs", 1e9) if whole.name == "head" else 1
        for key in ("flop", "flop_backward_data", "flop_backward_weights", "num_parameters"):
            value, parts = getattr(whole, key), has * getattr(piece.layer, key)
            assert value <= parts <= value * padded, (whole.name, key)


@pytest.mark.parametrize("degree", [2, 4])
@pytest.mark.parametrize("name", MODELS)
def test_every_layer_that_multiplies_is_split(name: str, degree: int) -> None:
    assert all(piece.is_split for piece in split_model(load_model(name), degree, BYTES) if piece.layer.flop)


@pytest.mark.parametrize("degree", [2, 4])
@pytest.mark.parametrize("name", MODELS)
def test_the_shape_of_a_part_gives_its_flop(name: str, degree: int) -> None:
    for piece in split_model(load_model(name), degree, BYTES):
        layer, shape = piece.layer, piece.layer.shape
        if layer.op == "convolution":
            window = shape["kernel_h"] * shape["kernel_w"] * shape["channels"] // shape["groups"]
            assert layer.flop == pytest.approx(2 * window * layer.output_elements)
            assert shape["channels"] * shape["height"] * shape["width"] == layer.input_elements
        elif layer.flop:
            product = 2 * shape["rows"] * shape["inputs"] * shape["outputs"] * shape["count"]
            assert layer.flop == pytest.approx(product)


@pytest.mark.parametrize("degree", [2, 4])
def test_a_transformer_layer_has_two_all_reduces_forward_and_two_backward(degree: int) -> None:
    model = gpt("g", "G", layers=3, features=64, heads=8, tokens=32)
    pieces = split_model(model, degree, BYTES)
    whole = GroupCall("all-reduce", 32 * 64 * BYTES)
    for number in range(3):
        block = [piece for piece in pieces if piece.layer.name.startswith(f"h.{number}.")]
        assert [call for piece in block for call in piece.after_forward] == [whole, whole]
        assert [call for piece in block for call in piece.after_backward] == [whole, whole]
        assert not any(piece.before_forward or piece.before_backward for piece in block)


def test_embedding_and_head_exchange_activations_once() -> None:
    pieces = split_model(load_model("gpt2-small"), 4, BYTES)
    activations = GroupCall("all-reduce", 1024 * 768 * BYTES)
    assert pieces[0].calls == (activations,)
    assert named(pieces, "head").calls == (activations,)
    assert named(pieces, "loss").calls == (GroupCall("all-reduce", 1024 * CLASS_BYTES),)


@pytest.mark.parametrize("degree", [2, 4])
@pytest.mark.parametrize("name", ["gpt2-small", "bert-base"])
def test_sequence_parallelism_moves_the_same_bytes(name: str, degree: int) -> None:
    model = load_model(name)
    plain, by_tokens = (split_model(model, degree, BYTES, sequence_parallel=each) for each in (False, True))
    assert ring_volume(by_tokens, degree) == pytest.approx(ring_volume(plain, degree))
    assert calls_bytes(by_tokens, "all-gather") == calls_bytes(by_tokens, "reduce-scatter")
    assert Counter(call.op for piece in by_tokens for call in piece.calls)["all-reduce"] == 1  # the loss


def test_sequence_parallelism_divides_the_layers_between_products_but_not_their_parameters() -> None:
    model = load_model("gpt2-small")
    plain, by_tokens = (split_model(model, 4, BYTES, sequence_parallel=each) for each in (False, True))
    for name in ("h.3.norm1", "h.3.attention.add", "h.3.attention.drop"):
        whole, part = named(plain, name).layer, named(by_tokens, name).layer
        assert part.output_elements == whole.output_elements / 4
        assert part.num_parameters == whole.num_parameters
    assert named(by_tokens, "h.3.attention.qkv").layer.input_elements == 1024 * 768


def test_a_convolution_gathers_its_input_and_scatters_its_gradient() -> None:
    pieces = split_model(load_model("vgg16"), 2, 4.0)
    conv = named(pieces, "conv2_1")
    read = 64 * 112 * 112
    assert conv.before_forward == (GroupCall("all-gather", 4.0 * read),)
    assert conv.after_backward == (GroupCall("reduce-scatter", 4.0 * read),)
    assert (conv.layer.shape["channels"], conv.layer.shape["filters"]) == (64, 64)
    assert conv.layer.input_elements == read
    assert not named(pieces, "conv1_1").calls  # every GPU has the image, and its gradient is not needed


def test_the_two_towers_of_alexnet_exchange_in_the_third_convolution_only() -> None:
    pieces = split_model(load_model("alexnet-caffe"), 2, 4.0)
    talks = [piece.layer.name for piece in pieces if piece.layer.op == "convolution" and piece.calls]
    assert talks == ["conv3"]
    shape = named(pieces, "conv4").layer.shape
    assert (shape["channels"], shape["filters"], shape["groups"]) == (192, 192, 1)


def test_four_gpus_halve_each_tower() -> None:
    shape = named(split_model(load_model("alexnet-caffe"), 4, 4.0), "conv4").layer.shape
    assert (shape["channels"], shape["filters"], shape["groups"]) == (192, 96, 1)


def test_groups_divide_into_groups() -> None:
    net = Builder("grouped", "Grouped")
    x = net.conv("conv1", net.input(3, 8, 8), 32, 3, pad=1)
    net.conv("conv2", x, 64, 3, pad=1, groups=8)
    piece = split_model(net.model(), 4, 4.0)[1]
    assert not piece.calls
    assert [piece.layer.shape[key] for key in ("channels", "filters", "groups")] == [8, 16, 2]


def test_branches_gather_their_input_once() -> None:
    pieces = split_model(load_model("googlenet"), 2, 4.0)
    gathers = {piece.layer.name: bool(piece.before_forward) for piece in pieces if piece.layer.op == "convolution"}
    module = {name.removeprefix("inception_3b/"): each for name, each in gathers.items() if "_3b/" in name}
    assert module == {
        "1x1": True,
        "3x3_reduce": False,
        "3x3": True,
        "5x5_reduce": False,
        "5x5": True,
        "pool_proj": True,  # it reads what the pooling wrote
    }


def test_the_trunk_stays_split_after_the_end_of_a_head() -> None:
    net = Builder("heads", "Two heads")
    x = net.relu("relu1", net.conv("conv1", net.input(3, 8, 8), 32, 3, pad=1))
    net.loss("loss1", net.fully_connected("fc1", x, 10))
    net.conv("conv2", x, 16, 3, pad=1)
    pieces = split_model(net.model(), 2, 4.0)
    assert named(pieces, "conv2").before_forward == (GroupCall("all-gather", 4.0 * 32 * 64),)


def test_fully_connected_layers_after_maps_alternate() -> None:
    pieces = split_model(load_model("vgg16"), 2, 4.0)
    cut = {name: named(pieces, name).layer.shape for name in ("fc6", "fc7", "fc8")}
    assert [(shape["inputs"], shape["outputs"]) for shape in cut.values()] == [
        (25088 // 2, 4096),
        (4096, 2048),
        (2048, 1000),
    ]
    assert named(pieces, "fc6").calls == (GroupCall("all-reduce", 4.0 * 4096),)
    assert named(pieces, "fc7").calls == (GroupCall("all-reduce", 4.0 * 4096),)
    assert named(pieces, "fc8").calls == (GroupCall("all-reduce", 4.0 * 1000),)


def test_query_key_and_value_one_by_one_are_all_cut_by_columns_and_share_a_gradient() -> None:
    net = Builder("qkv", "Separate")
    x = net.embedding("words", 16, 32, rows=[100])
    query, key, value = (net.linear(name, x, 32) for name in ("q", "k", "v"))
    scores = net.softmax("softmax", net.attention_matmul("scores", query, key, 4, 16))
    net.linear("out", net.attention_matmul("context", scores, value, 4, 8), 32)
    pieces = split_model(net.model(), 4, 4.0)
    assert [named(pieces, name).layer.shape["outputs"] for name in ("q", "k", "v")] == [8, 8, 8]
    assert [bool(named(pieces, name).calls) for name in ("q", "k", "v")] == [True, False, False]
    assert named(pieces, "out").layer.shape["inputs"] == 8


@pytest.mark.parametrize("sequence_parallel", [False, True])
def test_keys_and_values_of_an_encoder_are_cut_by_columns_beside_the_decoders_query(sequence_parallel: bool) -> None:
    """Every GPU has the encoder's output whole, and a part of its gradient: 2 bytes x 512 tokens x 512 features."""
    whole = {layer.name: layer for layer in load_model("t5-v1.1-small").layers}
    pieces = split_model(load_model("t5-v1.1-small"), 2, 2.0, sequence_parallel)
    keys, memory = named(pieces, "decoder.0.across.kv"), 2 * 512 * 512
    ops = ("all-gather", "reduce-scatter") if sequence_parallel else (None, "all-reduce")
    assert keys.before_forward == (() if ops[0] is None else (GroupCall(ops[0], memory),))
    assert keys.after_backward == (GroupCall(ops[1] or "", memory),)
    assert not keys.after_forward
    assert not keys.before_backward
    for name in ("q", "kv", "scores", "softmax", "context", "output"):
        piece = named(pieces, f"decoder.0.across.{name}")
        assert piece.layer.flop == whole[piece.layer.name].flop / 2
    assert calls_bytes([named(pieces, "decoder.0.across.output")], ops[1] or "") == 2 * 128 * 512


def test_a_gate_reads_the_input_of_the_parallel_layer() -> None:
    net = Builder("gated", "Gated")
    x = net.embedding("words", 16, 32, rows=[100])
    net.gelu("gelu", net.linear("gate", x, 64))
    up = net.linear("up", x, 64)
    net.linear("down", up, 32)
    pieces = split_model(net.model(), 2, 4.0)
    assert named(pieces, "up").layer.shape["outputs"] == 32
    assert named(pieces, "down").layer.shape["inputs"] == 32


def test_a_recurrent_layer_gathers_its_state_each_token() -> None:
    pieces = split_model(load_model("lstm-lm"), 4, 4.0)
    lstm = named(pieces, "lstm2")
    state = 1500 * 35 * 4.0
    assert lstm.after_forward == (GroupCall("all-gather", state),)
    assert lstm.after_backward == (GroupCall("reduce-scatter", state), GroupCall("all-reduce", 3000 * 35 / 2 * 4.0))
    assert lstm.layer.shape["outputs"] == 1500


def test_a_normalisation_over_split_features_gathers_them_first() -> None:
    net = Builder("normed", "Normed")
    x = net.linear("first", net.embedding("words", 16, 32, rows=[100]), 64)
    net.layer_norm("norm", x)
    for by_tokens in (False, True):
        norm = named(split_model(net.model(), 2, 4.0, sequence_parallel=by_tokens), "norm")
        gather = GroupCall("all-gather", 16 * 64 * 4.0)
        assert norm.before_forward == (gather,)
        assert norm.after_backward == ((gather,) if by_tokens else ())


def test_layers_without_a_shape_are_divided_evenly() -> None:
    layers = (
        Layer("conv", "convolution", 100.0, 0.0, 100.0, 10, 8.0, 40.0),
        Layer("odd", "custom", 50.0, 50.0, 50.0, 5, 40.0, 20.0),
        Layer("fc1", "fully-connected", 60.0, 60.0, 60.0, 30, 20.0, 6.0),
        Layer("fc2", "fully-connected", 60.0, 60.0, 60.0, 30, 6.0, 6.0),
    )
    pieces = split_model(Model("m", "m", layers), 2, 4.0)
    assert [piece.layer.flop for piece in pieces] == [50.0, 25.0, 30.0, 30.0]
    assert [piece.layer.num_parameters for piece in pieces] == [5, 3, 15, 15]
    assert [[call.op for call in piece.calls] for piece in pieces] == [
        [],
        ["all-gather", "reduce-scatter"],
        ["all-reduce"],
        ["all-reduce"],
    ]
    assert [(piece.layer.input_elements, piece.layer.output_elements) for piece in pieces] == [
        (8.0, 20.0),
        (40.0, 10.0),
        (10.0, 6.0),
        (6.0, 3.0),
    ]


def test_a_product_of_replicated_operands_is_computed_by_every_gpu() -> None:
    net = Builder("first", "Attention first")
    x = Tensor(32, 16)
    net.attention_matmul("scores", x, x, 4, 16)
    piece = split_model(net.model(), 4, 4.0)[0]
    assert (piece.layer, piece.is_split, piece.calls) == (net.model().layers[0], False, ())


@given(size=st.integers(1, 10**6), degree=st.integers(1, 64))
def test_a_padded_part_is_less_than_one_row_too_much(size: int, degree: int) -> None:
    layer = Layer("head", "fully-connected", 2.0 * size, 0.0, 0.0, size, 1.0, size, {"outputs": size})
    own = part_of(layer, "outputs", degree, is_padded=True).shape["outputs"]
    assert size <= degree * own < size + degree


@pytest.mark.parametrize(
    ("name", "degree", "what", "works"),
    [
        ("gpt2-small", 8, "the 12 heads of 'h.0.attention.scores' do not divide by 8", 6),
        ("gpt2-xl", 4, "the 25 heads of 'h.0.attention.scores' do not divide by 4", 5),
        ("resnet50", 3, "the 64 filters of 'conv1' do not divide by 3", 2),
        ("bert-base", 5, "the 768 columns of 'layer.0.attention.qkv' do not divide by 5", 4),
        ("lstm-lm", 7, "the 1500 hidden units of 'lstm1' do not divide by 7", 6),
    ],
)
def test_sizes_that_do_not_divide_are_refused_with_the_nearest_degree_that_works(
    name: str, degree: int, what: str, works: int
) -> None:
    with pytest.raises(InputError) as error:
        split_model(load_model(name), degree, BYTES)
    mistake = error.value.mistakes[0]
    assert what in mistake.message
    assert mistake.message.endswith(f"the nearest number that works is {works}")
    assert (mistake.got, mistake.allowed, mistake.key) == (str(degree), str(works), "tensor")


def test_the_tokens_of_a_sequence_have_to_divide() -> None:
    model = gpt("g", "G", layers=1, features=60, heads=6, tokens=32)
    with pytest.raises(InputError, match=r"the 32 tokens of 'h.0.attention.qkv' do not divide by 3"):
        split_model(model, 3, BYTES, sequence_parallel=True)
    split_model(model, 3, BYTES)


def test_groups_that_lie_across_gpus_are_refused() -> None:
    net = Builder("grouped", "Grouped")
    net.conv("conv", net.conv("first", net.input(3, 8, 8), 12, 3), 12, 3, groups=3)
    with pytest.raises(InputError, match="the 3 groups of 'conv' lie across GPUs; the nearest number that works is 1"):
        split_model(net.model(), 2, 4.0)


def test_images_have_no_sequence_to_split() -> None:
    with pytest.raises(InputError, match="no sequence") as error:
        split_model(load_model("vgg16"), 2, 4.0, sequence_parallel=True)
    assert error.value.mistakes[0].key == "sequence_parallel"


def test_fewer_than_one_gpu_is_refused() -> None:
    with pytest.raises(InputError, match="at least one GPU"):
        split_model(load_model("vgg16"), 0, 4.0)
