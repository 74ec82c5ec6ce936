"""DeBERTa V2 and V3 (He et al., 2021): attention to words and, apart, to relative positions."""

from __future__ import annotations

from dataclasses import dataclass

from clustersim.interchange.hf_config.config import Config
from clustersim.interchange.hf_config.transformer import token_head
from clustersim.model.blocks.feed_forward import feed_forward
from clustersim.model.blocks.net import BlockBuilder
from clustersim.model.builder import Tensor

_KINDS = ("Model", "ForMaskedLM", "ForSequenceClassification", "ForTokenClassification", "ForQuestionAnswering")
_TYPES = ("c2p", "p2c")


@dataclass(frozen=True)
class _Sizes:
    layers: int
    features: int
    heads: int
    width: int
    function: str
    vocabulary: int
    words: int  # features of the table of words
    positions: int  # rows of the table of absolute positions, 0 if there is none
    segments: int
    relative: int  # rows of the table of relative positions, 0 if there is none
    kinds: tuple[str, ...]
    shared: bool  # whether positions have the projections of words
    normed: bool
    kernel: int  # of the convolution beside the first block, 0 if there is none
    groups: int
    convolution_function: str
    drops: bool
    drops_weights: bool
    tokens: int


def deberta_v2(net: BlockBuilder, config: Config) -> None:
    """Build DeBERTa, whose attention is never fused.

    What is done once for a batch, the projections of relative positions, is left out of the FLOP.
    """
    kind = config.architecture([f"DebertaV2{kind}" for kind in _KINDS]).removeprefix("DebertaV2")
    sizes, legacy, labels = _sizes(config), config.flag("legacy"), config.labels()
    pooled, pooler = config.size("pooler_hidden_size", sizes.features), config.function("pooler_hidden_act")
    config.without_effect("pooler_dropout", "cls_dropout")
    if pooled != sizes.features:
        config.wrong("pooler_hidden_size", f"expected hidden_size, {sizes.features} (got {pooled})", pooled)
    if sizes.relative:
        gemms = len(sizes.kinds) * 2 * sizes.layers * sizes.relative * sizes.features**2
        config.notes.append(
            f"projections of relative positions are computed once for a batch and left out: {gemms / 1e9:.3g} GFLOP"
        )
    config.check()
    net.attention = "eager"
    x = _body(net, sizes)
    if kind == "ForMaskedLM":
        _word_head(net, x, sizes, legacy)
    elif kind == "ForSequenceClassification":
        y = net.activation("pooler.act", pooler, net.fully_connected("pooler", Tensor(sizes.features), pooled))
        net.loss("loss", net.fully_connected("classifier", net.dropout("classifier.drop", y), labels))
    elif kind == "Model":
        net.loss("loss", x)
    else:
        token_head(net, "classifier", x, labels)


def _sizes(config: Config) -> _Sizes:
    features, heads = config.size("hidden_size"), config.size("num_attention_heads")
    config.split("hidden_size", features, "num_attention_heads", heads)
    positions = config.size("max_position_embeddings")
    kinds, rows = _relative(config, positions)
    biased = config.flag("position_biased_input")
    return _Sizes(
        layers=config.layers("num_hidden_layers"),
        features=features,
        heads=heads,
        width=config.size("intermediate_size"),
        function=config.function("hidden_act"),
        vocabulary=config.size("vocab_size"),
        words=config.size("embedding_size", features),
        positions=positions if biased else 0,
        segments=config.size("type_vocab_size", least=0),
        relative=rows,
        kinds=kinds,
        shared=config.flag("share_att_key", False),
        normed="layer_norm" in config.text("norm_rel_ebd", "none").lower(),
        kernel=config.size("conv_kernel_size", 0, least=0),
        groups=config.size("conv_groups", 1),
        convolution_function=config.function("conv_act", "tanh"),
        drops=config.drops("hidden_dropout_prob"),
        drops_weights=config.drops("attention_probs_dropout_prob"),
        tokens=config.tokens(positions, learned=biased),
    )


