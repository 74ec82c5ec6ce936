"""What a scenario may say of a task; nothing here needs torch."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Literal

import pytest

from clustersim.cli.listing import section
from clustersim.errors import InputError
from clustersim.learning import TASKS, LearningSpec, LearningTask, TaskData, Trainee, check_installed
from clustersim.learning.tasks.characters import NUM_TRAINED, TEXT
from clustersim.learning.tasks.own import Own
from clustersim.reading.user_code import describe_error
from clustersim.scenario import load_scenario
from clustersim.sweep.ledger.ledger_keys import LedgerKeys
from tests.learning.image_files import write_cifar, write_mnist

BASE: dict[str, Any] = {"extends": "stragglers", "num_gpus": 8}
OPTIONS: dict[str, dict[str, Any]] = {
    "own": {"module": "my_task.py"},
    "mnist": {"folder": "data"},
    "fashion-mnist": {"folder": "data"},
    "cifar-10": {"folder": "data"},
}
"""Keys that a task must have."""


def scenario(task: str, folder: Path) -> Path:
    path = folder / "mine.yaml"
    path.write_text(f"extends: stragglers\nnum_gpus: 8\nlearning:\n  task: {task}\n")
    return path


@pytest.mark.parametrize("name", TASKS)
def test_every_task_has_a_title_and_says_what_is_known_of_its_data(name: str) -> None:
    task = TASKS[name](**OPTIONS.get(name, {}))
    assert task.title()[:2].islower() or name in ("mnist", "fashion-mnist", "cifar-10")  # LeNet-5 on ...
    assert not task.title().endswith(".")
    assert isinstance(task.data(), TaskData)


@pytest.mark.parametrize("name", TASKS)
def test_a_task_is_described_in_one_line(name: str) -> None:
    line = next(line for line in section("tasks").splitlines() if line.startswith(f"  {name} "))
    assert len(line) > 40


def test_importing_the_tasks_loads_no_torch() -> None:
    code = "import clustersim.learning, sys; print([m for m in ('torch', 'sklearn', 'mnist1d') if m in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=60)
    assert done.stdout == "[]\n"


@pytest.mark.parametrize(
    ("task", "title"),
    [
        ("digits", "a perceptron with 64 hidden units on 1,437 handwritten digits"),
        ("{kind: digits, model: cnn}", "a small convolutional network on 1,437 handwritten digits"),
        ("{kind: teacher-student, hidden: 99}", "a perceptron with 99 hidden units on 4,096 outputs of one with 8"),
        ("quadratic", "a noisy quadratic function of 100 weights with condition number 100"),
        ("{kind: quadratic, eigenvalues: [1, 0.5]}", "a noisy quadratic function of 2 weights with condition number 2"),
        ("{kind: mnist, folder: x, samples: 1000}", "LeNet-5 on the first 1,000 images of MNIST"),
        ("{module: some/my_task.py}", "the model of my_task.py"),
    ],
)  # fmt: skip
def test_titles(task: str, title: str, tmp_path: Path) -> None:
    loaded = load_scenario(scenario(task, tmp_path))
    assert loaded.learning.task.title() == title


@pytest.mark.parametrize(
    ("task", "key", "message"),
    [
        ("digit", "learning.task", "did you mean 'digits'"),
        ("{kind: digits, hidden: 0}", "learning.task.hidden", "at least 1"),
        ("{kind: digits, model: rnn}", "learning.task.model", "one of 'mlp' or 'cnn'"),
        ("{kind: digits, model: cnn, hidden: 3}", "learning.task.hidden", "only a perceptron has hidden units"),
        ("{kind: mnist1d, hiden: 3}", "learning.task.hiden", "hidden"),
        ("{kind: teacher-student, inputs: 60000, samples: 100000}", "learning.task.samples", "at most 4,473 samples"),
        ("{kind: teacher-student, noise: -1}", "learning.task.noise", "at least 0"),
        ("{kind: quadratic, samples: 150}", "learning.task.samples", "an even number from 200 to 2,684,354"),
        ("{kind: quadratic, samples: 20001}", "learning.task.samples", "an even number"),
        ("{kind: quadratic, eigenvalues: []}", "learning.task.eigenvalues", "at least 1"),
        ("{kind: quadratic, eigenvalues: [1, 0]}", "learning.task.eigenvalues.1", "above 0"),
        ("{kind: quadratic, eigenvalues: [1], dimensions: 3}", "learning.task.dimensions", "leave out dimensions"),
        ("{kind: mnist}", "learning.task.folder", "missing"),
        ("{module: 3}", "learning.task.module", "expected text"),
        ("{module: my_task.py, seed: 3}", "learning.task.seed", r"known: kind, module\)"),
        ("{folder: x}", "learning.task.kind", "missing"),
    ],
)
def test_a_wrong_key_is_told_with_its_line(task: str, key: str, message: str, tmp_path: Path) -> None:
    with pytest.raises(InputError, match=message) as caught:
        load_scenario(scenario(task, tmp_path))
    (mistake,) = caught.value.mistakes
    assert (mistake.key, mistake.line) == (key, 4)


def test_a_file_and_a_folder_are_relative_to_the_scenario(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "inner").mkdir()
    (tmp_path / "inner" / "my_task.py").write_text("")
    write_mnist(tmp_path / "inner" / "data")
    monkeypatch.chdir(tmp_path)
    own = load_scenario(scenario("{module: my_task.py}", tmp_path / "inner"))
    assert own.learning.task.module == str(tmp_path / "inner" / "my_task.py")
    mnist = load_scenario(scenario("{kind: mnist, folder: data}", tmp_path / "inner"))
    assert mnist.learning.task.folder == str(tmp_path / "inner" / "data")
    mnist.learning.task.check()


def key_of(path: Path) -> str:
    loaded = load_scenario(path)
    return LedgerKeys(loaded, exact=False).key(loaded.trees()[0])


def test_a_changed_file_of_a_task_is_another_point_in_a_ledger(tmp_path: Path) -> None:
    path, module = scenario("{module: my_task.py}", tmp_path), tmp_path / "my_task.py"
    module.write_text("a = 1\n")
    before = key_of(path)
    assert key_of(path) == before
    module.write_text("a = 2\n")
    assert key_of(path) != before


@pytest.mark.parametrize(
    ("kind", "write", "name"),
    [("mnist", write_mnist, "train-labels-idx1-ubyte"), ("cifar-10", write_cifar, "data_batch_3.bin")],
)
def test_changed_images_are_another_point_in_a_ledger(tmp_path: Path, kind: str, write: Any, name: str) -> None:
    data = write(tmp_path / "data")
    path = scenario(f"{{kind: {kind}, folder: data}}", tmp_path)
    before = key_of(path)
    (data / name).write_bytes((data / name).read_bytes()[:-1] + b"\x05")
    after = key_of(path)
    assert after != before
    (data / "notes.txt").write_text("no part of the data set")
    assert key_of(path) == after


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (None, r"there is no such file \(got '.*my_task.py'\)"),
        ("def make_task(seed) return 1", r"my_task.py:1: SyntaxError: expected ':'"),
    ],
)
def test_a_file_is_checked_before_anything_is_simulated(tmp_path: Path, text: str | None, message: str) -> None:
    path = tmp_path / "my_task.py"
    if text is not None:
        path.write_text(text)
    with pytest.raises(InputError, match=message):
        Own(module=str(path)).check()


@pytest.mark.parametrize("name", ["my_task.txt", "my_task", "a\0.py"])
def test_what_is_no_python_file_is_refused(tmp_path: Path, name: str) -> None:
    with pytest.raises(InputError, match=r"Python file|no such file"):
        Own(module=name).check()


def test_a_check_runs_no_code(tmp_path: Path) -> None:
    path = tmp_path / "my_task.py"
    path.write_text("raise SystemExit('run')")
    Own(module=str(path)).check()


@pytest.mark.parametrize("kind", ["mnist", "fashion-mnist", "cifar-10"])
def test_a_missing_folder_is_told(kind: str) -> None:
    with pytest.raises(InputError, match="there is no folder 'nowhere'; nothing is downloaded") as caught:
        TASKS[kind](folder="nowhere").check()
    assert caught.value.mistakes[0].key == "learning.task.folder"


def test_the_text_is_shipped_with_its_licence() -> None:
    text = TEXT.read_text(encoding="ascii")
    assert text.startswith("CHAPTER 1. Loomings.")
    assert 0.85 < NUM_TRAINED / len(text) < 0.95
    licence = TEXT.with_name("moby_dick.LICENSE.txt").read_text()
    assert "public domain" in licence
    assert "CC0" in licence


def test_an_error_in_code_is_told_in_one_line(tmp_path: Path) -> None:
    path = tmp_path / "wrong.py"
    path.write_text("def f():\n    return foo\n\nf()\n")
    with pytest.raises(NameError) as caught:
        exec(compile(path.read_text(), str(path), "exec"), {})
    assert describe_error(caught.value) == f"NameError: name 'foo' is not defined ({path}:2)"


class Nothing(LearningTask):
    """A task of a package."""

    kind: Literal["nothing"] = "nothing"

    def title(self) -> str:
        return "nothing"

    def trainee(self, seed: int) -> Trainee:
        raise InputError("nothing to train")


@pytest.fixture
def registered() -> Iterator[None]:
    before = dict(TASKS)
    TASKS.register("nothing", Nothing)
    yield
    TASKS._members = before
    for listener in TASKS._listeners:
        listener()


@pytest.mark.usefixtures("registered")
def test_a_registered_task_is_one_like_any_other(tmp_path: Path) -> None:
    loaded = load_scenario(scenario("nothing", tmp_path))
    assert loaded.learning.task == Nothing()
    assert "nothing" in section("tasks")


def test_a_task_that_is_not_registered_is_unknown(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="no task is called 'nothing'"):
        load_scenario(scenario("nothing", tmp_path))


@pytest.mark.parametrize("member", [3, dict, type("Wrong", (Nothing,), {"__module__": __name__})])
def test_what_is_no_task_is_refused(member: Any) -> None:
    with pytest.raises(InputError, match=r"must be a subclass|must declare"):
        TASKS.register("wrong", member)


def test_a_task_without_its_package_says_what_is_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys.modules["clustersim.learning.train"], "find_spec", lambda name: object())
    monkeypatch.setattr(sys.modules["clustersim.learning.tasks.mnist1d"], "find_spec", lambda name: None)
    with pytest.raises(InputError, match=r"needs mnist1d: pip install 'clustersim\[learning\]'"):
        check_installed(LearningSpec(task="mnist1d"))
