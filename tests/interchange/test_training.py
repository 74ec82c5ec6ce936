"""A training with failures in a trace: its intervals follow each other over the length of the trace."""

from __future__ import annotations

from dataclasses import replace

import pytest

from clustersim.interchange import trace_events
from tests.report.synthetic import make_run
from tests.report.test_failure_time import DAY, TIMES

CATEGORIES = {"useful", "lost", "restart"}


@pytest.fixture(scope="module")
def events():
    return trace_events(replace(make_run(8), failures=TIMES))


def stretches(events):
    return [event for event in events if event["ph"] == "X" and event["cat"] in CATEGORIES]


def test_a_failure_loses_work_and_then_the_training_is_down(events):
    assert [(event["name"], event["args"]["duration_s"] / DAY) for event in stretches(events)] == [
        ("useful work and checkpoints", pytest.approx(2.4)),
        ("lost work: host 1", pytest.approx(0.6)),
        ("down and restart: host 1", pytest.approx(0.25)),
        ("useful work and checkpoints", pytest.approx(3.35)),
        ("lost work: gpu 5", pytest.approx(0.4)),
        ("down and restart: gpu 5", pytest.approx(0.25)),
        ("useful work and checkpoints", pytest.approx(2.75)),
    ]


def test_the_whole_training_is_as_wide_as_the_trace_and_its_process_says_how_much_smaller(events):
    rows = stretches(events)
    (pid,) = {event["pid"] for event in rows}
    others = [event for event in events if event["ph"] == "X" and event["pid"] != pid]
    width = max(event["ts"] + event["dur"] for event in others) - min(event["ts"] for event in others)
    assert rows[0]["ts"] == min(event["ts"] for event in others)
    assert sum(event["dur"] for event in rows) == pytest.approx(width)
    names = {event["pid"]: event["args"]["name"] for event in events if event["name"] == "process_name"}
    assert names[pid] == f"training with failures, {10 * DAY / width * 1e6:.3g} times smaller than its time"


def test_where_nothing_can_fail_there_is_no_such_process():
    names = [event["args"]["name"] for event in trace_events(make_run(8)) if event["name"] == "process_name"]
    assert not any("training" in name for name in names)
