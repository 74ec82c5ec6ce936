"""Traffic of GNMT's attention and loss, kernel by kernel in NVIDIA's example, and fused in its MLPerf code."""

import pytest

import clustersim
from clustersim.hardware import load_gpu
from clustersim.kernels import estimate_layers
from clustersim.kernels.programs.gnmt import example_traffic, round_traffic
from clustersim.model import PRECISIONS, load_model
from clustersim.scenario.migrate import library_host

GNMT = {layer.name: layer for layer in load_model("gnmt").layers}
WORDS, FEATURES, VOCABULARY = 28, 1024, 32_320
READ, WRITTEN = 1, 1
UNARY, BINARY = READ + WRITTEN, 2 * READ + WRITTEN


def moved(name: str, elements: float, precision: str = "fp32") -> list[float]:
    """Return what a layer of the example moves forward and backward, in so many elements."""
    layer = GNMT[name]
    traffic = example_traffic(layer, PRECISIONS[precision])
    assert traffic is not None
    return [each.elements(layer.input_elements, 0.0) / elements for each in traffic]


def test_attention_moves_every_feature_of_every_pair_of_words() -> None:
    """Sum, bias, tanh and the vector; backward its two gradients, tanh's, and sums for bias, query and key."""
    pairs = WORDS**2 * FEATURES
    parts = zip(moved("attention.tanh", pairs), moved("attention.scores", pairs), strict=True)
    forward, backward = (sum(each) for each in parts)
    assert forward == WRITTEN + UNARY + UNARY + READ
    assert backward == WRITTEN + READ + BINARY + READ + 2 * READ


@pytest.mark.parametrize(("precision", "wide"), [("fp32", 1), ("amp-fp16", 2)])
def test_the_loss_is_of_fp32_log_probabilities_and_their_mean(precision: str, wide: int) -> None:
    scores = WORDS * VOCABULARY
    log_softmax, mean = READ + wide * WRITTEN, wide * READ
    of_mean, zeros, both, of_softmax = wide * WRITTEN, wide * WRITTEN, wide * BINARY, wide * 2 * READ + WRITTEN
    assert moved("loss", scores, precision) == [log_softmax + mean, of_mean + zeros + both + of_softmax]


def test_rounds_keep_pairs_on_the_chip_and_are_one_pass_otherwise() -> None:
    number = PRECISIONS["amp-fp16"]
    for layer in GNMT.values():
        found = round_traffic(layer, number)
        assert (found is not None) == layer.name.startswith(("attention.tanh", "attention.scores"))
        assert found is None or all(each.elements(1.0, 1.0) == 0 for each in found)


def test_the_example_takes_longer_by_what_it_moves_more() -> None:
    """Of 128 pairs on an A100: 14 of pairs, and 20 - 3 of the loss's scores, at the rate of memory."""
    gpu, batch = load_gpu("a100-40gb"), 128
    model = load_model("gnmt")
    seconds = {
        library: sum(
            layer.forward_s + layer.backward_s
            for layer in estimate_layers(model, gpu, batch, "amp-fp16", library=library).layers
        )
        for library in ("nvidia-gnmt", "mlperf-gnmt")
    }
    more_bytes = 2 * batch * (14 * WORDS**2 * FEATURES + 17 * WORDS * VOCABULARY)
    rate = more_bytes / (seconds["nvidia-gnmt"] - seconds["mlperf-gnmt"])
    assert 0.6 * gpu.memory_bytes_per_s < rate < gpu.memory_bytes_per_s


def test_a_rate_of_the_example_says_more_of_the_rounds_code_when_its_kernels_are_counted() -> None:
    def iteration_s(library: str) -> float:
        rate = {"samples_per_s": 2500, "batch": 128, "source": "a test", "software": "nvidia-gnmt"}
        asked = {
            "model": "gnmt",
            "num_gpus": 1,
            "batch": {"per_gpu": 128},
            "topology": {"kind": "star", "num_hosts": 1, "link": "infiniband-hdr", "host": {"template": "dgx-a100"}},
            "software": {"name": "plain", "library": library, "host": library_host(library)},
            "strategy": {"kind": "all-reduce"},
            "precision": "amp-fp16",
            "optimizer": "adam",
            "compute": {"single_gpu": rate},
        }
        return clustersim.simulate(asked).iteration_s

    assert iteration_s("nvidia-gnmt") == pytest.approx(128 / 2500, rel=1e-3)
    assert iteration_s("mlperf-gnmt") < 0.9 * iteration_s("nvidia-gnmt")
