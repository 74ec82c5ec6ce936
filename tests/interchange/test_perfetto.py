"""Chrome traces: every span once, nothing that a viewer drops, arrows that start and end inside slices."""

from __future__ import annotations

import gzip
import json
from collections import Counter, defaultdict
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from clustersim.errors import InputError
from clustersim.interchange import trace_events, write_perfetto
from clustersim.interchange.slices import slices_of
from clustersim.results import Spans
from tests.report.synthetic import make_run, make_sweep


@pytest.fixture(scope="module")
def run():
    return make_run(8)


@pytest.fixture(scope="module")
def events(run):
    return trace_events(run)


def of(events, phase):
    return [event for event in events if event["ph"] == phase]


def test_every_span_is_one_slice_with_its_duration(run, events):
    slices = of(events, "X")
    assert Counter(event["cat"] for event in slices) == Counter(run.spans.kind)
    seconds = sum(end - start for start, end in zip(run.spans.start_s, run.spans.end_s, strict=True))
    assert sum(event["dur"] for event in slices) == pytest.approx(seconds * 1e6, rel=1e-6)


def test_time_starts_at_zero_and_counts_whole_nanoseconds(events):
    times = [event["ts"] for event in events if "ts" in event]
    assert min(times) == 0.0
    assert times == sorted(times)
    assert all(time * 1000 == pytest.approx(round(time * 1000), abs=1e-6) for time in times)


def test_ranks_are_processes_and_streams_are_threads(events):
    processes = {event["pid"]: event["args"]["name"] for event in of(events, "M") if event["name"] == "process_name"}
    assert processes[4] == "rank 3 (host3/gpu0)"
    assert processes[9] == "network"
    threads = {event["args"]["name"] for event in of(events, "M") if event["name"] == "thread_name"}
    assert threads == {"compute", "communication", "waiting"}
    order = {e["args"]["sort_index"] for e in of(events, "M") if e["name"] == "thread_sort_index" and e["pid"] == 1}
    assert len(order) == 3


def test_slices_say_what_they_are_and_why(events):
    waiting = next(event for event in of(events, "X") if event["cat"] == "waiting")
    assert waiting["args"]["cause"].startswith("for rank")
    backward = next(event for event in of(events, "X") if event["cat"] == "backward")
    assert backward["args"]["layer"].startswith("inception")
    bucket = next(event for event in of(events, "X") if event["cat"] == "communication")
    assert bucket["args"] == {"iteration": 0, "phase": "communication", "bucket": "bucket 0", "bytes": 1.07e7}


def nests(slices):
    open_ends = []
    for start, end in sorted(slices, key=lambda pair: (pair[0], -pair[1])):
        while open_ends and open_ends[-1] <= start:
            open_ends.pop()
        if open_ends and end > open_ends[-1]:
            return False
        open_ends.append(end)
    return True


@given(
    st.lists(st.tuples(st.floats(0, 10), st.floats(1e-9, 5), st.sampled_from(["communication", "forward", "waiting"])))
)
def test_whatever_overlaps_slices_of_one_thread_nest(rows):
    spans = Spans()
    spans.add("update", 0, 0, 0.0, 1.0)
    for start, length, kind in rows:
        spans.add(kind, 0, 0, start, start + length)
    threads = defaultdict(list)
    for one in slices_of(replace(make_run(1), spans=spans)):
        threads[one.tid].append((one.start_ns, one.end_ns))
    assert all(nests(slices) for slices in threads.values())
    assert sum(map(len, threads.values())) == len(rows) + 1


def test_buckets_that_overlap_go_to_a_second_thread():
    spans = Spans()
    spans.add("communication", 0, 0, 0.0, 2.0, "bucket 0")
    spans.add("communication", 0, 0, 1.0, 3.0, "bucket 1")
    assert [one.thread for one in slices_of(replace(make_run(1), spans=spans))] == ["communication", "communication 2"]


def test_every_bucket_has_an_arrow_from_its_last_gradient_to_the_update(run, events):
    num_buckets = run.spans.kind.count("communication")
    assert [len(of(events, phase)) for phase in "stf"] == [num_buckets] * 3


def test_the_ends_of_arrows_lie_in_slices(events):
    threads = defaultdict(list)
    for event in of(events, "X"):
        threads[event["pid"], event["tid"]].append((event["ts"], event["ts"] + event["dur"]))
    for event in (event for event in events if event["ph"] in "stf"):
        assert any(start <= event["ts"] < end for start, end in threads[event["pid"], event["tid"]])


def test_an_arrow_leads_from_backward_through_its_bucket_to_an_update(events):
    at = {(e["pid"], e["tid"], e["ts"]): e["cat"] for e in of(events, "X")}
    flows = defaultdict(list)
    for event in (event for event in events if event["ph"] in "stf"):
        flows[event["id"]].append(event)
    for flow in flows.values():
        assert [event["ph"] for event in flow] == ["s", "t", "f"]
        kinds = [at[event["pid"], event["tid"], event["ts"]] for event in flow[1:]]
        assert kinds == ["communication", "update"]


def test_a_bucket_is_in_flight_from_the_first_rank_to_the_last(events, run):
    begins, ends = of(events, "b"), of(events, "e")
    assert len(begins) == len(ends) == 5 * 2
    assert all(event["args"]["ranks"] == run.num_gpus for event in begins)
    counts = [event["args"]["in flight"] for event in of(events, "C") if event["name"] == "buckets"]
    assert counts[-1] == 0
    assert max(counts) >= 1


def test_a_bucket_that_workers_send_at_different_times_is_in_flight_several_times(run):
    spans = Spans()
    for rank, start_s in ((0, 0.0), (1, 0.5), (2, 3.0)):
        spans.add("communication", rank, 0, start_s, start_s + 1.0, "bucket 0")
    events = trace_events(replace(run, spans=spans))
    ends = {event["id2"]["local"]: event["ts"] for event in of(events, "e")}
    flights = [(event["ts"], ends[event["id2"]["local"]], event["args"]["ranks"]) for event in of(events, "b")]
    assert flights == [(0.0, 1.5e6, 2), (3e6, 4e6, 1)]
    counts = [event["args"]["in flight"] for event in of(events, "C") if event["name"] == "buckets"]
    assert counts == [1, 0, 1, 0]


def test_asynchronous_slices_belong_to_their_process(events):
    assert all("id" not in event and "local" in event["id2"] for phase in "be" for event in of(events, phase))


def test_the_busiest_links_have_counters(events, run):
    counters = {event["name"] for event in of(events, "C")}
    assert f"mean utilisation of {run.links[0].name}" in counters


def test_of_a_sweep_the_largest_run_is_written(tmp_path):
    path = write_perfetto(make_sweep((1, 8)), tmp_path / "trace.json")
    document = json.loads(path.read_text())
    assert document["otherData"]["run"] == "8 GPUs"
    assert document["displayTimeUnit"] == "ns"


def test_the_suffix_compresses(tmp_path, run):
    path = write_perfetto(run, tmp_path / "trace.json.gz")
    assert json.loads(gzip.decompress(path.read_bytes()))["traceEvents"]


def test_a_run_without_spans_has_no_trace(tmp_path, run):
    with pytest.raises(InputError, match="the run recorded no spans"):
        write_perfetto(replace(run, spans=Spans()), tmp_path / "trace.json")