def _relative(config: Config, positions: int) -> tuple[tuple[str, ...], int]:
    """Return the kinds of attention to relative positions, and the rows of their table."""
    if not config.flag("relative_attention"):
        config.without_effect("pos_att_type", "max_relative_positions", "position_buckets")
        return (), 0
    given = config.values.get("pos_att_type")
    named = given if isinstance(given, list) else config.text("pos_att_type", "").lower().split("|")
    config.without_effect("pos_att_type")
    kinds = tuple(dict.fromkeys(str(each).strip() for each in named if str(each).strip()))
    if not set(kinds) <= set(_TYPES):
        config.wrong("pos_att_type", f"expected some of {', '.join(_TYPES)} (got {', '.join(kinds)})", kinds)
    buckets, most = (config.size(key, -1, least=-1) for key in ("position_buckets", "max_relative_positions"))
    return kinds, 2 * (buckets if buckets > 0 else most if most > 0 else positions)


def _body(net: BlockBuilder, sizes: _Sizes) -> Tensor:
    rows = [each for each in (sizes.vocabulary, sizes.positions, sizes.segments) if each]
    x = net.embedding("embeddings", sizes.tokens, sizes.words, rows)
    if sizes.words != sizes.features:
        x = net.linear("embeddings.project", x, sizes.features, bias=False)
    x = net.layer_norm("embeddings.norm", x)
    if sizes.relative:
        x = net.parameters("relative.embedding", x, sizes.relative * sizes.features + 2 * sizes.features * sizes.normed)
    x = _dropped(net, "embeddings", x, sizes.drops)
    first = x
    for number in range(sizes.layers):
        name = f"layer.{number}"
        y = _dropped(net, f"{name}.attention", _attention(net, f"{name}.attention", x, sizes), sizes.drops)
        x = net.layer_norm(f"{name}.attention.norm", net.add(f"{name}.attention.add", x, y))
        y = feed_forward(net, f"{name}.feed_forward", x, sizes.width, sizes.function)
        y = _dropped(net, f"{name}.feed_forward", y, sizes.drops)
        x = net.layer_norm(f"{name}.feed_forward.norm", net.add(f"{name}.feed_forward.add", x, y))
        if number == 0 and sizes.kernel:
            x = _convolution(net, first, x, sizes)
    return x


def _attention(net: BlockBuilder, name: str, x: Tensor, sizes: _Sizes) -> Tensor:
    """Add attention whose scores are sums of products with words and with relative positions, gathered by distance."""
    heads, features, tokens = sizes.heads, sizes.features, x.height
    net.linear(f"{name}.qkv", x, features, count=3)
    each = Tensor(features, tokens)
    if not sizes.shared:
        for kind in sizes.kinds if sizes.relative else ():
            net.parameters(f"{name}.{kind}.projection", Tensor(1), features * (features + 1))
    scores = net.attention_matmul(f"{name}.scores", each, each, heads, outputs=tokens)
    for kind in sizes.kinds if sizes.relative else ():
        table = Tensor(features, sizes.relative)
        net.attention_matmul(f"{name}.{kind}", each, table, heads, outputs=sizes.relative)
        net.copied(f"{name}.{kind}.gather", scores, scores)
        scores = net.add(f"{name}.{kind}.add", scores, scores)
    weights = _dropped(net, f"{name}.weights", net.softmax(f"{name}.softmax", scores), sizes.drops_weights)
    context = net.attention_matmul(f"{name}.context", weights, each, heads, outputs=features // heads)
    return net.linear(f"{name}.output", context, features)


def _convolution(net: BlockBuilder, first: Tensor, x: Tensor, sizes: _Sizes) -> Tensor:
    """Add the convolution of the embeddings, beside the first block."""
    pad = (sizes.kernel - 1) // 2
    y = net.conv("conv", first, sizes.features, (sizes.kernel, 1), pad=(pad, 0), groups=sizes.groups)
    y = net.activation("conv.act", sizes.convolution_function, _dropped(net, "conv", y, sizes.drops))
    return net.layer_norm("conv.norm", net.add("conv.add", x, y))


def _word_head(net: BlockBuilder, x: Tensor, sizes: _Sizes, legacy: bool) -> None:
    """Predict every word with the table of words; the head of later versions is as wide as the body."""
    width = sizes.words if legacy else sizes.features
    y = net.activation("head.act", sizes.function, net.linear("head.transform", x, width))
    y = net.linear("head.words", net.layer_norm("head.norm", y), sizes.vocabulary, bias=False, tied=True)
    net.loss("loss", net.parameters("head.bias", y, sizes.vocabulary))


def _dropped(net: BlockBuilder, name: str, x: Tensor, drops: bool) -> Tensor:
    return net.dropout(f"{name}.drop", x) if drops else x
