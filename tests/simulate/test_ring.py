"""Ring attention: closed forms, and what it has in common with gathering."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

import clustersim
from clustersim.errors import InputError
from clustersim.hardware import load_gpu
from clustersim.kernels import OptimizerSpec
from clustersim.kernels.kernel_constants import constants_of
from clustersim.kernels.memory import SLACK
from clustersim.model.builder import Builder, Tensor
from clustersim.model.workload_file import load_workload
from clustersim.model.write_workload import write_workload_file
from clustersim.parallelism.context import context_parallel_pieces
from clustersim.parallelism.memory import MemoryRules, PartInMemory, part_activations
from clustersim.parallelism.pieces import Piece
from clustersim.parallelism.ring import in_ring, moved_elements
from clustersim.scenario import load_scenario
from clustersim.simulate.programs import one_point, programs_of
from clustersim.simulate.setup import Setup
from tests.placed import placed
from tests.simulate.shortcut_checks import check_folded_is_exact, check_traces_are_exact

TOKENS, WIDTH, HEADS, KEY_HEADS, BATCH, BYTES = 6144, 64, 32, 2, 2, 2
BLOCKS = 2  # attentions of the model
HOP_S = 1e-6
DGX = {"kind": "star", "num_hosts": 2, "host": "dgx-a100", "link": "infiniband-hdr", "hop": "1 us"}


@pytest.fixture(scope="module")
def attention(tmp_path_factory) -> str:
    """Attention alone, without a parameter: nothing but keys and values is ever sent."""
    net = Builder("attention", "attention", sample="sequence")
    query, key = Tensor(HEADS * WIDTH, TOKENS), Tensor(KEY_HEADS * WIDTH, TOKENS)
    net.fused_attention("a", query, key, HEADS, causal=True)
    return str(write_workload_file(net.model(), tmp_path_factory.mktemp("model") / "attention.yaml"))


@pytest.fixture(scope="module")
def decoder(tmp_path_factory) -> str:
    """Two blocks of a small decoder with shared keys and values."""
    features, between = HEADS * WIDTH, KEY_HEADS * WIDTH
    net = Builder("decoder", "decoder", sample="sequence")
    x = net.embedding("embedding", TOKENS, features, rows=[1000])
    for block in range(BLOCKS):
        net.linear(f"{block}.qkv", x, features + 2 * between)
        y = net.fused_attention(f"{block}.a", x, Tensor(between, TOKENS), HEADS, causal=True)
        x = net.add(f"{block}.add", x, net.linear(f"{block}.out", y, features))
    net.loss("loss", net.linear("head", x, 1000))
    return str(write_workload_file(net.model(), tmp_path_factory.mktemp("model") / "decoder.yaml"))


def scenario(model: str, num_gpus: int, layout: dict[str, Any], link: str = "10 GB/s", **other: Any) -> dict[str, Any]:
    return placed(
        {
            "model": model,
            "num_gpus": num_gpus,
            "batch": {"global": BATCH},
            "topology": {"kind": "star", "num_hosts": 8, "host": {"gpu": "a100"}, "link": link, "hop": f"{HOP_S} s"},
            "transport": "ideal",
            "precision": "amp-bf16",
            "strategy": {"kind": "all-reduce"},
            "parallelism": {"context_method": "ring", **layout},
            "compute": {"variability": 0, "launch": "graphs"},
            "num_iterations": 2,
            **other,
        }
    )


def block_s(asked: dict[str, Any], num: int) -> tuple[float, float]:
    """Return the seconds of a block of the attention, forward and backward."""
    laid_out = Setup(load_scenario(asked).points()[0].point).laid_out
    assert laid_out is not None
    (part,) = laid_out.parts
    times = [time for piece, time in zip(part.pieces, part.times, strict=True) if in_ring(piece)]
    return sum(time.forward_s for time in times) / num, sum(time.backward_s for time in times) / num


def message_s(num: int, rate: float, blocks: int = 1) -> float:
    """Return the seconds of a message with blocks of keys and values between two hosts of a star."""
    return 2 * HOP_S + blocks * 2 * BATCH * TOKENS / num * KEY_HEADS * WIDTH * BYTES / rate


@pytest.mark.parametrize("num", [2, 3, 4, 8])
@pytest.mark.parametrize("rate", [1e9, 5e9, 20e9])
def test_a_step_takes_the_longer_of_its_block_and_its_message(attention: str, num: int, rate: float) -> None:
    """Forward, a block of keys and values is sent in each step but the last; backward, its gradients one step later."""
    asked = scenario(attention, num, {"context": num}, f"{rate:g} B/s")
    forward_s, backward_s = block_s(asked, num)
    once_s, twice_s = message_s(num, rate), message_s(num, rate, blocks=2)
    expected_s = (num - 1) * max(forward_s, once_s) + forward_s
    expected_s += 2 * max(backward_s, once_s) + (num - 2) * max(backward_s, twice_s)
    run = clustersim.simulate(asked)
    assert run.iteration_s == pytest.approx(expected_s, rel=1e-9)
    assert run.breakdown_s["compute"] == pytest.approx(num * (forward_s + backward_s), rel=1e-9)


def copies_and_sums(num: int, rank: int, q: float, k: float) -> tuple[float, float]:
    """Return what `FlashAttnUnpaddedFuncWithCP` moves on one rank, step by step; k elements of keys and as many values.

    A copy reads and writes each element, a sum reads two and writes one.
    """
    forward, backward = 2 * 2 * k + q, 2 * 2 * k  # put together, zeros; copied
    for step in range(num):
        all_queries, all_keys = step <= rank, step == 0 or step > rank
        if not all_queries:  # the second slice of queries, and backward of outputs and their gradient
            forward += 2 * q / 2
            backward += 3 * 2 * q / 2
        if not all_keys:  # the first slice of keys and values
            forward += 2 * 2 * k / 2
            backward += 2 * 2 * k / 2
        forward += 3 * q / (1 if all_queries else 2)
        backward += 3 * q / (1 if all_queries else 2) + 3 * 2 * k / (1 if all_keys else 2)
    return forward, backward


@pytest.mark.parametrize("num", [2, 3, 4, 8])
def test_what_a_ring_copies_and_adds_is_what_its_code_does_in_the_mean_over_gpus(num: int) -> None:
    net = Builder("attention", "attention")
    query, key = Tensor(HEADS * WIDTH, TOKENS), Tensor(KEY_HEADS * WIDTH, TOKENS)
    net.fused_attention("a", query, key, HEADS, causal=True)
    pieces = context_parallel_pieces(
        [Piece(layer, is_split=False) for layer in net.model().layers], num, BYTES, is_ring=True
    )
    q, k = query.elements / num, key.elements / num
    found = [sum(each) for each in zip(*map(moved_elements, pieces), strict=True)]
    steps = [copies_and_sums(num, rank, q, k) for rank in range(num)]
    assert found == pytest.approx([sum(each) / num for each in zip(*steps, strict=True)], rel=1e-12)


def test_copies_and_sums_are_beside_nothing_and_go_at_the_memory_rate(attention: str, monkeypatch) -> None:
    gpu, q, k = load_gpu("a100"), HEADS * WIDTH * TOKENS / 2, KEY_HEADS * WIDTH * TOKENS / 2
    asked = scenario(attention, 2, {"context": 2})
    whole_s = clustersim.simulate(asked).breakdown_s["compute"]
    monkeypatch.setattr("clustersim.parallelism.piece_times.moved_elements", lambda piece: (0.0, 0.0))
    kernels_s = clustersim.simulate(asked).breakdown_s["compute"]
    elements = sum(sum(copies_and_sums(2, rank, q, k)) for rank in range(2)) / 2
    rate = constants_of(gpu, "tensor").memory_efficiency * gpu.memory_bytes_per_s
    assert whole_s - kernels_s == pytest.approx(BATCH * BYTES * elements / rate, rel=1e-9)


def test_messages_shorter_than_a_block_are_hidden_and_others_are_not(attention: str) -> None:
    hidden, exposed = (scenario(attention, 2, {"context": 2}, f"{rate:g} B/s") for rate in (20e9, 1e9))
    forward_s, backward_s = block_s(hidden, 2)
    assert message_s(2, 20e9) < forward_s < backward_s < message_s(2, 1e9)
    assert clustersim.simulate(hidden).breakdown_s["communication_exposed"] == 0
    longer_s = 3 * message_s(2, 1e9) - forward_s - 2 * backward_s
    assert clustersim.simulate(exposed).breakdown_s["communication_exposed"] == pytest.approx(longer_s, rel=1e-9)


@pytest.mark.parametrize("num", [2, 4, 8])
def test_a_ring_sends_what_an_all_gather_does_and_keys_and_values_once_more_backward(attention: str, num: int) -> None:
    """Of keys and values of all tokens, (c - 1) / c a GPU: forward, backward, and of their gradients."""
    ring, gathered = (
        sum(link.num_bytes for link in run.link_classes if link.kind == "access") / 2
        for run in (
            clustersim.simulate(scenario(attention, num, {"context": num, "context_method": method}))
            for method in ("ring", "all-gather")
        )
    )
    everything = 2 * BATCH * TOKENS * KEY_HEADS * WIDTH * BYTES
    assert ring == pytest.approx(3 * (num - 1) * everything, rel=1e-9)
    assert gathered == pytest.approx(2 * (num - 1) * everything, rel=1e-9)


def test_one_gpu_of_a_ring_is_plain_training(decoder: str) -> None:
    plain = clustersim.simulate(scenario(decoder, 1, {"context_method": "all-gather"}))
    run = clustersim.simulate(scenario(decoder, 1, {"context": 1}))
    assert run.iteration_s == pytest.approx(plain.iteration_s, rel=1e-12)


LAYOUTS = [
    {"context": 4},
    {"context": 4, "tensor": 2, "sharding": "zero-3", "recompute": "full"},
    {"context": 2, "tensor": 2, "pipeline": 2, "data": 2, "micro_batches": 2},
    {"context": 8, "pipeline": 2, "micro_batches": 4, "schedule": "zero-bubble"},
]


@pytest.mark.parametrize("layout", LAYOUTS)
def test_folded_ranks_of_a_ring_are_those_of_the_exact_run(decoder: str, layout: dict[str, Any]) -> None:
    num_gpus = 16
    asked = scenario(decoder, num_gpus, layout, topology=DGX, transport="nccl", batch={"global": 16}, compute={})
    check_folded_is_exact(asked)


@pytest.mark.parametrize("layout", LAYOUTS[1:])
def test_a_ring_exported_as_traces_takes_as_long_as_the_exact_run_of_one_iteration(decoder, tmp_path, layout) -> None:
    """A step has a message to the next rank of the ring and one from the rank before."""
    asked = scenario(decoder, 16, layout, topology=DGX, batch={"global": 16})
    check_traces_are_exact(asked, tmp_path / "out")


def test_what_stages_of_a_ring_hold_over_time_ends_where_it_began_and_peaks_at_the_reported_size(decoder: str) -> None:
    layout = {"context": 2, "pipeline": 2, "micro_batches": 4, "recompute": "full"}
    run = clustersim.simulate(scenario(decoder, 4, layout, batch={"global": 8}))
    assert [line.stage for line in run.memory_lines] == [0, 1]
    assert max(max(line.num_bytes) for line in run.memory_lines) == pytest.approx(run.memory_bytes, rel=1e-9)


def test_the_flop_of_a_ring_are_those_of_the_attention(attention: str) -> None:
    """Each of c GPUs does 1 / c of them, block by block."""
    _, point = one_point(scenario(attention, 4, {"context": 4}))
    (stage,) = programs_of(Setup(point)).tasks()
    whole = 0.5 * 4 * TOKENS**2 * WIDTH * HEADS * BATCH
    assert sum(task.node.flop for task in stage) == pytest.approx(3 * whole / 4, rel=1e-12)


def test_a_ring_does_not_keep_the_keys_and_values_of_others(decoder: str) -> None:
    """Those that are gathered are kept of each attention; what is largest here is the last layer's output."""
    ring, gathered = (
        clustersim.simulate(scenario(decoder, 8, {"context": 8, "context_method": method})).memory_bytes
        for method in ("ring", "all-gather")
    )
    everything = 2 * BATCH * TOKENS * KEY_HEADS * WIDTH * BYTES
    assert gathered - ring == pytest.approx((1 + SLACK) * BLOCKS * 7 / 8 * everything, rel=1e-9)


