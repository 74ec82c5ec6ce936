"""A torch module becomes the workload that its layers say, and what cannot be traced is told in plain words."""

from __future__ import annotations

import math
import re
import runpy
import shlex
import sys
import textwrap
import warnings
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from clustersim.cli import main
from clustersim.interchange.imported import Imported
from clustersim.interchange.torch_model import import_torch, parse_input
from clustersim.workload import MODELS, Layer, Model, load_model, read_workload_file

pytestmark = pytest.mark.torch

HEAD = """\
import torch
from torch import nn
from torch.nn import functional as F
"""


@pytest.fixture
def traced(tmp_path: Path) -> Any:
    """Return what imports the `build` of some lines of code."""

    def trace(code: str, *inputs: str) -> Imported:
        file = tmp_path / "my_code.py"
        file.write_text(HEAD + textwrap.dedent(code))
        return import_torch(f"{file}:build", [parse_input(text) for text in inputs])

    return trace


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


def catalogue_case(name: str) -> tuple[Model, Imported]:
    from clustersim.profiling.models import build_model

    graph = build_model(name)
    shape = ",".join(map(str, graph.sample.shape[1:]))
    inputs = [shape, ":int64"] if graph.has_images else [f"{shape}:int64"] * 2
    code = f"from clustersim.profiling.models import build_model\nbuild = lambda: build_model({name!r})\n"
    file = Path("zoo.py")
    file.write_text(code)
    return load_model(name), import_torch(f"{file}:build", [parse_input(text) for text in inputs])


def products(model: Model) -> list[tuple[float, float, float, tuple[tuple[str, int], ...]]]:
    return [
        (layer.flop, layer.flop_backward_data, layer.flop_backward_weights, tuple(sorted(layer.shape.items())))
        for layer in model.layers
        if layer.flop
    ]


