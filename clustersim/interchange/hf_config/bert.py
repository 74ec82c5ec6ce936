"""BERT (Devlin et al., 2019) and RoBERTa (Liu et al., 2019), with Hugging Face's heads."""

from __future__ import annotations

from dataclasses import dataclass

from clustersim.interchange.hf_config.config import Config
from clustersim.interchange.hf_config.transformer import Heads, attend, token_head
from clustersim.model.blocks.feed_forward import feed_forward
from clustersim.model.blocks.net import BlockBuilder
from clustersim.model.builder import Tensor

_PADDED = 2  # unused positions of RoBERTa: they are counted from after the padding index


@dataclass(frozen=True)
class _Sizes:
    layers: int
    features: int
    heads: int
    width: int
    function: str
    vocabulary: int
    positions: int
    segments: int
    labels: int
    tokens: int


def bert(net: BlockBuilder, config: Config) -> None:
    """Build BERT; without `architectures` the encoder and its pooler, as in the catalogue."""
    kinds = ("Model", "ForMaskedLM", "ForPreTraining", "ForSequenceClassification", "ForTokenClassification",
             "ForQuestionAnswering")  # fmt: skip
    kind = config.architecture([f"Bert{kind}" for kind in kinds]).removeprefix("Bert")
    sizes = _sizes(net, config, unused=0)
    x = _encoder(net, sizes)
    first = Tensor(sizes.features)
    if kind in ("Model", "ForPreTraining", "ForSequenceClassification"):
        pooled = net.activation("pooler.tanh", "tanh", net.fully_connected("pooler", first, sizes.features))
        if kind == "Model":
            net.loss("loss", pooled)
        elif kind == "ForPreTraining":
            net.loss("next_sentence.loss", net.fully_connected("next_sentence", pooled, 2))
        else:
            net.loss("loss", net.fully_connected("classifier", net.dropout("drop", pooled), sizes.labels))
    if kind in ("ForMaskedLM", "ForPreTraining"):
        _word_head(net, x, sizes)
    elif kind in ("ForTokenClassification", "ForQuestionAnswering"):
        token_head(net, "classifier", x, 2 if kind == "ForQuestionAnswering" else sizes.labels)


def roberta(net: BlockBuilder, config: Config) -> None:
    """Build RoBERTa: BERT's encoder, other heads, and two positions that are never used."""
    kinds = ("Model", "ForMaskedLM", "ForSequenceClassification", "ForTokenClassification", "ForQuestionAnswering")
    kind = config.architecture([f"Roberta{kind}" for kind in kinds]).removeprefix("Roberta")
    sizes = _sizes(net, config, unused=_PADDED)
    x = _encoder(net, sizes)
    first = Tensor(sizes.features)
    if kind == "ForMaskedLM":
        _word_head(net, x, sizes)
    elif kind == "ForSequenceClassification":
        y = net.activation("classifier.tanh", "tanh", net.fully_connected("classifier.in", first, sizes.features))
        net.loss("loss", net.fully_connected("classifier.out", net.dropout("classifier.drop", y), sizes.labels))
    elif kind == "Model":
        net.loss("loss", net.activation("pooler.tanh", "tanh", net.fully_connected("pooler", first, sizes.features)))
    else:
        token_head(net, "classifier", x, 2 if kind == "ForQuestionAnswering" else sizes.labels)


def _sizes(net: BlockBuilder, config: Config, unused: int) -> _Sizes:
    features, heads = config.size("hidden_size"), config.size("num_attention_heads")
    config.split("hidden_size", features, "num_attention_heads", heads)
    positions = config.size("max_position_embeddings")
    sizes = _Sizes(
        layers=config.layers("num_hidden_layers"),
        features=features,
        heads=heads,
        width=config.size("intermediate_size"),
        function=config.function("hidden_act"),
        vocabulary=config.size("vocab_size"),
        positions=positions,
        segments=config.size("type_vocab_size"),
        labels=config.labels(),
        tokens=config.tokens(max(1, positions - unused), learned=True),
    )
    keys = {"hidden_dropout_prob": "drop", "attention_probs_dropout_prob": "drop_weights"}
    net.keeps = {name for key, name in keys.items() if not config.drops(key)}
    config.without_effect("classifier_dropout")
    config.flag("tie_word_embeddings")
    config.check()
    return sizes


def _encoder(net: BlockBuilder, sizes: _Sizes) -> Tensor:
    rows = [sizes.vocabulary, sizes.positions, sizes.segments]
    x = net.embedding("embeddings", sizes.tokens, sizes.features, rows)
    heads = Heads(sizes.heads, sizes.features // sizes.heads, drops=True)
    x = net.dropout("embeddings.drop", net.layer_norm("embeddings.norm", x))
    for number in range(sizes.layers):
        name = f"layer.{number}"
        y = net.dropout(f"{name}.attention.drop", attend(net, f"{name}.attention", x, heads))
        x = net.layer_norm(f"{name}.attention.norm", net.add(f"{name}.attention.add", x, y))
        y = feed_forward(net, f"{name}.feed_forward", x, sizes.width, sizes.function)
        y = net.dropout(f"{name}.feed_forward.drop", y)
        x = net.layer_norm(f"{name}.feed_forward.norm", net.add(f"{name}.feed_forward.add", x, y))
    return x


def _word_head(net: BlockBuilder, x: Tensor, sizes: _Sizes) -> None:
    """Predict every word: a layer as wide, and the embedding's matrix with a separate bias."""
    y = net.activation("head.act", sizes.function, net.linear("head.transform", x, sizes.features))
    y = net.linear("head.words", net.layer_norm("head.norm", y), sizes.vocabulary, bias=False, tied=True)
    net.loss("loss", net.parameters("head.bias", y, sizes.vocabulary))
