"""What is handed to the front door and is no such thing is an `InputError` that names it, never a raw Python error."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import simpy

import clustersim
from clustersim.errors import InputError

CLUSTER = clustersim.load_topology({"kind": "star", "num_hosts": 4, "link": "1 GB/s", "gpu": "k80"})
RING = clustersim.ALL_REDUCE["ring"](4, 8.0)
WRONG: list[Any] = [None, "x", -1, 1.5, [], {}, object(), float("nan"), float("inf"), b"x", [1, 2, 3], 1 + 1j]
WRONG += [np.array([1.0, 2.0])]
NAMES = [repr(value)[:12] for value in WRONG]


def network(**given: Any) -> clustersim.Network:
    return clustersim.Network(**{"env": simpy.Environment(), "topology": CLUSTER} | given)


def transfer(**given: Any) -> Any:
    return network().transfer(**{"src": 0, "dst": 1, "num_bytes": 8.0} | given)


def play(**given: Any) -> Any:
    return network().play(**{"schedule": RING, "ranks": [0, 1, 2, 3]} | given)


def schedule(**given: Any) -> Any:
    return clustersim.Schedule.from_transfers([{"step": 0, "src": 0, "dst": 1, "num_bytes": 8.0} | given])


# A call, the argument, what its message is about, and which of the wrong values are right for it.
CALLS: list[tuple[Callable[..., Any], str, str, tuple[Any, ...]]] = [
    (network, "env", "env must be a simpy.Environment", ()),
    (network, "topology", "", ()),
    (network, "sharing", "", ()),
    (network, "overhead_s", "overhead_s must be a finite number of at least 0", (1.5,)),
    (network, "efficiency", "efficiency must be a number above 0 and at most 1", ()),
    (network, "host_overhead_s", "host_overhead_s must be a finite number of at least 0", (None, 1.5)),
    (network, "add_s_per_byte", "add_s_per_byte must be a finite number of at least 0", (None, 1.5)),
    (network, "eager_bytes", "eager_bytes must be a number of at least 0", (1.5, float("inf"))),
    (network, "adds", "adds must be True or False", ()),
    (network, "exact", "exact must be True or False", ()),
    (network, "engine", "engine must be one of python, numba or None", (None,)),
    (network, "numba_from_messages", "numba_from_messages must be a finite number of at least 0", (None, 1.5)),
    (transfer, "src", "has no node called", ()),
    (transfer, "dst", "has no node called", ()),
    (transfer, "num_bytes", "num_bytes must be a finite number of at least 0", (1.5,)),
    (transfer, "weight", "weight must be a finite number above 0", (1.5,)),
    (transfer, "cap_bytes_per_s", "cap_bytes_per_s must be a finite number above 0", (None, 1.5)),
    (play, "schedule", "schedule must be a Schedule", ()),
    (play, "ranks", "", ()),
    (play, "enter_s", "enter_s must ", (None,)),
    (play, "delay_s", "delay_s must ", (None,)),
    (schedule, "step", "the step of a transfer must be a whole number of at least 0", ()),
    (schedule, "src", "the src of a transfer must be a whole number of at least 0", ()),
    (schedule, "num_bytes", "the num_bytes of a transfer must be a finite number of at least 0", (1.5,)),
    (schedule, "num_chunks", "the num_chunks of a transfer must be a whole number of at least 1", ()),
]


@pytest.mark.parametrize(("call", "name", "about", "right"), CALLS, ids=[f"{c[0].__name__}-{c[1]}" for c in CALLS])
def test_each_argument_of_the_network_and_of_a_schedule_is_checked(
    call: Callable[..., Any], name: str, about: str, right: tuple[Any, ...]
) -> None:
    for value in WRONG:
        if any(value is each or (isinstance(value, float) and value == each) for each in right):
            call(**{name: value})
            continue
        with pytest.raises(InputError) as caught:
            call(**{name: value})
        assert about in str(caught.value)


@pytest.mark.parametrize("value", WRONG, ids=NAMES)
@pytest.mark.parametrize(
    "call", [clustersim.load_topology, clustersim.load_scenario, clustersim.simulate, clustersim.sweep]
)
def test_what_is_no_cluster_and_no_scenario_is_refused(call: Callable[[Any], Any], value: Any) -> None:
    with pytest.raises(InputError):
        call(value)


@pytest.mark.parametrize("value", [value for value in WRONG if not isinstance(value, str)])
def test_a_report_is_that_of_a_sweep_and_goes_to_a_file(value: Any, tmp_path: Path) -> None:
    with pytest.raises(InputError, match="sweep must be a Sweep"):
        clustersim.write_report(value, tmp_path / "report.html")
    sweep = object.__new__(clustersim.Sweep)
    with pytest.raises(InputError, match="path must be a file to write"):
        clustersim.write_report(sweep, value)


@pytest.mark.parametrize("value", [value for value in WRONG if not (isinstance(value, list) and not value)])
def test_overrides_are_a_list_of_texts(value: Any) -> None:
    with pytest.raises(InputError, match="overrides must be a list of texts such as 'num_gpus=8'"):
        clustersim.load_scenario("firecaffe-googlenet", overrides=value)


def test_progress_can_be_called() -> None:
    call: Callable[..., Any] = clustersim.sweep
    with pytest.raises(InputError, match=r"progress must be a function of a share and a point \(got 3\)"):
        call("firecaffe-googlenet", 3)


@pytest.mark.parametrize("name", clustersim.ALL_REDUCE)
@pytest.mark.parametrize("value", [None, "x", 0, 1.5, [1], float("nan"), float("inf"), 1j])
def test_a_collective_has_ranks_and_bytes(name: str, value: Any) -> None:
    with pytest.raises(InputError, match="num_ranks must be a whole number of at least 1"):
        clustersim.ALL_REDUCE[name](value, 8.0)
    if value not in (0, 1.5):
        with pytest.raises(InputError, match="num_bytes must be a finite number of at least 0"):
            clustersim.ALL_REDUCE[name](4, value)


def test_a_rank_cannot_enter_never_and_a_refused_call_leaves_nothing_behind() -> None:
    ours = network()
    for never in (float("inf"), float("nan"), -1.0):
        with pytest.raises(InputError, match=r"enter_s must have a finite time .* \(got (inf|nan|-1.0)\)"):
            ours.play(RING, [0, 1, 2, 3], enter_s=[0.0, never, 0.0, 0.0])
    ours.env.run(ours.play(RING, [0, 1, 2, 3], enter_s=[0.0, 1.0, 0.0, 0.0]))
    assert ours.env.now == pytest.approx(1.0 + 6 * 2.0 / 1e9)


def test_a_node_may_hold_several_ranks_of_a_collective() -> None:
    ours = network()
    done = ours.play(clustersim.Schedule.from_transfers([(0, 0, 1, 1e9), (0, 2, 3, 1e9)]), [0, 1, 0, 0])
    ours.env.run(done)
    assert done.value.end_s == pytest.approx([1.0, 1.0, 0.0, 0.0])
