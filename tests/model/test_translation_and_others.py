"""Translation, speech, detection and recurrent attention: parameters, FLOP and shapes as published or in code."""

import pytest

from clustersim.model.catalogue import load_model

PARAMETERS = {
    "resnext50-32x4d": 25_028_904,  # torchvision, ResNeXt50_32X4D_Weights: num_params
    "resnext101-32x4d": 44_177_704,  # timm, resnext101_32x4d: "44.18M"
    "resnext101-32x8d": 88_791_336,  # torchvision, ResNeXt101_32X8D_Weights: num_params
    "gnmt": 160_671_297,  # MLPerf v0.7, NVIDIA/results/dgx1_ngc20.06_pytorch/gnmt/result_0.txt
    "transformer-big": 210_808_832,  # MLPerf v0.7, NVIDIA/results/dgx1_ngc20.06_pytorch/transformer/result_0.txt
}


@pytest.mark.parametrize(("name", "published"), PARAMETERS.items())
def test_parameters_are_the_published_ones_to_the_last(name, published):
    assert load_model(name).num_parameters == published


def test_jasper_has_the_333_million_parameters_of_its_paper():
    assert load_model("jasper").num_parameters / 1e6 == pytest.approx(333, abs=0.5)


@pytest.mark.parametrize(("size", "layers", "features"), [("base", 16, 512), ("large", 18, 1024)])
def test_transformer_xl_has_the_parameters_of_its_tables_and_layers(size, layers, features):
    """5 h^2 of attention, 8 h^2 of feeding forward, and 9 h of biases and norms a layer; words in clusters."""
    words = (19_997, 20_000, 160_000, 67_738)
    if size == "base":
        tables = sum(words) * features
    else:
        widths = [features // 4**number for number in range(4)]
        tables = sum(count * width for count, width in zip(words, widths, strict=True))
        tables += sum(width * features for width in widths) + features**2
    assert load_model(f"transformer-xl-{size}").num_parameters == tables + layers * (13 * features**2 + 9 * features)


@pytest.mark.parametrize("depth", [34, 50])
def test_ssd_asks_of_8732_boxes_where_they_are_and_which_of_81_classes(depth):
    model = load_model(f"ssd300-resnet{depth}")
    heads = [layer for layer in model.layers if layer.name.startswith(("loc", "conf"))]
    assert sum(layer.output_elements for layer in heads) == model.layers[-1].input_elements == 8732 * (4 + 81)
    assert [layer.shape["out_height"] for layer in heads[::2]] == [38, 19, 10, 5, 3, 1]


@pytest.mark.parametrize(
    ("name", "published"), [("resnext50-32x4d", 4.23), ("resnext101-32x4d", 8.0), ("resnext101-32x8d", 16.41)]
)
def test_a_resnext_costs_the_published_multiply_adds(name, published):
    """In 10^9: torchvision's `_ops` of its weights, and timm for 101 32x4d."""
    assert load_model(name).flop / 2e9 == pytest.approx(published, abs=0.05)


def test_the_big_transformer_multiplies_by_each_weight_once_a_word():
    """2 x 32 words x the weights of products, and attention's 2 x 2 x 32^2 x 1024 in each of 18 places."""
    model = load_model("transformer-big")
    lookups = 33_712 * 1024
    norms_and_biases = 6 * (5_120 + 4_096) + 6 * (5_120 + 6_144) + 4_096
    products = model.num_parameters - lookups - norms_and_biases + lookups  # the head has the table's weights
    assert model.flop == 2 * 32 * products + 18 * 4 * 32**2 * 1024
