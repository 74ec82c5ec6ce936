"""Traffic of NeMo's transformers of 2023, kernel by kernel as PyTorch runs their source."""

import pytest

from clustersim.errors import InputError
from clustersim.hardware import load_gpu
from clustersim.kernels import estimate_layers
from clustersim.kernels.kernel_constants import constants_of
from clustersim.kernels.programs.language_models import EXTRA_BYTES, TRAFFIC
from clustersim.kernels.programs.nemo import NEMO, NEMO_AUTOCAST
from clustersim.kernels.programs.residual_dropout import drops_in_sums, sum_traffic
from clustersim.model import PRECISIONS, Layer, load_model

BF16 = PRECISIONS["amp-bf16"]
CLIP = {layer.name: layer for layer in load_model("clip-giant-14").layers}
VIT = {layer.name: layer for layer in load_model("vit-giant-14").layers}
READ, WRITTEN = 1, 1
UNARY, BINARY = READ + WRITTEN, 2 * READ + WRITTEN
WIDE = 2  # of an fp32 number
CAST = 1 + WIDE
MASK = 1 / 2


def moved(library: str, layer: Layer, precision: str = "amp-bf16") -> list[float]:
    """Return the elements that a layer moves forward and backward, in tensors as large as what it writes."""
    traffic = TRAFFIC[library](layer, PRECISIONS[precision])
    assert traffic is not None
    return [each.elements(layer.input_elements, layer.output_elements) / layer.output_elements for each in traffic]


def beside(library: str, block: str) -> list[float]:
    """Return what is moved beside the products of an attention, forward and backward, in tensors of its queries."""
    products = [CLIP[f"{block}.{name}"] for name in ("scores", "context")]
    around = [EXTRA_BYTES[library](each, BF16) for each in products]
    queries = 2 * products[1].output_elements
    return [sum(each.forward for each in around) / queries, sum(each.backward_data for each in around) / queries]


@pytest.mark.parametrize(
    ("library", "name", "forward", "backward"),
    [
        # to fp32, times the layer's number, softmax, back; with autocast the empty tensor beside the product, too
        (NEMO, "image.0.softmax", 2 * CAST + 2 * WIDE * UNARY, 2 * CAST + WIDE * (BINARY + UNARY)),
        (NEMO_AUTOCAST, "image.0.softmax", 3 * CAST + 2 * WIDE * UNARY, 2 * CAST + WIDE * (BINARY + UNARY)),
        (NEMO, "text.0.softmax", UNARY, BINARY),
        (NEMO_AUTOCAST, "text.0.softmax", UNARY + CAST, BINARY),
        # the bias, GELU; with autocast to fp32, and back, once more for the weights' gradient, and the bias's in fp32
        (NEMO, "image.0.gelu", 2 * UNARY, BINARY),
        (
            NEMO_AUTOCAST,
            "image.0.gelu",
            READ + WIDE * WRITTEN + WIDE * UNARY + CAST,
            CAST + WIDE * BINARY + CAST + (WIDE - 1) * READ + CAST,
        ),
        (NEMO, "image.0.norm1", UNARY, 2 * READ + BINARY),
        (NEMO_AUTOCAST, "image.0.norm1", UNARY, 2 * READ + BINARY),
    ],
)
def test_an_operation_moves_what_its_kernels_read_and_write(library, name, forward, backward):
    assert moved(library, CLIP[name]) == pytest.approx([forward, backward])


def test_queries_keys_and_values_have_their_bias_added_are_copied_and_put_together_again():
    """Backward the scale of two, and what is put together; with autocast all of it is in fp32, and cast around it."""
    forward, backward = 3 * (UNARY + UNARY) + UNARY, 2 * UNARY + 3 * UNARY
    assert beside(NEMO, "image.0") == pytest.approx([forward, backward])
    expanded, expanded_back = WRITTEN + READ, CAST + (WIDE - 1) * READ
    forward = 3 * (READ + WIDE * WRITTEN + WIDE * UNARY + CAST) + UNARY + expanded
    backward = 2 * UNARY + 3 * (CAST + WIDE * UNARY + 2 * CAST + (WIDE - 1) * READ) + expanded_back
    assert beside(NEMO_AUTOCAST, "image.0") == pytest.approx([forward, backward])
    assert (forward, backward) == (34, 50)


def test_weights_in_fp32_are_cast_twice_and_their_gradients_once():
    matrix = CLIP["image.0.in"]
    found, narrow = EXTRA_BYTES[NEMO_AUTOCAST](matrix, BF16), EXTRA_BYTES[NEMO](matrix, BF16)
    assert (found.weights_forward, found.weights_backward) == (6 * matrix.num_parameters, 12 * matrix.num_parameters)
    assert found.backward_weights == narrow.backward_weights == 2 * matrix.output_elements
    assert (narrow.weights_forward, narrow.weights_backward) == (0, 0)
    assert EXTRA_BYTES[NEMO](CLIP["image.head"], BF16).backward_weights == 0


def test_a_dropout_adds_its_mask_to_the_sum_behind_it():
    """BothPasses a kernel that reads both terms, writes the sum and the mask, and backward reads both of these."""
    both = zip(moved(NEMO, VIT["layer.0.out.drop"]), moved(NEMO, VIT["layer.0.feed_forward.add"]), strict=True)
    assert [sum(each) for each in both] == pytest.approx([BINARY + MASK, UNARY + MASK + BINARY])
    assert not drops_in_sums(VIT.values(), NEMO)


@pytest.mark.parametrize("library", [NEMO, NEMO_AUTOCAST])
def test_where_nothing_is_dropped_a_sum_writes_a_mask_all_the_same(library):
    assert drops_in_sums(CLIP.values(), library)
    assert sum_traffic(BF16, library) == sum_traffic(BF16, "megatron-2023")


def test_in_fp32_there_is_nothing_to_cast():
    with pytest.raises(InputError, match="nothing to cast; write library: nemo-2023, or precision"):
        estimate_layers(load_model("gpt2-small"), load_gpu("a100"), 1, "fp32", library=NEMO_AUTOCAST)
    softmax = CLIP["image.0.softmax"]
    assert moved(NEMO, softmax, "fp32") == [2 * UNARY, BINARY + UNARY]


@pytest.mark.parametrize(("model", "what"), [("llama-2-7b", "rms-norm"), ("gpt-2x64x2-fused", "fused attention")])
def test_other_transformers_are_refused(model, what):
    with pytest.raises(InputError, match=rf"unfused attention, .*is {what}; write library: eager"):
        estimate_layers(load_model(model), load_gpu("a100"), 1, "amp-bf16", library=NEMO)


def test_that_takes_the_memorys_time():
    gpu, model, batch = load_gpu("a100"), load_model("clip-giant-14"), 80
    rate = constants_of(gpu, "tensor").memory_efficiency * gpu.memory_bytes_per_s
    plain, cast = (
        {each.layer.name: each for each in estimate_layers(model, gpu, batch, "amp-bf16", library=library).layers}
        for library in (NEMO, NEMO_AUTOCAST)
    )
    more = (10 - 4) * 2 * batch * CLIP["image.3.gelu"].output_elements
    assert cast["image.3.gelu"].forward_s - plain["image.3.gelu"].forward_s == pytest.approx(more / rate, rel=1e-9)
    more = 12 * CLIP["image.3.in"].num_parameters
    gradient_s = cast["image.3.in"].backward_weights_s - plain["image.3.in"].backward_weights_s
    assert gradient_s == pytest.approx(more / rate, rel=1e-9)
