"""The trace in the real Perfetto viewer, which `vizviewer` serves from this machine: nothing is dropped."""

from __future__ import annotations

import socket
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path

import pytest

from clustersim.interchange import write_perfetto
from tests.report.synthetic import make_run

pytestmark = pytest.mark.browser


@pytest.fixture(scope="module")
def run():
    return make_run(8)


@pytest.fixture(scope="module")
def query(browser, run, tmp_path_factory):
    """Return a function that runs SQL over the trace inside the viewer's page."""
    path = write_perfetto(run, tmp_path_factory.mktemp("trace") / "trace.json")
    port = free_port()
    viewer = Path(sys.executable).with_name("vizviewer")
    server = subprocess.Popen([viewer, "--server_only", "--port", str(port), path], stdout=subprocess.DEVNULL)
    try:
        wait_for(port)
        page = browser.new_page()
        page.goto(f"http://127.0.0.1:{port}")
        page.wait_for_function("window.app?.trace?.engine !== undefined", timeout=60_000)
        yield lambda sql, *columns: page.evaluate(_QUERY, [sql, list(columns)])
    finally:
        server.terminate()
        server.wait(10)


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
    assert any(name.startswith("buckets in flight") for name in counters)
    assert any("mean utilisation" in name for name in counters)