def test_it_has_room_for_two_blocks_of_others_and_for_two_gradients_of_blocks(attention: str) -> None:
    whole = [Piece(layer, is_split=False) for layer in load_workload(attention)[0].layers]
    pieces = context_parallel_pieces(whole, 8, BYTES, is_ring=True)
    ring, bare = (
        part_activations(PartInMemory(each, 1, [0], [False, False]), MemoryRules(1, "amp-bf16", OptimizerSpec()))
        for each in (pieces, [replace(piece, block_bytes=0.0) for piece in pieces])
    )
    assert (ring.kept, ring.recomputed) == (bare.kept, bare.recomputed)
    assert ring.passing - bare.passing == 4 * 2 * TOKENS / 8 * KEY_HEADS * WIDTH * BYTES


@pytest.mark.parametrize(
    ("layout", "key", "words"),
    [
        ({}, "software.context_method", "give context"),
        (
            {"context": 5},
            "parallelism.context",
            "the 6144 tokens of '0.qkv' do not divide by 5; the nearest number of GPUs that",
        ),
        ({"kind": "paths"}, "software.context_method", "leave context_method out"),
    ],
)
def test_an_impossible_ring_is_refused(decoder: str, layout: dict[str, Any], key: str, words: str) -> None:
    with pytest.raises(InputError) as error:
        clustersim.simulate(scenario(decoder, 5, layout))
    assert (error.value.mistakes[0].key, words in error.value.mistakes[0].message) == (key, True)


def test_a_ring_of_an_attention_that_writes_its_scores_is_refused() -> None:
    with pytest.raises(InputError, match=r"'h\.0\.attention\.scores' is a separate matrix product") as error:
        clustersim.simulate(scenario("gpt2-small", 4, {"context": 4}))
    assert error.value.mistakes[0].key == "software.context_method"


def test_an_error_about_tokens_names_the_nearest_number_of_gpus_that_works(decoder: str) -> None:
    with pytest.raises(InputError) as error:
        clustersim.simulate(scenario(decoder, 10, {"context": 5}, topology=DGX))
    mistake = error.value.mistakes[0]
    assert (mistake.key, mistake.got, mistake.allowed) == ("parallelism.context", "5", "2")