@pytest.mark.parametrize("name", MODELS)
def test_torch_builders_agree_with_the_catalogue_product_by_product(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    from clustersim.profiling.models import MODELS as BUILDERS

    if name not in BUILDERS:
        pytest.skip("nobody wrote this model in torch yet")
    monkeypatch.chdir(tmp_path)
    catalogue, imported = catalogue_case(name)
    assert imported.notes == ()
    assert imported.model.num_parameters == catalogue.num_parameters
    model = of_all_pairs(imported.model)
    assert (model.flop, model.flop_backward) == (catalogue.flop, catalogue.flop_backward)
    assert sorted(products(model)) == sorted(products(catalogue))


def of_all_pairs(model: Model) -> Model:
    """Return a model whose attention computes what a mask hides as well, as the catalogue's GPTs do."""

    def unmasked(layer: Layer) -> Layer:
        times = 2.0 * math.prod(layer.shape.values()) / layer.flop if layer.op == "matmul" else 1.0
        return replace(layer, flop=times * layer.flop, flop_backward_data=times * layer.flop_backward_data)

    return replace(model, layers=tuple(unmasked(layer) for layer in model.layers))


RESNET50 = """
class Block(nn.Module):
    def __init__(self, channels, filters, stride):
        super().__init__()
        self.conv1, self.bn1 = nn.Conv2d(channels, filters, 1, bias=False), nn.BatchNorm2d(filters)
        self.conv2, self.bn2 = nn.Conv2d(filters, filters, 3, stride, 1, bias=False), nn.BatchNorm2d(filters)
        self.conv3, self.bn3 = nn.Conv2d(filters, 4 * filters, 1, bias=False), nn.BatchNorm2d(4 * filters)
        self.relu = nn.ReLU(inplace=True)
        self.downsample = None
        if stride != 1 or channels != 4 * filters:
            shortcut = nn.Conv2d(channels, 4 * filters, 1, stride, bias=False)
            self.downsample = nn.Sequential(shortcut, nn.BatchNorm2d(4 * filters))

    def forward(self, x):
        y = self.relu(self.bn1(self.conv1(x)))
        y = self.bn3(self.conv3(self.relu(self.bn2(self.conv2(y)))))
        y += x if self.downsample is None else self.downsample(x)
        return self.relu(y)

class build(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv1, self.bn1 = nn.Conv2d(3, 64, 7, 2, 3, bias=False), nn.BatchNorm2d(64)
        self.relu, self.maxpool = nn.ReLU(inplace=True), nn.MaxPool2d(3, 2, 1)
        channels = 64
        for stage, num_blocks in enumerate((3, 4, 6, 3)):
            blocks = []
            for number in range(num_blocks):
                blocks.append(Block(channels, 64 * 2**stage, 2 if stage and not number else 1))
                channels = 256 * 2**stage
            setattr(self, f"layer{stage + 1}", nn.Sequential(*blocks))
        self.avgpool, self.fc = nn.AdaptiveAvgPool2d((1, 1)), nn.Linear(2048, 1000)
        for module in self.modules():
            if isinstance(module, nn.Conv2d):
                nn.init.kaiming_normal_(module.weight, mode="fan_out", nonlinearity="relu")

    def forward(self, x):
        x = self.maxpool(self.relu(self.bn1(self.conv1(x))))
        x = self.layer4(self.layer3(self.layer2(self.layer1(x))))
        return self.fc(torch.flatten(self.avgpool(x), 1))
"""


def test_resnet50_as_people_write_it_forecasts_like_the_catalogues(traced: Any, tmp_path: Path) -> None:
    import clustersim
    from clustersim.workload.write_workload import write_workload_file

    model = traced(RESNET50, "3,224,224").model
    assert model.num_parameters == 25_557_032
    assert model.flop / 2 == pytest.approx(4.09e9, rel=1e-3)
    names = by_name(model)
    assert {"conv1", "layer1.0.conv2", "layer1.0.add", "layer1.0.relu", "layer1.0.relu.2", "fc"} <= set(names)
    path = write_workload_file(model, tmp_path / "mine.yaml")
    seconds = []
    for name in (str(path), "resnet50"):
        scenario = {
            "model": name,
            "num_gpus": [1, 8],
            "batch": {"per_gpu": 32},
            "topology": {"kind": "star", "num_hosts": 8, "host": {"gpu": "m40"}, "link": "ethernet-10g"},
            "strategy": {"kind": "all-reduce", "algorithm": "ring"},
        }
        seconds.append([run.iteration_s for run in clustersim.sweep(clustersim.load_scenario(scenario)).runs])
    assert seconds[0] == pytest.approx(seconds[1], rel=0.02)


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


def test_frozen_parameters_are_left_out_and_told(traced: Any) -> None:
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


MINE = (
    HEAD
    + """
class Net(nn.Module):
    def __init__(self, rule=lambda self, x: self.fc(x)):
        super().__init__()
        self.fc, self.rule = nn.Linear(4, 2), rule
    def forward(self, x):
        return self.rule(self, x)

def build(): return Net()
def number(): return 3
def needy(size): return Net()
def broken(): raise OSError("no weights here\\nsecond line")
def values(): return Net(lambda self, x: self.fc(x) if x.sum() > 0 else x)
def masks(): return Net(lambda self, x: self.fc(x[x[:, 0] > 0]))
def shapes(): return Net(lambda self, x: self.fc(x.unbind()))
def apart(): return Net(lambda self, x: torch.stack([self.fc(row) for row in x]))
def detached(): return Net(lambda self, x: self.fc(x).detach())
def frozen(): return Net().requires_grad_(False)
def empty(): return nn.ReLU()
def leaves(): raise SystemExit("bye")
def backward(): return Net(lambda self, x: (lambda y: y.exp().mul_(2) * y.exp_().sum() + y.mul_(3).exp())(self.fc(x)))
six = 6
"""
)


@pytest.mark.parametrize(
    ("target", "shape", "message"),
    [
        ("mine", "4", "expected a module and what builds the model, such as my_module:build (got 'mine')"),
        ("mines:build", "4", "there is no module 'mines' here or among the installed packages"),
        ("mines/mine.py:build", "4", "there is no file 'mines/mine.py'"),
        ("mine:built", "4", "mine has no 'built'; did you mean 'build'?"),
        ("mine:number", "4", "mine:number gives an int, and not an nn.Module"),
        ("mine:six", "4", "mine:six is an int; name an nn.Module, or a function that returns one"),
        ("mine:needy", "4", "mine:needy cannot be called without arguments (missing a required argument: 'size')"),
        ("mine:broken", "4", "mine:broken fails: OSError: no weights here ("),
        ("mine:leaves", "4", "mine:leaves fails: SystemExit: bye ("),
        ("mine:build", "5", "mine:build cannot be run on [2, 5]: RuntimeError: "),
        ("mine:shapes", "4", "mine:shapes cannot be run on [2, 4]: TypeError: "),
        ("mine:values", "4", "mine:values cannot be run on [2, 4]: it asks a tensor for its values, and only shapes"),
        ("mine:masks", "4", "mine:masks cannot be run on [2, 4]: it asks a tensor for its values, and only shapes"),
        ("mine:apart", "4", "mine:apart does other work for 3 samples than for 2 (in its forward)"),
        ("mine:detached", "4", "mine:detached returns nothing that depends on its parameters"),
        ("mine:frozen", "4", "mine:frozen has no parameter that needs a gradient: there is nothing to train"),
        ("mine:empty", "4", "mine:empty has no parameters: there is nothing to train"),
        ("mine:backward", "4", "the backward pass of mine:backward fails: RuntimeError: one of the variables needed"),
        ("syntax:build", "4", "syntax cannot be imported: SyntaxError: "),
        ("imports:build", "4", "imports cannot be imported: ModuleNotFoundError: No module named 'nowhere' ("),
        ("mine:build", "4:int65", "no type of input is called 'int65'; did you mean 'int64'?"),
        ("mine:build", "4x4", "expected sizes and a type, such as 3,224,224 or 128:int64 (got '4x4')"),
        ("mine:build", "0", "an input has sizes from 1 to 2,147,483,647 (got '0')"),
    ],
)
def test_what_cannot_be_traced_is_told_in_one_line(
    target: str,
    shape: str,
    message: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("mine.py").write_text(MINE)
    Path("syntax.py").write_text("def build(:\n")
    Path("imports.py").write_text("import nowhere\n")
    for name in ("mine", "syntax", "imports"):
        sys.modules.pop(name, None)
    assert main(["import", "torch", target, "--input", shape]) == 3
    out, err = capsys.readouterr()
    assert out == ""
    assert err.startswith(message) or f": {message}" in err
    assert len(err.splitlines()) == 1
    assert "Traceback" not in err


def test_the_command_writes_what_a_scenario_takes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("mine.py").write_text(MINE + "print('hello')\n")
    assert main(["import", "torch", "mine.py:build", "--input", "4", "-o", "my-net.yaml"]) == 0
    out = capsys.readouterr().out
    assert out == "workload: my-net.yaml\nmy-net: 2 layers, 0.000 M parameters, 0.000 GFLOP forward per sample\n"
    assert read_workload_file("my-net.yaml")[0].num_parameters == 10
    assert main(["import", "torch", "mine.py:build", "--input", "4", "--name", "my-net"]) == 0
    assert capsys.readouterr().out == Path("my-net.yaml").read_text()


def test_a_file_may_be_called_like_a_library(tmp_path: Path) -> None:
    import json

    file = tmp_path / "json.py"
    file.write_text(HEAD + "def build():\n    return nn.Linear(4, 2)\n")
    assert import_torch(f"{file}:build", [parse_input("4")]).model.num_parameters == 10
    assert sys.modules["json"] is json


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


def test_the_how_to_says_what_runs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    page = (Path(__file__).parents[2] / "docs" / "how-to" / "import-a-model.md").read_text(encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    for name, code in re.findall(r"^```python file=(\S+)\n(.*?)^```$", page, re.MULTILINE | re.DOTALL):
        Path(name).write_text(code)
    commands = re.findall(r"^clustersim (.*)$", page, re.MULTILINE)
    assert len(commands) == 2
    assert main(shlex.split(commands[0])) == 0
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # torch's exporter is to be replaced
        runpy.run_path("export.py")
    assert main(shlex.split(commands[1])) == 0
    traced, exported = (read_workload_file(name)[0] for name in ("tagger.yaml", "tagger-onnx.yaml"))
    assert traced.num_parameters == exported.num_parameters == 20_000 * 256 + 2 * 4 * 256 * 514 + 513 * 50
    assert (traced.flop, traced.flop_backward) == (exported.flop, exported.flop_backward)
