"""What receivers decode of a compressed gradient, by the description of each compression."""

from __future__ import annotations

from typing import Literal

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from clustersim.errors import InputError
from clustersim.kernels.compression import (
    COMPRESSIONS,
    Compression,
    EightBit,
    HalfPrecision,
    NoCompression,
    OneBit,
    TopK,
)

GRADIENTS = arrays(np.float32, st.integers(1, 40), elements=st.floats(-1000, 1000, width=32))


def rng() -> np.random.Generator:
    return np.random.default_rng(0)


@pytest.mark.parametrize("kind", COMPRESSIONS)
@given(gradient=GRADIENTS)
def test_a_decoded_gradient_is_a_new_array_of_the_same_kind(kind: str, gradient: np.ndarray) -> None:
    before = gradient.copy()
    decoded = COMPRESSIONS[kind]().decoded(gradient, rng())
    assert (decoded.shape, decoded.dtype) == (gradient.shape, gradient.dtype)
    assert not np.shares_memory(decoded, gradient)
    assert (gradient == before).all()
    assert np.isfinite(decoded).all()


@given(gradient=GRADIENTS)
def test_without_compression_a_gradient_arrives_as_it_is(gradient: np.ndarray) -> None:
    assert (NoCompression().decoded(gradient, rng()) == gradient).all()


@given(gradient=GRADIENTS)
def test_half_precision_has_eleven_bits(gradient: np.ndarray) -> None:
    error = np.abs(HalfPrecision().decoded(gradient, rng()) - gradient)
    assert (error <= np.abs(gradient) * 2.0**-11 + 2.0**-25).all()


def test_half_precision_ends_at_65504() -> None:
    decoded = HalfPrecision().decoded(np.array([65504, 1e6, -1e6], dtype=np.float32), rng())
    assert decoded.tolist() == [65504.0, np.inf, -np.inf]


@given(gradient=GRADIENTS, group=st.integers(1, 50))
def test_eight_bits_are_off_by_less_than_a_step_of_their_group(gradient: np.ndarray, group: int) -> None:
    decoded = EightBit(group=group).decoded(gradient, rng())
    for start in range(0, len(gradient), group):
        part = slice(start, start + group)
        step = np.abs(gradient[part]).max() / 127
        assert (np.abs(decoded[part] - gradient[part]) <= step * (1 + 1e-5)).all()
        assert len(np.unique(decoded[part])) <= 255


def test_eight_bits_are_right_in_the_mean() -> None:
    gradient = np.array([1.0, 0.3, -0.01, 0.0], dtype=np.float32)
    generator, times = rng(), 20_000
    mean = sum(EightBit().decoded(gradient, generator).astype(float) for _ in range(times)) / times
    assert mean == pytest.approx(gradient, abs=5 * 0.5 / 127 / np.sqrt(times))


def test_one_bit_sends_the_mean_of_each_sign_in_each_group() -> None:
    gradient = np.array([1.0, 3.0, -2.0, -4.0, 5.0, 1.0, -8.0], dtype=np.float32)
    assert OneBit(group=4).decoded(gradient, rng()).tolist() == [2.0, 2.0, -3.0, -3.0, 3.0, 3.0, -8.0]
    assert OneBit().decoded(gradient, rng()).tolist() == pytest.approx([2.5, 2.5, -14 / 3, -14 / 3, 2.5, 2.5, -14 / 3])


@given(gradient=GRADIENTS, density=st.floats(0.01, 1))
def test_top_k_sends_so_many_of_the_largest_values(gradient: np.ndarray, density: float) -> None:
    decoded = TopK(density=density).decoded(gradient, rng())
    num_sent = max(1, round(density * len(gradient)))
    assert set(decoded[decoded != 0].tolist()) <= set(gradient.tolist())
    assert sorted(np.abs(decoded))[::-1] == sorted(np.abs(gradient))[::-1][:num_sent] + [0] * (len(gradient) - num_sent)


def test_of_equal_values_top_k_sends_those_that_come_first() -> None:
    gradient = np.array([1.0, -2.0, 2.0, 2.0, -1.0], dtype=np.float32)
    assert TopK(density=0.4).decoded(gradient, rng()).tolist() == [0.0, -2.0, 2.0, 0.0, 0.0]


@pytest.mark.parametrize("kind", COMPRESSIONS)
def test_every_compression_can_be_trained_with(kind: str) -> None:
    COMPRESSIONS[kind]().check_decoded()


def test_a_compression_that_says_nothing_cannot_be_trained_with() -> None:
    class Silent(NoCompression):
        kind: Literal["silent"] = "silent"  # type: ignore[assignment]
        decoded = Compression.decoded

    with pytest.raises(InputError, match="compression 'silent' does not say what receivers decode of a gradient"):
        Silent().check_decoded()
