"""Mamba (Gu and Dao, 2023) and Mamba-2 (Dao and Gu, 2024): a recurrence over the tokens in place of attention.

The convolution and the scan are taken to be the fused kernels of mamba-ssm and causal-conv1d, which transformers calls
where they are installed; without them it runs the recurrence in Python, many times slower. Their FLOP are the matrix
products of that fallback, as torch's counter sees them.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from clustersim.interchange.hf_config.config import Config
from clustersim.model.blocks.net import BlockBuilder
from clustersim.model.builder import Tensor


@dataclass(frozen=True)
class _Sizes:
    features: int
    inner: int
    states: int
    kernel: int
    convolution_bias: bool
    bias: bool
    function: str
    tokens: int


def mamba(net: BlockBuilder, config: Config) -> None:
    """Build a Mamba with its head, or the body of MambaModel."""
    kind = config.architecture(["MambaForCausalLM", "MambaModel"])
    sizes, layers, vocabulary = _sizes(config), config.layers("num_hidden_layers"), config.size("vocab_size")
    config.without_effect("time_step_rank")
    automatic = config.values.get("time_step_rank", "auto") in (None, "auto")
    rank = math.ceil(sizes.features / 16) if automatic else config.size("time_step_rank")
    tied = config.flag("tie_word_embeddings")
    _ignored(config)
    config.without_effect("use_mambapy", "use_associative_scan", "intermediate_size")
    config.check()
    x = net.embedding("embedding", sizes.tokens, sizes.features, rows=[vocabulary])
    for number in range(layers):
        name = f"layers.{number}"
        y = _mixer(net, name, net.rms_norm(f"{name}.norm", x), sizes, rank)
        x = net.add(f"{name}.add", x, y)
    _head(net, x, vocabulary, kind == "MambaForCausalLM", tied)


def mamba2(net: BlockBuilder, config: Config) -> None:
    """Build a Mamba-2 with its head, or the body of Mamba2Model."""
    kind = config.architecture(["Mamba2ForCausalLM", "Mamba2Model"])
    sizes, layers, vocabulary = _sizes(config), config.layers("num_hidden_layers"), config.size("vocab_size")
    heads = _Heads(
        config.size("num_heads"), config.size("head_dim"), config.size("n_groups"), config.size("chunk_size")
    )
    if heads.num * heads.width != sizes.inner:
        config.wrong(
            "num_heads", f"expected num_heads x head_dim of {sizes.inner}, expand x hidden_size "
            f"(got {heads.num * heads.width})", heads.num,
        )  # fmt: skip
    config.split("num_heads", heads.num, "n_groups", heads.groups)
    tied = config.flag("tie_word_embeddings")
    _ignored(config)
    config.without_effect("time_step_rank", "time_step_limit")
    config.check()
    x = net.embedding("embedding", sizes.tokens, sizes.features, rows=[vocabulary])
    for number in range(layers):
        name = f"layers.{number}"
        y = _chunked_mixer(net, name, net.rms_norm(f"{name}.norm", x), sizes, heads)
        x = net.add(f"{name}.add", x, y)
    _head(net, x, vocabulary, kind == "Mamba2ForCausalLM", tied)


@dataclass(frozen=True)
class _Heads:
    num: int
    width: int
    groups: int
    chunk: int


def _sizes(config: Config) -> _Sizes:
    features = config.size("hidden_size")
    expand = config.number("expand")
    inner = int(expand * features)
    if not 1 <= inner < 2**31:
        config.wrong("expand", f"expected at least one inner feature (got {expand:g})", f"{expand:g}")
        inner = features
    return _Sizes(
        features=features,
        inner=inner,
        states=config.size("state_size"),
        kernel=config.size("conv_kernel"),
        convolution_bias=config.flag("use_conv_bias"),
        bias=config.flag("use_bias"),
        function=config.function("hidden_act"),
        tokens=config.tokens(2**31 - 1, learned=False),
    )


def _ignored(config: Config) -> None:
    """Read the keys of the first weights and of the width of the residual stream."""
    config.without_effect("time_step_scale", "time_step_min", "time_step_max", "time_step_init_scheme")
    config.without_effect("time_step_floor", "rescale_prenorm_residual", "residual_in_fp32")
    config.notes.append(
        "the scan and its convolution are taken to be the fused kernels of mamba-ssm and causal-conv1d, bound by memory"
    )


def _head(net: BlockBuilder, x: Tensor, vocabulary: int, has_head: bool, tied: bool) -> None:
    x = net.rms_norm("norm", x)
    if has_head:
        x = net.linear("head", x, vocabulary, bias=False, tied=tied)
    net.loss("loss", x)


def _mixer(net: BlockBuilder, name: str, x: Tensor, sizes: _Sizes, rank: int) -> Tensor:
    """Add the mixer: a convolution, projections of it to step sizes and matrices, and the scan with its gate."""
    inner, tokens = sizes.inner, sizes.tokens
    net.linear(f"{name}.in", x, 2 * inner, bias=sizes.bias)
    y = net.causal_convolution(f"{name}.convolution", Tensor(inner, tokens), sizes.kernel, sizes.convolution_bias)
    net.linear(f"{name}.selection", y, rank + 2 * sizes.states, bias=False)
    net.linear(f"{name}.step", Tensor(rank, tokens), inner)
    # step sizes, convolved input, gate, both matrices; the result before the gate is written too
    read = (4 * inner + 2 * sizes.states) * tokens
    flop = 2.0 * inner * sizes.states * tokens
    y = net.scan(f"{name}.scan", "selective-scan", read, Tensor(inner, tokens), flop, inner * (sizes.states + 1))
    return net.linear(f"{name}.out", y, sizes.features, bias=sizes.bias)


def _chunked_mixer(net: BlockBuilder, name: str, x: Tensor, sizes: _Sizes, heads: _Heads) -> Tensor:
    """Add the mixer of Mamba-2: one projection, a convolution, the scan by chunks, and a norm with the gate."""
    inner, tokens, shared = sizes.inner, sizes.tokens, 2 * heads.groups * sizes.states
    net.linear(f"{name}.in", x, 2 * inner + shared + heads.num, bias=sizes.bias)
    convolved = Tensor(inner + shared, tokens)
    net.causal_convolution(f"{name}.convolution", convolved, sizes.kernel, sizes.convolution_bias)
    chunks = -(-tokens // heads.chunk)
    states = chunks * heads.num * heads.width * sizes.states
    # the input twice, for the states of chunks and for the result; states written, passed on and read, in 32 bits
    read = (2 * (inner + shared) + heads.num) * tokens + 2 * 3 * states
    y = net.scan(
        f"{name}.scan", "chunked-scan", read, Tensor(inner, tokens), _chunk_flop(sizes, heads, chunks), 3 * heads.num
    )
    norm = f"{name}.gated_norm"  # over the features of each group
    one = heads.groups == 1
    y = net.rms_norm(norm, y) if one else net.head_norm(norm, y, heads.groups, parameters=inner)
    return net.linear(f"{name}.out", y, sizes.features, bias=sizes.bias)


def _chunk_flop(sizes: _Sizes, heads: _Heads, chunks: int) -> float:
    """Return the FLOP of the products of a chunked scan; the last chunk is padded.

    Scores and their product with the input within chunks, states of chunks, states passed on, results from states.
    """
    num, width, states, chunk = heads.num, heads.width, sizes.states, heads.chunk
    within = chunks * chunk * chunk * (states + width)
    outside = 2 * chunks * chunk * states * width
    passed = (chunks + 1) ** 2 * states * width
    return 2.0 * num * (within + outside + passed)
