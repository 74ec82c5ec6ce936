"""The catalogue agrees with publications: parameters exactly, multiply-adds to three digits."""

import math

import pytest

from clustersim.errors import InputError
from clustersim.kernels.fused_attention import is_fused
from clustersim.model.builder import Builder, window_pairs
from clustersim.model.catalogue import MODELS, describe, load_model
from clustersim.model.catalogue.alexnet import two_towers
from clustersim.model.catalogue.amoebanet import amoebanet_d
from clustersim.model.catalogue.cifar import cifar_resnet
from clustersim.model.catalogue.gpt import (
    MEGATRON_CORE_SIZES,
    MEGATRON_CORE_TOKENS,
    MEGATRON_CORE_VOCABULARY,
    MEGATRON_SIZES,
    MEGATRON_VOCABULARY,
)
from clustersim.model.catalogue.unet import unet
from clustersim.model.layer import Layer, Model

PARAMETERS = {
    "alexnet": 61_100_840,  # torchvision
    "alexnet-caffe": 60_965_224,  # Caffe, bvlc_alexnet
    "alexnet-one-group": 62_378_344,  # by hand: 48 x 25 x 256 + 192 x 9 x 384 + 192 x 9 x 256 weights more
    "alexnet-tensorflow": 61_838_248,  # torchvision's and 128 more filters: 128 x (384 x 9 + 1) and 128 x 256 x 9
    "caffenet": 60_965_224,  # Caffe, bvlc_reference_caffenet
    "albert-base-mlm-seq512": 11_782_272,  # Hugging Face AlbertModel, 11,683,584, and the head's 98,688
    "bert-base": 109_482_240,  # Hugging Face BertModel, uncased
    "bert-base-mlm": 110_074_368,  # and the head's 592,128, its decoder tied
    "bert-base-seq512": 109_482_240,
    "bert-large": 335_141_888,
    "deepseek-v2-lite": 15_706_484_224,  # transformers 5.24, as these: tests/interchange/hugging_face
    "deepseek-v3": 671_026_404_352,  # and 58 x 256 numbers that balance experts and are no parameters
    "gemma-3-27b": 27_009_346_304,
    "gpt-oss-20b": 20_914_757_184,
    "gpt-oss-120b": 116_829_156_672,
    "mistral-7b": 7_241_732_096,
    "phi-4": 14_659_507_200,
    "qwen3-0.6b": 596_049_920,
    "qwen3-8b": 8_190_735_360,
    "qwen3-30b-a3b": 30_532_122_624,
    "llama-3.2-1b": 1_235_814_400,
    "clip-giant-14": 1_366_702_464,  # by hand; recalled: OpenCLIP's ViT-g-14 has 1.37 billion
    "googlenet": 6_998_552,  # Caffe, bvlc_googlenet deployed
    "googlenet-aux": 13_378_280,  # Caffe, bvlc_googlenet trained
    "gpt2-small": 124_439_808,  # Hugging Face GPT2LMHeadModel
    "gpt2-medium": 354_823_168,
    "gpt2-large": 774_030_080,
    "gpt2-xl": 1_557_611_200,
    "inception-v3": 23_834_568,  # torchvision, the head cut off
    "inception-v3-aux": 27_161_264,  # torchvision
    "llama-2-7b": 6_738_415_616,  # Hugging Face, meta-llama/Llama-2-7b-hf and its larger ones
    "llama-2-13b": 13_015_864_320,
    "llama-2-70b": 68_976_648_192,
    "llama-3.1-8b": 8_030_261_248,  # Hugging Face, meta-llama/Llama-3.1-8B and its larger ones
    "llama-3.1-70b": 70_553_706_496,
    "llama-3.1-405b": 405_853_388_800,
    "lstm-lm": 66_034_000,  # PyTorch nn.LSTM, 2 x 1500; recalled: "66M" is what Zaremba et al. are quoted with
    "mpt-125m": 125_311_488,  # mosaicml/llm-foundry, scripts/train/benchmarking/README.md, NumParams
    "mpt-350m": 355_985_408,
    "mpt-760m": 760_470_528,
    "mpt-1b": 1_315_950_592,
    "mpt-3b": 2_651_837_440,
    "mpt-7b": 6_658_859_008,
    "mpt-13b": 12_853_954_560,
    "mpt-30b": 29_975_214_080,
    "mpt-70b": 64_862_437_376,
    "mpt-1b-seq65536": 1_445_974_016,
    "mpt-30b-seq512": 29_964_204_032,
    "nin": 7_595_176,  # Caffe model zoo
    "overfeat": 145_920_872,  # Sermanet et al., 2014: 145 million
    "resnet18": 11_689_512,  # torchvision
    "resnet32": 464_154,  # Multiverso, binding/python/docs/BENCHMARK.md
    "resnet34": 21_797_672,
    "resnet50": 25_557_032,
    "resnet101": 44_549_160,
    "resnet152": 60_192_808,
    "squeezenet-1.0": 1_248_424,  # torchvision
    "stable-diffusion-2-256": 865_910_724,  # recalled: Hugging Face, stabilityai/stable-diffusion-2-base, unet
    "stable-diffusion-2-512": 865_910_724,
    "t5-v1.1-small": 76_961_152,  # Hugging Face, google/t5-v1_1-small and its sisters
    "t5-v1.1-large": 783_150_080,
    "t5-v1.1-xl": 2_849_757_184,
    "t5-v1.1-xxl": 11_135_332_352,
    "vgg11": 132_863_336,  # torchvision
    "vgg13": 133_047_848,
    "vgg16": 138_357_544,
    "vgg19": 143_667_240,
    "vit-b-16": 87_158_248,  # torchvision, 86,567,656, and 768 x 769 of the layer before the classes
    "vit-g-14": 1_844_823_400,  # by hand; NVIDIA/JAX-Toolbox, vit/README.md: 1.85 billion
    "vit-giant-14": 1_014_615_016,  # by hand; NeMo's user guide: 1,011 million, which leaves out the head's 3.4
}

