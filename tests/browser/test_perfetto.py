"""The trace in the real Perfetto viewer, which `vizviewer` serves from this machine: nothing is dropped."""

from __future__ import annotations

import socket
import subprocess
import sys
import time
from collections import Counter
from contextlib import contextmanager
from pathlib import Path

import pytest

from clustersim.interchange import write_perfetto
from tests.report.synthetic import make_run
from tests.report.worker_runs import round_robin, run_of, spans_of

pytestmark = pytest.mark.browser


@pytest.fixture(scope="module")
def run():
    return make_run(8)


@pytest.fixture(scope="module")
def viewer(browser, run, tmp_path_factory):
    """Return the viewer's page with the trace of workers in step."""
    with viewed(browser, run, tmp_path_factory.mktemp("trace")) as page:
        yield page


@pytest.fixture(scope="module")
def query(viewer):
    """Return a function that runs SQL over the trace inside the viewer's page."""
    return lambda sql, *columns: ask(viewer, sql, *columns)


@pytest.fixture(scope="module")
def stale_viewer(browser, tmp_path_factory):
    """Return the viewer's page with the trace of four workers that take turns: staleness 3."""
    cycles, updates = round_robin(4, 6)
    run = run_of(cycles, updates, spans=spans_of(cycles))
    with viewed(browser, run, tmp_path_factory.mktemp("stale")) as page:
        yield page


@contextmanager
def viewed(browser, run, folder):
    """Open a run's trace in the viewer, as long as the context lasts."""
    path = write_perfetto(run, folder / "trace.json")
    port = free_port()
    viewer = Path(sys.executable).with_name("vizviewer")
    server = subprocess.Popen([viewer, "--server_only", "--port", str(port), path], stdout=subprocess.DEVNULL)
    try:
        wait_for(port)
        page = browser.new_page(viewport={"width": 1500, "height": 1000})
        page.goto(f"http://127.0.0.1:{port}")
        page.wait_for_function("window.app?.trace?.engine !== undefined", timeout=60_000)
        yield page
    finally:
        server.terminate()
        server.wait(10)


def ask(page, sql, *columns):
    return page.evaluate(_QUERY, [sql, list(columns)])


_QUERY = """async ([sql, columns]) => {
    const result = await app.trace.engine.query(sql);
    const plain = (value) => (typeof value === "bigint" ? Number(value) : value);
    const rows = [];
    for (const row = result.iter({}); row.valid(); row.next()) rows.push(columns.map((name) => plain(row.get(name))));
    return rows;
}"""


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def wait_for(port, seconds=30.0):
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        with socket.socket() as probe:
            if probe.connect_ex(("127.0.0.1", port)) == 0:
                return
        time.sleep(0.1)
    pytest.fail(f"vizviewer did not answer on port {port} within {seconds} s")


def test_perfetto_finds_nothing_wrong(query):
    assert query("select name, value from stats where severity != 'info' and value > 0", "name", "value") == []


def test_perfetto_has_every_span_with_its_nanoseconds(query, run):
    rows = query("select category, count(*) as n, sum(dur) as dur from slice group by category", "category", "n", "dur")
    found = {category: (number, dur) for category, number, dur in rows}
    expected = Counter(run.spans.kind)
    for kind, number in expected.items():
        seconds = sum(
            end - start
            for k, start, end in zip(run.spans.kind, run.spans.start_s, run.spans.end_s, strict=True)
            if k == kind
        )
        assert found[kind][0] == number
        assert found[kind][1] == pytest.approx(seconds * 1e9, abs=number)
    assert found["bucket"][0] == 10


def test_perfetto_names_ranks_and_threads(query):
    processes = [name for (name,) in query("select name from process where name is not null order by pid", "name")]
    assert processes == [f"rank {rank} (host{rank}/gpu0)" for rank in range(8)] + ["network"]
    threads = Counter(name for (name,) in query("select name from thread where name is not null", "name"))
    assert [threads[name] for name in ("compute", "communication", "waiting")] == [8, 8, 8]


def test_perfetto_draws_the_arrows_and_the_counters(query, run):
    ((flows,),) = query("select count(*) as n from flow", "n")
    assert flows == 2 * run.spans.kind.count("communication")
    counters = {name for (name,) in query("select distinct name from counter_track", "name")}
    assert "buckets in flight" in counters
    assert any("mean utilisation" in name for name in counters)


def test_staleness_stands_in_the_process_of_its_worker(stale_viewer):
    found = ask(
        stale_viewer,
        "select process.name as worker, slice.name as name, count(*) as n, max(slice.dur) as longest from slice"
        " join process_track on slice.track_id = process_track.id join process using (upid)"
        " where slice.category = 'staleness' group by 1, 2",
        "worker", "name", "n", "longest",
    )  # fmt: skip
    stale = {worker: number for worker, name, number, _ in found if name == "staleness 3"}
    assert stale == {f"rank {rank} (host{rank}/gpu0)": 5 for rank in range(4)}
    assert max(longest for *_, longest in found) == pytest.approx(1e9, abs=2)


def test_nothing_is_wrong_with_a_trace_of_stale_gradients(stale_viewer):
    sql = "select name, value from stats where severity != 'info' and value > 0"
    assert ask(stale_viewer, sql, "name", "value") == []


def test_the_version_is_a_counter_that_grows_by_one(stale_viewer):
    sql = (
        "select value from counter join process_counter_track as track on counter.track_id = track.id"
        " where track.name = 'model version' order by ts"
    )
    assert [value for (value,) in ask(stale_viewer, sql, "value")] == list(range(24))


def test_arrows_lead_from_the_version_read_to_the_version_made(stale_viewer):
    sql = (
        "select begins.name as begins, ends.name as ends from flow join slice as begins on flow.slice_out = begins.id"
        " join slice as ends on flow.slice_in = ends.id where {} like 'W_%'"
    )
    read = Counter(ends for begins, ends in ask(stale_viewer, sql.format("begins.name"), "begins", "ends"))
    assert read == {"forward": 23}
    made = ask(stale_viewer, sql.format("ends.name"), "begins", "ends")
    assert sorted(ends for _, ends in made) == sorted(f"W_{number}" for number in range(1, 24))


def test_a_reader_who_opens_a_worker_sees_its_staleness_and_who_clicks_a_version_sees_its_arrow(stale_viewer):
    page = stale_viewer
    page.get_by_text("rank 2").first.click()
    page.get_by_text("staleness 3", exact=True).first.wait_for(timeout=20_000)
    page.get_by_text("model", exact=False).first.click()
    page.get_by_text("versions 1").first.wait_for(timeout=20_000)
    ((number,),) = ask(page, "select id from slice where name = 'W_12'", "id")
    page.evaluate("(id) => app.trace.selection.selectSqlEvent('slice', id)", number)
    page.get_by_text("Preceding Flows").first.wait_for(timeout=20_000)
    page.get_by_text("Following Flows").first.wait_for(timeout=20_000)
