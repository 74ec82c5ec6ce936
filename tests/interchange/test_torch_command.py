"""`import torch`: its output, and its errors for modules that cannot be traced."""

from __future__ import annotations

import re
import runpy
import shlex
import sys
import warnings
from pathlib import Path

import pytest

from clustersim.cli import main
from clustersim.interchange.torch_model import import_torch, parse_input
from clustersim.model import read_workload_file
from tests.interchange.traced import HEAD

pytestmark = pytest.mark.torch


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
        ("mine", "4", "expected a module and the model's builder, such as my_module:build (got 'mine')"),
        ("mines:build", "4", "there is no module 'mines' here or among the installed packages"),
        ("mines/mine.py:build", "4", "there is no file 'mines/mine.py'"),
        ("mine:built", "4", "mine has no 'built'; did you mean 'build'?"),
        ("mine:number", "4", "mine:number returns an int, not an nn.Module"),
        ("mine:six", "4", "mine:six is an int; name an nn.Module, or a function that returns one"),
        ("mine:needy", "4", "mine:needy cannot be called without arguments (missing a required argument: 'size')"),
        ("mine:broken", "4", "mine:broken fails: OSError: no weights here ("),
        ("mine:leaves", "4", "mine:leaves fails: SystemExit: bye ("),
        ("mine:build", "5", "mine:build cannot be run on [2, 5]: RuntimeError: "),
        ("mine:shapes", "4", "mine:shapes cannot be run on [2, 4]: TypeError: "),
        ("mine:values", "4", "mine:values cannot be run on [2, 4]: it reads the values of a tensor, but only shapes"),
        ("mine:masks", "4", "mine:masks cannot be run on [2, 4]: it reads the values of a tensor, but only shapes"),
        ("mine:apart", "4", "mine:apart does different work for 3 samples than for 2 (in its forward)"),
        ("mine:detached", "4", "the outputs of mine:detached do not depend on its parameters"),
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
def test_what_cannot_be_traced_is_reported_in_one_line(
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
