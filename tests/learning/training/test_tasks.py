"""Every task trains, is the same for the same seed, and leaves the random numbers of others alone."""

from __future__ import annotations

import random
import socket
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

from clustersim.errors import InputError
from clustersim.learning import TASKS, LearningTask, Trainee
from clustersim.learning.tasks.own import Own
from clustersim.learning.tasks.quadratic import Quadratic
from clustersim.learning.training.flat_model import FlatModel
from clustersim.learning.training.image_folder import images
from clustersim.learning.training.mnist1d import signals
from clustersim.learning.training.quadratic import sample_noise
from clustersim.learning.training.samples import WorkerSamples
from tests.learning.image_files import write_cifar, write_mnist

pytestmark = pytest.mark.learning

MODULE = """
import torch
from torch import nn
from clustersim.learning import TorchTask

def make_task(seed):
    print("made")
    inputs = torch.linspace(-1, 1, 100).unsqueeze(1)
    module = nn.Sequential(nn.Linear(1, 8), nn.Tanh(), nn.Dropout(0.1), nn.Linear(8, 1))
    return TorchTask(module, inputs, inputs ** 2, inputs, inputs ** 2, nn.functional.mse_loss)
"""


@pytest.fixture(autouse=True)
def _one_thread() -> Iterator[None]:
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


@pytest.fixture(params=[*TASKS, "digits cnn", "mnist1d cnn", "mnist mlp"])
def task(request: pytest.FixtureRequest, tmp_path: Path) -> LearningTask:
    """Return each task; those on files have tiny ones."""
    name, _, model = request.param.partition(" ")
    options: dict[str, Any] = {"model": model} if model else {}
    if name == "cifar-10":
        options["folder"] = str(write_cifar(tmp_path / "data"))
    elif "folder" in TASKS[name].model_fields:
        options["folder"] = str(write_mnist(tmp_path / "data"))
    elif name == "own":
        (tmp_path / "my_task.py").write_text(MODULE)
        options["module"] = str(tmp_path / "my_task.py")
    return TASKS[name](**options)


def trained(trainee: Trainee, rate: float, num_updates: int, batch: int = 16) -> torch.Tensor:
    """Return the weights after some updates by SGD."""
    weights, samples = trainee.initial.clone(), WorkerSamples(np.arange(trainee.num_samples), batch, 1, 0)
    for _ in range(num_updates):
        weights -= rate * trainee.gradient(weights, samples.next())
    return weights


def test_a_seed_gives_the_same_bytes(task: LearningTask) -> None:
    one, same, other = task.trainee(1), task.trainee(1), task.trainee(2)
    samples = np.arange(min(8, one.num_samples))
    assert torch.equal(one.initial, same.initial)
    assert not torch.equal(one.initial, other.initial)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        first = one.gradient(one.initial, samples)
        torch.manual_seed(0)
        assert torch.equal(first, same.gradient(one.initial, samples))
    assert one.evaluate(one.initial) == same.evaluate(one.initial)


def test_random_numbers_of_others_go_on(task: LearningTask) -> None:
    signals.cache_clear()
    before = torch.get_rng_state(), np.random.get_state()[1].tolist(), random.getstate()  # noqa: NPY002
    task.trainee(3)
    assert torch.equal(before[0], torch.get_rng_state())
    assert (before[1], before[2]) == (np.random.get_state()[1].tolist(), random.getstate())  # noqa: NPY002


def test_what_is_said_of_the_data_is_true(task: LearningTask) -> None:
    trainee, said = task.trainee(1), task.data()
    accuracy = trainee.evaluate(trainee.initial)[1]
    assert said.num_samples in (None, trainee.num_samples)
    assert said.has_labels in (None, trainee.labels is not None)
    assert said.has_accuracy in (None, accuracy is not None)
    assert trainee.labels is None or len(trainee.labels) == trainee.num_samples
    assert trainee.initial.dtype == (torch.float64 if task.kind == "quadratic" else torch.float32)


def test_a_gradient_is_a_new_tensor_that_lowers_the_loss_of_its_samples(task: LearningTask) -> None:
    trainee = task.trainee(1)
    samples = np.arange(trainee.num_samples)[:64]
    gradient = trainee.gradient(trainee.initial, samples)
    kept = gradient.clone()
    trainee.gradient(trainee.initial + 1.0, samples)
    assert torch.equal(gradient, kept)
    assert gradient.shape == trainee.initial.shape
    assert float(gradient.norm()) > 0