WINDOWS = {"gemma-3-12b": 1024, "gemma-3-27b": 1024, "gpt-oss-20b": 128, "gpt-oss-120b": 128, "mistral-7b": 4096}
"""Tokens before each that it sees, in some or all layers."""

# torchvision's published GFLOPS column, which counts multiply-adds; GoogLeNet's and NiN's follow from the
# totals that FireCaffe prints (recalled), see `test_firecaffe_table_1`.
GIGA_MULTIPLY_ADDS = {
    "alexnet": 0.714,
    "inception-v3": 5.713,
    "resnet18": 1.814,
    "resnet34": 3.664,
    "resnet50": 4.089,
    "resnet101": 7.801,
    "resnet152": 11.514,
    "squeezenet-1.0": 0.819,
    "vgg11": 7.609,
    "vgg13": 11.308,
    "vgg16": 15.470,
    "vgg19": 19.632,
}


def alexnet_ungrouped() -> Model:
    """AlexNet whose towers see each other: the 249 MB that FireCaffe counts."""
    return two_towers(Builder("alexnet-ungrouped", "AlexNet, one group"), groups=1, norm_first=True)


def weights(layer: Layer) -> int:
    """FireCaffe's |W| of a layer in parameters: channels x filters x kernel width x height, no biases."""
    shape = layer.shape
    if layer.op == "convolution":
        return shape["channels"] // shape["groups"] * shape["filters"] * shape["kernel_h"] * shape["kernel_w"]
    return shape["inputs"] * shape["outputs"] * (shape["count"] if layer.op == "fully-connected" else 1)


@pytest.mark.parametrize(("name", "published"), PARAMETERS.items())
def test_parameters_are_the_published_ones_to_the_last(name, published):
    assert load_model(name).num_parameters == published


def test_gpt3_has_the_parameters_of_its_name():
    assert load_model("gpt-3").num_parameters == pytest.approx(175e9, rel=3e-3)


