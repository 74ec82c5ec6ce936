"""Convolutions on every GPU and fully connected layers over all: what is computed, moved and stored."""

from __future__ import annotations

from dataclasses import replace

import pytest

from clustersim.errors import InputError
from clustersim.hardware import load_gpu
from clustersim.kernels import OptimizerSpec
from clustersim.kernels.compute_time import ComputeSpec, build_workload
from clustersim.model import load_model
from clustersim.parallelism import ModelLayout, Parallelism, TrainingSetup, lay_out
from clustersim.parallelism.historical.one_weird_trick import MOVED_ALONG, Trick, trick_pieces
from clustersim.program.ops import Call, Compute, Ready, Wait

SCHEMES = ("gathered", "one-by-one", "in-shares")
SAMPLE_BYTES = 9216 * 4.0
"""What goes from AlexNet's last pooling to its first fully connected layer."""


def laid_out(scheme: str, num_gpus: int, batch: int = 64, update_every_pass: bool = False) -> ModelLayout:
    def work_at(samples: int):
        return build_workload(
            load_model("alexnet"), load_gpu("k20"), samples, "fp32", OptimizerSpec(), ComputeSpec(single_gpu=None)
        )

    layout = Parallelism(kind="one-weird-trick", scheme=scheme, update_every_pass=update_every_pass)
    training = TrainingSetup(work_at(batch), OptimizerSpec(), "cudnn", (0.0,), True, work_at)
    return lay_out(layout, layout.grid(num_gpus), training)


def calls(out: ModelLayout, axis: str) -> list[Call]:
    return [op for op in out.plans[0].program.ops() if isinstance(op, Call) and op.axis == axis]


@pytest.mark.parametrize(
    ("scheme", "num_passes", "samples"), [("gathered", 1, 512), *((s, 8, 64) for s in SCHEMES[1:])]
)
def test_every_pass_moves_its_samples_and_their_gradients(scheme: str, num_passes: int, samples: int) -> None:
    moved = calls(laid_out(scheme, 8), MOVED_ALONG)
    assert len(moved) == 2 * num_passes
    assert {op.num_bytes for op in moved} == {samples * SAMPLE_BYTES}


def test_each_pass_has_the_samples_of_one_gpu() -> None:
    moved = calls(laid_out("one-by-one", 4), MOVED_ALONG)
    assert [op.root for op in moved if op.op == "broadcast"] == [0, 1, 2, 3]
    assert [op.root for op in moved if op.op == "reduce"] == [0, 1, 2, 3]


@pytest.mark.parametrize("scheme", SCHEMES[1:])
def test_the_next_samples_are_sent_before_a_pass_begins(scheme: str) -> None:
    """So every transfer of activations but the first overlaps with a pass."""
    ops = list(laid_out(scheme, 4).plans[0].program.ops())
    for number in (1, 2, 3):
        begun = next(at for at, op in enumerate(ops) if isinstance(op, Call) and op.key[:2] == ("activations", number))
        waited = next(at for at, op in enumerate(ops) if isinstance(op, Wait) and op.key[:2] == ("activations", number))
        between = {(op.phase, op.micro_batch) for op in ops[begun:waited] if isinstance(op, Compute)}
        assert between == {("forward", number - 1), ("backward", number - 1)}


def test_only_convolutions_exchange_gradients() -> None:
    """2,469,696 of AlexNet's 61,100,840 parameters are those of convolutions."""
    plan = laid_out("in-shares", 8).plans[0]
    assert [bucket.name for bucket in plan.iteration.buckets] == ["conv5", "conv4", "conv3", "conv2", "conv1"]
    assert sum(bucket.num_bytes for bucket in plan.iteration.buckets) == 4 * 2_469_696
    assert sum(isinstance(op, Ready) for op in plan.program.ops()) == 5


@pytest.mark.parametrize("scheme", SCHEMES)
def test_fully_connected_weights_are_divided_and_the_others_not(scheme: str) -> None:
    held, whole = laid_out(scheme, 8).fullest, laid_out(scheme, 1).fullest
    assert whole["weights"] == 4 * 61_100_840
    assert held["weights"] == pytest.approx(4 * (2_469_696 + (61_100_840 - 2_469_696) / 8), rel=1e-3)


def test_gathered_samples_take_the_most_memory() -> None:
    sizes = {scheme: sum(laid_out(scheme, 8).fullest.values()) for scheme in SCHEMES}
    assert sizes["gathered"] > sizes["one-by-one"] == sizes["in-shares"]
    assert laid_out("gathered", 8).fullest["activations on their way"] == 512 * SAMPLE_BYTES
    assert laid_out("in-shares", 8).fullest["activations on their way"] == 2 * 64 * SAMPLE_BYTES


def test_on_one_gpu_it_needs_the_memory_of_plain_training() -> None:
    work = build_workload(load_model("alexnet"), load_gpu("k20"), 64, "fp32", OptimizerSpec(), ComputeSpec())
    assert dict(laid_out("in-shares", 1).fullest) == pytest.approx(dict(work.memory_bytes), rel=1e-12)


def test_an_update_after_every_pass_is_in_the_program() -> None:
    once, every = (laid_out("in-shares", 4, update_every_pass=each).plans[0] for each in (False, True))
    updates = [op.seconds for op in every.program.ops() if isinstance(op, Compute) and op.phase == "update"]
    assert not [op for op in once.program.ops() if isinstance(op, Compute) and op.phase == "update"]
    assert len(updates) == 4
    assert updates[0] + every.iteration.update_s == pytest.approx(once.iteration.update_s, rel=1e-12)


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("squeezenet-1.0", "has no fully connected layer"),
        ("gpt2-small", "comes"),
    ],
)
def test_a_model_without_such_layers_at_its_end_is_refused(name: str, words: str) -> None:
    with pytest.raises(InputError, match=words) as caught:
        trick_pieces(load_model(name), Trick(4, 8, "in-shares", False), 4.0)
    assert caught.value.mistakes[0].key == "kind"


def test_a_model_of_fully_connected_layers_alone_is_refused() -> None:
    model = load_model("alexnet")
    first = next(number for number, layer in enumerate(model.layers) if layer.op == "fully-connected")
    with pytest.raises(InputError, match="begins with its fully connected layer 'fc6'") as caught:
        trick_pieces(replace(model, layers=model.layers[first:]), Trick(4, 8, "in-shares", False), 4.0)
    assert caught.value.mistakes[0].key == "kind"


def test_columns_that_do_not_divide_are_refused_with_what_works() -> None:
    with pytest.raises(InputError, match="nearest number that works is 2") as caught:
        trick_pieces(load_model("alexnet"), Trick(3, 9, "in-shares", False), 4.0)
    assert caught.value.mistakes[0].key == "kind"


def test_samples_that_do_not_divide_into_equal_shares_are_refused() -> None:
    with pytest.raises(InputError, match="96 or 104") as caught:
        trick_pieces(load_model("alexnet"), Trick(8, 100, "in-shares", False), 4.0)
    assert caught.value.mistakes[0].key == "scheme"
    assert trick_pieces(load_model("alexnet"), Trick(8, 100, "one-by-one", False), 4.0)
