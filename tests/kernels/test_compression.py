"""Compressed gradients: bytes on the wire, and the cost of encoding and decoding."""

from __future__ import annotations

import pytest

from clustersim.hardware import load_gpu
from clustersim.kernels import COMPRESSIONS, OptimizerSpec
from clustersim.kernels.kernel_constants import constants_of

P100 = load_gpu("p100")
MILLION = 1e6


def compression(kind: str, **knobs: object):
    return COMPRESSIONS[kind].model_validate(knobs)


def at_memory_rate(num_bytes: float) -> float:
    return num_bytes / (constants_of(P100, "ordinary").memory_efficiency * P100.memory_bytes_per_s) + P100.launch_s


@pytest.mark.parametrize(
    ("kind", "knobs", "num_bytes"),
    [
        ("none", {}, 4.0),
        ("fp16", {}, 2.0),
        ("int8", {"group": 512}, 1 + 4 / 512),
        ("one-bit", {"group": 256}, 1 / 8 + 8 / 256),
        ("top-k", {"density": 0.01}, 0.08),
    ],
)
def test_a_parameter_of_four_bytes_takes_on_the_wire(kind, knobs, num_bytes):
    assert compression(kind, **knobs).wire_bytes(4.0) == pytest.approx(num_bytes)


@pytest.mark.parametrize(
    ("kind", "knobs", "encoded", "decoded_from_one", "decoded_from_each_other"),
    [
        ("fp16", {}, 6.0, 6.0, 0.0),  # the sum comes back once, however many workers there are
        ("int8", {"group": 4}, 4 + 2, 2 + 4, 2),
        ("one-bit", {"group": 64}, 4 + 8 + 0.25, 0.25 + 4, 0.25),
        ("top-k", {"density": 0.01}, 16 + 0.08, 4 + 0.16, 0.16),
    ],
)
def test_encoding_and_decoding_move_bytes_at_the_memorys_rate(
    kind, knobs, encoded, decoded_from_one, decoded_from_each_other
):
    each = compression(kind, **knobs)
    assert each.encode_s(MILLION, 4.0, P100) == pytest.approx(at_memory_rate(MILLION * encoded))
    for num_workers in (1, 8):
        moved = decoded_from_one + (num_workers - 1) * decoded_from_each_other
        assert each.decode_s(MILLION, 4.0, num_workers, P100) == pytest.approx(at_memory_rate(MILLION * moved))


@pytest.mark.parametrize("kind", ["int8", "one-bit", "top-k"])
def test_measured_rates_of_the_codec_take_the_place_of_the_memorys(kind):
    each = compression(kind, encode_bytes_per_s="8 GB/s", decode_bytes_per_s="40 GB/s")
    assert each.encode_s(MILLION, 4.0, P100) == pytest.approx(4e6 / 8e9)
    assert each.decode_s(MILLION, 4.0, 5, P100) == pytest.approx(5 * 4e6 / 40e9)


def test_nothing_is_done_to_gradients_that_are_not_compressed_or_short_already():
    for each, size in ((compression("none"), 4.0), (compression("fp16"), 2.0)):
        assert each.wire_bytes(size) == size
        assert each.encode_s(MILLION, size, P100) == each.decode_s(MILLION, size, 8, P100) == 0


def test_only_plain_numbers_can_be_added_on_the_way():
    assert [kind for kind in COMPRESSIONS if compression(kind).adds_on_the_way] == ["none", "fp16"]


def test_error_feedback_keeps_a_float_per_parameter():
    kept = {kind: compression(kind).residual_bytes_per_parameter for kind in COMPRESSIONS}
    assert kept == {"none": 0, "fp16": 0, "int8": 0, "one-bit": 4, "top-k": 4}


@pytest.mark.parametrize(
    ("kind", "moved"), [("sgd", 12), ("momentum", 20), ("adagrad", 20), ("adam", 28), ("lamb", 52)]
)
def test_an_update_reads_weight_gradient_and_state_and_writes_weight_and_state(kind, moved):
    optimizer = OptimizerSpec.model_validate({"kind": kind})
    assert optimizer.moved_bytes_per_parameter == moved
    assert optimizer.update_s(MILLION, P100) == pytest.approx(at_memory_rate(MILLION * moved))
    assert optimizer.update_s(0, P100) == 0


def test_an_update_of_many_operations_moves_a_tensor_for_each_that_it_reads_or_writes():
    """MXNet's momentum of 2016: gradient, velocity, weights scaled (2 each), a sum (3), scaled (2), two sums more."""
    optimizer = OptimizerSpec(kind="momentum", passes=2 + 2 + 2 + 3 + 2 + 3 + 3)
    assert optimizer.moved_bytes_per_parameter == 68
    assert optimizer.state_bytes_per_parameter == 4
