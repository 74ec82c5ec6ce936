"""Training of one model is what it would be without a cluster: SGD, with a larger batch, or with old gradients."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor, nn

from clustersim.learning import SharedModelOrder, Trainee
from clustersim.learning.tasks.digits import Digits
from clustersim.learning.training.networks import perceptron, small_cnn
from clustersim.learning.training.replay import repeatable
from clustersim.learning.training.samples import WorkerSamples, pools
from clustersim.learning.training.shared_model import SharedModelTraining, last_read
from clustersim.results import ALL_WORKERS

from .orders import random_asynchronous, shared, stale, synchronous
from .runs import SEED, Trained, spec
from .trainees import Regression

pytestmark = pytest.mark.learning

OPTIMIZERS = {
    "sgd": lambda weights: torch.optim.SGD(weights, lr=0.02),
    "momentum": lambda weights: torch.optim.SGD(weights, lr=0.02, momentum=0.9),
    "adam": lambda weights: torch.optim.Adam(weights, lr=0.02),
}


def worker_samples(trainee: Trainee, worker: int, batch: int, num_workers: int = 1) -> WorkerSamples:
    pool = pools("shared", trainee.num_samples, trainee.labels, num_workers, SEED)[worker]
    return WorkerSamples(pool, batch, SEED, worker)


MODELS = {
    "perceptron of 7": (Digits(hidden=7), lambda: perceptron(64, 7, 10)),
    "perceptron of 64": (Digits(hidden=64), lambda: perceptron(64, 64, 10)),
    "convolutions": (Digits(model="cnn"), lambda: small_cnn(10)),
}


@pytest.mark.parametrize("kind", OPTIMIZERS)
@pytest.mark.parametrize("model", MODELS)
def test_one_asynchronous_worker_is_plain_sgd_bit_for_bit(kind: str, model: str) -> None:
    num_updates, batch, (task, module_of) = 60, 16, MODELS[model]
    trainee = task.trainee(SEED)
    trained = Trained(random_asynchronous(1, num_updates), spec(batch, 0.02, kind), trainee)
    with repeatable(SEED):
        module, samples = module_of(), worker_samples(trainee, 0, batch)
        plain_training(module, OPTIMIZERS[kind](module.parameters()), num_updates, samples)
    assert torch.equal(trained.last, torch.cat([each.detach().reshape(-1) for each in module.parameters()]))


def plain_training(
    module: nn.Module, optimizer: torch.optim.Optimizer, num_updates: int, samples: WorkerSamples
) -> None:
    """Train a module on digits as one does with torch, without anything of ours but the samples."""
    from sklearn.datasets import load_digits

    pixels, classes = load_digits(return_X_y=True)
    is_train = torch.arange(len(pixels)) % 5 != 0
    inputs, targets = torch.tensor(pixels / 16 - 0.5, dtype=torch.float32)[is_train], torch.tensor(classes)[is_train]
    if any(isinstance(each, nn.Conv2d) for each in module.modules()):
        inputs = inputs.view(-1, 1, 8, 8)
    for _ in range(num_updates):
        chosen = torch.from_numpy(samples.next())
        optimizer.zero_grad()
        nn.functional.cross_entropy(module(inputs[chosen]), targets[chosen]).backward()
        optimizer.step()


@pytest.mark.parametrize("kind", OPTIMIZERS)
@pytest.mark.parametrize("rows", [1, 4])
def test_synchronous_workers_are_sgd_with_a_larger_batch(kind: str, rows: int) -> None:
    num_workers, num_updates, trainee = 4, 50, Regression()
    order = synchronous(num_workers, num_updates)
    if rows == num_workers:
        steps = [(worker, version, version + 1) for version in range(num_updates) for worker in range(num_workers)]
        order = shared(num_workers, steps)
    trained = Trained(order, spec(4, 0.02, kind), trainee)

    samples = [worker_samples(trainee, worker, 4, num_workers) for worker in range(num_workers)]
    weights = trainee.initial.clone().requires_grad_()
    optimizer = OPTIMIZERS[kind]([weights])
    for _ in range(num_updates):
        chosen = torch.cat([torch.from_numpy(each.next()) for each in samples])
        optimizer.zero_grad()
        ((trainee.inputs[chosen] @ weights - trainee.targets[chosen]).square().mean() / 2).backward()
        optimizer.step()
    torch.testing.assert_close(trained.last, weights.detach(), rtol=1e-12, atol=1e-12)


def test_one_batch_of_workers_that_read_one_version_is_the_mean_of_their_gradients() -> None:
    together, alone = Regression(), Regression()
    alone.mixes_samples = True
    order = synchronous(5, 30)
    torch.testing.assert_close(
        Trained(order, spec(), together).last, Trained(order, spec(), alone).last, rtol=1e-13, atol=1e-13
    )


def played(order: SharedModelOrder, rate: float, trainee: Regression, batch: int = 4) -> list[Tensor]:
    """Return each version by the formula: the mean of rate times gradient, of the rows that are accepted."""
    num_workers = order.num_workers
    samples = [worker_samples(trainee, worker, batch, num_workers) for worker in range(num_workers)]
    versions, changes = [trainee.initial], list[Tensor]()
    rows = [*order.log.rows()]
    for row, following in zip(rows, [*rows[1:], None], strict=True):
        gradient = trainee.gradient(versions[row.version_read], samples[row.worker].next())
        if row.accepted:
            changes.append(rate * row.learning_rate * gradient)
        if following is None or following.version_written != row.version_written:
            versions.append(versions[-1] - torch.stack(changes).mean(0))
            changes = []
    return versions


@pytest.mark.parametrize("staleness", [1, 3])
def test_every_gradient_is_computed_on_the_version_that_was_read(staleness: int) -> None:
    """With a staleness of 1 it is the delayed all-reduce: w[t + 1] = w[t] - rate x gradient(w[t - 1])."""
    trainee, order = Regression(), stale(staleness, 40)
    expected = played(order, 0.05, trainee)
    for made, formula in zip(Trained(order, spec(), trainee).weights, expected[1:], strict=True):
        torch.testing.assert_close(made, formula, rtol=1e-13, atol=1e-13)


def test_asynchronous_workers_each_train_on_what_they_read() -> None:
    trainee, order = Regression(), random_asynchronous(6, 200)
    torch.testing.assert_close(Trained(order, spec(), trainee).last, played(order, 0.05, trainee)[-1])


SOFTSYNC = [(0, 0, 1, 1.0), (2, 0, 1, 1.0), (1, 0, 2, 0.5), (0, 1, 2, 1.0), (1, 2, 3, 1.0), (2, 1, 3, 0.25)]


def test_an_update_of_several_versions_weighs_each_gradient_by_its_rate() -> None:
    trainee, order = Regression(), shared(3, SOFTSYNC)
    torch.testing.assert_close(Trained(order, spec(), trainee).last, played(order, 0.05, trainee)[-1])


def test_a_rate_for_stale_gradients_changes_the_step_of_adam_too() -> None:
    whole, half = (Trained(shared(1, [(0, 0, 1, rate)]), spec(kind="adam"), Regression()).last for rate in (1.0, 0.5))
    initial = Regression().initial
    torch.testing.assert_close(half - initial, (whole - initial) / 2)


def test_a_dropped_gradient_changes_nothing_but_its_samples_are_passed_over() -> None:
    rows = [(0, 0, 1), (1, 0, 2, 1.0, False), (0, 1, 2), (1, 2, 3)]
    trainee = Regression()
    trained = Trained(shared(2, rows), spec(), trainee)
    torch.testing.assert_close(trained.last, played(shared(2, rows), 0.05, trainee)[-1])
    assert [point.updates for point in trained.run.curve] == [0, 1, 2, 3]


def test_dropped_gradients_after_the_last_update_are_no_update() -> None:
    order = shared(2, [(0, 0, 1), (1, 0, 2, 1.0, False)])
    assert order.num_updates == 1
    assert Trained(order, spec(), Regression()).run.curve[-1].updates == 1


def test_a_group_of_workers_gives_the_mean_of_its_gradients() -> None:
    rows = [(0, 0, 1), (1, 1, 2)]
    grouped = SharedModelOrder(4, shared(2, rows).log, [(0, 1), (2, 3)])
    alone = shared(4, [(0, 0, 1), (1, 0, 1), (2, 1, 2), (3, 1, 2)])
    torch.testing.assert_close(Trained(grouped, spec(), Regression()).last, Trained(alone, spec(), Regression()).last)


def test_only_versions_that_are_read_later_are_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    kept = []
    forget = SharedModelTraining._forget

    def noted(self: SharedModelTraining, *given: object) -> None:
        forget(self, *given)  # type: ignore[arg-type]
        kept.append(len(self._versions))

    monkeypatch.setattr(SharedModelTraining, "_forget", noted)
    Trained(random_asynchronous(5, 300), spec(), Regression())
    assert max(kept) <= 5
    kept.clear()
    Trained(synchronous(5, 50), spec(), Regression())
    assert max(kept) <= 1


def test_a_version_is_kept_for_a_dropped_gradient_only_if_it_leaves_a_residual() -> None:
    order = shared(2, [(ALL_WORKERS, 0, 1), (0, 0, 2, 1.0, False), (0, 1, 2)])
    assert last_read(order, with_dropped=False) == {0: 1, 1: 2}
    assert last_read(order, with_dropped=True) == {0: 2, 1: 2}
