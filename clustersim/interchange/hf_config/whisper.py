"""Whisper (Radford et al., 2022): two convolutions over a spectrogram, an encoder, and a decoder of text."""

from __future__ import annotations

from clustersim.interchange.hf_config.bart import side
from clustersim.interchange.hf_config.config import Config
from clustersim.interchange.hf_config.transformer import Stack, transformer
from clustersim.model.blocks.net import BlockBuilder
from clustersim.model.builder import Tensor

_STRIDE = 2  # of the second convolution
_KERNEL = 3


def whisper(net: BlockBuilder, config: Config) -> None:
    """Build Whisper; a sample is the spectrogram of one window of audio, and the tokens of its text.

    Every window has all positions of the encoder, 30 seconds of the published models; shorter audio is padded.
    """
    kinds = ("ForConditionalGeneration", "Model", "ForAudioClassification")
    kind = config.architecture([f"Whisper{kind}" for kind in kinds]).removeprefix("Whisper")
    features, bins, vocabulary = config.size("d_model"), config.size("num_mel_bins"), config.size("vocab_size")
    frames, positions = config.size("max_source_positions"), config.size("max_target_positions")
    encoder, decoder = (side(config, part, norm_first=True, key_bias=False) for part in ("encoder", "decoder"))
    drops, tied = config.drops("dropout"), config.flag("tie_word_embeddings")
    labels, width = config.labels(), config.size("classifier_proj_size")
    config.without_effect("scale_embedding", "is_encoder_decoder", "median_filter_width")
    _augmentation(config)
    is_text = kind != "ForAudioClassification"
    tokens = config.tokens(positions, learned=True) if is_text else 0
    config.notes.append(
        f"a sample has a window of {_STRIDE * frames} frames of audio (10 ms each in the published models), whose "
        f"{frames} positions are fixed in transformers and counted as trained"
    )
    config.check()
    memory = _encoder(net, _spectrogram(net, bins, frames, features), encoder, frames, drops)
    if not is_text:
        x = net.mean("classifier.mean", net.linear("classifier.in", memory, width))
        net.loss("loss", net.fully_connected("classifier.out", x, labels))
        return
    x = net.embedding("decoder.embedding", tokens, features, rows=[vocabulary, positions], words=False)
    if drops:
        x = net.dropout("decoder.embedding.drop", x)
    x = transformer(net, "decoder.layers", x, decoder, causal=True, memory=memory)
    x = net.layer_norm("decoder.norm", x)
    if kind == "ForConditionalGeneration":
        x = net.linear("head", x, vocabulary, bias=False, tied=tied)
    net.loss("loss", x)


def _augmentation(config: Config) -> None:
    """Read the keys of SpecAugment, which overwrites some of the input, and of features that are not built."""
    masks = ("mask_time_prob", "mask_time_length", "mask_time_min_masks", "mask_feature_prob", "mask_feature_length")
    config.without_effect("apply_spec_augment", *masks, "mask_feature_min_masks")
    if config.flag("use_weighted_layer_sum"):
        config.wrong("use_weighted_layer_sum", "a weighted sum of layers is not built", "true", "false")


def _spectrogram(net: BlockBuilder, bins: int, frames: int, features: int) -> Tensor:
    """Add both convolutions; the second halves the number of frames."""
    x = net.input(bins, _STRIDE * frames, 1)
    for number, stride in ((1, 1), (2, _STRIDE)):
        name = f"encoder.conv{number}"
        x = net.conv(name, x, features, kernel=(_KERNEL, 1), stride=(stride, 1), pad=(1, 0))
        x = net.activation(f"{name}.gelu", "gelu", x)
    return x


def _encoder(net: BlockBuilder, x: Tensor, stack: Stack, frames: int, drops: bool) -> Tensor:
    x = net.parameters("encoder.positions", x, frames * x.channels)
    if drops:
        x = net.dropout("encoder.embedding.drop", x)
    return net.layer_norm("encoder.norm", transformer(net, "encoder.layers", x, stack))