# arXiv:2104.04473, table 1: billions of parameters, TFLOP/s a GPU, GPUs; the figures are recalled.
MEGATRON = {
    "megatron-1.7b": 1.7,
    "megatron-3.6b": 3.6,
    "megatron-7.5b": 7.5,
    "megatron-18b": 18.4,
    "megatron-39b": 39.1,
    "megatron-76b": 76.1,
    "megatron-145b": 145.6,
    "megatron-310b": 310.1,
    "megatron-530b": 529.6,
    "megatron-1t": 1008.0,
}


@pytest.mark.parametrize(("name", "billions"), MEGATRON.items())
def test_megatron_has_the_parameters_of_its_table(name, billions):
    assert load_model(name).num_parameters / 1e9 == pytest.approx(billions, abs=0.051)


@pytest.mark.parametrize(
    ("size", "billions"),
    [("185m", 0.185), ("680m", 0.680), ("1.0b", 1.0), ("1.9b", 1.9), ("3.0b", 3.0), ("6.9b", 6.9), ("11.2b", 11.2)],
)
def test_local_autoencoders_have_the_parameters_of_their_names(size, billions):
    """Coates et al. (2013): 185 M, 1 and 11.2 billion; the others are recalled from there."""
    model = load_model(f"local-autoencoder-{size}")
    assert model.num_parameters / 1e9 == pytest.approx(billions, rel=0.01)


def test_every_weight_of_a_local_field_is_used_once_a_sample():
    model = load_model("local-autoencoder-185m")
    assert model.flop == 2 * model.num_parameters
    assert model.flop_backward == 4 * model.num_parameters - 2 * model.layers[0].num_parameters  # none to the image


@pytest.mark.parametrize(
    ("build", "millions"),
    [
        (amoebanet_d(18, 208), 81.5),
        (amoebanet_d(18, 416), 319.0),
        (amoebanet_d(18, 544), 542.7),
        (unet(6, 72), 362.2),
        (unet(11, 128), 2210),
        (cifar_resnet(20), 0.27),
        (cifar_resnet(110), 1.7),
    ],
)
def test_networks_of_many_sizes_have_their_published_parameters(build, millions):
    """torchgpipe, docs/benchmarks.rst, memory benchmarks; He et al. (2016), table 6."""
    assert build().num_parameters / 1e6 == pytest.approx(millions, rel=0.02 if millions < 2 else 2e-3)


