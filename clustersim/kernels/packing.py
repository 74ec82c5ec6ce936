"""Samples of different lengths in sequences of one length: packed together, or each padded.

A language model of T tokens per sequence is trained on documents of n lengths l_i, each as frequent as the others. One
that is longer than T is cut into pieces of T tokens and a rest. Packed, a sequence is filled with whole pieces, as
best-fit packing does (Ding et al., arXiv:2404.10830), and attention computes pairs of tokens of one document only
(`flash_attn_varlen_func`, Dao-AILab/flash-attention; `attn_mask_type="thd"` in TransformerEngine): per sequence

    pairs = fill x T x L,  L = sum l_i^2 / sum l_i

of all pairs, half of them behind a causal mask, in place of T^2; its kernels run at the rate of sequences of L tokens.
Padded, a sequence is one document, and everything is computed for T tokens. All other layers compute T tokens in both
cases. The rate is extrapolated below the shortest sequences of its chart; below one block of queries (128 tokens),
where a kernel's blocks are partly empty, that is assumed. Left out: attention of a document that goes on in the next
sequence (none, with whole pieces), and ranks that wait for the one with the longest documents.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from itertools import pairwise
from math import ceil, erfc, inf, sqrt
from typing import Annotated, Literal, NamedTuple, Self

from pydantic import Field, model_validator

from clustersim.errors import InputError
from clustersim.kernels.attention_rates import DOCUMENT
from clustersim.kernels.fused_attention import is_fused
from clustersim.kernels.identity_cache import cached_by_identity
from clustersim.model.layer import Layer, Model
from clustersim.spec import Count, Spec

_STEP = 0.01
_REACH = 9.0
"""Standard deviations between two lengths of a log-normal distribution, and to the last one on either side."""

_TOLERANCE = 0.01


class LogNormal(Spec):
    """Lengths whose logarithm is normal."""

    mean: Annotated[float, Field(ge=1, le=1e9, allow_inf_nan=False, description="mean length in tokens")]
    sigma: Annotated[
        float, Field(ge=0, le=5, allow_inf_nan=False, description="standard deviation of the logarithm of a length")
    ]

    def lengths(self) -> Iterator[tuple[float, float]]:
        """Yield lengths and the share of documents of each; their mean is exact.

        Each stands for an interval of the logarithm, 1 / 100 of sigma wide, of which it is the mean.

        >>> list(LogNormal(mean=600, sigma=0).lengths())
        [(600.0, 1.0)]
        """
        if not self.sigma:
            yield self.mean, 1.0
            return
        most = _REACH + 2 * self.sigma  # what makes the second moment is around 2 sigma
        num = ceil((_REACH + most) / _STEP)
        places = [-inf, *(_STEP * each - _REACH for each in range(num + 1)), inf]
        for low, high in pairwise(places):
            documents, tokens = _normal(low, high), self.mean * _normal(low - self.sigma, high - self.sigma)
            if documents and tokens:
                yield tokens / documents, documents


def _normal(low: float, high: float) -> float:
    """Return the share of a normal distribution between two numbers of standard deviations."""
    if low > 0:
        low, high = -high, -low
    return (erfc(-high / sqrt(2)) - erfc(-low / sqrt(2))) / 2


class Packing(Spec):
    """Lengths of documents, and how they fill the sequences of a language model."""

    lengths: tuple[Count, ...] | LogNormal = Field(
        description="tokens of documents: a list of lengths, each as frequent as the others, or {mean: ..., "
        "sigma: ...} of a log-normal distribution"
    )
    kind: Literal["packed", "padded"] = Field(
        default="packed",
        description="`packed`: several documents in a sequence, with attention inside each only; `padded`: one "
        "document in a sequence, padded to its tokens",
    )
    fill: float = Field(
        default=1.0,
        gt=0,
        le=1,
        description="with `packed`, the share of a sequence's tokens that documents fill; the rest is padding",
    )

    @model_validator(mode="after")
    def _has_lengths(self) -> Self:
        if not self.lengths:
            raise InputError("a packing needs lengths of documents", key="lengths", got="[]", allowed="at least one")
        if isinstance(self.lengths, tuple) and len(self.lengths) > 1_000_000:
            message, got = "too many lengths; give mean and sigma", str(len(self.lengths))
            raise InputError(message, key="lengths", got=got, allowed="at most 1,000,000")
        if self.kind == "padded" and self.fill != 1:
            message = "the share of padding follows from the lengths where each document is padded; leave fill out"
            raise InputError(message, key="fill", got=f"{self.fill:g}", allowed="without kind: padded")
        return self


class Filling(NamedTuple):
    """What documents are in a sequence: its real tokens, its documents, and L, the tokens of its pairs per token."""

    tokens: float
    documents: float
    pair_tokens: float


def filling(packing: Packing, tokens: int) -> Filling:
    """Return what documents are in a sequence of `tokens` tokens.

    >>> filling(Packing(lengths=[1000, 3000]), 4000)
    Filling(tokens=4000.0, documents=2.0, pair_tokens=2500.0)
    >>> filling(Packing(lengths=[1000, 3000], kind="padded"), 4000)
    Filling(tokens=2000.0, documents=1.0, pair_tokens=4000.0)
    """
    given = packing.lengths
    lengths = given.lengths() if isinstance(given, LogNormal) else ((float(each), 1.0) for each in given)
    total = num_pieces = squares = 0.0
    for length, weight in lengths:
        whole, rest = divmod(length, tokens)
        total += weight * length
        num_pieces += weight * (whole + (rest > 0))
        squares += weight * (whole * tokens**2 + rest**2)
    if packing.kind == "padded":
        return Filling(total / num_pieces, 1.0, float(tokens))
    return Filling(packing.fill * tokens, packing.fill * tokens * num_pieces / total, squares / total)


def tokens_of(model: Model) -> int:
    """Return the tokens of a model's sequences; a model without attention, or with several lengths, is refused."""
    rows = {layer.shape["rows"] for layer in model.layers if layer.op == "matmul" and layer.shape}
    if len(rows) != 1:
        found = ", ".join(map(str, sorted(rows))) or "none"
        message = (
            f"packing is for models of one sequence with attention, and {model.name} has sequences of {found} tokens"
        )
        raise InputError(message, got=found, allowed="a language model", key="packing")
    return rows.pop()


