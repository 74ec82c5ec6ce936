"""Fused attention: its FLOP, traffic, kept tensors and recomputation."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from clustersim.errors import InputError
from clustersim.hardware import load_gpu
from clustersim.kernels import estimate_layers
from clustersim.kernels.fused_attention import (
    FIRST_BY_SECOND,
    AttentionKernel,
    fused_attention_gemms,
    is_fused,
    published_utilisation,
    with_kernel,
)
from clustersim.kernels.kernel_constants import constants_for
from clustersim.kernels.memory import kept_bytes
from clustersim.model import load_model
from clustersim.model.builder import Builder, Tensor
from clustersim.model.layer import Model
from clustersim.parallelism.recomputation import recomputed
from clustersim.parallelism.split import split_model
from clustersim.scenario import load_scenario
from clustersim.simulate.setup import Setup


def attention(
    tokens: int = 8192, heads: int = 32, shared: int = 8, width: int = 128, causal: bool = True, flash: int = 2
):
    net = Builder("attention", "attention")
    query, key = Tensor(heads * width, tokens), Tensor(shared * width, tokens)
    net.fused_attention("a", query, key, heads, causal, flash)
    return net.model()


def times(model, gpu: str, precision: str = "amp-bf16"):
    layers = estimate_layers(model, load_gpu(gpu), 2, precision).layers
    return sum(layer.forward_s for layer in layers), sum(layer.backward_data_s for layer in layers)


@given(tokens=st.integers(1, 4096), heads=st.integers(1, 64), width=st.sampled_from([64, 80, 128]))
def test_a_mask_halves_four_flop_a_pair_of_tokens_and_feature(tokens, heads, width):
    everything, masked = (attention(tokens, heads, heads, width, causal) for causal in (False, True))
    assert everything.flop == 4 * tokens**2 * heads * width
    assert masked.flop == everything.flop / 2
    assert masked.flop_backward == 2 * masked.flop


@pytest.mark.parametrize(
    ("gpu", "chip"), [("a100", "ga100-tensor"), ("h100", "gh100-tensor"), ("b200", "gb100-tensor")]
)
def test_long_sequences_run_at_what_was_published_and_backward_takes_five_products_for_two(gpu, chip):
    model = attention()
    forward_s, backward_s = times(model, gpu)
    peak = load_gpu(gpu).flop_per_s["amp-bf16"]
    forward, backward = (published_utilisation(model.layers[0], is_forward, chip, 2) for is_forward in (True, False))
    assert forward is not None
    assert backward is not None
    assert forward_s == pytest.approx(2 * model.flop / (forward * peak), rel=0.03)
    assert backward_s == pytest.approx(2.5 * forward_s * forward / backward, rel=0.01)


@pytest.mark.parametrize("gpu", ["h100", "b200"])
def test_the_first_flash_attention_computes_as_much_and_takes_longer_by_what_was_published(gpu):
    first, second = attention(flash=1), attention()
    assert first.flop == second.flop
    assert all(map(is_fused, first.layers))
    for old_s, new_s in zip(times(first, gpu), times(second, gpu), strict=True):
        assert old_s == pytest.approx(new_s / FIRST_BY_SECOND, rel=0.03)


@pytest.mark.parametrize("flash", [3, 9])
def test_newer_kernels_are_faster_on_hopper_and_the_same_on_ampere(flash):
    newer, second = attention(flash=flash), attention()
    for old_s, new_s in zip(times(second, "h100"), times(newer, "h100"), strict=True):
        assert 1.5 < old_s / new_s < 2
    assert times(newer, "a100") == times(second, "a100")


def test_transformer_engine_takes_cudnns_kernel_where_a_model_names_none():
    gpu = load_gpu("h100")
    for flash, chosen in ((2, 9), (1, 1)):
        taken = estimate_layers(attention(flash=flash), gpu, 2, "amp-bf16", library="megatron").layers
        named = estimate_layers(attention(flash=chosen), gpu, 2, "amp-bf16").layers
        assert [each.forward_s for each in taken] == [each.forward_s for each in named]


def test_a_part_of_the_heads_keeps_its_kernel():
    [scores, context] = [layer for layer in load_model("mpt-125m").layers if is_fused(layer)][:2]
    pieces = split_model(Model("two", "two", (scores, context)), 2, 2.0, False, 2)
    assert [piece.layer.shape["flash"] for piece in pieces] == [1, 1]


def test_queries_keys_values_and_what_is_written_cross_memory_once_forward_and_twice_backward():
    """In bf16, two samples of 8192 tokens: 32 heads of queries and as many written, 8 of keys and 8 of values."""
    bytes_of_a_head = 2 * 2 * 8192 * 128
    for phase, times_moved in (("forward", 1), ("backward_data", 2)):
        products = [
            product
            for layer in attention().layers
            for product in fused_attention_gemms(layer, 2, phase, constants_for("hopper", "tensor"), 2.0)
        ]
        assert sum(product.num_bytes for product in products) == times_moved * (32 + 8 + 8 + 32) * bytes_of_a_head


@pytest.mark.parametrize(("heads", "shared"), [(12, 12), (32, 8), (16, 1)])
@given(tokens=st.integers(1, 4096))
def test_however_few_tokens_there_are_both_layers_are_known_as_fused_and_those_that_store_scores_are_not(
    heads, shared, tokens
):
    assert [is_fused(layer) for layer in attention(tokens, heads, shared, 64).layers] == [True, True]
    net = Builder("attention", "attention")
    query = Tensor(heads * 64, tokens)
    scores = net.attention_matmul("a.scores", query, query, heads, outputs=tokens)
    net.attention_matmul("a.context", scores, query, heads, outputs=64)
    assert [is_fused(layer) for layer in net.model().layers] == [False, False]


def test_scores_are_neither_kept_nor_made_for_longer_sequences():
    short, long = (sum(kept_bytes(attention(tokens), "amp-bf16")) for tokens in (4096, 8192))
    assert long == 2 * short


def test_layers_that_are_fused_are_known_and_others_are_not():
    assert all(map(is_fused, attention().layers))
    assert not any(map(is_fused, load_model("gpt2-small").layers))


def test_selective_recomputation_spares_fused_attention_and_every_other_product():
    layers = load_model("llama-3.1-8b").layers
    again = dict(zip([layer.name for layer in layers], recomputed(layers, "selective"), strict=True))
    block = {name.removeprefix("h.7."): is_again for name, is_again in again.items() if name.startswith("h.7.")}
    kept = {name for name, is_again in block.items() if not is_again}
    assert kept == {"attention.qkv", "attention.scores", "attention.context", "feed_forward.in"}
    assert not again["head"]
    assert not again["embedding"]


def test_selective_recomputation_repeats_scores_that_are_stored():
    layers = load_model("gpt2-small").layers
    again = {layer.name for layer, is_again in zip(layers, recomputed(layers, "selective"), strict=True) if is_again}
    assert {name for name in again if name.startswith("h.3.")} == {
        f"h.3.attention.{part}" for part in ("scores", "softmax", "drop_weights", "context")
    }


@pytest.mark.parametrize(("kernel", "flash"), [("flash-attention", 1), ("flash-attention-2", 2), ("cudnn", 9)])
def test_a_kernel_that_is_named_takes_the_time_of_a_model_that_has_it(kernel: AttentionKernel, flash: int):
    """Whatever the model itself has, and whatever the library would choose."""
    chosen, own = with_kernel(attention(flash=3), kernel), attention(flash=flash)
    gpu = load_gpu("h100")
    for library in ("cudnn", "megatron"):
        pair = [estimate_layers(each, gpu, 2, "amp-bf16", library=library).layers for each in (chosen, own)]
        if flash != 2:  # what a model of FlashAttention-2 leaves to the library
            assert [each.forward_s for each in pair[0]] == [each.forward_s for each in pair[1]]
    assert times(chosen, "h100") == times(own, "h100")


def test_a_scenario_names_the_kernel_and_its_library_no_longer_chooses():
    """Of 32,768 tokens cuDNN's is 1.6 times as quick as FlashAttention-2 on an H100."""

    def seconds(**software: str) -> float:
        scenario = {
            **{"model": "llama-2-7b-seq32768", "num_gpus": 8, "batch": {"per_gpu": 1}, "precision": "amp-bf16"},
            "topology": {"kind": "star", "num_hosts": 1, "host": "dgx-h100", "link": "100 Gbit/s", "hop": "1 us"},
            "software": {"name": "plain", "library": "megatron", "host": "megatron", **software},
            "strategy": {"kind": "all-reduce", "algorithm": "ring"},
            "memory_check": False,
        }
        layers = Setup(load_scenario(scenario).points()[0].point).reference.layers
        return sum(each.forward_s for each in layers if is_fused(each.layer))

    assert seconds() == seconds(attention="cudnn")
    assert seconds(attention="flash-attention-2") / seconds() == pytest.approx(0.529 / 0.33, rel=0.01)


def test_a_kernel_of_fused_attention_is_refused_where_there_is_none():
    with pytest.raises(InputError, match="gpt2-small has none; drop it"):
        with_kernel(load_model("gpt2-small"), "cudnn")
