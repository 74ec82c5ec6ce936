"""Published models: layer lists whose parameters and FLOP add up to the paper's.

This package has no GPU and no time: `clustersim.kernels.compute_time` gives the time of a layer. The
table defines the names; every hyphen before a digit is optional, so `resnet-50` is `resnet50`.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import lru_cache
from typing import Any

from clustersim.errors import InputError
from clustersim.model.catalogue.albert import albert_mlm
from clustersim.model.catalogue.alexnet import (
    alexnet,
    alexnet_caffe,
    alexnet_one_group,
    alexnet_tensorflow,
    caffenet,
    overfeat,
)
from clustersim.model.catalogue.amoebanet import amoebanet_d
from clustersim.model.catalogue.bert import bert
from clustersim.model.catalogue.cifar import cifar_resnet, cifar_vgg16
from clustersim.model.catalogue.decoders import DECODER_SIZES, any_decoder, modern_decoder
from clustersim.model.catalogue.gnmt import gnmt
from clustersim.model.catalogue.googlenet import googlenet, googlenet_aux
from clustersim.model.catalogue.gpt import (
    MEGATRON_CORE_SIZES,
    MEGATRON_SIZES,
    any_gpt,
    gpt2,
    gpt3,
    megatron,
    megatron_core,
)
from clustersim.model.catalogue.inception import inception_v3, inception_v3_aux
from clustersim.model.catalogue.inception_bn import inception_bn, inception_bn_small
from clustersim.model.catalogue.jasper import jasper
from clustersim.model.catalogue.llama import LLAMA_SIZES, any_llama, llama
from clustersim.model.catalogue.local_autoencoder import SIZES as LOCAL_SIZES
from clustersim.model.catalogue.local_autoencoder import local_autoencoder
from clustersim.model.catalogue.lstm import lstm_lm
from clustersim.model.catalogue.mixtral import mixtral
from clustersim.model.catalogue.mpt import MPT_SIZES, any_mpt, mpt
from clustersim.model.catalogue.nemo_vision import clip_giant_14, vit_giant_14
from clustersim.model.catalogue.nemotron import nemotron_4_15b
from clustersim.model.catalogue.nin import nin
from clustersim.model.catalogue.resnet import resnet, resnext
from clustersim.model.catalogue.siamese import siamese_omniglot
from clustersim.model.catalogue.squeezenet import compressed_squeezenet, squeezenet
from clustersim.model.catalogue.ssd import ssd
from clustersim.model.catalogue.stable_diffusion import stable_diffusion_2
from clustersim.model.catalogue.t5 import T5_SIZES, t5
from clustersim.model.catalogue.transformer_big import transformer_big
from clustersim.model.catalogue.transformer_xl import transformer_xl
from clustersim.model.catalogue.unet import unet
from clustersim.model.catalogue.vgg import vgg
from clustersim.model.catalogue.vit import vit
from clustersim.model.layer import Model
from clustersim.registry import Registry


class Catalogue(Registry[Callable[[], Model]]):
    """The table of models; a hyphen before a digit makes no difference.

    A GPT may be named by its sizes, and a Llama, an MPT or a decoder of today by its sequence length.

    >>> MODELS["googlenet"]().name, "alexnet-caffe" in MODELS
    ('googlenet', True)
    """

    def __getitem__(self, name: str) -> Callable[[], Model]:
        return _named(name) or super().__getitem__(self.canonical(name))

    def __contains__(self, name: object) -> bool:
        if not isinstance(name, str):
            return False
        return _named(name) is not None or super().__contains__(self.canonical(name))

    def canonical(self, name: str) -> str:
        """Return the table's spelling of a name, or the name itself if no model has it."""
        spelt = {_without_hyphens(known): known for known in self}
        return spelt.get(_without_hyphens(name), name)


def _named(name: str) -> Callable[[], Model] | None:
    """Return the builder of a model whose name gives its sizes or its sequence length, None for other names."""
    return any_gpt(name) or any_llama(name) or any_mpt(name) or any_decoder(name)


@lru_cache(maxsize=256)
def _without_hyphens(name: str) -> str:
    return re.sub(r"(?<=[a-z0-9])-(?=\d)", "", name)


def load_model(name: str) -> Model:
    """Return a model of the catalogue; an unknown name is an error that suggests the nearest one.

    >>> load_model("googlenet").num_parameters
    6998552
    """
    return _load(MODELS.canonical(name))


@lru_cache(maxsize=64)
def _load(name: str) -> Model:
    return MODELS[name]()


def describe(name: str) -> str:
    """Return one line about a model.

    >>> describe("googlenet")
    'GoogLeNet, no auxiliary heads: 7.00 M parameters, 3.17 GFLOP forward per image'
    """
    model = load_model(name)
    return (
        f"{model.title}: {_short(model.num_parameters)} parameters, {_short(model.flop)}FLOP forward per {model.sample}"
    )