def with_packing(model: Model, packing: Packing) -> Model:
    """Return a model whose attention computes pairs of tokens of one document only, if documents are packed."""
    tokens = tokens_of(model)
    if packing.kind == "padded":
        return model
    return _with_documents(model, tokens, filling(packing, tokens).pair_tokens, packing.fill)


@cached_by_identity(16)
def _with_documents(model: Model, tokens: int, pair_tokens: float, fill: float) -> Model:
    layers = tuple(
        _of_documents(layer, tokens, pair_tokens, fill) if layer.op == "matmul" else layer for layer in model.layers
    )
    return replace(model, layers=layers)


def _of_documents(layer: Layer, tokens: int, pair_tokens: float, fill: float) -> Layer:
    shape = layer.shape
    whole = 2.0 * shape["rows"] * shape["inputs"] * shape["outputs"] * shape["count"]
    is_known = any(abs(layer.flop - part * whole) <= _TOLERANCE * whole for part in (1.0, 0.5))
    keys = shape["inputs"] if layer.output_elements else shape["outputs"]
    if not is_fused(layer) or keys != tokens or not is_known:
        message = (
            "packing needs attention of all pairs, or all behind a causal mask, in one fused kernel, and "
            f"'{layer.name}' is not that"
        )
        raise InputError(
            message, got=layer.name, allowed="a model with fused attention, or kind: padded", key="packing"
        )
    document = max(1, round(pair_tokens))  # in both the work and its rate, so that shorter ones never take longer
    share = fill * document / tokens
    return replace(
        layer,
        flop=layer.flop * share,
        flop_backward_data=layer.flop_backward_data * share,
        shape={**shape, DOCUMENT: document},
    )
