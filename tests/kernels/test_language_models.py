"""Memory traffic of training programs of language models in addition to GEMMs."""

import pytest

from clustersim.hardware import load_gpu
from clustersim.kernels import estimate_layers
from clustersim.kernels.kernel_constants import constants_of
from clustersim.kernels.layer_times import LIBRARIES
from clustersim.kernels.programs.diffusers import DIFFUSERS
from clustersim.kernels.programs.eager import eager_extra_bytes
from clustersim.kernels.programs.encoder_kernels import ExtraBytes
from clustersim.kernels.programs.gnmt import EXAMPLE, ROUND
from clustersim.kernels.programs.huggingface import AUTOCAST, HUGGINGFACE_2021
from clustersim.kernels.programs.language_models import EXTRA_BYTES, TRAFFIC, sequence_transposes
from clustersim.kernels.programs.nemo import NEMO, NEMO_AUTOCAST
from clustersim.model import PRECISIONS, Layer, load_model

BF16 = PRECISIONS["amp-bf16"]
NOT_OF_LLAMAS = (DIFFUSERS, HUGGINGFACE_2021, AUTOCAST, EXAMPLE, ROUND, NEMO, NEMO_AUTOCAST)
WITH_DROPOUTS = (HUGGINGFACE_2021, AUTOCAST, NEMO, NEMO_AUTOCAST)


def layer_of(model: str, name: str) -> Layer:
    return next(layer for layer in load_model(model).layers if layer.name == f"h.0.{name}")


def moved(library: str, layer: Layer, precision: str = "amp-bf16") -> list[float]:
    """Return the elements that a layer moves forward and backward, in tensors as large as what it writes."""
    traffic = TRAFFIC[library](layer, PRECISIONS[precision])
    assert traffic is not None
    return [each.elements(layer.input_elements, layer.output_elements) / layer.output_elements for each in traffic]


@pytest.mark.parametrize(
    ("library", "name", "forward", "backward"),
    [
        ("megatron-2023", "attention.rotary", (2 * 10 + 2) / 3, (2 * 10 + 6) / 3),  # queries, keys; values; all three
        ("megatron-deepspeed", "attention.rotary", (2 * 12 + 2) / 3, (2 * 14 + 3 * 11) / 3),
        ("megatron-2023", "feed_forward.gate", 5, 13),
        ("megatron-deepspeed", "feed_forward.gate", 5, 13),
        ("megatron-2023", "norm1", 2, 5),
        ("megatron-2023", "attention.add", 3, 3),
        ("fms", "attention.rotary", 2 * (2 * 3 + 6 * 2) / 3, 2 * (2 * 3 + 6 * 2 + 2) / 3),
        ("fms", "feed_forward.gate", 5, 9),
        ("fms", "norm1", 18, 46),
        ("fms", "attention.add", 3, 3),
        ("huggingface-2023", "attention.rotary", 2 * 10 / 3, 2 * (4 + 1 + 4 + 6 + 2) / 3),
        ("huggingface-2023", "norm1", 18, 46),
        ("internlm", "attention.rotary", 2 * 2 / 3, 2 * 2 / 3),
        ("internlm", "feed_forward.gate", 5, 9),
        ("internlm", "norm1", 6, 11),
        ("internlm", "attention.add", 3, 3),
    ],
)
def test_an_operation_moves_what_its_kernels_read_and_write(library, name, forward, backward):
    """Of a Llama whose queries, keys and values are as wide: rotary positions write all three."""
    assert moved(library, layer_of("llama-2-7b", name)) == pytest.approx([forward, backward])


def test_keys_and_values_that_queries_share_are_written_for_each_of_them_before_their_positions():
    """Llama 3.1 8B has 32 heads of queries, 8 of keys and as many of values."""
    spread, together = 2 * (8 + 32), 2 * 48
    assert moved("megatron-2023", layer_of("llama-3.1-8b", "attention.rotary")) == pytest.approx(
        [(2 * 32 * 10 + spread) / 48, (2 * 32 * 10 + spread + together) / 48]
    )
    assert moved("fms", layer_of("llama-3.1-8b", "attention.rotary")) == pytest.approx(
        [((32 + 8) * 18 + spread) / 48, ((32 + 8) * 20 + spread) / 48]
    )


def test_in_fp32_a_norm_of_internlm_casts_nothing():
    assert moved("internlm", layer_of("llama-2-7b", "norm1"), "fp32") == [2, 5]


def test_the_loss_is_megatrons_in_both_its_years_and_one_kernel_with_internlm():
    loss = load_model("llama-2-7b").layers[-1]
    assert moved("megatron-2023", loss) == moved("megatron", loss) == [19, 7]
    assert moved("megatron-deepspeed", loss) == [19, 7]
    assert TRAFFIC["internlm"](loss, BF16) is None


