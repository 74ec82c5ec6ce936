"""DualPipe and DualPipeV: pass order of the code, the README's table in closed form, and overlapped pairs."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import clustersim
from clustersim.errors import InputError
from clustersim.parallelism import SCHEDULES
from clustersim.parallelism.checkpoint import checkpoint_bytes
from clustersim.parallelism.dualpipe import overlapped
from clustersim.parallelism.route import route_of
from clustersim.parallelism.schedules import in_flight_counts
from clustersim.parallelism.slot import Slot, deferred_weights
from clustersim.program.ops import Call, Compute, Key, Op, Wait
from clustersim.scenario import load_scenario
from clustersim.scenario.plan_checks import plan_mistakes
from clustersim.simulate.setup import Setup
from tests.models import write_experts
from tests.placed import placed
from tests.simulate.shortcut_checks import check_folded_is_exact, check_is_exact, check_traces_are_exact

NUM_LAYERS, FORWARD_S, BACKWARD_S = 16, 0.01, 0.02
STAR = {"kind": "star", "num_hosts": 16, "host": {"gpu": "v100"}, "link": "1000 GB/s", "hop": "1 ns"}

ORDERS = {
    ("dualpipe", 0, 4, 8): "F0.0 F0.1 F0.2 F1.0 b1.0 W1.0 F1.1 [F0.3 B1.1] [F1.2 B0.0] B1.2 [F1.3 B0.1] B1.3 b0.2 W0.2 "
    "b0.3 W0.3",
    ("dualpipe", 1, 4, 8): "F0.0 F1.0 F0.1 F1.1 F0.2 B1.0 [F1.2 B0.0] [F0.3 B1.1] [F1.3 B0.1] B1.2 B0.2 b1.3 b0.3 W1.3 "
    "W0.3",
    ("dualpipe", 2, 4, 8): "F0.0 F1.0 F0.1 F1.1 F0.2 B1.0 [F1.2 B0.0] [F0.3 B1.1] [F1.3 B0.1] B1.2 B0.2 b1.3 b0.3 W1.3 "
    "W0.3",
    ("dualpipe", 3, 4, 8): "F0.0 F0.1 F0.2 F1.0 b1.0 W1.0 F1.1 [F0.3 B1.1] [F1.2 B0.0] B1.2 [F1.3 B0.1] B1.3 b0.2 W0.2 "
    "b0.3 W0.3",
    (
        "dualpipe",
        2,
        8,
        20,
    ): "F0.0 F0.1 F0.2 F1.0 F0.3 F1.1 F0.4 F1.2 b1.0 W1.0 F1.3 [F0.5 B1.1] [F1.4 B0.0] [F0.6 B1.2] "
    "[F1.5 B0.1] [F0.7 B1.3] [F1.6 B0.2] [F0.8 B1.4] [F1.7 B0.3] [F0.9 B1.5] [F1.8 B0.4] B1.6 [F1.9 B0.5] B1.7 B0.6 "
    "B1.8 b0.7 b1.9 b0.8 W0.7 b0.9 W1.9 W0.8 W0.9",
    ("dualpipe-v", 0, 2, 5): "F0.0 F0.1 F0.2 F1.0 b1.0 W1.0 F1.1 [F0.3 B1.1] [F1.2 B0.0] [F0.4 B1.2] [F1.3 B0.1] B1.3 "
    "[F1.4 B0.2] B1.4 b0.3 W0.3 b0.4 W0.4",
    (
        "dualpipe-v",
        1,
        2,
        5,
    ): "F0.0 F1.0 F0.1 F1.1 F0.2 B1.0 [F1.2 B0.0] [F0.3 B1.1] [F1.3 B0.1] [F0.4 B1.2] [F1.4 B0.2] "
    "B1.3 B0.3 b1.4 b0.4 W1.4 W0.4",
}
"""What `step` of the code does by schedule, rank, stages and micro-batches, with its methods replaced by a note of each
call: forward, backward (b without gradients of weights), gradients of weights; chunk and micro-batch; pairs in
brackets. (deepseek-ai/DualPipe: dualpipe.py of commit bb214e82, dualpipev.py of 3da1bbe)"""


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> str:
    """Equal layers with times of their own, and next to nothing to send."""
    path = tmp_path_factory.mktemp("model") / "many.yaml"
    layer = f"op: fully-connected, flop: 1e9, parameter_bytes: 4e4, activation_bytes: 10, forward_s: {FORWARD_S}"
    rows = (f"  - {{name: l{number}, {layer}, backward_s: {BACKWARD_S}}}\n" for number in range(NUM_LAYERS))
    path.write_text("name: many\nlayers:\n" + "".join(rows))
    return str(path)


@pytest.fixture(scope="module")
def experts(tmp_path_factory: pytest.TempPathFactory) -> str:
    return write_experts(tmp_path_factory.mktemp("experts"), num_blocks=4)


def scenario(model: str, num_gpus: int, parallelism: dict[str, Any], **other: Any) -> dict[str, Any]:
    samples = 2 * parallelism.get("micro_batches", 1) * parallelism.get("data", 1) * parallelism.get("expert", 1)
    return placed(
        {
            "model": model,
            "num_gpus": num_gpus,
            "batch": {"global": samples},
            "topology": STAR,
            "strategy": {"kind": "all-reduce", "algorithm": "ring"},
            "parallelism": parallelism,
            "num_iterations": 2,
            "memory_check": False,
            **other,
        }
    )


def setup_of(asked: dict[str, Any]) -> Setup:
    return Setup(load_scenario(asked).points()[0].point)


def as_text(slots: list[Slot]) -> str:
    deferred, words, closes = deferred_weights(slots), [], False
    for slot in slots:
        is_put_off = slot.phase == "backward" and (slot.micro_batch, slot.chunk) in deferred
        letter = "b" if is_put_off else {"forward": "F", "backward": "B", "weights": "W"}[slot.phase]
        word = f"{letter}{slot.chunk}.{slot.micro_batch}"
        words.append(f"{'[' * slot.overlaps}{word}{']' * closes}")
        closes = slot.overlaps
    return " ".join(words)


@pytest.mark.parametrize("asked", ORDERS, ids=str)
def test_passes_are_in_the_order_of_the_code(asked: tuple[str, int, int, int]) -> None:
    schedule, stage, num_stages, num_micro = asked
    chunks = 2 if schedule == "dualpipe-v" else 1
    assert as_text(SCHEDULES[schedule](stage, num_stages, num_micro, chunks)) == ORDERS[asked]


@pytest.mark.parametrize(("num_stages", "num_micro"), [(2, 4), (4, 8), (8, 20), (16, 40)])
def test_the_activations_of_one_pass_more_than_stages_are_stored(num_stages: int, num_micro: int) -> None:
    """PP + 1 in the README's table, on every rank; 1F1B has PP on its first one."""
    for stage in range(num_stages):
        slots = SCHEDULES["dualpipe"](stage, num_stages, num_micro, 1)
        assert in_flight_counts(slots).sum(axis=1).max() == num_stages + 1
        assert sorted(slot.phase for slot in slots if slot.phase != "weights") == sorted(
            ["forward", "backward"] * num_micro
        )


