"""Traffic of GPT-2 of Hugging Face's transformers 4.3, kernel by kernel as in its source."""

import pytest

from clustersim.errors import InputError
from clustersim.hardware import load_gpu
from clustersim.kernels import estimate_layers
from clustersim.kernels.programs.encoder_kernels import ExtraBytes
from clustersim.kernels.programs.huggingface import HUGGINGFACE_2021, huggingface_extra_bytes, huggingface_traffic
from clustersim.model import PRECISIONS, load_model

FP32 = PRECISIONS["fp32"]
GPT2 = {layer.name: layer for layer in load_model("gpt2-small").layers}
TOKENS, FEATURES, WORDS = 1024, 768, 50_257


def moved(name: str) -> list[float]:
    """Return the elements that a layer moves forward and backward, in tensors as large as what it writes."""
    layer = GPT2[name]
    traffic = huggingface_traffic(layer, FP32)
    assert traffic is not None
    return [each.elements(layer.input_elements, layer.output_elements) / layer.output_elements for each in traffic]


READ, WRITTEN = 1, 1
UNARY, BINARY = READ + WRITTEN, 2 * READ + WRITTEN
BYTE = 1 / 4


@pytest.mark.parametrize(
    ("name", "forward", "backward"),
    [
        # divide, where, add a mask, softmax; backward grad * output, softmax, zeros, where, divide
        ("h.0.attention.softmax", 4 * UNARY, [BINARY, BINARY, WRITTEN, BINARY, UNARY]),
        ("h.0.attention.drop_weights", UNARY + BYTE, [UNARY + BYTE]),
        # 0.5 x, x^3, times 0.044715, x +, times the root of 2 / pi, tanh, 1 +, times; backward the other way round
        (
            "h.0.feed_forward.gelu",
            6 * UNARY + 2 * BINARY,
            [2 * BINARY, UNARY, BINARY, UNARY, UNARY, 2 * UNARY + BINARY, 2 * BINARY],
        ),
        ("h.0.norm1", READ + UNARY, [2 * READ, BINARY, 2 * READ]),
        ("h.0.attention.add", BINARY, [BINARY]),
    ],
)
def test_a_layer_moves_what_its_kernels_read_and_write(name, forward, backward):
    assert moved(name) == pytest.approx([forward, sum(backward)])


def test_the_loss_copies_all_scores_but_the_last_tokens_and_puts_their_gradient_into_zeros():
    """Of a row that the cache does not keep: read for its maximum, its sum and what is written; backward twice."""
    layer = GPT2["loss"]
    traffic = huggingface_traffic(layer, FP32)
    assert traffic is not None
    copied, log_softmax = UNARY, 3 * READ + WRITTEN
    zeros, log_softmax_back, into_zeros = WRITTEN, READ + BINARY, WRITTEN + UNARY
    found = [each.elements(layer.input_elements, 0.0) / (TOKENS * WORDS) for each in traffic]
    assert found == [copied + log_softmax, zeros + log_softmax_back + into_zeros]


def test_heads_are_copied_and_their_gradients_put_together():
    """Queries, keys, values and what is mixed; backward the last, queries and values into rows, and three as one."""
    around = [huggingface_extra_bytes(GPT2[f"h.0.attention.{name}"], FP32) for name in ("scores", "context")]
    queries = 4 * TOKENS * FEATURES
    assert sum(each.forward for each in around) == 4 * UNARY * queries
    assert sum(each.backward_data for each in around) == (3 * UNARY + 3 * UNARY) * queries


def test_a_bias_is_written_before_its_product_and_its_gradient_summed():
    layer = GPT2["h.0.feed_forward.in"]
    output = 4 * 4 * FEATURES * TOKENS
    assert huggingface_extra_bytes(layer, FP32) == ExtraBytes(forward=2 * output, backward_weights=output)
    assert huggingface_extra_bytes(GPT2["head"], FP32) == ExtraBytes()


def test_a_layer_of_gpt_2_so_moves_5_to_6_gb_of_scores_with_four_sequences():
    """Dropout among it: 8 + 12 + 2 x 2.25 tensors of 12 heads x 1,024 x 1,024 numbers a sequence."""
    scores = 4 * 4 * 12 * TOKENS**2
    tensors = sum(moved("h.0.attention.softmax")) + sum(moved("h.0.attention.drop_weights"))
    assert 4.5e9 < tensors * scores < 6e9


def test_what_is_counted_is_all_that_is_slower_than_one_pass():
    model, gpu = load_model("gpt2-small"), load_gpu("titan-rtx")
    one, counted = (
        estimate_layers(model, gpu, 4, "fp32", library=library).layers for library in ("cudnn", HUGGINGFACE_2021)
    )
    slower = {
        after.layer.op
        for before, after in zip(one, counted, strict=True)
        if after.forward_s + after.backward_s > (before.forward_s + before.backward_s) * (1 + 1e-9)
    }
    assert slower == {"softmax", "gelu", "layer-norm", "add", "loss", "matmul", "fully-connected"}


def test_half_a_model_moves_as_many_numbers_and_its_norms_read_one_at_a_time():
    fp16 = PRECISIONS["amp-fp16"]
    assert huggingface_traffic(GPT2["h.0.attention.softmax"], fp16) == huggingface_traffic(
        GPT2["h.0.attention.softmax"], FP32
    )
    norm = GPT2["h.0.norm1"]
    half, single = huggingface_traffic(norm, fp16), huggingface_traffic(norm, FP32)
    assert half is not None
    assert single is not None
    assert [each.input for each in half] == [2 * each.input for each in single]


def test_autocast_is_refused_in_fp32():
    with pytest.raises(InputError, match="nothing to cast; write library: huggingface-2021"):
        estimate_layers(load_model("gpt2-small"), load_gpu("titan-rtx"), 4, "fp32", library="huggingface-2021-autocast")


@pytest.mark.parametrize(("model", "what"), [("llama-2-7b", "rms-norm"), ("gpt-2x64x2-fused", "fused attention")])
def test_other_models_are_refused(model, what):
    with pytest.raises(InputError, match=rf"supports only a GPT-2, .*is {what}; write library: eager"):
        estimate_layers(load_model(model), load_gpu("titan-rtx"), 1, "fp32", library=HUGGINGFACE_2021)