def test_scores_that_stay_in_16_bits_are_read_and_written_once_and_their_gradient_put_into_zeros():
    assert moved("fms", load_model("llama-2-7b").layers[-1]) == [1 + 1, 1 + 3]


def test_the_gradient_of_all_scores_but_the_last_tokens_is_put_into_zeros():
    cast, wide = 1 + 2, 2
    assert moved("huggingface-2023", load_model("llama-2-7b").layers[-1]) == [
        cast + 2 * wide,
        (1 + 3 + 3) * wide + cast,
    ]


def test_a_bias_costs_one_more_read_of_the_outputs_gradient():
    with_bias, without = layer_of("mpt-7b", "attention.qkv"), layer_of("llama-2-7b", "attention.qkv")
    assert eager_extra_bytes(with_bias, BF16).backward_weights == 2 * with_bias.output_elements
    assert eager_extra_bytes(without, BF16).backward_weights == 0


def test_two_matrices_that_read_one_input_leave_two_gradients_to_add_unless_they_are_one():
    gate_and_up = layer_of("llama-2-7b", "feed_forward.in")
    found = {library: EXTRA_BYTES[library](gate_and_up, BF16).backward_data for library in EXTRA_BYTES}
    summed = 3 * 2 * gate_and_up.input_elements
    of_llamas = {library: found[library] for library in found if library not in NOT_OF_LLAMAS}
    assert of_llamas == {
        "eager": summed,
        "fms": summed,
        "huggingface-2023": summed,
        "internlm": summed,
        "megatron-2023": 0,
        "megatron-deepspeed": 0,
    }


@pytest.mark.parametrize("model", ["llama-2-7b", "llama-3.1-8b"])
def test_gradients_of_queries_keys_and_values_are_moved_six_times_in_pytorch(model):
    products = [layer_of(model, f"attention.{name}") for name in ("scores", "context")]
    queries = products[1].output_elements
    assert sum(eager_extra_bytes(each, BF16).backward_data for each in products) == 2 * 6 * queries
    others = set(EXTRA_BYTES) - {"eager", "fms", *NOT_OF_LLAMAS, "huggingface-2023"}
    assert all(EXTRA_BYTES[library](products[0], BF16).backward_data == 0 for library in others)


@pytest.mark.parametrize("library", ["megatron-2023", "megatron-deepspeed"])
def test_several_sequences_are_laid_one_after_the_other_for_a_fused_attention(library):
    """Queries, keys and what is mixed, each read and written, and backward the gradient of what was mixed."""
    scores, context = (layer_of("llama-2-7b", f"attention.{name}") for name in ("scores", "context"))
    mixed = 2.0 * context.output_elements
    assert sequence_transposes(context, BF16, library, 4) == ExtraBytes(forward=6 * mixed, backward_data=2 * mixed)
    assert sequence_transposes(context, BF16, library, 1) == ExtraBytes()
    assert sequence_transposes(scores, BF16, library, 4) == ExtraBytes()
    assert {sequence_transposes(context, BF16, name, 4) for name in ("megatron", "eager")} == {ExtraBytes()}
    assert sequence_transposes(layer_of("gpt2-small", "attention.context"), BF16, library, 4) == ExtraBytes()


def test_that_takes_the_memorys_time_of_each_sequence():
    model, gpu = load_model("llama-2-7b"), load_gpu("a100")
    plain, several = (
        next(each for each in found.layers if each.layer.name == "h.0.attention.context")
        for found in (
            estimate_layers(model, gpu, 2, "amp-bf16", library=library) for library in ("cudnn", "megatron-2023")
        )
    )
    rate = constants_of(gpu, "tensor").memory_efficiency * gpu.memory_bytes_per_s
    mixed_s = 2 * 2.0 * plain.layer.output_elements / rate
    assert several.forward_s - plain.forward_s == pytest.approx(6 * mixed_s, rel=1e-9)
    assert several.backward_data_s - plain.backward_data_s == pytest.approx(2 * mixed_s, rel=1e-9)


def test_every_code_is_a_library_and_none_is_quicker_than_one_kernel_but_where_it_writes_in_place():
    """A dropout's mask has one byte a number."""
    gpu = load_gpu("a100")
    may_be = {"internlm": {"rotary"}, "megatron": {"loss"}} | {each: {"dropout"} for each in WITH_DROPOUTS}
    for library in TRAFFIC:
        assert library in LIBRARIES
        name = "gpt2-small" if library in WITH_DROPOUTS else "llama-2-7b"
        number = "tf32" if library == HUGGINGFACE_2021 else "amp-bf16"
        model = load_model(name)
        one = estimate_layers(model, gpu, 1, number).layers
        layers = estimate_layers(model, gpu, 1, number, library=library).layers
        quicker = {
            after.layer.op for before, after in zip(one, layers, strict=True) if after.backward_s < before.backward_s
        }
        assert quicker <= may_be.get(library, set())