@pytest.mark.parametrize(
    ("schedule", "stages", "num_micro"),
    [("dualpipe", 2, 4), ("dualpipe", 4, 8), ("dualpipe", 8, 20), ("dualpipe-v", 4, 8), ("dualpipe-v", 8, 20)],
)
def test_the_bubble_is_that_of_the_published_table(model: str, schedule: str, stages: int, num_micro: int) -> None:
    """(PP / 2 - 1) (F&B + B - 3 W) of a chunk; nothing overlaps here, so F&B is F + B, and with F = W it is 2 F each.

    DualPipeV has PP parts on half as many GPUs, and each GPU has two of them.
    """
    num_gpus = stages if schedule == "dualpipe" else stages // 2
    chunks = num_micro  # passes forward and backward on a GPU
    num_micro = num_micro if schedule == "dualpipe" else num_micro // 2
    layout = {"pipeline": num_gpus, "micro_batches": num_micro, "schedule": schedule}
    run = clustersim.simulate(scenario(model, num_gpus, layout))
    pair_s = run.breakdown_s["compute"] / chunks
    backward_s = pair_s * BACKWARD_S / (FORWARD_S + BACKWARD_S)
    want_s = (stages / 2 - 1) * (pair_s + backward_s - 3 * backward_s / 2)
    assert run.breakdown_s["bubble"] == pytest.approx(want_s, rel=5e-3, abs=1e-5)


