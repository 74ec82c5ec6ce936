"""The most memory that a training iteration takes against the blocks that torch allocates and frees in one.

The real models run on the meta device, which computes nothing, and every tensor takes and gives back a block by the
rules of torch's caching allocator. Dropout is CUDA's, whose mask has a byte an element.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import pytest

from clustersim.kernels import OptimizerSpec, memory_per_gpu
from clustersim.model import load_model

if TYPE_CHECKING:
    import torch

    from tests.torch.allocator import CachingAllocator

pytestmark = pytest.mark.torch
BATCH = 32
IMAGES = ("alexnet", "googlenet", "nin", "resnet50", "squeezenet-1.0", "vgg16")
STATES = {"momentum": 1, "adam": 2}


@pytest.fixture(autouse=True)
def dropout_of_cuda(monkeypatch: pytest.MonkeyPatch) -> None:
    import torch

    def dropped(x: torch.Tensor, p: float = 0.5, training: bool = True, inplace: bool = False) -> torch.Tensor:
        return torch.native_dropout(x, p, training)[0]

    monkeypatch.setattr(torch.nn.functional, "dropout", dropped)


def play(model: torch.nn.Module, inputs: tuple[torch.Tensor, ...], kind: str, stay: bool) -> CachingAllocator:
    """Return the allocator after two passes of a batch, with an optimizer's state; gradients stay or go in between."""
    import torch

    from tests.torch.allocator import Played

    with Played() as played, torch.device("meta"):
        parameters = list(model.parameters())
        state = [torch.empty_like(parameter) for parameter in parameters for _ in range(STATES[kind])]
        for tensor in (*parameters, *model.buffers(), *inputs):
            played.hold(tensor)
        for _ in range(2):
            model(*inputs).backward()
            if not stay:
                model.zero_grad(set_to_none=True)
        del state
    return played.allocator


def forecast(name: str, batch: int, kind: str, stay: bool) -> float:
    held = memory_per_gpu(
        load_model(name), batch, "fp32", OptimizerSpec.model_validate({"kind": kind}), gradients_stay=stay
    )
    return sum(size for part, size in held.items() if part not in ("context", "workspace"))


@pytest.mark.parametrize("batch", [1, BATCH])
@pytest.mark.parametrize("name", IMAGES)
def test_a_gpu_alone_allocates_at_most_what_is_forecast(name: str, batch: int) -> None:
    import torch

    from clustersim.profiling.models import build_model

    graph = build_model(name).train()
    found = play(graph, graph.batch(batch, torch.device("meta"), "nchw"), "momentum", stay=False)
    assert forecast(name, batch, "momentum", stay=False) == pytest.approx(found.most_allocated, rel=0.06)
    assert found.reserved > found.most_allocated


def bert_large() -> torch.nn.Module:
    """Return BERT-large with a classifier, its attention as separate products, as Hugging Face has it (`eager`)."""
    import torch
    from torch import nn
    from torch.nn import functional

    features, heads = 1024, 16

    class Block(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.query, self.key, self.value, self.output = (nn.Linear(features, features) for _ in range(4))
            self.wide, self.narrow = nn.Linear(features, 4 * features), nn.Linear(4 * features, features)
            self.norm1, self.norm2, self.drop = nn.LayerNorm(features), nn.LayerNorm(features), nn.Dropout(0.1)

        def split(self, x: torch.Tensor) -> torch.Tensor:
            return x.view(*x.shape[:2], heads, -1).transpose(1, 2)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            query, key, value = self.split(self.query(x)), self.split(self.key(x)), self.split(self.value(x))
            scores = torch.matmul(query, key.transpose(-1, -2)) / math.sqrt(features / heads)
            weights = self.drop(functional.softmax(scores, dim=-1))
            y = torch.matmul(weights, value).transpose(1, 2).reshape(x.shape)
            x = self.norm1(self.drop(self.output(y)) + x)
            return self.norm2(self.drop(self.narrow(functional.gelu(self.wide(x)))) + x)

    class Bert(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.tables = nn.ModuleList(nn.Embedding(rows, features) for rows in (30_522, 512, 2))
            self.norm, self.drop = nn.LayerNorm(features), nn.Dropout(0.1)
            self.blocks = nn.Sequential(*(Block() for _ in range(24)))
            self.pooler, self.classes = nn.Linear(features, features), nn.Linear(features, 2)

        def forward(self, words: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
            indices = (words, torch.arange(words.shape[1], device=words.device)[None], torch.zeros_like(words))
            x: Any = sum(table(each) for table, each in zip(self.tables, indices, strict=True))
            x = self.blocks(self.drop(self.norm(x)))
            return functional.cross_entropy(self.classes(torch.tanh(self.pooler(x[:, 0]))), labels)

    with torch.device("meta"):
        return Bert()


@pytest.mark.parametrize(("batch", "stay"), [(1, True), (4, True), (4, False)])
def test_bert_large_allocates_at_most_what_is_forecast(batch: int, stay: bool) -> None:
    import torch

    model = bert_large().train()
    words = torch.zeros(batch, 512, dtype=torch.long, device="meta")
    found = play(model, (words, torch.zeros(batch, dtype=torch.long, device="meta")), "adam", stay)
    assert forecast("bert-large-seq512", batch, "adam", stay) == pytest.approx(found.most_allocated, rel=0.03)
    assert found.most_allocated < found.reserved < 1.05 * found.most_allocated


def test_the_allocator_splits_joins_and_takes_the_smallest_block_that_is_large_enough() -> None:
    from tests.torch.allocator import MIB, CachingAllocator

    allocator = CachingAllocator()
    first, second = allocator.take(3 * MIB), allocator.take(4 * MIB)
    assert (allocator.reserved, allocator.allocated) == (20 * MIB, 7 * MIB)
    allocator.give_back(first)
    assert allocator.take(2 * MIB + 1).address == first.address, "13 MiB are free too, behind the second"
    assert allocator.allocated == 7 * MIB, "less than 1 MiB is not split off"
    allocator.give_back(second)
    assert allocator.take(17 * MIB).address == second.address
    assert allocator.reserved == 20 * MIB
    allocator.take(1)
    assert (allocator.reserved, allocator.allocated) == (22 * MIB, 20 * MIB + 512)
    allocator.take(11 * MIB)
    assert allocator.reserved == 34 * MIB
    assert allocator.most_allocated == allocator.allocated
