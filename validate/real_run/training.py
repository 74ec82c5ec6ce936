"""The training of a model on one rank in parts: forward, backward, update, with synthetic data."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from clustersim.profiling.campaign import NO_LAYOUT
from clustersim.profiling.models import build_model
from clustersim.profiling.optimizers import DEFAULT, make_optimizer, make_scaler, one_step
from clustersim.profiling.precision import autocast, use_precision
from real_run.clock import HostClock, clock_of
from real_run.paced import pace
from real_run.ranks import Ranks


@dataclass(frozen=True)
class Job:
    """The model and its training options; `straggler` is (rank, factor on its compute time).

    With `paced_s`, forward and backward are pauses that last `paced_s` in an iteration.
    """

    model: str
    batch: int
    precision: str
    layout: str
    num_iterations: int
    num_warm_up: int
    paced_s: float | None = None
    straggler: tuple[int, float] | None = None

    def factor(self, rank: int) -> float:
        """Return the factor on a rank's compute time."""
        return self.straggler[1] if self.straggler is not None and self.straggler[0] == rank else 1.0

    def document(self) -> dict[str, object]:
        """Return the description of the job for its phases."""
        straggler = None if self.straggler is None else dict(zip(("rank", "factor"), self.straggler, strict=True))
        return {
            "model": self.model,
            "batch": self.batch,
            "precision": self.precision,
            "layout": self.layout,
            "num_warm_up": self.num_warm_up,
            "paced_s": self.paced_s,
            "straggler": straggler,
        }


class LocalTraining:
    """A model with random weights, a batch of random samples and a momentum optimizer, on this rank's device."""

    def __init__(self, ranks: Ranks, job: Job):
        device = ranks.device.torch
        use_precision(job.precision, autotune=True)
        torch.manual_seed(0)
        graph = build_model(job.model)
        layout = job.layout if graph.has_images else NO_LAYOUT
        self.graph = graph.materialise(device, layout)
        self.graph.train()
        if job.paced_s is not None:
            pace(self.graph, job.paced_s)
        self.batch = self.graph.batch(job.batch, device, layout)
        self.precision, self.device = job.precision, device
        self.parameters = [each for each in self.graph.parameters() if each.requires_grad]
        self.optimizer = make_optimizer(self.parameters, *DEFAULT)
        self.scaler = make_scaler(job.precision, device)
        self.clock: HostClock = clock_of(device)

    def forward(self, module: torch.nn.Module) -> Tensor:
        """Return the loss of the batch."""
        self.optimizer.zero_grad(set_to_none=True)
        with autocast(self.precision, self.device):
            loss: Tensor = module(*self.batch)
        return loss

    def backward(self, loss: Tensor) -> None:
        """Compute the gradients."""
        (loss if self.scaler is None else self.scaler.scale(loss)).backward()

    def update(self) -> None:
        """Take one step of the optimizer."""
        one_step(self.optimizer, self.scaler)