def test_the_gradient_of_a_batch_is_the_mean_of_those_of_its_parts(task: LearningTask) -> None:
    trainee = task.trainee(1)
    if task.kind == "own":
        trainee._module.eval()  # without dropout
    samples = np.arange(min(16, trainee.num_samples))
    half = len(samples) // 2
    parts = [trainee.gradient(trainee.initial, each).double() for each in (samples[:half], samples[half:])]
    whole = trainee.gradient(trainee.initial, samples).double()
    assert torch.allclose((parts[0] + parts[1]) / 2, whole, rtol=1e-4, atol=1e-6)


def test_stages_begin_where_layers_do(task: LearningTask) -> None:
    trainee = task.trainee(1)
    assert trainee.stage_starts(1) == [0]
    starts = trainee.stage_starts(2)
    assert starts[0] == 0 < starts[1] < len(trainee.initial)
    with pytest.raises(InputError, match="the pipeline 5000 stages"):
        trainee.stage_starts(5000)


@pytest.mark.parametrize(
    ("name", "options", "rate", "epochs", "reached"),
    [
        ("digits", {}, 0.1, 20, 0.95),
        ("digits", {"model": "cnn"}, 0.1, 10, 0.97),
        ("mnist1d", {}, 0.05, 10, 0.5),
        ("mnist1d", {"model": "cnn"}, 0.1, 20, 0.85),
        ("characters", {}, 0.2, 1, 0.38),
    ],
)
def test_accuracy_of_plain_sgd(name: str, options: dict[str, Any], rate: float, epochs: float, reached: float) -> None:
    trainee = TASKS[name](**options).trainee(1)
    _, accuracy = trainee.evaluate(trained(trainee, rate, int(epochs * trainee.num_samples / 16)))
    assert accuracy is not None
    assert accuracy >= reached


@pytest.mark.parametrize("size", [{}, {"inputs": 3, "hidden": 5, "teacher_hidden": 2, "samples": 500, "noise": 0}])
def test_a_student_learns_its_teacher(size: dict[str, Any]) -> None:
    trainee = TASKS["teacher-student"](**size).trainee(1)
    first, accuracy = trainee.evaluate(torch.zeros_like(trainee.initial))
    assert first == pytest.approx(1.0, abs=0.2)  # a constant, outputs have a variance of 1
    assert accuracy is None
    assert trainee.evaluate(trained(trainee, 0.05, 3000))[0] < 0.1


def test_all_seeds_share_one_copy_of_the_data() -> None:
    for name in ("digits", "mnist1d", "teacher-student", "characters"):
        one, other = (TASKS[name]().trainee(seed) for seed in (1, 2))
        assert one._inputs.data_ptr() == other._inputs.data_ptr()
    context = TASKS["characters"](context=64).trainee(1)._inputs
    assert context.untyped_storage().nbytes() < 2 * 8 * len(context)  # not 64 numbers for each sample


def test_signals_are_made_without_a_connection(monkeypatch: pytest.MonkeyPatch) -> None:
    def refused(*args: Any, **kwargs: Any) -> None:
        raise AssertionError("a connection")

    monkeypatch.setattr(socket.socket, "connect", refused)
    signals.cache_clear()
    assert signals().inputs.shape == (4000, 1, 40)


def test_images_are_scaled_and_cut(tmp_path: Path) -> None:
    folder = str(write_mnist(tmp_path / "data", packed=True))
    data, num_classes = images(TASKS["mnist"](folder=folder, samples=30, test_samples=5))
    assert data.inputs.shape == (30, 1, 28, 28)
    assert len(data.test_inputs) == 5
    assert num_classes == 10
    assert float(data.inputs.mean()) == pytest.approx(0, abs=1e-4)
    assert float(data.inputs.std()) == pytest.approx(1, rel=1e-3)


@pytest.mark.parametrize("model", ["cnn", "mlp"])
def test_images_of_a_folder_are_learnt(tmp_path: Path, model: str) -> None:
    folder = str(write_mnist(tmp_path / "data", numbers=(1000, 200)))
    trainee = TASKS["fashion-mnist"](folder=folder, model=model).trainee(1)
    assert trainee.evaluate(trained(trainee, 0.05, 500))[1] > 0.9


def test_lenet_has_the_weights_of_the_paper(tmp_path: Path) -> None:
    trainee = TASKS["mnist"](folder=str(write_mnist(tmp_path / "data"))).trainee(1)
    assert len(trainee.initial) == 61_706


