"""Real data-parallel training: torch's DistributedDataParallel over gloo, with layers that sleep as compute."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING, Any

from validate.lab.collectives import begin_group
from validate.lab.ranks import RankContext

if TYPE_CHECKING:
    import torch

WIDTH = 512
"""Inputs of a layer; its size determines the number of outputs."""

_LEARNING_RATE = 1e-6


@dataclass(frozen=True)
class Net:
    """A sequence of equal layers, each of which sleeps in its forward and backward pass."""

    num_layers: int
    layer_bytes: int
    forward_s: float
    backward_s: float


@dataclass(frozen=True)
class Training:
    """A training: `bucket_bytes` caps DDP's buckets, or None for one all-reduce after backward."""

    net: Net
    bucket_bytes: int | None


def layer_times(context: RankContext, net: Net, num_iterations: int) -> dict[str, list[float]]:
    """Train on one rank, without communication; return the median time of each layer.

    `forward_s` and `backward_s` [num_layers] in the order of the layers, and `update_s` [1]. They are the
    inputs of the simulator.
    """
    import torch

    torch.set_num_threads(1)
    marks: list[tuple[str, int, float]] = []
    model = build(net, marks)
    optimizer = torch.optim.SGD(model.parameters(), lr=_LEARNING_RATE)
    samples: list[dict[str, list[float]]] = []
    for _ in range(num_iterations + 2):
        marks.clear()
        began_s = time.monotonic()
        loss = _forward(model)
        turned_s = time.monotonic()
        loss.backward()
        done_s = time.monotonic()
        optimizer.step()
        optimizer.zero_grad()
        samples.append(_layer_seconds(marks, began_s, turned_s, done_s, time.monotonic()))
    kept = samples[2:]
    return {
        key: [sorted(sample[key][layer] for sample in kept)[len(kept) // 2] for layer in range(len(kept[0][key]))]
        for key in kept[0]
    }


def _layer_seconds(
    marks: Sequence[tuple[str, int, float]], began_s: float, turned_s: float, done_s: float, ended_s: float
) -> dict[str, list[float]]:
    """Return the time of each layer from the end times of layers; the last layer gets the rest."""
    forward = [began_s, *sorted(at for what, _, at in marks if what == "forward")[:-1], turned_s]
    backward = [turned_s, *sorted(at for what, _, at in marks if what == "backward"), done_s]
    return {
        "forward_s": [after - before for before, after in pairwise(forward)],
        "backward_s": [after - before for before, after in pairwise(backward)][::-1],
        "update_s": [ended_s - done_s],
    }


def train(context: RankContext, store: str, trainings: Sequence[Training], num_iterations: int) -> list[Trained]:
    """Run the trainings one after the other, for `num_iterations` each."""
    import torch.distributed as dist

    begin_group(context, store)
    try:
        return [_train(context, training, num_iterations) for training in trainings]
    finally:
        dist.destroy_process_group()


@dataclass(frozen=True)
class Trained:
    """The end of each iteration on this rank [num_iterations], and the bytes of DDP's buckets."""

    end_s: list[float]
    bucket_bytes: list[int]


def _train(context: RankContext, training: Training, num_iterations: int) -> Trained:
    import torch

    model = build(training.net, [])
    optimizer = torch.optim.SGD(model.parameters(), lr=_LEARNING_RATE)
    step, buckets = _overlapped(model, training.bucket_bytes) if training.bucket_bytes else _whole(model)
    end_s = []
    context.barrier()
    for _ in range(num_iterations):
        step()
        optimizer.step()
        optimizer.zero_grad()
        end_s.append(time.monotonic())
    return Trained(end_s, buckets())


def _overlapped(model: torch.nn.Module, bucket_bytes: int) -> tuple[Any, Any]:
    """Return a function for one iteration with DistributedDataParallel, and one for the sizes of its buckets."""
    from torch.nn.parallel import DistributedDataParallel

    parallel = DistributedDataParallel(model, bucket_cap_mb=bucket_bytes / 1024**2)

    def buckets() -> list[int]:
        text = str(parallel._get_ddp_logging_data().get("rebuilt_bucket_sizes", ""))
        return [int(size) for size in text.replace(",", " ").split()]

    return lambda: _forward(parallel).backward(), buckets


def _whole(model: torch.nn.Module) -> tuple[Any, Any]:
    """Return a function for one iteration with one all-reduce after backward, and one for its size."""
    import torch
    import torch.distributed as dist

    parameters = list(model.parameters())
    buffer = torch.zeros(sum(each.numel() for each in parameters))
    views = torch.split(buffer, [each.numel() for each in parameters])

    def step() -> None:
        _forward(model).backward()
        for view, each in zip(views, parameters, strict=True):
            assert each.grad is not None
            view.copy_(each.grad.view(-1))
        dist.all_reduce(buffer)
        buffer.div_(dist.get_world_size())
        for view, each in zip(views, parameters, strict=True):
            each.grad = view.view_as(each)

    return step, lambda: [4 * len(buffer)]


def _forward(model: torch.nn.Module) -> torch.Tensor:
    import torch

    loss: torch.Tensor = model(torch.ones(2, WIDTH)).sum()
    return loss


def build(net: Net, marks: list[tuple[str, int, float]]) -> torch.nn.Module:
    """Return the layers; each adds (`forward` or `backward`, its number, the time) to `marks` at its end."""
    import torch

    class Sleep(torch.autograd.Function):
        """Sleeps in the forward pass, and in the backward pass before the gradients of its layer."""

        @staticmethod
        def forward(context: Any, values: torch.Tensor, layer: int) -> torch.Tensor:
            time.sleep(net.forward_s)
            context.layer = layer
            return values.clone()

        @staticmethod
        def backward(context: Any, *gradients: torch.Tensor) -> tuple[torch.Tensor, None]:
            if context.layer < net.num_layers - 1:
                marks.append(("backward", context.layer + 1, time.monotonic()))
            time.sleep(net.backward_s)
            return gradients[0], None

    class Layer(torch.nn.Module):
        """A matrix; only as many outputs are used as the next layer has inputs."""

        def __init__(self, number: int):
            super().__init__()
            self.number = number
            self.weight = torch.nn.Parameter(torch.full((net.layer_bytes // 4 // WIDTH, WIDTH), 1e-3))

        def forward(self, values: torch.Tensor) -> torch.Tensor:
            out = torch.nn.functional.linear(values, self.weight)[:, :WIDTH]
            slept: torch.Tensor = Sleep.apply(out, self.number)
            marks.append(("forward", self.number, time.monotonic()))
            return slept

    return torch.nn.Sequential(*(Layer(number) for number in range(net.num_layers)))