def idle_units(schedule: str, num_stages: int, num_micro: int, pair: float) -> list[float]:
    """Return the idle time of each stage if F = W = 1, B = 2, and an overlapped pair takes `pair`."""
    route = route_of(schedule, num_stages, 2 if schedule == "dualpipe-v" else 1)
    orders = [SCHEDULES[schedule](stage, num_stages, num_micro, route.num_chunks) for stage in range(num_stages)]
    deferred, done_at = [deferred_weights(slots) for slots in orders], {}
    now, busy, at = [0.0] * num_stages, [0.0] * num_stages, [0] * num_stages

    def ready_at(stage: int, slot: Slot) -> float | None:
        position = route.position(stage, slot.chunk)
        if slot.phase == "weights":
            return 0.0
        before = route.previous(position) if slot.phase == "forward" else route.next(position)
        return 0.0 if before is None else done_at.get((slot.phase, before, slot.micro_batch))

    while any(at[stage] < len(slots) for stage, slots in enumerate(orders)):
        for stage, slots in enumerate(orders):
            while at[stage] < len(slots):
                own = slots[at[stage] : at[stage] + 1 + slots[at[stage]].overlaps]
                ready = [ready_at(stage, slot) for slot in own]
                if None in ready:
                    break
                puts_off = (own[0].micro_batch, own[0].chunk) in deferred[stage]
                alone = {"forward": 1.0, "weights": 1.0, "backward": 1.0 if puts_off else 2.0}[own[0].phase]
                took = pair if len(own) == 2 else alone
                now[stage], busy[stage] = max(now[stage], *ready) + took, busy[stage] + took
                at[stage] += len(own)
                done_at |= {
                    (each.phase, route.position(stage, each.chunk), each.micro_batch): now[stage] for each in own
                }
    return [max(now) - each for each in busy]