def test_noise_of_the_quadratic_has_exactly_its_mean_and_covariance() -> None:
    noise = sample_noise(400, 20)
    assert np.allclose(noise.mean(0), 0, atol=1e-15)
    assert np.allclose(noise.T @ noise / 400, np.eye(20), atol=1e-12)


def test_the_gradient_of_the_quadratic_is_exact_in_the_mean() -> None:
    trainee = Quadratic(dimensions=10, condition=50, noise=2, samples=200).trainee(1)
    curvature = np.geomspace(1 / 50, 1, 10)
    assert trainee.initial.abs().tolist() == [1.0] * 10
    whole = trainee.gradient(trainee.initial, np.arange(200)).numpy()
    assert np.allclose(whole, curvature * trainee.initial.numpy(), atol=1e-14)
    assert trainee.evaluate(trainee.initial)[0] == pytest.approx(curvature.sum() / 2, rel=1e-14)
    each = np.stack([trainee.gradient(trainee.initial, np.array([sample])).numpy() for sample in range(200)])
    assert np.allclose(np.cov(each.T, bias=True), 4 * np.eye(10), atol=1e-10)


def test_the_expected_loss_of_the_quadratic_follows_its_closed_form() -> None:
    """Each weight follows w -> (1 - r h) w + r noise / sqrt(batch) n, a first-order autoregression."""
    rate, batch, updates, sigma = 0.2, 8, 60, 1.0
    task = Quadratic(dimensions=40, condition=20, noise=sigma)
    curvature = task.curvature()
    trainee = task.trainee(1)
    losses = []
    for worker in range(400):
        weights, samples = trainee.initial.clone(), WorkerSamples(np.arange(trainee.num_samples), batch, 5, worker)
        for _ in range(updates):
            weights -= rate * trainee.gradient(weights, samples.next())
        losses.append(trainee.evaluate(weights)[0])
    decay = (1 - rate * curvature) ** (2 * updates)
    variance = rate**2 * sigma**2 / batch * (1 - decay) / (1 - (1 - rate * curvature) ** 2)
    expected = 0.5 * (curvature * (decay + variance)).sum()
    error = np.std(losses) / len(losses) ** 0.5
    assert abs(np.mean(losses) - expected) < 3 * error
    assert error < 0.02 * expected


def own(folder: Path, text: str) -> Trainee:
    path = folder / "my_task.py"
    path.write_text(text)
    return Own(module=str(path)).trainee(1)


def changed(**replaced: str) -> str:
    """Return the module with some lines of the task's arguments replaced."""
    text = MODULE
    for old, new in replaced.items():
        parts = {"module": "module, inputs, inputs ** 2, inputs", "loss": "nn.functional.mse_loss)", "made": '"made"'}
        text = text.replace(parts[old], new)
    return text


