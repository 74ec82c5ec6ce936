"""DistilBERT (Sanh et al., 2019) and ELECTRA (Clark et al., 2020): encoders like BERT's with other heads."""

from __future__ import annotations

from clustersim.interchange.hf_config.config import Config
from clustersim.interchange.hf_config.transformer import Heads, Stack, token_head, transformer
from clustersim.model.blocks.net import BlockBuilder
from clustersim.model.builder import Tensor


def distilbert(net: BlockBuilder, config: Config) -> None:
    """Build DistilBERT: BERT without segments and pooler, and with half of its layers."""
    kinds = ("Model", "ForMaskedLM", "ForSequenceClassification", "ForTokenClassification", "ForQuestionAnswering")
    kind = config.architecture([f"DistilBert{kind}" for kind in kinds]).removeprefix("DistilBert")
    features, heads = config.size("dim"), config.size("n_heads")
    width = config.split("dim", features, "n_heads", heads)
    vocabulary, positions = config.size("vocab_size"), config.size("max_position_embeddings")
    drops, function = config.drops("dropout"), config.function("activation")
    weights_drop = config.drops("attention_dropout")
    stack = Stack(
        layers=config.layers("n_layers"),
        heads=Heads(heads, width, drops=weights_drop),
        width=config.size("hidden_dim"),
        function=function,
        norm_first=False,
        drops=drops,
    )
    tied, labels = config.flag("tie_word_embeddings"), config.labels()
    config.without_effect("sinusoidal_pos_embds", "qa_dropout", "seq_classif_dropout")
    tokens = config.tokens(positions, learned=True)
    config.check()
    x = net.layer_norm("embeddings.norm", net.embedding("embeddings", tokens, features, [vocabulary, positions]))
    if drops:
        x = net.dropout("embeddings.drop", x)
    x = transformer(net, "layer", x, stack)
    if kind == "ForMaskedLM":
        y = net.activation("head.act", function, net.linear("head.transform", x, features))
        y = net.linear("head.words", net.layer_norm("head.norm", y), vocabulary, bias=False, tied=tied)
        net.loss("loss", net.parameters("head.bias", y, vocabulary))
    elif kind == "ForSequenceClassification":
        y = net.activation("classifier.relu", "relu", net.fully_connected("classifier.in", Tensor(features), features))
        net.loss("loss", net.fully_connected("classifier.out", net.dropout("classifier.drop", y), labels))
    elif kind == "Model":
        net.loss("loss", x)
    else:
        token_head(net, "classifier", x, labels)


def electra(net: BlockBuilder, config: Config) -> None:
    """Build ELECTRA, by default the discriminator's body; its words may be narrower than its layers."""
    kinds = ("Model", "ForPreTraining", "ForMaskedLM", "ForSequenceClassification", "ForTokenClassification",
             "ForQuestionAnswering")  # fmt: skip
    kind = config.architecture([f"Electra{kind}" for kind in kinds]).removeprefix("Electra")
    features, heads, words = (
        config.size("hidden_size"),
        config.size("num_attention_heads"),
        config.size("embedding_size"),
    )
    width = config.split("hidden_size", features, "num_attention_heads", heads)
    vocabulary, positions = config.size("vocab_size"), config.size("max_position_embeddings")
    drops, function = config.drops("hidden_dropout_prob"), config.function("hidden_act")
    stack = Stack(
        layers=config.layers("num_hidden_layers"),
        heads=Heads(heads, width, drops=config.drops("attention_probs_dropout_prob")),
        width=config.size("intermediate_size"),
        function=function,
        norm_first=False,
        drops=drops,
        drops_attention=drops,
    )
    segments, tied, labels = config.size("type_vocab_size"), config.flag("tie_word_embeddings"), config.labels()
    config.without_effect("classifier_dropout", "summary_type", "summary_use_proj", "summary_activation")
    config.without_effect("summary_last_dropout")
    tokens = config.tokens(positions, learned=True)
    config.check()
    x = net.embedding("embeddings", tokens, words, [vocabulary, positions, segments])
    x = net.layer_norm("embeddings.norm", x)
    if drops:
        x = net.dropout("embeddings.drop", x)
    if words != features:
        x = net.linear("embeddings.project", x, features)
    x = transformer(net, "layer", x, stack)
    if kind == "Model":
        net.loss("loss", x)
    elif kind == "ForPreTraining":
        y = net.activation("head.act", function, net.linear("head.transform", x, features))
        net.loss("loss", net.linear("head.replaced", y, 1))
    elif kind == "ForMaskedLM":
        y = net.layer_norm("head.norm", net.activation("head.act", "gelu", net.linear("head.transform", x, words)))
        y = net.linear("head.words", y, vocabulary, bias=False, tied=tied)
        net.loss("loss", net.parameters("head.bias", y, vocabulary))
    elif kind == "ForSequenceClassification":
        y = net.activation("classifier.act", "gelu", net.fully_connected("classifier.in", Tensor(features), features))
        net.loss("loss", net.fully_connected("classifier.out", y, labels))
    else:
        token_head(net, "classifier", x, labels)
