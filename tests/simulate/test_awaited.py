"""Blocking messages between stages: closed forms, laws, and folded runs against exact ones."""

from __future__ import annotations

from typing import Any

import pytest

import clustersim
from clustersim.program.ops import Key, Pass, Receive, Send

STAR = {"kind": "star", "num_hosts": 8, "host": {"gpu": "v100"}, "link": "1 GB/s", "hop": "1 us"}
MESSAGE_S = 4e6 / 1e9 + 2e-6
"""What a sample takes from one stage to the next: 4 MB at 1 GB/s over two links."""
COMPUTED_S = 8 * 0.03
"""What all layers take forward and backward for all micro-batches."""


@pytest.fixture(scope="module")
def model(tmp_path_factory) -> str:
    """Eight equal layers with times of their own, and 4 MB a sample between them."""
    path = tmp_path_factory.mktemp("model") / "eight.yaml"
    layer = "op: fully-connected, flop: 1e9, parameter_bytes: 4e3, activation_bytes: 4e6"
    times = "forward_s: 0.01, backward_s: 0.02"
    rows = "".join(f"  - {{name: l{number}, {layer}, {times}}}\n" for number in range(8))
    path.write_text(f"name: eight\nlayers:\n{rows}")
    return str(path)


def iteration_s(model: str, stages: int, num_micro: int, messages: str, **other: Any) -> float:
    """Return how long an iteration takes of stages on hosts of their own, a sample in each micro-batch."""
    scenario = {
        "model": model,
        "num_gpus": stages,
        "batch": {"global": num_micro},
        "topology": STAR,
        "software": {"name": "plain", "messages": messages},
        "strategy": {"kind": "all-reduce", "overlap": False},
        "parallelism": {"pipeline": stages, "micro_batches": num_micro, **other},
        "num_iterations": 2,
        "memory_check": False,
    }
    return clustersim.simulate(scenario).iteration_s


@pytest.mark.parametrize("num_micro", [2, 5, 8])
def test_two_stages_wait_for_two_messages_in_every_micro_batch(model, num_micro):
    """Of m micro-batches the last stage takes m (f + b), and awaits two messages before each of them but the first.

    One more each way shows before and behind, and the first stage's f and b. All stages together compute `COMPUTED_S`.
    """
    longer_s = iteration_s(model, 2, num_micro, "awaited") - iteration_s(model, 2, 1, "awaited")
    computed_s = COMPUTED_S * ((num_micro + 1) / num_micro - 2)
    assert longer_s == pytest.approx(computed_s + 2 * (num_micro - 1) * MESSAGE_S, rel=1e-6)


@pytest.mark.parametrize("num_micro", [2, 5, 8])
def test_what_is_paired_goes_both_ways_at_once(model, num_micro):
    """Blocking messages one by one are two per micro-batch; here a gradient and the next activations cross."""
    longer_s = iteration_s(model, 2, num_micro, "paired") - iteration_s(model, 2, 1, "paired")
    computed_s = COMPUTED_S * ((num_micro + 1) / num_micro - 2)
    assert longer_s == pytest.approx(computed_s + (num_micro - 1) * MESSAGE_S, rel=1e-6)


@pytest.mark.parametrize("messages", ["awaited", "paired"])
@pytest.mark.parametrize("schedule", ["gpipe", "1f1b"])
@pytest.mark.parametrize(("stages", "num_micro"), [(2, 3), (3, 1), (3, 2), (4, 4), (4, 9), (8, 5)])
def test_stages_come_to_their_messages_in_the_same_order(model, messages, schedule, stages, num_micro):
    """No stages wait for each other in a cycle, and nothing gets faster."""
    beside, awaited = (iteration_s(model, stages, num_micro, each, schedule=schedule) for each in ("beside", messages))
    assert awaited >= beside * (1 - 1e-9)


def test_a_stage_in_the_middle_waits_for_four_messages_in_every_micro_batch(model):
    """Activations and gradients come and go: a micro-batch takes f + b + 4 t, and one percent more."""
    longer_s = iteration_s(model, 4, 24, "awaited") - iteration_s(model, 4, 16, "awaited")
    computed_s = COMPUTED_S * 3 * (1 / 24 - 1 / 16)
    assert longer_s == pytest.approx(computed_s + 8 * 4 * MESSAGE_S, rel=1e-2)


@pytest.mark.parametrize("messages", ["awaited", "paired"])
def test_folded_ranks_wait_as_long_as_all_ranks(model, messages):
    """Two copies whose ranks do the same. With a straggler of factor 1, all of them are simulated."""
    scenario = {
        "model": model,
        "num_gpus": 8,
        "batch": {"global": 16},
        "topology": STAR,
        "software": {"name": "plain", "messages": messages},
        "strategy": {"kind": "all-reduce", "overlap": False},
        "parallelism": {"pipeline": 4, "micro_batches": 8},
        "num_iterations": 2,
        "memory_check": False,
    }
    folded = clustersim.simulate(scenario)
    exact = clustersim.simulate({**scenario, "stragglers": [{"kind": "constant", "of": [0], "factor": 1.0}]})
    assert folded.iteration_s == pytest.approx(exact.iteration_s, rel=1e-9)


@pytest.mark.parametrize("of", [Send, Receive])
def test_a_message_is_awaited_in_every_micro_batch(of):
    (other,) = Pass((of(Key("activations", 0, 1), 1, 5.0, True),), 3).ops()
    assert other == of(Key("activations", 3, 1), 1, 5.0, True)
