"""Transformer-XL (Dai et al., 2019) on WikiText-103, in the sizes of NVIDIA's examples."""

from __future__ import annotations

from collections.abc import Callable

from clustersim.model.builder import Builder, Tensor
from clustersim.model.layer import Model

_SIZES = {"base": (16, 512, 8, 192), "large": (18, 1024, 16, 384)}  # layers, features, heads, tokens
_CLUSTERS = (19_997, 20_000, 160_000, 67_738)  # words, the most frequent first: 267,735 in all
_SHRINKING = 4  # of a word's features from cluster to cluster, in the large size


def transformer_xl(size: str) -> Callable[[], Model]:
    """Return a builder of `base` or `large`; a sample is 192 or 384 words, with as many cached words before them.

    The cached words are multiplied again in every sample. The output head is computed only for the most frequent words.
    The GEMMs of the rarer clusters, which are seldom needed, are left out, and so are their biases. Their tables count;
    most of the gradients that `base` exchanges are in them. Keys of positions are the same for all samples: a table
    represents their weights.
    """

    def build() -> Model:
        layers, features, heads, tokens = _SIZES[size]
        source = "arXiv:1901.02860; NVIDIA, DeepLearningExamples, PyTorch/LanguageModeling/Transformer-XL"
        name, title = f"transformer-xl-{size}", f"Transformer-XL {size}, {tokens} words"
        net = Builder(name, title, sample="sequence", source=source)
        x = net.dropout("drop", _embedding(net, features, tokens, is_shrinking=size == "large"))
        for number in range(layers):
            x = _block(net, f"layers.{number}", x, heads)
        x = net.dropout("drop_out", x)
        if size == "large":
            x = net.linear("head.projection", x, features, bias=False)
        net.loss("loss", net.linear("head", x, _CLUSTERS[0] + len(_CLUSTERS) - 1, bias=False, tied=True))
        return net.model()

    return build


def _embedding(net: Builder, features: int, tokens: int, is_shrinking: bool) -> Tensor:
    """Look words up: in one table, or in one per cluster, whose rows are projected to full width by a GEMM.

    For the rarer clusters one word a sample represents the few there are.
    """
    if not is_shrinking:
        return net.embedding("word_emb", tokens, features, rows=[sum(_CLUSTERS)])
    found = Tensor(features, tokens)
    for number, words in enumerate(_CLUSTERS):
        asked, width = tokens if number == 0 else 1, features // _SHRINKING**number
        x = net.embedding(f"word_emb.{number}", asked, width, rows=[words], words=number == 0)
        x = net.linear(f"word_emb.{number}.projection", x, features, bias=False)
        found = x if number == 0 else found
    return found


def _block(net: Builder, name: str, x: Tensor, heads: int) -> Tensor:
    """Attend to twice as many words by content and by position, then feed forward; normalise after each."""
    features, tokens = x.channels, x.height
    seen = Tensor(features, 2 * tokens)
    net.linear(f"{name}.qkv", seen, 3 * features, bias=False)
    net.embedding(f"{name}.positions", 2 * tokens, features, rows=[features], words=False)
    query = Tensor(features, tokens)
    content = net.attention_matmul(f"{name}.content", query, seen, heads, outputs=2 * tokens)
    place = net.attention_matmul(f"{name}.place", query, seen, heads, outputs=2 * tokens)
    weights = net.dropout(
        f"{name}.drop_weights", net.softmax(f"{name}.softmax", net.add(f"{name}.sum", content, place))
    )
    y = net.attention_matmul(f"{name}.context", weights, seen, heads, outputs=features // heads)
    y = net.dropout(f"{name}.attention.drop", net.linear(f"{name}.output", y, features, bias=False))
    x = net.layer_norm(f"{name}.attention.norm", net.add(f"{name}.attention.add", x, y))
    y = net.relu(f"{name}.relu", net.linear(f"{name}.in", x, 4 * features))
    y = net.dropout(f"{name}.drop", net.linear(f"{name}.out", net.dropout(f"{name}.drop_in", y), features))
    return net.layer_norm(f"{name}.norm", net.add(f"{name}.add", x, y))