def _short(value: float) -> str:
    prefix, factor = next((pair for pair in (("P", 1e15), ("T", 1e12), ("G", 1e9)) if value >= pair[1]), ("M", 1e6))
    return f"{value / factor:#.3g}".rstrip(".") + f" {prefix}"


def _checked(name: str, build: Any) -> None:
    """Refuse what is no function that returns a model of this name."""
    model = build() if callable(build) else build
    if not isinstance(model, Model) or model.name != name:
        found = f"a model called '{model.name}'" if isinstance(model, Model) else repr(model)
        message = f"'{name}' must be a function without arguments that returns the Model of this name (got {found})"
        raise InputError(message, got=found, allowed=f"a function that returns the Model '{name}'")


MODELS = Catalogue(
    "model",
    {
        "albert-base-mlm-seq512": albert_mlm("base", tokens=512),
        "alexnet": alexnet,
        "alexnet-caffe": alexnet_caffe,
        "alexnet-one-group": alexnet_one_group,
        "alexnet-tensorflow": alexnet_tensorflow,
        "amoebanet-d-18-256": amoebanet_d(18, 256),
        "bert-base": bert("base"),
        "bert-base-mlm": bert("base", mlm=True),
        "bert-base-mlm-seq512": bert("base", tokens=512, mlm=True),
        "bert-base-seq64": bert("base", tokens=64),
        "bert-base-seq384": bert("base", tokens=384),
        "bert-base-seq512": bert("base", tokens=512),
        "bert-large": bert("large"),
        "bert-large-seq64": bert("large", tokens=64),
        "bert-large-seq384": bert("large", tokens=384),
        "bert-large-seq512": bert("large", tokens=512),
        "caffenet": caffenet,
        "clip-giant-14": clip_giant_14,
        **{name: modern_decoder(name) for name in DECODER_SIZES},
        "gnmt": gnmt,
        "googlenet": googlenet,
        "googlenet-aux": googlenet_aux,
        "gpt2-small": gpt2("small"),
        "gpt2-medium": gpt2("medium"),
        "gpt2-large": gpt2("large"),
        "gpt2-xl": gpt2("xl"),
        "gpt-3": gpt3,
        "inception-bn": inception_bn,
        "inception-bn-28-small": inception_bn_small,
        "inception-v3": inception_v3,
        "inception-v3-aux": inception_v3_aux,
        "jasper": jasper,
        **{name: llama(name) for name in LLAMA_SIZES},
        **{f"local-autoencoder-{size}": local_autoencoder(size) for size in LOCAL_SIZES},
        "lstm-lm": lstm_lm("lstm-lm", hidden=1500),
        "lstm-lm-medium": lstm_lm("lstm-lm-medium", hidden=650),
        **{name: megatron(name) for name in MEGATRON_SIZES},
        **{name: megatron_core(name) for name in MEGATRON_CORE_SIZES},
        "mixtral-8x7b": mixtral,
        **{f"mpt-{size}": mpt(size) for size in MPT_SIZES},
        "nemotron-4-15b": nemotron_4_15b,
        "nin": nin,
        "overfeat": overfeat,
        "resnet18": resnet(18),
        "resnet20": cifar_resnet(20),
        "resnet32": cifar_resnet(32),
        "resnet34": resnet(34),
        "resnet50": resnet(50),
        "resnet101": resnet(101),
        "resnet152": resnet(152),
        "resnext50-32x4d": resnext(50, 4),
        "resnext101-32x4d": resnext(101, 4),
        "resnext101-32x8d": resnext(101, 8),
        "siamese-omniglot": siamese_omniglot,
        "squeezenet-1.0": squeezenet,
        "squeezenet-1.0-fp16": compressed_squeezenet("squeezenet-1.0-fp16", "weights of 16 bits", 2.4),
        "squeezenet-1.0-pruned-8-bit": compressed_squeezenet(
            "squeezenet-1.0-pruned-8-bit", "pruned and clustered to 8 bits", 0.66
        ),
        "squeezenet-1.0-pruned-6-bit": compressed_squeezenet(
            "squeezenet-1.0-pruned-6-bit", "pruned and clustered to 6 bits", 0.47
        ),
        "stable-diffusion-2-256": stable_diffusion_2(256),
        "stable-diffusion-2-512": stable_diffusion_2(512),
        "unet-5-64": unet(5, 64),
        "ssd300-resnet34": ssd(34),
        "ssd300-resnet50": ssd(50),
        **{name: t5(name) for name in T5_SIZES},
        "transformer-big": transformer_big,
        "transformer-xl-base": transformer_xl("base"),
        "transformer-xl-large": transformer_xl("large"),
        "vgg11": vgg("A"),
        "vgg13": vgg("B"),
        "vgg16": vgg("D"),
        "vgg16-cifar": cifar_vgg16,
        "vgg19": vgg("E"),
        "vit-b-16": vit("b-16"),
        "vit-g-14": vit("g-14"),
        "vit-giant-14": vit_giant_14,
    },
    group="clustersim.models",
    check=_checked,
)