@pytest.mark.parametrize("pair", [2.2, 2.5, 3.0])
@pytest.mark.parametrize(("num_stages", "num_micro"), [(2, 4), (4, 8), (8, 20), (16, 40)])
def test_overlapped_pairs_take_their_part_of_the_published_bubble(num_stages: int, num_micro: int, pair: float) -> None:
    """(PP / 2 - 1) (F&B + B - 3 W) in the middle, where the pairs are fewest; less at the ends if pairs are shorter."""
    want = (num_stages / 2 - 1) * (pair + 2 - 3)
    idle = idle_units("dualpipe", num_stages, num_micro, pair)
    assert idle[num_stages // 2 - 1 : num_stages // 2 + 1] == pytest.approx([want] * 2)
    assert max(idle) == pytest.approx(want)
    assert idle_units("dualpipe-v", num_stages // 2, num_micro // 2, pair) == pytest.approx(idle[: num_stages // 2])


@pytest.mark.parametrize("others", ["1f1b", "zero-bubble"])
def test_the_bubbles_of_the_table_have_its_ratios(model: str, others: str) -> None:
    """PP of 8: 7 (F + B), 7 (F + B - 2 W) and 3 (F&B + B - 3 W), the README's order of the three."""
    units = {"1f1b": 7 * 3, "zero-bubble": 7 * 1, "dualpipe": 3 * 2}
    idle_s = {}
    for schedule in (others, "dualpipe"):
        layout = {"pipeline": 8, "micro_batches": 20, "schedule": schedule}
        idle_s[schedule] = clustersim.simulate(scenario(model, 8, layout)).breakdown_s["bubble"]
    assert idle_s["dualpipe"] / idle_s[others] == pytest.approx(units["dualpipe"] / units[others], rel=2e-3)


def pass_ops(phase: str, seconds: list[float]) -> list[Op]:
    """Return a pass that computes for these seconds, with an all-to-all after each but the last."""
    ops: list[Op] = []
    for number, each_s in enumerate(seconds):
        key = Key(phase, 0, number)
        ops += [Compute(f"{phase} {number}", each_s, phase, 0)]
        ops += [Call(key, "all-to-all", "expert", 1.0), Wait(key)] if number < len(seconds) - 1 else []
    return ops


def played_s(ops: list[Op], call_s: float) -> float:
    """Return the time of operations, each all-to-all of which takes `call_s` and follows the one before it."""
    now_s = free_s = 0.0
    ends_s: dict[Key, float] = {}
    for op in ops:
        if isinstance(op, Compute):
            now_s += op.seconds
        elif isinstance(op, Call):
            free_s = ends_s[op.key] = max(now_s, free_s) + call_s
        elif isinstance(op, Wait):
            now_s = max(now_s, ends_s[op.key])
    return now_s


@pytest.mark.parametrize("call_s", [0.5, 1.0, 1.5])
def test_two_passes_in_turn_take_their_compute_and_what_it_does_not_hide(call_s: float) -> None:
    """With n parts of c seconds each, every wait has one part of the other pass in it: 2 n c + (2 n - 2) max(t - c, 0).

    The all-to-alls of both are in one queue; so if t > c, each waits for the other's, and t takes the place of c.
    """
    forward, backward = pass_ops("forward", [1.0] * 3), pass_ops("backward", [1.0] * 3)
    alone_s = played_s(forward, call_s) + played_s(backward, call_s)
    assert alone_s == pytest.approx(6 + 4 * call_s)
    assert played_s(overlapped(forward, backward), call_s) == pytest.approx(6 + 4 * max(call_s - 1, 0))
    assert played_s(overlapped(forward, backward), min(call_s, 1.0)) == 6


def test_a_pass_without_waits_is_divided_between_its_layers() -> None:
    layers: list[Op] = [Compute(f"layer {number}", 1.0, "backward", 0) for number in range(6)]
    assert played_s(overlapped(pass_ops("forward", [1.0] * 3), layers), 1.0) == 9


def test_pairs_hide_most_all_to_alls_of_experts(experts: str) -> None:
    """More micro-batches are more pairs. The rest are waits for parts of a pass that are shorter than an all-to-all."""
    more_s = {}
    for schedule in ("dualpipe", "zero-bubble"):
        exposed_s = []
        for num_micro in (8, 16):
            layout = {"pipeline": 2, "expert": 2, "micro_batches": num_micro, "schedule": schedule}
            run = clustersim.simulate(scenario(experts, 4, layout, topology={**STAR, "link": "100 GB/s"}))
            exposed_s.append(run.breakdown_s["communication_exposed"])
        more_s[schedule] = exposed_s[1] - exposed_s[0]
    assert 0 <= more_s["dualpipe"] < 0.15 * more_s["zero-bubble"]


def test_opposite_stages_have_both_parts_and_add_their_gradients(model: str) -> None:
    """Twice the parameters of 1F1B on each GPU, and an all-reduce of all of them between two opposite stages."""
    layout = {"pipeline": 4, "micro_batches": 8}
    plain, both = (setup_of(scenario(model, 4, {**layout, "schedule": each})) for each in ("1f1b", "dualpipe"))
    for stage in range(4):
        for what in ("weights", "gradients", "optimizer"):
            assert both.laid_out.memory[stage][what] == pytest.approx(2 * plain.laid_out.memory[stage][what])
    assert [ranks.tolist() for ranks in both.laid_out.replicas()] == [[0, 3], [1, 2]]
    sharded = setup_of(scenario(model, 4, {**layout, "schedule": "dualpipe", "sharding": "zero-1"}))
    assert sharded.laid_out.memory[0]["optimizer"] == pytest.approx(plain.laid_out.memory[0]["optimizer"])
    run = clustersim.simulate(scenario(model, 4, {**layout, "schedule": "dualpipe"}))
    sent = sum(kind.num_bytes for kind in run.link_classes if kind.kind == "access") / 2
    assert sent == pytest.approx(4 * 2 * 4e4 * NUM_LAYERS / 4, rel=1e-3)


@pytest.mark.parametrize(
    "layout",
    [
        {"schedule": "dualpipe", "micro_batches": 40},
        {"schedule": "dualpipe", "data": 2, "micro_batches": 8, "sharding": "zero-1"},
        {"schedule": "dualpipe", "data": 2, "micro_batches": 8, "sharding": "zero-2"},
        {"schedule": "dualpipe", "data": 2, "micro_batches": 8, "sharding": "zero-3"},
        {"schedule": "dualpipe", "data": 2, "micro_batches": 8, "sharding": "zero-3", "sharding_over": 2},
        {"schedule": "dualpipe", "data": 2, "micro_batches": 10, "recompute": "full"},
        {"schedule": "dualpipe-v", "data": 2, "micro_batches": 40, "sharding": "zero-1"},
    ],
    ids=str,
)
def test_shortcuts_give_the_exact_result(model: str, layout: dict[str, Any]) -> None:
    layout = {"pipeline": 4, **layout}
    num_gpus = 4 * layout.get("data", 1)
    check_is_exact(scenario(model, num_gpus, layout, topology={**STAR, "link": "1 GB/s", "hop": "1 us"}))


@pytest.mark.parametrize("schedule", ["dualpipe", "dualpipe-v"])
@pytest.mark.parametrize("sharding", [None, "zero-1", "zero-3"])
def test_experts_give_the_exact_result(experts: str, schedule: str, sharding: str | None) -> None:
    layout = {"pipeline": 2, "expert": 2, "data": 2, "micro_batches": 12, "schedule": schedule, "sharding": sharding}
    check_is_exact(scenario(experts, 8, layout, topology={**STAR, "link": "10 GB/s", "hop": "1 us"}))


@pytest.mark.parametrize("sharding", [None, "zero-1", "zero-3"])
@pytest.mark.parametrize("transport", ["ideal", "nccl"])
@pytest.mark.parametrize(
    "layout",
    [{"schedule": "dualpipe"}, {"schedule": "dualpipe-v"}, {"schedule": "dualpipe-v", "sequence_parallel": True}],
    ids=str,
)
def test_split_layers_of_replicas_give_the_exact_result(
    layout: dict[str, Any], transport: str, sharding: str | None
) -> None:
    """In a pair of passes, operations of the other pass follow a collective, and another collective may be begun."""
    layout = {"pipeline": 2, "tensor": 2, "data": 2, "micro_batches": 4, "sharding": sharding, **layout}
    host = {"template": "dgx-h100", "num_gpus": 4, "nics": 4}
    topology = {"kind": "star", "num_hosts": 2, "host": host, "link": "infiniband-ndr"}
    asked = scenario("gpt-4x256x4-seq64", 8, layout, topology=topology, transport=transport, precision="amp-bf16")
    check_is_exact(asked)


def test_ranks_of_dualpipe_v_are_folded(model: str) -> None:
    layout = {"pipeline": 4, "data": 2, "tensor": 2, "micro_batches": 20, "schedule": "dualpipe-v"}
    check_folded_is_exact(scenario(model, 16, layout, topology={**STAR, "link": "1 GB/s", "hop": "1 us"}))


@pytest.mark.parametrize("schedule", ["dualpipe", "dualpipe-v"])
def test_traces_take_as_long(model: str, schedule: str, tmp_path: Path) -> None:
    layout = {"pipeline": 4, "data": 2, "micro_batches": 8, "schedule": schedule}
    check_traces_are_exact(scenario(model, 8, layout, topology={**STAR, "link": "1 GB/s", "hop": "1 us"}), tmp_path)


def test_a_checkpoint_has_each_parameter_once(model: str) -> None:
    written = []
    for schedule in ("1f1b", "dualpipe"):
        setup = setup_of(scenario(model, 8, {"pipeline": 4, "data": 2, "micro_batches": 8, "schedule": schedule}))
        point = setup.point
        sizes = checkpoint_bytes(setup.laid_out, point.parallelism, setup.reference, point.optimizer, by_all=False)
        written.append(sizes.sum())
    assert written[1] == pytest.approx(written[0], rel=1e-9)


@pytest.mark.parametrize(
    "layout", [{"schedule": "dualpipe", "micro_batches": 8}, {"expert": 2, "expert_exchange": "two-hop"}], ids=str
)
def test_a_plan_takes_them(experts: str, layout: dict[str, Any]) -> None:
    point = load_scenario(scenario(experts, 4, {"pipeline": 2, **layout})).points()[0].point
    assert not list(plan_mistakes(point))


@pytest.mark.parametrize(
    ("layout", "other", "message"),
    [
        ({"pipeline": 3, "micro_batches": 6}, {}, "an even number of stages"),
        ({"pipeline": 1}, {}, "an even number of stages"),
        ({"pipeline": 1, "schedule": "dualpipe-v", "micro_batches": 2}, {}, "there is one stage"),
        (
            {"pipeline": 4, "micro_batches": 6},
            {},
            "at least twice the stages (got 6); the nearest number that works is 8",
        ),
        ({"pipeline": 4, "micro_batches": 9}, {}, "the nearest number that works is 10"),
        ({"pipeline": 4, "micro_batches": 8, "chunks": 2}, {}, "dualpipe-v has two parts of one model"),
        ({"pipeline": 4, "micro_batches": 4, "schedule": "dualpipe-v"}, {}, "the nearest number that works is 8"),
        ({"pipeline": 4, "micro_batches": 8, "schedule": "dualpipe-v", "chunks": 3}, {}, "two chunks of the model"),
        ({"pipeline": 4, "micro_batches": 8}, {"strategy": {"kind": "local"}}, "opposite stages all-reduce"),
        ({"pipeline": 4, "micro_batches": 8, "offload": "optimizer"}, {}, "without offload"),
        ({"pipeline": 4, "micro_batches": 8, "offload": "activations"}, {}, "the backward pass of a layer in two"),
        ({"pipeline": 4, "micro_batches": 8, "messages": "awaited"}, {}, "would deadlock"),
    ],
)
def test_what_does_not_go_with_it_is_refused(
    model: str, layout: dict[str, Any], other: dict[str, Any], message: str
) -> None:
    asked = scenario(model, layout["pipeline"], {"schedule": "dualpipe", **layout}, **other)
    with pytest.raises(InputError) as refused:
        load_scenario(asked).points()
    assert message in str(refused.value)
