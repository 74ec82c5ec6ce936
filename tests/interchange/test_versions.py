"""Staleness, versions and their arrows in a trace."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import replace
from itertools import pairwise

import pytest

from clustersim.interchange import trace_events
from tests.report.synthetic import make_run
from tests.report.worker_runs import round_robin, run_of, spans_of


@pytest.fixture(scope="module")
def run():
    cycles, updates = round_robin(4, 6)
    return run_of(cycles, updates, spans=spans_of(cycles))


@pytest.fixture(scope="module")
def events(run):
    return trace_events(run)


def of(events, phase, category):
    return [event for event in events if event["ph"] == phase and event.get("cat") == category]


def test_every_gradient_of_the_trace_is_one_asynchronous_slice(events):
    begins, ends = of(events, "b", "staleness"), of(events, "e", "staleness")
    assert len(begins) == len(ends) == 4 * 6 - 1  # the last one meets the model when the trace ends
    late = {event["id2"]["local"]: event["ts"] for event in ends}
    assert all(event["ts"] < late[event["id2"]["local"]] for event in begins)
    assert {event["name"] for event in begins if event["args"]["version_read"] > 0} == {"staleness 3"}
    assert {event["pid"] for event in begins} == {1, 2, 3, 4}


def test_versions_are_a_counter_that_only_grows(events):
    counts = [e["args"]["version"] for e in events if e["ph"] == "C" and e["name"] == "model"]
    assert counts == list(range(24))


def test_versions_follow_each_other_without_gaps(events):
    slices = of(events, "X", "version")
    assert [event["name"] for event in slices] == [f"W_{number}" for number in range(24)]
    for one, two in pairwise(slices):
        assert one["ts"] + one["dur"] == pytest.approx(two["ts"])


def test_an_arrow_leads_from_the_version_read_through_the_worker_to_the_version_made(events, run):
    threads = defaultdict(list)
    for event in events:
        if event["ph"] == "X":
            threads[event["pid"], event["tid"]].append(event)
    flows = defaultdict(list)
    for event in (event for phase in "stf" for event in of(events, phase, "version")):
        (inside,) = [
            one for one in threads[event["pid"], event["tid"]] if one["ts"] <= event["ts"] < one["ts"] + one["dur"]
        ]
        flows[event["id"]].append(inside["name"])
    made = {row.version_written: row for row in run.updates.rows()}
    assert len(flows) == 23
    for read, between, written in flows.values():
        update = made[int(written.removeprefix("W_"))]
        assert read == f"W_{update.version_read}"
        assert between.startswith("forward")


def test_dropped_gradients_are_named_and_make_no_version(run):
    cycles, updates = round_robin(4, 6)
    updates = [(*row[:4], 0.5, row[1] != 2) for row in updates]
    events = trace_events(run_of(cycles, updates, spans=spans_of(cycles)))
    dropped = [event for event in of(events, "b", "staleness") if event["pid"] == 3]
    assert dropped
    assert all(event["name"].startswith("dropped") for event in dropped)
    assert all(event["args"]["version_written"] is None for event in dropped)


def test_the_trace_of_an_interval_has_only_gradients_begun_in_it(run):
    spans = run.spans
    kept = [number for number, start_s in enumerate(spans.start_s) if start_s >= 3.0]
    columns = {name: [column[number] for number in kept] for name, column in vars(spans).items()}
    shifted = type(spans)(**{**columns, **{key: [x - 3.0 for x in columns[key]] for key in ("start_s", "end_s")}})
    events = trace_events(replace(run, spans=shifted))
    times = [event["ts"] for event in events if "ts" in event]
    assert min(times) == 0.0
    begun = [row.begin_s for row in run.cycles.rows() if row.begin_s >= min(spans.start_s[n] for n in kept)]
    assert 0 < len(of(events, "b", "staleness")) <= len(begun)


def test_a_run_in_step_without_gradients_of_its_own_has_no_model():
    assert not [event for event in trace_events(make_run(8)) if event.get("pid") == 10]
