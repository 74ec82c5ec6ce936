"""Documents packed into sequences, or padded: pairs of tokens, rates, real tokens."""

from __future__ import annotations

import math
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from clustersim.errors import InputError
from clustersim.hardware import load_gpu
from clustersim.kernels import estimate_layers
from clustersim.kernels.attention_rates import HOPPER, document_share, is_masked, utilisation
from clustersim.kernels.fused_attention import is_fused
from clustersim.kernels.packing import LogNormal, Packing, filling, tokens_of, with_packing
from clustersim.model import load_model

LLAMA = load_model("llama-2-7b")
TOKENS = 4096


@given(lengths=st.lists(st.integers(1, 20_000), min_size=1, max_size=30))
def test_pairs_are_the_sum_of_the_squares_of_pieces(lengths: list[int]) -> None:
    pieces = [piece for each in lengths for piece in [TOKENS] * (each // TOKENS) + [each % TOKENS] if piece]
    found = filling(Packing(lengths=tuple(lengths)), TOKENS)
    assert found.pair_tokens == pytest.approx(sum(each**2 for each in pieces) / sum(pieces))
    assert found.documents * sum(pieces) / len(pieces) == pytest.approx(TOKENS)
    padded = filling(Packing(lengths=tuple(lengths), kind="padded"), TOKENS)
    assert padded.tokens == pytest.approx(sum(pieces) / len(pieces))
    assert padded.tokens <= TOKENS


def test_attention_has_the_flop_of_pairs_within_documents() -> None:
    """Two documents of a quarter and three quarters: (1 + 9) / 16 of the pairs; all other layers are unchanged."""
    packed = with_packing(LLAMA, Packing(lengths=(1024, 3072)))
    for before, after in zip(LLAMA.layers, packed.layers, strict=True):
        if not is_fused(before):
            assert after is before
            continue
        assert after.flop == before.flop * 10 / 16
        assert after.flop_backward_data == before.flop_backward_data * 10 / 16
        assert after.shape["document"] == 2560
        assert is_masked(after)
        assert document_share(after) == 2560 / 4096


def test_a_sequence_of_one_document_is_the_model_of_the_catalogue() -> None:
    whole = with_packing(LLAMA, Packing(lengths=(TOKENS, 4 * TOKENS)))
    assert [layer.flop for layer in whole.layers] == [layer.flop for layer in LLAMA.layers]
    gpu = load_gpu("h100")
    times = [estimate_layers(model, gpu, 1, "amp-bf16").layers for model in (LLAMA, whole)]
    assert [each.forward_s for each in times[0]] == [each.forward_s for each in times[1]]
    assert with_packing(LLAMA, Packing(lengths=(100,), kind="padded")) is LLAMA


def test_short_documents_run_at_the_rate_of_short_sequences() -> None:
    gpu, packing = load_gpu("h100"), Packing(lengths=(512,))
    known, packed = (
        estimate_layers(model, gpu, 4, "amp-bf16").layers for model in (LLAMA, with_packing(LLAMA, packing))
    )
    place = next(index for index, layer in enumerate(LLAMA.layers) if is_fused(layer) and layer.output_elements)
    slower = utilisation(HOPPER[2], 128, TOKENS, True, True) / utilisation(HOPPER[2], 128, 512, True, True)
    scores = place - 1
    assert packed[scores].forward_s / known[scores].forward_s == pytest.approx(slower / 8, rel=0.02)


@pytest.mark.parametrize("sigma", [0.0, 0.1, 0.5, 1.0, 2.0, 3.0, 5.0])
def test_a_log_normal_has_its_mean_and_its_square(sigma: float) -> None:
    """The second moment over the mean is mean x exp(sigma^2), if no document is cut."""
    lengths = list(LogNormal(mean=600, sigma=sigma).lengths())
    assert sum(share for _, share in lengths) == pytest.approx(1)
    assert sum(length * share for length, share in lengths) == pytest.approx(600, rel=1e-9)
    found = filling(Packing(lengths=LogNormal(mean=600, sigma=sigma)), 10**40)
    assert found.pair_tokens == pytest.approx(600 * math.exp(sigma**2), rel=1e-3)


@pytest.mark.parametrize("sigma", [0.5, 2.0, 3.0])
def test_a_log_normal_is_cut_as_its_law_says(sigma: float) -> None:
    """Pieces of a document of l tokens are 1 plus the multiples of T below l, whose shares have a closed form."""
    found = filling(Packing(lengths=LogNormal(mean=600, sigma=sigma), kind="padded"), TOKENS)
    place = math.log(600) - sigma**2 / 2
    beyond = (math.erfc((math.log(each * TOKENS) - place) / sigma / math.sqrt(2)) / 2 for each in range(1, 300_000))
    assert found.tokens == pytest.approx(600 / (1 + sum(beyond)), rel=0.01)


@pytest.mark.parametrize("gpu", ["h100", "a100", "b200", "l40s", "v100"])
def test_shorter_documents_never_take_longer(gpu: str) -> None:
    precision = "amp-fp16" if gpu == "v100" else "amp-bf16"
    lengths = [1, 2, 3, 5, 16, 63, 64, 65, 100, 127, 128, 129, 500, 512, 600, 1000, 2048, TOKENS]
    packings = [Packing(lengths=(each,)) for each in lengths]
    packings += [Packing(lengths=LogNormal(mean=each, sigma=2)) for each in (1, 1.3, 1.6, 10, 100.4, 100.6, 1000)]
    found = []
    for each in packings:
        model = with_packing(LLAMA, each)
        times = estimate_layers(model, load_gpu(gpu), 1, precision).layers
        total_s = sum(time.forward_s + time.backward_s for time in times if is_fused(time.layer))
        found.append((filling(each, TOKENS).pair_tokens, total_s))
    in_order = [each for _, each in sorted(found)]
    assert all(first <= second * (1 + 1e-9) for first, second in pairwise(in_order))


def test_padding_that_is_left_is_computed_but_by_attention() -> None:
    packing = Packing(lengths=(1024,), fill=0.5)
    assert filling(packing, TOKENS) == (2048.0, 2.0, 1024.0)
    pairs = [
        sum(layer.flop for layer in model.layers if is_fused(layer)) for model in (LLAMA, with_packing(LLAMA, packing))
    ]
    assert pairs[1] == pairs[0] / 8


def test_what_has_no_sequences_or_no_fused_kernel_is_refused() -> None:
    for model in ("resnet50", "gpt2-small"):
        with pytest.raises(InputError, match="packing"):
            with_packing(load_model(model), Packing(lengths=(10,)))
    assert tokens_of(load_model("gpt2-small")) == 1024


@pytest.mark.parametrize(
    ("keys", "message"),
    [
        ({"lengths": []}, "needs lengths"),
        ({"lengths": [0]}, "greater than or equal to 1"),
        ({"lengths": [10], "kind": "padded", "fill": 0.5}, "leave fill out"),
        ({"lengths": {"mean": 0.5, "sigma": 1}}, "greater than or equal to 1"),
    ],
)
def test_wrong_packings_are_refused(keys: dict[str, object], message: str) -> None:
    with pytest.raises(ValidationError, match=message):
        Packing.model_validate(keys)
