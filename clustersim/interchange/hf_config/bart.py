"""BART (Lewis et al., 2019) and mBART (Liu et al., 2020): an encoder and a decoder with learned positions."""

from __future__ import annotations

from dataclasses import dataclass

from clustersim.interchange.hf_config.config import Config
from clustersim.interchange.hf_config.transformer import Heads, Stack, transformer
from clustersim.model.blocks.net import BlockBuilder
from clustersim.model.builder import Tensor

_UNUSED = 2  # positions are counted from after the padding index
_KINDS = ("ForConditionalGeneration", "Model", "ForSequenceClassification", "ForQuestionAnswering")


@dataclass(frozen=True)
class _Sizes:
    features: int
    vocabulary: int
    positions: int
    tokens: int
    drops: bool
    last_norm: bool


def bart(net: BlockBuilder, config: Config) -> None:
    """Build BART, whose norms are after the sums; encoder and decoder have the same number of tokens."""
    _build(net, config, "Bart", norm_first=False)


def mbart(net: BlockBuilder, config: Config) -> None:
    """Build mBART: BART with norms before the branches, and one at the end of each stack."""
    _build(net, config, "MBart", norm_first=True)


def side(config: Config, part: str, norm_first: bool, key_bias: bool = True) -> Stack:
    """Return the stack of the keys of one side, `encoder` or `decoder`."""
    features, heads = config.size("d_model"), config.size(f"{part}_attention_heads")
    width = config.split("d_model", features, f"{part}_attention_heads", heads)
    skipped = config.number(f"{part}_layerdrop")
    if skipped:
        config.notes.append(f"{part}_layerdrop: all layers are built, of which training skips {skipped:g} at random")
    return Stack(
        layers=config.layers(f"{part}_layers"),
        heads=Heads(heads, width, key_bias=key_bias, drops=config.drops("attention_dropout")),
        width=config.size(f"{part}_ffn_dim"),
        function=config.function("activation_function"),
        norm_first=norm_first,
        drops=config.drops("dropout"),
        drops_attention=config.drops("dropout"),
        drops_inside=config.drops("activation_dropout"),
    )


def _build(net: BlockBuilder, config: Config, prefix: str, norm_first: bool) -> None:
    kind = config.architecture([f"{prefix}{kind}" for kind in _KINDS]).removeprefix(prefix)
    config.without_effect("scale_embedding", "classifier_dropout", "is_encoder_decoder")
    positions = config.size("max_position_embeddings")
    sizes = _Sizes(
        features=config.size("d_model"),
        vocabulary=config.size("vocab_size"),
        positions=positions + _UNUSED,
        tokens=config.tokens(positions, learned=True),
        drops=config.drops("dropout"),
        last_norm=norm_first,
    )
    encoder, decoder = (side(config, part, norm_first) for part in ("encoder", "decoder"))
    if not config.flag("tie_word_embeddings"):
        config.wrong("tie_word_embeddings", "separate tables of words are not built", "false", "true")
    labels = config.labels()
    config.check()
    words = net.embedding("encoder.embedding", sizes.tokens, sizes.features, [sizes.vocabulary, sizes.positions])
    memory = _side(net, "encoder", words, sizes, encoder)
    words = net.tied_embedding("decoder.embedding", sizes.tokens, sizes.features)
    words = net.parameters("decoder.positions", words, sizes.positions * sizes.features)
    _head(net, kind, _side(net, "decoder", words, sizes, decoder, memory), sizes.vocabulary, labels)


def _side(net: BlockBuilder, name: str, x: Tensor, sizes: _Sizes, stack: Stack, memory: Tensor | None = None) -> Tensor:
    x = net.layer_norm(f"{name}.embedding.norm", x)
    if sizes.drops:
        x = net.dropout(f"{name}.embedding.drop", x)
    x = transformer(net, f"{name}.layers", x, stack, causal=memory is not None, memory=memory)
    return net.layer_norm(f"{name}.norm", x) if sizes.last_norm else x


def _head(net: BlockBuilder, kind: str, x: Tensor, vocabulary: int, labels: int) -> None:
    if kind == "ForConditionalGeneration":
        x = net.linear("head", x, vocabulary, bias=False, tied=True)
    elif kind == "ForQuestionAnswering":
        x = net.linear("qa_outputs", x, labels)
    elif kind == "ForSequenceClassification":
        y = net.fully_connected("classifier.in", Tensor(x.channels), x.channels)
        x = net.fully_connected("classifier.out", net.activation("classifier.tanh", "tanh", y), labels)
    net.loss("loss", x)