def test_a_module_of_the_user_is_trained(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    trainee = own(tmp_path, MODULE)
    first, accuracy = trainee.evaluate(trainee.initial)
    assert accuracy is None
    assert trainee.evaluate(trained(trainee, 0.1, 500))[0] < first / 2
    printed = capsys.readouterr()
    assert (printed.out, printed.err) == ("", "made\n")


def test_a_file_runs_once_until_it_changes(tmp_path: Path) -> None:
    counts = "with open(__file__ + '.runs', 'a') as file: file.write('x')"
    text = f"{MODULE}\n{counts}\n"
    for _ in range(3):
        own(tmp_path, text)
    assert (tmp_path / "my_task.py.runs").read_text() == "x"
    own(tmp_path, text + "\n# changed\n")
    assert (tmp_path / "my_task.py.runs").read_text() == "xx"
    assert not (tmp_path / "__pycache__").exists()


def test_a_module_that_a_file_makes_once_is_trained_from_its_first_weights_each_time(tmp_path: Path) -> None:
    once = MODULE.replace("def make_task(seed):", "def make_once(seed):") + "\nmade = make_once(0)\n"
    text = f"{once}\ndef make_task(seed):\n    return made\n"
    first = own(tmp_path, text)
    trained(first, 0.1, 20)
    again = own(tmp_path, text)
    assert torch.equal(again.initial, first.initial)
    assert again.evaluate(again.initial) == first.evaluate(first.initial)
    torch.rand(3)
    changed_file = own(tmp_path, f"{text}\n# run once more, after other random numbers\n")
    assert torch.equal(changed_file.initial, first.initial)


def test_a_file_may_import_what_is_beside_it(tmp_path: Path) -> None:
    (tmp_path / "beside_my_task.py").write_text("WIDTH = 1\n")
    assert own(tmp_path, "from beside_my_task import WIDTH\n" + MODULE).num_samples == 100


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("import nothing_of_this_name", "my_task.py:1: ModuleNotFoundError: No module named 'nothing_of_this_name'"),
        ("import sys\nsys.exit(4)", "my_task.py:2: SystemExit: 4"),
        ("def make_task(seed) return 1", "my_task.py:1: SyntaxError"),
        ("def make(seed): return 1", r"no function make_task\(seed\) in it \(it has make\)"),
        ("make_task = 3", "no function make_task"),
        ("def make_task(seed):\n    return foo", "my_task.py:2: NameError: name 'foo' is not defined"),
        ("def make_task(): return 1", "make_task fails: TypeError: make_task.. takes 0 positional arguments"),
        ("def make_task(seed): return 1", r"returns a clustersim.learning.TorchTask \(got int\)"),
        (changed(module="3, inputs, inputs ** 2, inputs"), "`module` is a torch.nn.Module"),
        (changed(module="nn.Identity(), inputs, inputs ** 2, inputs"), "got no weights"),
        (changed(module="module.to(torch.complex64), inputs, inputs ** 2, inputs"), "one float type"),
        (changed(module="module, [1, 2], inputs ** 2, inputs"), r"`inputs` is a tensor .*got list"),
        (changed(module="module, inputs[:0], inputs[:0], inputs"), r"`inputs` is a tensor .*shape \[0, 1\]"),
        (changed(module="module, inputs, inputs[1:], inputs"), "`inputs` and `targets` have a row .*got 100 and 99"),
        (changed(module="module, inputs.repeat(1, 2), inputs, inputs"), "run on its data: RuntimeError: mat1"),
        (changed(module="module, inputs / 0, inputs, inputs"), "first weights is not finite"),
        (changed(loss="lambda a, b: a.foo)"), "my_task.py:10: AttributeError: 'Tensor' object has no attribute 'foo'"),
        (changed(loss="lambda a, b: (a - b) ** 2)"), "cannot be run on its data: RuntimeError: grad can be implicitly"),
    ],
)  # fmt: skip
def test_errors_of_the_users_code_are_told_in_one_line(tmp_path: Path, text: str, message: str) -> None:
    with pytest.raises(InputError, match=message) as caught:
        own(tmp_path, text)
    (mistake,) = caught.value.mistakes
    assert "learning.task.module" in (mistake.key, mistake.named_by)
    assert "\n" not in mistake.message


def test_an_error_after_the_first_gradient_is_told_too(tmp_path: Path) -> None:
    loss = "lambda a, b: nn.functional.mse_loss(a, b) if len(a) != 16 else 1 / 0)"
    trainee = own(tmp_path, changed(loss=loss))
    with pytest.raises(InputError, match=r"my_task\.py:10: ZeroDivisionError"):
        trained(trainee, 0.1, 3)


def test_trying_a_model_leaves_its_statistics_as_they_were(tmp_path: Path) -> None:
    text = MODULE.replace("nn.Tanh()", "nn.BatchNorm1d(8)")
    trainee = own(tmp_path, text)
    assert trainee.mixes_samples
    assert trainee._module.state_dict()["1.running_mean"].tolist() == [0.0] * 8
    assert int(trainee._module.state_dict()["1.num_batches_tracked"]) == 0


def test_frozen_and_shared_weights_stay_what_they_are() -> None:
    class Tied(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.first, self.second, self.last = nn.Linear(4, 4), nn.Linear(4, 4), nn.Linear(4, 2)
            self.second.weight = self.first.weight
            self.last.bias.requires_grad_(False)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return self.last(self.second(self.first(x)))

    inputs, targets = torch.randn(20, 4, generator=torch.Generator().manual_seed(0)), torch.arange(20) % 2
    model = FlatModel(Tied(), inputs, targets, inputs, targets)
    assert len(model.initial) == 20 + 4 + 10
    assert model.stage_starts(3) == [0, 20, 24]
    gradient = model.gradient(model.initial, np.arange(20))
    assert float(gradient[:-2].abs().min()) > 0
    assert gradient[-2:].tolist() == [0.0, 0.0]