def test_albert_counts_the_weights_that_its_layers_share_once_and_their_flop_every_time():
    layers = [layer for layer in load_model("albert-base-mlm-seq512").layers if layer.name.startswith("layer.")]
    first, rest = layers[: len(layers) // 12], layers[len(layers) // 12 :]
    assert sum(layer.num_parameters for layer in first) == 7_087_872  # of a layer of BERT base
    assert sum(layer.num_parameters for layer in rest) == 0
    assert sum(layer.flop_backward_weights for layer in rest) == 11 * sum(
        layer.flop_backward_weights for layer in first
    )


@pytest.mark.parametrize(("name", "billions"), [("1.2b", 1.2), ("2.5b", 2.5), ("4.2b", 4.2), ("8.3b", 8.3)])
def test_the_first_megatron_has_the_parameters_of_its_name(name, billions):
    assert load_model(f"megatron-{name}").num_parameters / 1e9 == pytest.approx(billions, abs=0.051)


def megatron_flop(name, batch):
    """arXiv:2104.04473, section 4.1: 96 B s l h^2 (1 + s / 6h + V / 16lh), with full recomputation."""
    layers, features, _, tokens = MEGATRON_SIZES[name]
    relative = 1 + tokens / (6 * features) + MEGATRON_VOCABULARY / (16 * layers * features)
    return 96 * batch * tokens * layers * features**2 * relative


@pytest.mark.parametrize("name", MEGATRON_SIZES)
def test_megatron_counts_its_flop_as_its_authors_do(name):
    model = load_model(name)
    head = next(layer for layer in model.layers if layer.name == "head")
    assert 4 * model.flop - head.flop == pytest.approx(megatron_flop(name, 1))


@pytest.mark.parametrize(("name", "billions"), [("1.7b", 1.7), ("16b", 16), ("70b", 70)])
def test_megatron_core_has_about_the_parameters_of_its_name(name, billions):
    assert load_model(f"megatron-core-{name}").num_parameters / 1e9 == pytest.approx(billions, rel=0.04)


@pytest.mark.parametrize("name", MEGATRON_CORE_SIZES)
def test_megatron_core_counts_all_pairs_of_tokens_of_which_its_kernel_computes_half(name):
    """72 B s l h^2 (1 + s / 6h + V / 12 lh) without recomputation: 12 B s^2 l h of it are the pairs."""
    layers, features, _ = MEGATRON_CORE_SIZES[name]
    tokens, vocabulary, model = MEGATRON_CORE_TOKENS, MEGATRON_CORE_VOCABULARY, load_model(name)
    relative = 1 + tokens / (6 * features) + vocabulary / (12 * layers * features)
    counted = 72 * tokens * layers * features**2 * relative
    assert model.flop + model.flop_backward == pytest.approx(counted - 6 * tokens**2 * layers * features)


@pytest.mark.parametrize(
    ("name", "gpus", "seconds", "tera"),
    [("1b", 1, 1.121, 71.9), ("2b", 2, 1.093, 64.2), ("4b", 4, 1.238, 58.5), ("8b", 8, 1.407, 52.2)],
)
def test_the_bars_of_megatrons_figure_agree_with_the_sizes_taken_for_them(name, gpus, seconds, tera):
    assert megatron_flop(f"megatron-{name}", 8) / seconds / gpus / 1e12 == pytest.approx(tera, abs=0.05)


@pytest.mark.parametrize(
    ("name", "known"),
    [
        ("gpt-12x768x12-seq1024", "gpt2-small"),
        ("gpt-96x12288x96", "gpt-3"),
        ("gpt-24x2304x24-seq2048-vocab51200", "megatron-1.7b"),
    ],
)
def test_a_gpt_named_by_its_sizes_is_the_one_of_these_sizes(name, known):
    assert load_model(name).layers == load_model(known).layers
    assert name in MODELS


def test_a_gpt_named_as_fused_has_the_parameters_of_the_other_and_no_scores():
    plain, fused = (load_model(f"gpt-12x768x12-seq1024{end}") for end in ("", "-fused"))
    assert fused.num_parameters == plain.num_parameters
    assert {layer.op for layer in plain.layers} - {layer.op for layer in fused.layers} == {"softmax"}
    assert any(is_fused(layer) for layer in fused.layers)
    assert not any(is_fused(layer) for layer in plain.layers)


def test_a_gpt_without_dropout_is_the_fused_one_but_for_that():
    with_it, without = (load_model(f"gpt-12x768x12-seq1024-fused{end}") for end in ("", "-no-dropout"))
    assert [layer.name for layer in without.layers] == [each.name for each in with_it.layers if each.op != "dropout"]
    with pytest.raises(InputError):
        load_model("gpt-12x768x12-no-dropout")


@pytest.mark.parametrize("name", ["gpt-12x768x11", "gpt-0x768x12", "gpt-12x768x0", "gpt-12x768x12-seq0"])
def test_a_gpt_of_sizes_that_do_not_fit_each_other_is_refused(name):
    with pytest.raises(InputError, match="write gpt-LAYERSxFEATURESxHEADS, heads that divide the features"):
        load_model(name)


def test_internlm_is_llama_2_with_more_words():
    more = 2 * (103_168 - 32_000) * 4096
    assert load_model("internlm-7b").num_parameters == load_model("llama-2-7b").num_parameters + more
    assert load_model("internlm-7b").title == "InternLM 7B, 2048 tokens"


def test_aquila_2_is_llama_2_with_more_words():
    more = 2 * (100_008 - 32_000) * 4096
    assert load_model("aquila2-7b").num_parameters == load_model("llama-2-7b").num_parameters + more
    assert load_model("aquila2-7b").title == "Aquila 2 7B, 2048 tokens"


def test_nemotron_has_the_parameters_that_its_authors_count():
    # arXiv:2402.16819, section 2 (recalled): 3.2 billion of words, of which its table has 256,000, 12.5 billion others
    model = load_model("nemotron-4-15b")
    words = 2 * 256_000 * 6144
    assert words / 1e9 == pytest.approx(3.2, abs=0.06)
    assert (model.num_parameters - words) / 1e9 == pytest.approx(12.5, abs=0.05)


def test_nemotron_multiplies_as_often_as_nvidia_counts():
    # NVIDIA/dgxc-benchmarking, nemotron/README.md: 3.85e14 FLOP a sequence, forward, backward and all pairs of tokens
    later_tokens = 6 * 32 * 4096**2 * 6144
    assert 3 * load_model("nemotron-4-15b").flop + later_tokens == pytest.approx(3.85e14, rel=1e-3)


def test_internlm_has_the_first_flash_attention():
    def kernels(name):
        return {layer.shape.get("flash", 2) for layer in load_model(name).layers if layer.op == "matmul"}

    assert (kernels("internlm-7b"), kernels("llama-2-7b")) == ({1}, {2})


def test_a_llama_named_by_its_tokens_is_the_one_on_so_many():
    assert load_model("llama-3.1-8b-seq8192").layers == load_model("llama-3.1-8b").layers
    assert load_model("llama-3.1-70b-seq32768").num_parameters == PARAMETERS["llama-3.1-70b"]
    assert "llama-3.1-8b-seq131072" in MODELS
    with pytest.raises(InputError, match=r"a number of tokens, as in llama-3\.1-8b-seq131072"):
        load_model("llama-3.1-8b-seq0")


def test_an_mpt_named_by_its_tokens_is_the_one_on_so_many():
    assert load_model("mpt-7b-seq2048").layers == load_model("mpt-7b").layers
    assert "mpt-7b-seq65536" in MODELS
    assert "mpt-8b-seq2048" not in MODELS
    with pytest.raises(InputError, match="a number of tokens, as in mpt-7b-seq8192"):
        load_model("mpt-7b-seq0")


def test_an_mpt_drops_nothing_and_attends_by_one_kernel():
    ops = {layer.op for layer in load_model("mpt-125m").layers}
    assert ops.isdisjoint({"dropout", "softmax"})


def test_llama_multiplies_twice_by_every_parameter_and_attends_to_every_earlier_token():
    model = load_model("llama-3.1-8b")
    tokens, features, layers = 8192, 4096, 32
    lookups = next(layer.num_parameters for layer in model.layers if layer.op == "embedding")
    norms = sum(layer.num_parameters for layer in model.layers if layer.op == "rms-norm")
    products = 2 * tokens * (model.num_parameters - lookups - norms)
    assert model.flop == products + layers * 2 * tokens**2 * features


def test_medium_lstm_has_the_20_million_parameters_it_is_quoted_with():
    assert load_model("lstm-lm-medium").num_parameters == pytest.approx(20e6, rel=0.02)


@pytest.mark.parametrize(("name", "published"), GIGA_MULTIPLY_ADDS.items())
def test_multiply_adds_are_the_published_ones(name, published):
    assert load_model(name).flop / 2e9 == pytest.approx(published, abs=6e-4)


# FireCaffe (Iandola et al., 2016), table 1, batch 1024: MB of weights, MB of activations, TFLOP of an
# iteration. The figures are recalled, so the tolerance is their rounding and a pixel of padding.
@pytest.mark.parametrize(
    ("model", "weights_mb", "data_mb", "iteration_tflop"),
    [
        (load_model("nin"), 30, 5800, 6.7),
        (alexnet_ungrouped(), 249, 1680, 7.0),
        (load_model("googlenet-aux"), 54, 19100, 9.7),
        (load_model("vgg19"), 575, 42700, 120),
    ],
    ids=lambda value: value.name if isinstance(value, Model) else "",
)
def test_firecaffe_table_1(model, weights_mb, data_mb, iteration_tflop):
    trained = [layer for layer in model.layers if layer.flop]
    assert sum(4 * weights(layer) for layer in trained) / 1e6 == pytest.approx(weights_mb, rel=0.013)
    # |D|: 4 bytes x channels x width x height x batch of what each trained layer reads
    assert sum(4 * 1024 * layer.input_elements for layer in trained) / 1e6 == pytest.approx(data_mb, rel=0.013)
    assert 3 * 1024 * model.flop / 1e12 == pytest.approx(iteration_tflop, rel=0.013)


def test_what_googlenet_exchanges_in_training_is_53_5_megabytes():
    assert 4 * load_model("googlenet-aux").num_parameters / 1e6 == pytest.approx(53.5, abs=0.05)


def maps(name: str, layers: list[str]) -> list[tuple[int, int]]:
    by_name = {layer.name: layer for layer in load_model(name).layers}
    return [(by_name[layer].shape["filters"], by_name[layer].shape["out_height"]) for layer in layers]


def test_maps_shrink_as_in_the_papers():
    assert maps("alexnet-caffe", ["conv1", "conv2", "conv3", "conv5"]) == [(96, 55), (256, 27), (384, 13), (256, 13)]
    assert maps("googlenet", ["conv1/7x7_s2", "conv2/3x3", "inception_3a/3x3", "inception_4e/3x3"]) == [
        (64, 112),
        (192, 56),
        (128, 28),
        (320, 14),
    ]
    assert maps("googlenet", ["inception_5b/5x5"]) == [(128, 7)]
    assert maps("googlenet-aux", ["loss1/conv", "loss2/conv"]) == [(128, 4), (128, 4)]
    assert maps("resnet50", ["conv1", "layer1.0.conv3", "layer4.2.conv3"]) == [(64, 112), (256, 56), (2048, 7)]
    assert maps("inception-v3", ["Mixed_5d.branch1x1.conv", "Mixed_6e.branch1x1.conv"]) == [(64, 35), (192, 17)]
    assert maps("inception-v3", ["Mixed_7c.branch1x1.conv"]) == [(320, 8)]
    assert maps("squeezenet-1.0", ["conv1", "fire5/expand3x3", "conv10"]) == [(96, 109), (128, 27), (1000, 13)]
    assert maps("nin", ["conv1", "conv2", "conv3", "cccp8-1024"]) == [(96, 54), (256, 27), (384, 13), (1000, 6)]


@pytest.mark.parametrize(("size", "layers", "features"), [("small", 12, 768), ("xl", 48, 1600)])
def test_gpt_flop_are_the_closed_form(size, layers, features):
    tokens, vocabulary = 1024, 50_257
    multiply_adds = layers * (12 * tokens * features**2 + 2 * tokens**2 * features) + tokens * features * vocabulary
    assert load_model(f"gpt2-{size}").flop == pytest.approx(2 * multiply_adds, rel=1e-12)


def test_bert_reads_longer_sequences_at_the_closed_form():
    layers, features = 24, 1024
    for tokens, name in ((128, "bert-large"), (512, "bert-large-seq512")):
        multiply_adds = layers * (12 * tokens * features**2 + 2 * tokens**2 * features) + features**2
        assert load_model(name).flop == pytest.approx(2 * multiply_adds, rel=1e-12)


def test_lstm_flop_are_the_closed_form():
    tokens, hidden, vocabulary = 35, 1500, 10_000
    assert load_model("lstm-lm").flop == 2 * tokens * (2 * 8 * hidden**2 + hidden * vocabulary)


@pytest.mark.parametrize("name", MODELS)
def test_every_shape_gives_its_layers_flop_and_parameters(name):
    for layer in load_model(name).layers:
        shape = layer.shape
        if layer.op == "convolution":
            kernel = shape["channels"] // shape["groups"] * shape["kernel_h"] * shape["kernel_w"]
            outputs = shape["filters"] * shape["out_height"] * shape["out_width"]
            assert layer.flop == 2 * kernel * outputs
            assert layer.input_elements == shape["channels"] * shape["height"] * shape["width"]
            assert layer.output_elements == outputs
            assert layer.weights_of or layer.num_parameters - weights(layer) in (0, shape["filters"])
        elif "inputs" in shape:
            # Fused attention of the catalogue skips what the mask hides, where there is one.
            masked = [0.5 if is_fused(layer) and not name.startswith("stable-diffusion") else 1.0]
            if is_fused(layer) and name in WINDOWS:
                masked.append(window_pairs(shape["rows"], WINDOWS[name]) / shape["rows"] ** 2)
            whole = 2 * math.prod(shape[key] for key in ("rows", "inputs", "outputs", "count"))
            assert layer.flop in [pytest.approx(share * whole, rel=1e-12) for share in masked]
        elif "block" in shape:
            maps = layer.input_elements if layer.op.startswith("transposed") else layer.output_elements
            assert layer.num_parameters == maps * shape["kernel_h"] * shape["kernel_w"] * shape["channels"]
            assert layer.flop == 2 * layer.num_parameters
        else:
            assert layer.flop == 0


@pytest.mark.parametrize("name", MODELS)
def test_backward_is_twice_forward_without_the_images_gradient(name):
    model = load_model(name)
    first = next(layer for layer in model.layers if layer.num_parameters)
    firsts = [layer for layer in model.layers if first.name in (layer.name, layer.weights_of)]  # one in each tower
    if name.startswith("stable-diffusion"):  # and whatever reads the image or the text, beside the time
        firsts += [layer for layer in model.layers if layer.name.endswith(("conv_in", "text.kv"))]
    assert model.flop_backward == pytest.approx(2 * model.flop - sum(layer.flop for layer in firsts), rel=1e-12)
    assert not any(layer.flop_backward_data for layer in firsts)
    products = [layer for layer in model.layers if layer.flop and layer not in firsts]
    assert all(layer.flop_backward_data >= layer.flop for layer in products)


@pytest.mark.parametrize("name", MODELS)
def test_every_layer_has_a_name_of_its_own_and_the_model_ends_in_a_loss(name):
    model = load_model(name)
    assert model.name == name
    assert len({layer.name for layer in model.layers}) == len(model.layers)
    assert model.layers[-1].op == "loss"
    assert all(layer.input_elements > 0 for layer in model.layers)
    assert all(layer.output_elements > 0 or is_fused(layer) for layer in model.layers)


@pytest.mark.parametrize(
    ("written", "name"),
    [
        ("resnet-50", "resnet50"),
        ("vgg-16", "vgg16"),
        ("gpt3", "gpt-3"),
        ("squeezenet1.0", "squeezenet-1.0"),
        ("gpt-2-xl", "gpt2-xl"),
    ],
)
def test_a_hyphen_before_a_digit_makes_no_difference(written, name):
    assert written in MODELS
    assert load_model(written) is load_model(name)


def test_an_unknown_model_gets_the_nearest_name():
    with pytest.raises(
        InputError, match=r"^no model is called 'resnet51'; did you mean 'resnet50'\? \(nearest: resnet50, "
    ):
        load_model("resnet51")
    assert "resnet51" not in MODELS
    assert 50 not in MODELS


def test_no_two_names_differ_by_hyphens_only():
    assert all(MODELS.canonical(name) == name for name in MODELS)


def test_describe_says_title_and_size_in_one_line():
    assert describe("resnet-50") == "ResNet-50 v1.5: 25.6 M parameters, 8.18 GFLOP forward per image"
    assert describe("gpt-3") == "GPT-3 175B, 2048 tokens: 175 G parameters, 735 TFLOP forward per sequence"
    assert all("\n" not in describe(name) for name in MODELS)


@pytest.mark.parametrize(
    ("name", "megabytes"),
    [("fp16", 2.4), ("pruned-8-bit", 0.66), ("pruned-6-bit", 0.47)],
)
def test_compressed_squeezenets_have_the_papers_bytes_and_the_dense_models_layers(name, megabytes):
    dense, compressed = (load_model(f"squeezenet-1.0{suffix}") for suffix in ("", f"-{name}"))
    assert compressed.layers == dense.layers
    assert compressed.weight_bytes / dense.weight_bytes == pytest.approx(megabytes / 4.8)
    assert dense.weight_bytes == pytest.approx(4.8 * 2**20, rel=0.01)
