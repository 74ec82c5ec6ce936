"""Muon and LoRA beside torch itself: FLOP, bytes of state, products for gradients."""

from __future__ import annotations

import pytest

pytestmark = pytest.mark.torch

torch = pytest.importorskip("torch")

from torch.utils.flop_counter import FlopCounterMode  # noqa: E402

from clustersim.kernels.adapters import Lora, with_adapters  # noqa: E402
from clustersim.kernels.muon import newton_schulz_flop  # noqa: E402
from clustersim.kernels.optimizer import OptimizerSpec  # noqa: E402
from clustersim.model.builder import Builder, Tensor  # noqa: E402
from clustersim.model.layer import Model  # noqa: E402


@pytest.mark.parametrize(("rows", "columns"), [(64, 64), (96, 32), (32, 96)])
def test_an_update_of_muon_has_the_flop_that_torch_counts(rows: int, columns: int) -> None:
    weight = torch.nn.Parameter(torch.randn(rows, columns))
    weight.grad = torch.randn(rows, columns)
    optimizer = torch.optim.Muon([weight])
    counter = FlopCounterMode(display=False)
    with counter:
        optimizer.step()
    assert counter.get_total_flops() == newton_schulz_flop(rows, columns)
    (state,) = optimizer.state.values()
    held = sum(each.numel() * each.element_size() for each in state.values() if torch.is_tensor(each))
    assert held == OptimizerSpec(kind="muon").state_bytes_per_parameter * rows * columns


def attention(tokens: int, features: int, heads: int) -> Model:
    net = Builder("one", "one", sample="sequence")
    x = net.embedding("embedding", tokens, features, rows=[16])
    query, key = Tensor(features, tokens), Tensor(features, tokens)
    net.linear("qkv", net.rms_norm("norm", x), 3 * features, bias=False)
    context = net.fused_attention("attention", query, key, heads)
    x = net.add("add", x, net.linear("output", context, features, bias=False))
    net.loss("loss", net.linear("head", x, 16, bias=False))
    return net.model()


class LoraLinear(torch.nn.Module):  # type: ignore[misc, name-defined]
    """y = W x + B A x for two of three parts of W, which is frozen, as PEFT adds it to each."""

    def __init__(self, features: int, rank: int) -> None:
        super().__init__()
        self.frozen = torch.nn.Linear(features, 3 * features, bias=False).requires_grad_(False)
        self.into = torch.nn.ModuleList(torch.nn.Linear(features, rank, bias=False) for _ in range(2))
        self.out = torch.nn.ModuleList(torch.nn.Linear(rank, features, bias=False) for _ in range(2))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Add the adapters of query and value."""
        query, key, value = self.frozen(x).chunk(3, dim=-1)
        one, other = (out(into(x)) for into, out in zip(self.into, self.out, strict=True))
        return torch.cat([query + one, key, value + other], dim=-1)


@pytest.mark.parametrize("needs_gradient", [True, False])
def test_an_adapted_product_has_the_flop_that_torch_counts(needs_gradient: bool) -> None:
    """A gradient of its input is needed but in the first block, below which nothing is trained."""
    tokens, features, rank = 32, 64, 4
    layer = LoraLinear(features, rank)
    counter = FlopCounterMode(display=False)
    with counter:
        layer(torch.randn(tokens, features, requires_grad=needs_gradient)).sum().backward()
    adapted = with_adapters(attention(tokens, features, 4), Lora(rank=rank), 2.0)
    own = [each for each in adapted.layers if each.name.startswith("qkv")]
    flop = sum(each.flop + each.flop_backward_data + each.flop_backward_weights for each in own)
    first = next(each for each in own if each.name == "qkv")
    if needs_gradient:
        flop += first.flop + sum(each.flop for each in own if each.name.endswith("lora_A"))
    assert counter.get_total_flops() == flop
    assert sum(each.num_parameters for each in own) == sum(
        each.numel() for each in layer.parameters() if each.requires_grad
    )
