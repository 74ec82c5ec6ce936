"""The gradient noise scale of a task whose gradients have a known mean and covariance."""

from __future__ import annotations

import math

import numpy as np
import pytest

pytestmark = pytest.mark.learning

SIGMA = (0.3, 1.0, 2.0, 0.1)


class Noisy:
    """A task of `num_samples` samples: the loss of sample i is that of weights w at w . g_i, so its gradient is g_i."""

    mixes_samples = False
    labels = None

    def __init__(self, num_samples: int, seed: int = 0):
        import torch

        rng = np.random.default_rng(seed)
        self.num_samples = num_samples
        self.gradients = torch.tensor(np.array([0.2, -0.3, 0.1, 0.0]) + rng.normal(0.0, SIGMA, (num_samples, 4)))
        self.initial = torch.zeros(4, dtype=torch.float64)

    def gradient(self, weights, samples):
        return self.gradients[samples].mean(0)

    def exact(self, scale=1.0) -> float:
        """Return tr(Sigma) / |G|^2 of all samples."""
        scaled = self.gradients * scale
        return float(scaled.var(0).sum() / scaled.mean(0).square().sum())


def estimates(trainee: Noisy, scale=None, number: int = 400) -> np.ndarray:
    from clustersim.learning.training.noise import noise_scale

    rng = np.random.default_rng(1)
    found = [noise_scale(trainee, trainee.initial, rng, scale) for _ in range(number)]
    return np.array([each for each in found if each is not None])


def test_estimate_from_all_samples_is_within_its_standard_error():
    """|G|^2 is exact, and tr(Sigma) is without bias: 31 degrees of freedom, and some directions more than one."""
    trainee = Noisy(1408)
    found = estimates(trainee) / trainee.exact()
    bound = math.sqrt(2 / 31)
    assert found.std() < bound
    assert found.std() == pytest.approx(
        bound * math.sqrt(np.sum(np.power(SIGMA, 4))) / np.sum(np.square(SIGMA)), rel=0.2
    )
    assert abs(found.mean() - 1) < 4 * found.std() / math.sqrt(len(found))


def test_estimate_from_some_of_many_samples_has_no_bias_in_its_parts():
    """A ratio of two estimates without bias: its median is close where the gradient is not lost in its noise."""
    trainee = Noisy(20_000)
    found = estimates(trainee)
    assert np.median(found) == pytest.approx(trainee.exact(), rel=0.1)


def test_preconditioner_scales_gradients_first():
    import torch

    trainee, scale = Noisy(1408), torch.tensor([2.0, 0.5, 0.1, 1.0])
    assert estimates(trainee, scale).mean() == pytest.approx(trainee.exact(scale), rel=0.05)


def test_few_samples_are_batches_of_one():
    trainee = Noisy(20)
    found = estimates(trainee, number=3)
    assert found == pytest.approx([trainee.exact()] * 3)


def test_gradient_lost_in_noise_has_no_noise_scale():
    from clustersim.learning.training.noise import noise_scale

    trainee = Noisy(1408)
    trainee.gradients -= trainee.gradients.mean(0)
    assert noise_scale(trainee, trainee.initial, np.random.default_rng(0)) is None or trainee.exact() > 1e20
    trainee.gradients *= float("nan")
    assert noise_scale(trainee, trainee.initial, np.random.default_rng(0)) is None


def spec_of(kind: str):
    from clustersim.learning import LearningSpec

    return LearningSpec(task="digits", batch=16, epochs=2, optimizer={"kind": kind, "rate": 0.01})


def trained(kind: str, measures_noise: bool):
    """Train digits by all workers in step: 4 workers, 40 updates."""
    from clustersim.learning import SharedModelOrder, train
    from clustersim.results import ALL_WORKERS, Update, UpdateLog

    log = UpdateLog()
    for number in range(40):
        log.add(Update(float(number + 1), ALL_WORKERS, number, number + 1, 1.0, True))
    spec = spec_of(kind)
    order = SharedModelOrder(4, log, [(rank,) for rank in range(4)])
    return train(order, spec, spec.task.trainee(3), 3, measures_noise=measures_noise)


@pytest.mark.parametrize("kind", ["sgd", "adam"])
def test_training_is_the_same_with_its_noise_measured(kind):
    measured = trained(kind, measures_noise=True)
    assert measured._replace(noise=()) == trained(kind, measures_noise=False)
    assert 8 <= len(measured.noise) <= 11
    assert measured.noise[0][0] == 0
    assert all(value > 0 for _, value in measured.noise)
    assert measured == trained(kind, measures_noise=True)


def test_adam_scales_each_element_by_the_root_of_its_mean_square():
    import torch

    from clustersim.learning.optimizer import LearningOptimizer
    from clustersim.learning.training.update import Updater

    updater = Updater(torch.zeros(3), LearningOptimizer(kind="adam", rate=0.1))
    assert updater.scale() is None
    gradient = torch.tensor([1.0, -2.0, 0.5])
    for _ in range(5):
        updater.step(gradient.clone(), 1.0)
    assert updater.scale() == pytest.approx(1 / gradient.abs().numpy(), rel=1e-4)
    plain = Updater(torch.zeros(3), LearningOptimizer(kind="momentum", rate=0.1))
    plain.step(gradient.clone(), 1.0)
    assert plain.scale() is None


def test_models_that_mix_samples_have_no_noise_scale():
    from clustersim.learning.training.noise import NoiseMeter

    trainee = Noisy(1408)
    trainee.mixes_samples = True
    meter = NoiseMeter(trainee, 10, 0)
    meter.evaluated(0, trainee.initial, lambda: None)
    assert meter.rows == ()


@pytest.mark.parametrize("samples", [2048, 16_384])
def test_quadratic_has_its_closed_form(samples):
    """Noise of covariance noise^2 I over 100 weights, and the gradient H w: phi = 100 noise^2 / |H w|^2."""
    import torch

    from clustersim.learning import TASKS
    from clustersim.learning.training.noise import noise_scale

    task = TASKS["quadratic"](kind="quadratic", dimensions=100, noise=0.5, samples=samples)
    trainee = task.trainee(0)
    curvature = torch.from_numpy(task.curvature())
    exact = 100 * 0.25 / float((curvature * trainee.initial).square().sum())
    rng = np.random.default_rng(0)
    found = [noise_scale(trainee, trainee.initial, rng) for _ in range(20)]
    assert np.mean(found) == pytest.approx(exact, rel=4 * math.sqrt(2 / (31 * 100 * 20)) + 1 / samples)
