"""Kernels that sum, cast, divide and measure gradients: bytes at the memory rate, each at its time."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import clustersim
from clustersim.errors import InputError
from clustersim.kernels.kernel_constants import constants_of
from clustersim.kernels.programs.blocking_launches import LAUNCH_WAIT_S
from clustersim.model import load_model
from clustersim.model.tensors import num_tensors
from clustersim.parallelism.gradient_kernels import SUMS_CAST, moved_bytes
from clustersim.program.ops import Call
from tests.simulate.shortcut_checks import check_folded_is_exact, check_traces_are_exact
from tests.simulate.test_sharding_copies import COPIES, scenario, setup_of

KINDS = ("autograd", "deepspeed-bf16", "deepspeed-bf16-0.12", "internlm", "megatron")
GRAPHS = {"launch": "graphs"}  # no GPU waits for its host
NO_COPIES = {"kind": "all-reduce", "algorithm": "ring", "copies": "none"}


def parameter_s(layout: dict[str, Any], **other: Any) -> float:
    """Return the seconds in which a byte of every parameter of a GPU is moved."""
    setup = setup_of(layout, **other)
    gpu = setup.reference.gpu
    rate = constants_of(gpu, "tensor").memory_efficiency * gpu.memory_bytes_per_s
    held = sum(piece.layer.num_parameters for part in setup.laid_out.parts for piece in part.pieces)
    return held / rate


def spent_s(layout: dict[str, Any], **other: Any) -> tuple[float, float]:
    """Return the seconds of backward passes, and of the update, that a GPU's kernels of gradients take."""
    spent = []
    for kind in ("none", layout["gradient_kernels"]):
        plan = setup_of({**layout, "gradient_kernels": kind}, **other).laid_out.plans[0]
        phases = plan.program.phase_s()
        spent.append((phases["backward"], phases.get("update", 0.0) + plan.iteration.update_s))
    return spent[1][0] - spent[0][0], spent[1][1] - spent[0][1]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(
    ("layout", "num"),
    [
        ({"sharding": "zero-1"}, 1),
        ({"sharding": "zero-1"}, 4),
        ({"sharding": None}, 4),
        ({"sharding": "zero-1", "tensor": 2}, 4),
    ],
)
def test_an_iteration_moves_the_bytes_that_the_code_does(kind: str, layout: dict[str, Any], num: int) -> None:
    """Behind every micro-batch, behind all but one, before copies exchange and after that, and of what is updated."""
    layout = {**layout, "micro_batches": num, "gradient_kernels": kind}
    other = {} if layout["sharding"] else {"strategy": NO_COPIES}  # else DistributedDataParallel's come beside them
    backward_s, update_s = spent_s(layout, **other)
    byte_s, moved = parameter_s(layout), moved_bytes(kind, 2, 4)
    share = layout.get("tensor", 1) / COPIES if layout["sharding"] else 1
    in_backward = moved.each * num + moved.further * (num - 1) + moved.before
    assert backward_s == pytest.approx(in_backward * byte_s, rel=1e-6)
    assert update_s == pytest.approx((moved.after + moved.share * share) * byte_s, rel=1e-6)


@pytest.mark.parametrize("num", [1, 4])
@pytest.mark.parametrize("strategy", [{"overlap": True}, {"overlap": False, "buckets": "10 MB"}])
def test_megatron_llama_casts_and_copies_every_micro_batch_and_adds_to_a_slice(
    num: int, strategy: dict[str, Any]
) -> None:
    """A cast of 2 to 4 bytes and a copy; the slice divided and added, then its norm, zeros and the weights' cast."""
    layout = {"sharding": "zero-2", "micro_batches": num, "gradient_kernels": "megatron-llama"}
    backward_s, update_s = spent_s(layout, strategy={"kind": "all-reduce", "algorithm": "ring", **strategy})
    byte_s = parameter_s(layout)
    assert backward_s == pytest.approx(num * (6 + 8 + (8 + 12) / COPIES) * byte_s, rel=1e-6)
    assert update_s == pytest.approx((4 + 4 + 6) / COPIES * byte_s, rel=1e-6)


