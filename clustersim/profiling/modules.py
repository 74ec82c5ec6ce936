"""Modules for layers that torch has only as functions, so that they can be named, traced and timed like the rest."""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn import functional


class Add(nn.Module):
    """A residual connection. `inplace` writes into the left input, as torchvision's ResNet does."""

    def __init__(self, inplace: bool):
        super().__init__()
        self.inplace = inplace

    def extra_repr(self) -> str:
        return f"inplace={self.inplace}"

    def forward(self, left: Tensor, right: Tensor) -> Tensor:
        return left.add_(right) if self.inplace else left + right


class Concat(nn.Module):
    """Branches concatenated along the channels."""

    def forward(self, *branches: Tensor) -> Tensor:
        return torch.cat(branches, dim=1)


class Flat(nn.Linear):
    """A fully connected layer over all elements of a sample."""

    def forward(self, x: Tensor) -> Tensor:
        return super().forward(x.flatten(1))


class Tied(nn.Module):
    """An output head whose matrix is the embedding's, which owns it."""

    def __init__(self, embedding: Embedding):
        super().__init__()
        self._owner = [embedding]  # in a list, so that the matrix has one owner

    @property
    def weight(self) -> Tensor:
        return self._owner[0].words.weight

    @property
    def bias(self) -> None:
        return None

    def extra_repr(self) -> str:
        outputs, inputs = self.weight.shape
        return f"{inputs}, {outputs}"

    def forward(self, x: Tensor) -> Tensor:
        return functional.linear(x, self.weight)


class Embedding(nn.Module):
    """Words, and positions where there is a table of them, looked up and added."""

    def __init__(self, num_words: int, num_positions: int, features: int):
        super().__init__()
        self.words = nn.Embedding(num_words, features)
        self.positions = nn.Embedding(num_positions, features) if num_positions else None

    def forward(self, indices: Tensor) -> Tensor:
        words = self.words(indices)
        if self.positions is None:
            return words
        return words + self.positions(torch.arange(indices.shape[1], device=indices.device))


class Lstm(nn.LSTM):
    """One LSTM layer over [batch, tokens, features] with zero initial state that returns only its outputs."""

    def forward(self, x: Tensor) -> Tensor:
        return super().forward(x)[0]


class Attention(nn.Module):
    """Causal attention of concatenated queries, keys and values, by torch's fused kernel."""

    def __init__(self, heads: int, dropout: float):
        super().__init__()
        self.heads, self.dropout = heads, dropout

    def extra_repr(self) -> str:
        return f"heads={self.heads}, dropout={self.dropout}"

    def forward(self, qkv: Tensor) -> Tensor:
        batch, tokens, features = qkv.shape
        split = qkv.view(batch, tokens, 3, self.heads, features // 3 // self.heads).permute(2, 0, 3, 1, 4)
        dropout = self.dropout if self.training else 0.0
        mixed = functional.scaled_dot_product_attention(*split, dropout_p=dropout, is_causal=True)
        return mixed.transpose(1, 2).reshape(batch, tokens, features // 3)


class Loss(nn.Module):
    """Cross entropy over the classes, averaged over samples (and tokens), times the head's weight."""

    def __init__(self, weight: float = 1.0):
        super().__init__()
        self.weight = weight

    def extra_repr(self) -> str:
        return f"weight={self.weight}"

    def forward(self, scores: Tensor, targets: Tensor) -> Tensor:
        flat = scores.flatten(0, 1) if targets.dim() == 2 else scores.flatten(1)
        loss = functional.cross_entropy(flat, targets.flatten())
        return loss if self.weight == 1.0 else self.weight * loss
