"""Attention in one kernel: what it computes, moves, keeps and repeats."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from clustersim.hardware import load_gpu
from clustersim.parallelism.memory import recomputed
from clustersim.workload import estimate_layers, load_model
from clustersim.workload.builder import Builder, Tensor
from clustersim.workload.fused_attention import UTILISATION, is_fused
from clustersim.workload.memory import kept_bytes


def attention(tokens: int = 8192, heads: int = 32, shared: int = 8, width: int = 128, causal: bool = True):
    net = Builder("attention", "attention")
    query, key = Tensor(heads * width, tokens), Tensor(shared * width, tokens)
    net.fused_attention("a", query, key, heads, causal)
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


@pytest.mark.parametrize(("gpu", "architecture"), [("a100", "ampere"), ("h100", "hopper")])
def test_long_sequences_run_at_what_was_published_and_backward_takes_five_products_for_two(gpu, architecture):
    model = attention()
    forward_s, backward_s = times(model, gpu)
    peak = UTILISATION[architecture] * load_gpu(gpu).flop_per_s["amp-bf16"]
    assert forward_s == pytest.approx(2 * model.flop / peak, rel=0.03)
    assert backward_s == pytest.approx(2.5 * forward_s, rel=0.01)


def test_short_sequences_take_the_time_of_what_they_read_and_write():
    """A token of 128 features per head: 4 tensors of bf16 forward, over the share of the memory's rate."""
    model = attention(tokens=16, heads=4096, shared=4096, causal=False)
    bytes_moved = 2 * 2 * 4 * 16 * 4096 * 128
    assert times(model, "h100")[0] == pytest.approx(bytes_moved / load_gpu("h100").memory_bytes_per_s, rel=0.3)


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
