"""Recurrent layers on several GPUs, a sequence going through them in parts."""

from __future__ import annotations

from typing import Any

import pytest

import clustersim
from clustersim.errors import InputError
from clustersim.planner import plan
from clustersim.scenario import load_scenario
from clustersim.simulate.setup import Setup

STAR = {"kind": "star", "num_hosts": 2, "host": {"gpu": "v100"}, "link": "1000 GB/s", "hop": "1 ns"}

HIDDEN_BYTES = 40 * 35 * 650 * 4.0


def scenario(num_chunks: int, **other: Any) -> dict[str, Any]:
    layout = {"pipeline": 2, "stages": [4, 4], "schedule": "gpipe", "time_chunks": num_chunks}
    layout |= other.pop("layout", {})
    return {
        "model": "lstm-lm-medium",
        "num_gpus": 2,
        "batch": {"global": 40},
        "topology": STAR,
        "software": {"name": "plain", "launch": "graphs"},
        "strategy": {"kind": "all-reduce"},
        "parallelism": layout,
        "num_iterations": 2,
        **other,
    }


def sent_bytes(run) -> float:
    return sum(kind.num_bytes for kind in run.link_classes if kind.kind == "access") / 2


@pytest.mark.parametrize(("num_chunks", "num_micro"), [(1, 1), (5, 1), (35, 1), (7, 2)])
def test_two_stages_are_busy_at_once_but_for_one_part_there_and_back(num_chunks: int, num_micro: int) -> None:
    """n parts of f and b seconds on two stages take f0 + f1 + b0 + b1 and n - 1 times the longer of each.

    And a part's message there and back, over PCI Express 3.
    """
    asked = scenario(num_chunks, layout={"micro_batches": num_micro})
    laid_out = Setup(load_scenario(asked).points()[0].point).laid_out
    assert laid_out is not None
    num = num_chunks * num_micro
    phases = [plan.program.phase_s() for plan in laid_out.plans]
    passes_s = [[stage[phase] / num for stage in phases] for phase in ("forward", "backward")]
    update_s = laid_out.plans[0].iteration.update_s
    least_s = sum(sum(seconds) + (num - 1) * max(seconds) for seconds in passes_s) + update_s
    iteration_s = clustersim.simulate(asked).iteration_s
    assert least_s < iteration_s < least_s + 2 * HIDDEN_BYTES / num / 10e9


def test_hidden_states_go_over_once_and_their_gradients_back_however_they_are_cut() -> None:
    """35 words of 650 units for each of 40 sequences, in 4 bytes, though the layer writes six times that."""
    for num_chunks in (1, 7):
        assert sent_bytes(clustersim.simulate(scenario(num_chunks))) == pytest.approx(2 * HIDDEN_BYTES, rel=1e-9)


def test_parts_of_a_sequence_do_its_work_and_hold_its_activations() -> None:
    whole, parts = (Setup(load_scenario(scenario(num)).points()[0].point).laid_out for num in (1, 7))
    assert whole is not None
    assert parts is not None
    for one, many in zip(whole.plans, parts.plans, strict=True):
        assert sum(many.program.phase_s().values()) == pytest.approx(sum(one.program.phase_s().values()), rel=0.25)
    assert [held["weights"] for held in parts.memory] == [held["weights"] for held in whole.memory]
    # Gradients of what the first LSTM writes (gates, cells, states) and reads, less the mask of the dropout after it.
    working = (6 + 1 - 0.25) * HIDDEN_BYTES
    kept, kept_in_parts = (each.memory[0]["activations"] for each in (whole, parts))
    assert kept_in_parts - working / 7 == pytest.approx(kept - working, rel=1e-9)


@pytest.mark.parametrize(
    ("asked", "words"),
    [
        (scenario(4), "parallelism.time_chunks: 35 tokens of a sequence do not divide into 4 chunks"),
        (
            scenario(5, layout={"schedule": "1f1b"}),
            "parallelism.schedule: with time_chunks the backward pass",
        ),
        (
            scenario(5, layout={"pipeline": 1, "stages": [8], "data": 2}),
            "parallelism.time_chunks: time_chunks needs several pipeline stages",
        ),
        (
            scenario(5, model="vgg16", layout={"stages": None}),
            "parallelism.time_chunks: time_chunks divides the sequence of recurrent layers",
        ),
    ],
)
def test_what_has_no_parts_is_refused(asked: dict[str, Any], words: str) -> None:
    with pytest.raises(InputError) as caught:
        clustersim.simulate(asked)
    assert words in str(caught.value)


def test_a_layer_that_reads_all_of_a_sequence_is_named(tmp_path) -> None:
    path = tmp_path / "attends.yaml"
    layers = [
        "{name: words, op: embedding, flop: 0, parameter_bytes: 4e6, activation_bytes: 4e4}",
        "{name: lstm, op: lstm, flop: 1e6, parameter_bytes: 4e6, activation_bytes: 4e4, shape: "
        "{rows: 1, inputs: 200, outputs: 400, count: 10}}",
        "{name: scores, op: matmul, flop: 1e6, activation_bytes: 4e4}",
        "{name: classes, op: fully-connected, flop: 1e6, parameter_bytes: 4e3, activation_bytes: 40}",
    ]
    path.write_text("name: attends\nlayers:\n" + "".join(f"  - {layer}\n" for layer in layers))
    with pytest.raises(InputError, match="'scores' \\(matmul\\) reads more than one token"):
        clustersim.simulate(scenario(5, model=str(path), layout={"stages": None}))


def test_a_plan_leaves_time_chunks_out() -> None:
    with pytest.raises(InputError, match="leave time_chunks out"):
        plan(scenario(5), [2])
