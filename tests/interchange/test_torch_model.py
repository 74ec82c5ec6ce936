"""A torch module becomes the workload of its layers."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from clustersim.model import Layer, Model
from tests.interchange.traced import traced_in

pytestmark = pytest.mark.torch


@pytest.fixture
def traced(tmp_path: Path) -> Any:
    """Return what imports the `build` of some lines of code."""
    return partial(traced_in, tmp_path)


def by_name(model: Model) -> dict[str, Layer]:
    return {layer.name: layer for layer in model.layers}


def test_a_small_network_is_what_the_formulas_say(traced: Any) -> None:
    code = """
    class build(nn.Sequential):
        def __init__(self):
            super().__init__(nn.Conv2d(3, 8, 3, stride=2, padding=1), nn.BatchNorm2d(8), nn.ReLU(inplace=True),
                             nn.MaxPool2d(2), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Dropout(), nn.Linear(8, 10))
    """
    model = traced(code, "3,32,32").model
    assert [(layer.name, layer.op) for layer in model.layers] == [
        ("0", "convolution"), ("1", "batch-norm"), ("2", "relu"), ("3", "pooling"), ("4", "pooling"),
        ("6", "dropout"), ("7", "fully-connected"), ("loss", "loss"),
    ]  # fmt: skip
    conv, norm, _, pool, _, _, fc, _ = model.layers
    flop = 2.0 * 27 * 8 * 16 * 16
    assert (conv.flop, conv.flop_backward_data, conv.flop_backward_weights) == (flop, 0, flop)
    assert (conv.num_parameters, conv.input_elements, conv.output_elements) == (27 * 8 + 8, 3 * 32 * 32, 8 * 256)
    assert (norm.num_parameters, norm.input_elements, norm.output_elements) == (16, 2048, 2048)
    assert (pool.shape["kernel_h"], pool.shape["stride_w"], pool.shape["out_height"]) == (2, 2, 8)
    assert (fc.flop, fc.flop_backward_data, fc.num_parameters) == (160, 160, 90)
    assert fc.shape == {"rows": 1, "inputs": 8, "outputs": 10, "count": 1}
    assert model.sample == "image"


def test_tied_weights_count_once_where_they_are_used_first(traced: Any) -> None:
    code = """
    class build(nn.Module):
        def __init__(self):
            super().__init__()
            self.words, self.head = nn.Embedding(100, 16), nn.Linear(16, 100, bias=False)
            self.head.weight = self.words.weight
        def forward(self, x):
            return self.head(self.words(x))
    """
    layers = by_name(traced(code, "12:int64").model)
    assert (layers["words"].num_parameters, layers["head"].num_parameters) == (1600, 0)
    assert layers["head"].flop == layers["head"].flop_backward_weights == 2.0 * 12 * 16 * 100


def test_layers_stand_so_that_the_last_gradient_is_ready_first(traced: Any) -> None:
    code = """
    class build(nn.Module):
        def __init__(self):
            super().__init__()
            self.first, self.shared = nn.Linear(4, 4), nn.Linear(4, 4)
        def forward(self, x):
            with torch.no_grad():
                mean = self.shared(x)
            return self.shared(self.first(x)) + mean
    """
    names = [layer.name for layer in traced(code, "4").model.layers if layer.num_parameters]
    assert names == ["first", "shared"]  # though forward runs the shared one first: that run gets no gradient


def test_attention_counts_all_pairs_where_nothing_is_masked(traced: Any) -> None:
    code = """
    def build():
        return nn.TransformerEncoderLayer(64, 4, 256, batch_first=True)
    """
    model = traced(code, "10,64").model
    layers = by_name(model)
    assert layers["self_attn.scores"].flop == layers["self_attn.context"].flop == 2.0 * 10 * 10 * 64
    assert layers["self_attn.scores"].flop_backward_data == 2 * layers["self_attn.scores"].flop
    assert model.num_parameters == 4 * 64 * 64 + 4 * 64 + 2 * 64 * 256 + 256 + 64 + 4 * 64
    assert [layer.op for layer in model.layers].count("dropout") == 3


def test_a_causal_kernel_computes_half_of_all_pairs(traced: Any) -> None:
    code = """
    class build(nn.Module):
        def __init__(self):
            super().__init__()
            self.qkv = nn.Linear(64, 192)
        def forward(self, x):
            q, k, v = self.qkv(x).reshape(-1, 10, 3, 4, 16).permute(2, 0, 3, 1, 4)
            return nn.functional.scaled_dot_product_attention(q, k, v, is_causal=%s)
    """
    everything, causal = (
        sum(layer.flop for layer in traced(code % is_causal, "10,64").model.layers if layer.op == "matmul")
        for is_causal in (False, True)
    )
    assert everything == 2 * 2.0 * 10 * 10 * 64
    assert causal == everything / 2


def test_checkpoints_change_nothing(traced: Any) -> None:
    code = """
    from torch.utils.checkpoint import checkpoint
    class build(nn.Module):
        def __init__(self):
            super().__init__()
            self.first, self.second, self.third = nn.Linear(4, 8), nn.Linear(8, 8), nn.Linear(8, 2)
        def forward(self, x):
            x = self.first(x)
            %s
            return self.third(x)
    """
    plain = traced(code % "x = self.second(x)", "4").model.layers
    for reentrant in (True, False):
        line = f"x = checkpoint(self.second, x, use_reentrant={reentrant})"
        assert traced(code % line, "4").model.layers == plain


def test_what_is_under_no_grad_has_no_backward_pass(traced: Any) -> None:
    code = """
    class build(nn.Module):
        def __init__(self):
            super().__init__()
            self.teacher, self.student = nn.Linear(4, 8), nn.Linear(8, 2)
        def forward(self, x):
            with torch.no_grad():
                x = self.teacher(x)
            return self.student(x)
    """
    found = traced(code, "4")
    layers = by_name(found.model)
    assert (layers["teacher"].flop, layers["teacher"].flop_backward_weights) == (64, 0)
    assert layers["student"].flop_backward_data == 0
    assert found.model.num_parameters == 18
    assert found.notes == ("2 parameters get no gradient on these inputs and are left out, such as teacher.weight",)


def test_frozen_parameters_are_left_out_and_noted(traced: Any) -> None:
    code = """
    def build():
        net = nn.Sequential(nn.Linear(4, 8), nn.Linear(8, 2))
        net[0].requires_grad_(False)
        return net
    """
    found = traced(code, "4")
    assert found.model.num_parameters == 18
    assert found.notes == ("2 parameters are frozen (requires_grad=False) and are left out, such as 0.weight",)


@pytest.mark.parametrize(
    ("module", "gates", "kept"), [("LSTM", 4, 6), ("GRU", 3, 4), ("RNN", 1, 1)], ids=["lstm", "gru", "rnn"]
)
def test_recurrent_layers_are_one_product_a_token(traced: Any, module: str, gates: int, kept: int) -> None:
    code = f"""
    class build(nn.Module):
        def __init__(self):
            super().__init__()
            self.net = nn.{module}(5, 6, num_layers=2, bidirectional=True)
        def forward(self, x):
            return self.net(x)[0]
    """
    model = traced(code, "7,N,5").model
    recurrent = [layer for layer in model.layers if layer.op == module.lower()]
    assert [layer.name for layer in recurrent] == ["net.l0", "net.l0_reverse", "net.l1", "net.l1_reverse"]
    assert recurrent[0].flop == 2.0 * 7 * (5 + 6) * gates * 6
    assert recurrent[2].flop == 2.0 * 7 * (12 + 6) * gates * 6
    assert recurrent[0].shape == {"rows": 1, "inputs": 11, "outputs": gates * 6, "count": 7}
    assert recurrent[0].output_elements == 7 * kept * 6
    assert [layer.flop_backward_data > 0 for layer in recurrent] == [False, False, True, True]
    assert model.num_parameters == 2 * gates * 6 * (5 + 6 + 2) + 2 * gates * 6 * (12 + 6 + 2)


def test_a_product_is_the_same_however_it_is_written(traced: Any) -> None:
    code = """
    class build(nn.Module):
        def __init__(self):
            super().__init__()
            self.weight = nn.Parameter(torch.empty(16, 8))
        def forward(self, x):
            return %s
    """
    for written in (
        "x @ self.weight",
        "(self.weight.t() @ x.transpose(1, 2)).transpose(1, 2)",
        "torch.einsum('btf,fg->btg', x, self.weight)",
        "F.linear(x, self.weight.t())",
    ):
        model = traced(code % written, "5,16").model
        product = next(layer for layer in model.layers if layer.flop)
        assert product.flop == product.flop_backward_weights == 2.0 * 5 * 16 * 8, written
        assert product.shape == {"rows": 5, "inputs": 16, "outputs": 8, "count": 1}, written
        assert (product.op, product.num_parameters) == ("fully-connected", 128), written


def test_what_needs_numbers_while_it_builds_is_built_on_the_cpu(traced: Any) -> None:
    code = """
    def build():
        width = int(torch.linspace(1, 8, 3)[-1].item())
        return nn.Linear(4, width)
    """
    assert traced(code, "4").model.num_parameters == 40


def test_an_encoder_and_decoder_of_torch_are_traced_with_their_masks(traced: Any) -> None:
    code = """
    class build(nn.Module):
        def __init__(self):
            super().__init__()
            self.net = nn.Transformer(32, 4, 1, 1, 64)
        def forward(self, source, target):
            return self.net(source, target, tgt_mask=nn.Transformer.generate_square_subsequent_mask(len(target)))
    """
    layers = by_name(traced(code, "10,N,32", "7,N,32").model)
    assert layers["net.decoder.layers.0.self_attn.scores"].flop == 2 * 7 * 7 * 32
    assert layers["net.decoder.layers.0.multihead_attn.scores"].flop == 2 * 7 * 10 * 32
    assert sum(layer.num_parameters for layer in layers.values()) == 3 * 4 * 32 * 33 + 2 * (2 * 32 * 64 + 96) + 7 * 64


def test_lazy_modules_scripts_and_half_precision_are_what_plain_ones_are(traced: Any) -> None:
    code = """
    class build(nn.Module):
        def __init__(self):
            super().__init__()
            self.fc = %s
        def forward(self, x):
            %s return self.fc(x)
    """
    plain = traced(code % ("nn.Linear(4, 8)", "if True:"), "4").model.layers
    for made, before in (
        ("nn.LazyLinear(8)", "if True:"),
        ("torch.compile(nn.Linear(4, 8))", "if True:"),
        ("torch.jit.script(nn.Linear(4, 8))", "if True:"),
        ("nn.Linear(4, 8)", "with torch.autocast('cpu', dtype=torch.bfloat16):"),
    ):
        layers = traced(code % (made, before), "4").model.layers
        assert [replace(layer, name="") for layer in layers] == [replace(layer, name="") for layer in plain], made


def test_work_on_weights_alone_costs_a_sample_nothing(traced: Any) -> None:
    code = """
    class build(nn.Module):
        def __init__(self):
            super().__init__()
            self.conv = nn.utils.parametrizations.weight_norm(nn.Conv1d(4, 8, 3))
        def forward(self, x):
            return self.conv(x)
    """
    norm, conv, _ = traced(code, "4,20").model.layers
    assert (norm.num_parameters, norm.input_elements, norm.output_elements) == (8 * 4 * 3 + 8, 0, 0)
    assert (conv.num_parameters, conv.flop_backward_weights) == (8, 2 * 3 * 4 * 8 * 18)


def test_products_that_grow_with_the_square_of_the_batch_have_no_shape(traced: Any) -> None:
    code = """
    class build(nn.Module):
        def __init__(self):
            super().__init__()
            self.left, self.right = nn.Linear(8, 4), nn.Linear(6, 4)
        def forward(self, x, y):
            return F.cross_entropy(self.left(x) @ self.right(y).t(), torch.arange(len(x)))
    """
    layers = traced(code, "8", "6").model.layers
    assert [(layer.op, layer.flop, dict(layer.shape)) for layer in layers][2:] == [
        ("matmul", 2 * (9 - 4) * 4, {}), ("loss", 0, {}),
    ]  # fmt: skip


def test_a_transposed_convolution_and_a_volume_are_what_their_formulas_say(traced: Any) -> None:
    code = """
    def build():
        return nn.Sequential(nn.Conv3d(3, 8, 3, padding=1), nn.ConvTranspose3d(8, 4, 2, stride=2))
    """
    volume, up, _ = traced(code, "3,4,6,8").model.layers
    places = 4 * 6 * 8
    assert volume.flop == 2 * 27 * 3 * 8 * places
    assert (volume.shape["kernel_h"], volume.shape["height"], volume.shape["out_width"]) == (9, 24, 8)
    assert up.flop == up.flop_backward_data == 2 * 8 * 4 * 8 * places
    assert up.shape == {"rows": places, "inputs": 8, "outputs": 32, "count": 1}