@pytest.mark.parametrize("kind", ["megatron-llama", "none"])
@pytest.mark.parametrize("sequence_parallel", [True, False])
def test_megatron_llama_adds_up_the_gradient_of_each_norm_behind_every_micro_batch(
    kind: str, sequence_parallel: bool
) -> None:
    """An all-reduce in 16 bits of every tensor of a norm, where GPUs that split layers have tokens each."""
    layout = {"sharding": "zero-2", "micro_batches": 4, "tensor": 2, "gradient_kernels": kind}
    setup = setup_of({**layout, "sequence_parallel": sequence_parallel})
    calls = [each for each in setup.laid_out.plans[0].program.ops() if isinstance(each, Call)]
    found = [call.num_bytes for call in calls if "norm's gradient" in call.key.what]
    norms = [each for each in setup.reference.model.layers if each.op == "layer-norm"]
    is_there = kind == "megatron-llama" and sequence_parallel
    assert len(found) == is_there * 4 * 2 * len(norms)
    assert sum(found) == is_there * 4 * 2.0 * sum(each.num_parameters for each in norms)


def test_megatron_llama_is_refused_where_gradients_are_not_shared_out() -> None:
    with pytest.raises(InputError, match="moves gradients into slices after every micro-batch"):
        setup_of({"sharding": "zero-1", "gradient_kernels": "megatron-llama"})


def test_deepspeeds_sums_in_fp32_move_18_bytes_a_micro_batch() -> None:
    assert moved_bytes("deepspeed-bf16", 2, 4).each == (2 + 4) + (4 + 4 + 4)


def test_zeros_and_sums_in_16_bits_move_8_bytes_more() -> None:
    assert moved_bytes("deepspeed-bf16-0.12", 2, 4) == moved_bytes("deepspeed-bf16", 2, 4)._replace(each=18 + 2 + 6)


@pytest.mark.parametrize(
    ("kind", "num_kernels"),
    [("autograd", 3), ("deepspeed-bf16", 2 * 4), ("deepspeed-bf16-0.12", 4 * 4), ("internlm", 3), ("megatron", 0)],
)
def test_a_process_that_waits_for_kernels_waits_for_those_of_each_tensor(kind: str, num_kernels: int) -> None:
    """Of four micro-batches: each of DeepSpeed's, all but one of those where autograd adds up."""
    layout = {"sharding": "zero-1", "micro_batches": 4, "gradient_kernels": kind}
    strategy = {"kind": "all-reduce", "algorithm": "ring", "overlap": False}
    waited, queued = (
        spent_s(layout, strategy=strategy, compute={"launch": each})[0] for each in ("blocking", "queued")
    )
    layers = setup_of(layout).reference.model.layers
    assert waited - queued == pytest.approx(num_kernels * LAUNCH_WAIT_S * sum(map(num_tensors, layers)), abs=1e-12)


def test_a_block_of_a_gpt_has_twelve_tensors_and_one_of_a_llama_six() -> None:
    """Two norms and four products with a weight and a bias each; without biases, and with one tensor a norm."""
    for model, num in (("gpt-12x768x12-seq128", 12), ("llama-2-7b", 6)):
        block = [layer for layer in load_model(model).layers if layer.name.startswith("h.0.")]
        assert sum(map(num_tensors, block)) == num


@pytest.mark.parametrize("kind", SUMS_CAST)
def test_deepspeed_gives_every_copy_all_of_a_sum_in_16_bits_and_gathers_slices(kind: str) -> None:
    setup = setup_of({"sharding": "zero-1", "gradient_kernels": kind})
    whole = 2.0 * setup.reference.model.num_parameters
    calls = [part for part in setup.laid_out.plans[0].program.parts if isinstance(part, Call)]
    sent = {op: sum(call.num_bytes for call in calls if call.op == op) for op in ("all-reduce", "all-gather")}
    assert sent == pytest.approx({"all-reduce": whole, "all-gather": whole})
    assert len(calls) == sum(call.op in sent for call in calls)


def test_one_copy_casts_and_divides_nothing_for_others() -> None:
    backward_s, _ = spent_s({"sharding": "zero-1", "gradient_kernels": "internlm"}, num_gpus=1)
    assert backward_s == 0


def test_gradients_of_16_bits_are_summed_in_as_many() -> None:
    layout = {"sharding": "zero-1", "micro_batches": 2, "gradient_kernels": "autograd"}
    backward_s, update_s = spent_s(layout, gradient_precision="bf16")
    assert backward_s == pytest.approx(3 * 2 * parameter_s(layout), rel=1e-6)
    assert update_s == 0


