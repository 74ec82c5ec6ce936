"""Memory traffic of PyTorch without a compiler."""

import pytest

from clustersim.hardware import load_gpu
from clustersim.kernels import estimate_layers
from clustersim.kernels.programs.eager import eager_extra_bytes, eager_traffic
from clustersim.kernels.programs.encoder_kernels import ExtraBytes
from clustersim.kernels.programs.language_models import megatron_traffic
from clustersim.model import PRECISIONS, load_model
from clustersim.model.builder import Builder, Tensor


def layer(op: str):
    net, x = Builder("one", "one"), Tensor(4096, 8192)
    if op == "add":
        net.add("it", x, x)
    else:
        kinds = {
            "rms-norm": net.rms_norm,
            "group-norm": net.group_norm,
            "rotary": net.rotary,
            "gelu": net.gelu,
            "silu": net.gate,
            "loss": net.loss,
        }
        kinds[op]("it", x)
    return net.model().layers[0]


@pytest.mark.parametrize(
    ("op", "precision", "forward", "backward"),
    [
        ("rms-norm", "amp-bf16", 18, 46),
        ("rms-norm", "fp32", 7, 23),
        ("group-norm", "amp-fp16", 3, 5),
        ("group-norm", "fp32", 3, 5),
        ("rotary", "amp-bf16", 10, 10),
        ("rotary", "fp32", 2, 2),
        ("silu", "amp-bf16", 2.5, 4.5),
        ("add", "amp-bf16", 1.5, 1.5),
        ("loss", "amp-bf16", 7, 11),
        ("loss", "fp32", 2, 4),
    ],
)
def test_an_operation_moves_what_its_kernels_read_and_write(op, precision, forward, backward):
    """In tensors as large as what it reads, of the activations' precision; a gate's output is half as large."""
    one = layer(op)
    moved = eager_traffic(one, PRECISIONS[precision])
    assert moved is not None
    found = [each.elements(one.input_elements, one.output_elements) / one.input_elements for each in moved]
    assert found == pytest.approx([forward, backward])


@pytest.mark.parametrize(("precision", "forward", "backward"), [("amp-bf16", 19, 7), ("fp32", 8, 2)])
def test_megatrons_loss_moves_what_its_kernels_read_and_write_and_nothing_else_is_its_own(precision, forward, backward):
    moved = megatron_traffic(layer("loss"), PRECISIONS[precision])
    assert moved is not None
    assert [each.elements(1.0, 1.0) for each in moved] == [forward, backward]
    assert megatron_traffic(layer("rms-norm"), PRECISIONS[precision]) is None


def test_what_is_one_kernel_is_left_alone():
    assert eager_traffic(layer("gelu"), PRECISIONS["amp-bf16"]) is None


def test_eager_is_slower_in_what_it_lists_and_nowhere_else():
    model, gpu = load_model("llama-3.1-8b"), load_gpu("h100")
    compiled, eager = (
        estimate_layers(model, gpu, 2, "amp-bf16", library=library).layers for library in ("cudnn", "eager")
    )
    slower = {
        after.layer.op for before, after in zip(compiled, eager, strict=True) if after.forward_s > before.forward_s
    }
    assert slower == {"rms-norm", "rotary", "silu", "add", "loss"}
    assert all(after.backward_s >= before.backward_s for before, after in zip(compiled, eager, strict=True))


def test_a_convolutions_bias_is_added_by_a_kernel_of_its_own_and_its_gradient_summed_by_another():
    net, x = Builder("one", "one"), Tensor(64, 32, 32)
    net.conv("plain", x, 128, 3, pad=1, bias=False)
    net.conv("biased", x, 128, 3, pad=1)
    plain, biased = (eager_extra_bytes(each, PRECISIONS["amp-fp16"]) for each in net.model().layers)
    assert plain == ExtraBytes()
    output = 2.0 * 128 * 32 * 32
    assert biased == ExtraBytes(forward=2 * output, backward_weights=output)


@pytest.mark.parametrize(("needs_gradient", "inputs"), [(True, 6.0), (False, 0.0)])
def test_gradients_of_an_input_that_several_matrices_read_are_added_up_if_it_needs_one(needs_gradient, inputs):
    net, x = Builder("one", "one"), Tensor(64, 77, needs_gradient=needs_gradient)
    net.linear("qkv", x, 64, bias=False, count=3)
    around = eager_extra_bytes(net.model().layers[0], PRECISIONS["amp-fp16"])
    assert around == ExtraBytes(backward_data=inputs * 2 * 64 * 77)