def test_passes_put_off_sum_what_they_make() -> None:
    """Gradients of weights that a schedule puts off are summed then."""
    layout = {"sharding": None, "pipeline": 2, "micro_batches": 4, "gradient_kernels": "deepspeed-bf16", "data": 2}
    plans = [setup_of({**layout, "schedule": each}).laid_out.plans[0] for each in ("1f1b", "zero-bubble")]
    sums = [sum(plan.program.phase_s().values()) for plan in plans]
    plain = [
        setup_of({**layout, "schedule": each, "gradient_kernels": "none"}).laid_out.plans[0].program
        for each in ("1f1b", "zero-bubble")
    ]
    added = [with_s - sum(program.phase_s().values()) for with_s, program in zip(sums, plain, strict=True)]
    assert added[0] > 0
    assert added[1] == pytest.approx(added[0], rel=1e-6)


def test_copies_that_share_nothing_out_have_them_too() -> None:
    plain, with_kernels = (
        clustersim.simulate(
            scenario({"sharding": None, "gradient_kernels": kind}, strategy=NO_COPIES, compute=GRAPHS)
        ).iteration_s
        for kind in ("none", "deepspeed-bf16")
    )
    moved = moved_bytes("deepspeed-bf16", 2, 4)
    layout = {"sharding": None, "gradient_kernels": "deepspeed-bf16"}
    assert with_kernels - plain == pytest.approx(sum(moved) * parameter_s(layout), rel=0.05)


@pytest.mark.parametrize("kind", KINDS)
def test_codes_with_buckets_of_their_own_are_not_copied_into_others(kind: str) -> None:
    """What they copy there and back is counted already; autograd leaves that to DistributedDataParallel."""
    layout = {"sharding": None, "gradient_kernels": kind, "micro_batches": 2}
    as_ever, without = (
        clustersim.simulate(scenario(layout, **other)).iteration_s for other in ({}, {"strategy": NO_COPIES})
    )
    assert (as_ever == without) == (kind != "autograd")


def test_they_are_waited_for() -> None:
    runs = [
        clustersim.simulate(
            scenario({"sharding": "zero-1", "micro_batches": 2, "gradient_kernels": kind}, compute=GRAPHS)
        )
        for kind in ("none", "autograd", "deepspeed-bf16")
    ]
    none_s, autograd_s, deepspeed_s = (run.iteration_s for run in runs)
    assert none_s < autograd_s < deepspeed_s


@pytest.mark.parametrize("layout", [{"tensor": 2}, {"pipeline": 2, "micro_batches": 4, "schedule": "zero-bubble"}])
def test_shortcuts_are_exact_with_them(layout: dict[str, Any], tmp_path: Path) -> None:
    file = scenario({**layout, "sharding": "zero-1", "gradient_kernels": "deepspeed-bf16"}, num_gpus=8)
    file["topology"] = {"kind": "star", "num_hosts": 1, "host": "dgx-a100", "link": "100 Gbit/s", "hop": "1 us"}
    check_folded_is_exact(file)
    check_traces_are_exact(file, tmp_path)


@pytest.mark.parametrize(
    ("layout", "other"),
    [
        ({"sharding": "zero-2"}, "sharding: zero-2"),
        ({"sharding": "zero-3"}, "sharding: zero-3"),
        ({"sharding": "zero-1", "offload": "optimizer"}, "offload: optimizer"),
        (
            {"sharding": None, "pipeline": 2, "data": 2, "micro_batches": 4, "schedule": "pipedream"},
            "schedule: pipedream",
        ),
    ],
)
def test_they_are_refused_where_no_gpu_keeps_sums_of_all_its_gradients(layout: dict[str, Any], other: str) -> None:
    with pytest.raises(InputError, match=f"autograd needs GPUs .* and with {other} they do not"):
        setup_of({**layout, "gradient_kernels": "autograd"})


def test_they_are_refused_with_strategies_that_exchange_otherwise() -> None:
    """They all count what comes before an all-reduce and after it."""
    file = scenario(
        {"sharding": None, "micro_batches": 2, "gradient_kernels": "deepspeed-bf16"}, strategy={"kind": "server"}
    )
    with pytest.raises(InputError, match=r"needs GPUs .* and with strategy server they do not"):
        clustersim.simulate(file)
