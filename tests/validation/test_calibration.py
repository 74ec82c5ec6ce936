"""Constants that are fitted to measured times: found again where they are known, and no surer than they can be."""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from clustersim.cli import main
from clustersim.errors import InputError
from clustersim.hardware import Transport, load_transport
from clustersim.reading.benchmark_logs import HOST, BenchmarkLog, CollectiveTime, CopyTime
from clustersim.simulate import time_collective
from clustersim.simulate.transport_fit.experiment import Experiment
from clustersim.simulate.transport_fit.from_log import experiments
from clustersim.simulate.transport_fit.problem import standard_errors
from clustersim.topology import load_topology
from clustersim.validation.calibration import Fit, calibrate, fit_transport, sheet_name, sheet_text
from clustersim.validation.calibration.figure import draw_residuals, residuals_data

TWO_HOSTS = {"kind": "star", "num_hosts": 2, "gpu": "p100", "link": "1 GB/s", "hop": "1 us"}
PAIR = {"kind": "star", "num_hosts": 1, "link": "1 GB/s", "hop": "1 us", "host": "dgx-1"}

TRANSPORT = """\
name: mine
title: Mine
library: mpi
overhead_s: {value: 1 us, source: "assumed: a guess"}
efficiency: {value: 0.9, source: "assumed: a guess"}
buffers: {value: host, source: a document}
adds: {value: false, source: a document}
"""


def known(**values: float) -> Transport:
    return replace(load_transport("mpi"), **values)


def messages(seconds: Callable[[float], float], sizes: list[float]) -> BenchmarkLog:
    copies = tuple(CopyTime(size, seconds(size), line, buffers="host") for line, size in enumerate(sizes, start=3))
    return BenchmarkLog("osu.log", "OSU micro-benchmarks", copies)


def constant(fit: Fit, key: str):
    return next(each for each in fit.constants if each.key == key)


SIZES = [0.0, 8.0, 4096.0, 65536.0, 1e6, 4e6]


def test_overhead_and_efficiency_of_messages_come_out_as_they_went_in() -> None:
    """Over two links of 1 GB/s and 1 us: overhead + 2 us + bytes / (efficiency x 1 GB/s)."""
    log = messages(lambda size: 30e-6 + 2e-6 + size / 0.8e9, SIZES)
    fit = fit_transport(experiments(log, load_topology(TWO_HOSTS)), known())
    assert constant(fit, "overhead_s").value == pytest.approx(30e-6, rel=1e-6)
    assert constant(fit, "efficiency").value == pytest.approx(0.8, rel=1e-6)
    assert [each.state for each in fit.constants] == ["fitted", "fitted"]
    assert fit.median_abs_error < 1e-6 < 0.2 < fit.median_abs_error_before


def test_standard_errors_are_those_of_linear_regression() -> None:
    """With slowness 1 / efficiency times are linear in both, so that the textbook's formula holds for the errors."""
    noise = np.array([0.05, -0.04, 0.03, -0.05, 0.02, -0.01])
    exact = np.array([30e-6 + 2e-6 + size / 0.8e9 for size in SIZES])
    measured = dict(zip(SIZES, exact * (1 + noise), strict=True))
    fit = fit_transport(experiments(messages(measured.__getitem__, SIZES), load_topology(TWO_HOSTS)), known())
    weights = 1.0 / np.array(list(measured.values()))
    design = np.stack([np.ones(6), np.array(SIZES) / 1e9], axis=1) * weights[:, None]
    solution, squares, _, _ = np.linalg.lstsq(design, 1 - 2e-6 * weights, rcond=None)
    covariance = np.linalg.inv(design.T @ design) * squares[0] / (6 - 2)
    overhead, efficiency = constant(fit, "overhead_s"), constant(fit, "efficiency")
    assert overhead.value == pytest.approx(solution[0], rel=1e-5)
    assert efficiency.value == pytest.approx(1 / solution[1], rel=1e-5)
    assert overhead.standard_error == pytest.approx(math.sqrt(covariance[0, 0]), rel=1e-3)
    assert efficiency.standard_error == pytest.approx(math.sqrt(covariance[1, 1]) / solution[1] ** 2, rel=1e-3)


def test_columns_that_depend_on_each_other_determine_neither() -> None:
    assert standard_errors(np.array([[1.0, 2.0], [2.0, 4.0], [3.0, 6.0]]), 1.0) == [math.inf, math.inf]
    assert standard_errors(np.ones((1, 1)), 1.0) == [None]


def test_a_constant_that_no_figure_depends_on_stays_as_it_was() -> None:
    log = messages(lambda size: 30e-6 + 2e-6 + size / 0.8e9, SIZES)
    start = replace(load_transport("nccl"), host_overhead_s=7e-6)
    fit = fit_transport(experiments(log, load_topology(TWO_HOSTS)), start)
    inside = constant(fit, "host_overhead_s")
    assert (inside.state, inside.value, inside.standard_error) == ("not determined", 7e-6, None)


def test_a_constant_less_sure_than_it_is_large_is_not_determined() -> None:
    """Only large messages: what the overhead would be is lost in their noise."""
    times = {1e8: 0.105, 2e8: 0.19, 4e8: 0.42}
    fit = fit_transport(experiments(messages(times.__getitem__, list(times)), load_topology(TWO_HOSTS)), known())
    assert constant(fit, "overhead_s").state == "not determined"
    assert constant(fit, "overhead_s").value == known().overhead_s
    assert constant(fit, "efficiency").state == "fitted"


def test_links_cannot_be_faster_than_they_are() -> None:
    log = messages(lambda size: 30e-6 + 2e-6 + size / 1.5e9, SIZES)
    fit = fit_transport(experiments(log, load_topology(TWO_HOSTS)), known(efficiency=0.9))
    efficiency = constant(fit, "efficiency")
    assert (efficiency.state, efficiency.value, efficiency.standard_error) == ("at its limit", 1.0, None)


def test_one_figure_gives_one_constant_without_a_standard_error() -> None:
    fit = fit_transport(experiments(messages(lambda size: 50e-6, [8.0]), load_topology(TWO_HOSTS)), known())
    overhead = constant(fit, "overhead_s")
    assert (overhead.state, overhead.standard_error) == ("fitted", None)
    assert overhead.value == pytest.approx(48e-6, rel=1e-3)
    assert constant(fit, "efficiency").state == "not determined"


def test_held_constants_do_not_move() -> None:
    log = messages(lambda size: 30e-6 + 2e-6 + size / 0.8e9, SIZES)
    fit = fit_transport(experiments(log, load_topology(TWO_HOSTS)), known(), keys=["overhead_s"])
    assert (constant(fit, "efficiency").state, fit.after.efficiency) == ("held", known().efficiency)


def test_sources_can_weigh_the_same_however_many_figures_they_have() -> None:
    """Nine figures of 20 us and one of 40 us: the least squares of relative errors, each source a half."""
    many = [Experiment("m", "many", line, 1, 2, 20e-6, lambda it: it.overhead_s) for line in range(9)]
    points = [*many, Experiment("m", "one", 1, 1, 2, 40e-6, lambda it: it.overhead_s)]
    equal = constant(fit_transport(points, known(overhead_s=1e-6), equal_sources=True), "overhead_s").value
    assert equal == pytest.approx((1 / 20e-6 + 1 / 40e-6) / (1 / 20e-6**2 + 1 / 40e-6**2), rel=1e-5)
    alike = constant(fit_transport(points, known(overhead_s=1e-6)), "overhead_s").value
    assert alike == pytest.approx((9 / 20e-6 + 1 / 40e-6) / (9 / 20e-6**2 + 1 / 40e-6**2), rel=1e-5)


def test_a_ring_of_gpus_gives_back_the_costs_inside_a_host_and_between() -> None:
    cluster = load_topology({"kind": "star", "num_hosts": 2, "link": "infiniband-hdr", "host": "dgx-1"})
    truth = replace(load_transport("nccl"), overhead_s=30e-6, host_overhead_s=2e-6, efficiency=0.7)
    runs = [(size, ranks) for size in (1e3, 1e6, 1e8) for ranks in (4, 16)]
    log = BenchmarkLog("x", "x", tuple(CollectiveTime("all-gather", size, 1.0, 1, ranks) for size, ranks in runs))
    points = [replace(each, measured_s=each.simulate(truth)) for each in experiments(log, cluster)]
    fit = fit_transport(points, load_transport("nccl"))
    assert [each.state for each in fit.constants] == ["fitted"] * 3
    for key in ("overhead_s", "host_overhead_s", "efficiency"):
        assert getattr(fit.after, key) == pytest.approx(getattr(truth, key), rel=1e-4)


def test_rings_of_as_many_ranks_do_not_tell_costs_inside_hosts_from_those_between() -> None:
    """A chunk of large messages goes over so many hops of each kind in all: only what they cost together is known."""
    cluster = load_topology({"kind": "star", "num_hosts": 2, "link": "infiniband-hdr", "host": "dgx-1"})
    start = load_transport("nccl")
    log = BenchmarkLog("x", "x", tuple(CollectiveTime("all-gather", size, 1.0, 1, 16) for size in (1e8, 3e8, 1e9)))
    truth = replace(start, overhead_s=2 * start.overhead_s)
    points = [replace(each, measured_s=each.simulate(truth)) for each in experiments(log, cluster)]
    fit = fit_transport(points, start)
    assert [constant(fit, key).state for key in ("overhead_s", "host_overhead_s")] == ["not determined", "fitted"]
    assert fit.median_abs_error < 1e-6


def test_many_messages_at_once_share_the_link_and_pay_side_by_side() -> None:
    log = BenchmarkLog("x", "x", (CopyTime(1e6, 1.0, 1, num_messages=64, buffers="host"),))
    point = experiments(log, load_topology(TWO_HOSTS))[0]
    assert point.simulate(known(overhead_s=5e-6, efficiency=1.0)) == pytest.approx(5e-6 + 2e-6 + 64 * 1e6 / 1e9)


def test_messages_of_gpus_are_staged_where_the_transport_stages() -> None:
    """Out, between the hosts' memories and in, one after the other; directly where messages leave from GPUs."""
    cluster = load_topology(PAIR | {"num_hosts": 2})
    parts = (CopyTime(1e6, 1.0, 1), CopyTime(1e6, 1.0, 1, (0, HOST)), CopyTime(1e6, 1.0, 1, (HOST, 0)))
    points = experiments(BenchmarkLog("x", "x", (*parts, CopyTime(1e6, 1.0, 1, buffers="host"))), cluster)
    message, out, back, between = (point.simulate(known(overhead_s=5e-6, efficiency=1.0)) for point in points)
    assert message == pytest.approx(out + between + back)
    assert between == pytest.approx(5e-6 + 2e-6 + 1e6 / 1e9)
    assert points[0].simulate(replace(load_transport("nccl"), overhead_s=5e-6)) == pytest.approx(between)


def test_copies_of_one_host_go_where_the_log_says() -> None:
    log = BenchmarkLog(
        "x", "x", (CopyTime(1e9, 1.0, 1, (0, 3)), CopyTime(1e9, 1.0, 1, (0, 5)), CopyTime(1e9, 1.0, 1, (HOST, 2)))
    )
    points = experiments(log, load_topology(PAIR))
    neighbours, far, down = (point.simulate(load_transport("ideal")) for point in points)
    assert neighbours < far  # over NVLink; GPU 5 is on the other socket and not GPU 0's neighbour
    assert neighbours < down
    assert [point.what for point in points] == ["GPU 0 to GPU 3", "GPU 0 to GPU 5", "host to GPU 2"]
    assert [point.num_gpus for point in points] == [2, 2, 1]


@pytest.mark.parametrize(
    ("measured", "topology", "said"),
    [
        (CollectiveTime("all-reduce", 8.0, 1.0, 7), TWO_HOSTS, "x.log:7: the log does not give the number of ranks"),
        (CollectiveTime("all-reduce", 8.0, 1.0, 7, 4, 1), TWO_HOSTS, "x.log:7: num_gpus: 4 GPUs are asked for"),
        (
            CollectiveTime("all-reduce", 8.0, 1.0, 7, 2, 1),
            TWO_HOSTS,
            "x.log:7: the run's 2 ranks were on 1 hosts, and the first",
        ),
        (CopyTime(8.0, 1.0, 7, (0, 9)), PAIR, "x.log:7: the run used GPU 9 of its host, and a host of"),
        (
            CopyTime(8.0, 1.0, 7, buffers="host"),
            PAIR,
            "x.log:7: copies within the memory of one host are not simulated",
        ),
        (CopyTime(8.0, 1.0, 7), TWO_HOSTS | {"num_hosts": 1}, "x.log:7: a message needs two GPUs"),
    ],
)
def test_a_log_of_another_cluster_is_reported_with_its_line(measured, topology, said: str) -> None:
    with pytest.raises(InputError) as caught:
        experiments(BenchmarkLog("x.log", "x", (measured,)), load_topology(topology))
    assert str(caught.value).startswith(said)


def test_sizes_that_count_one_ranks_part_are_multiplied() -> None:
    log = BenchmarkLog("x", "x", (CollectiveTime("all-gather", 1e6, 1.0, 1, is_per_rank=True),))
    assert experiments(log, load_topology(TWO_HOSTS), num_gpus=2)[0].num_bytes == 2e6


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with a cluster, a transport and a log of ten messages over it."""
    rows = "\n".join(f"{size:.0f}   {1e6 * (32e-6 + size / 0.8e9):.4f}" for size in SIZES)
    (tmp_path / "osu.log").write_text(f"# OSU MPI Latency Test v5.9\n# Size   Latency (us)\n{rows}\n")
    (tmp_path / "cluster.yaml").write_text(json.dumps(TWO_HOSTS))
    (tmp_path / "start.yaml").write_text(TRANSPORT)
    monkeypatch.chdir(tmp_path)
    return tmp_path


CALIBRATE = ["calibrate", "osu.log", "--topology", "cluster.yaml", "--transport", "start.yaml", "--quiet"]


def test_the_sheet_forecasts_what_was_measured_and_says_where_from(folder: Path, capsys) -> None:
    assert main([*CALIBRATE, "-o", "out/My Own.yaml"]) == 0
    printed = capsys.readouterr().out
    assert "6 figures, median error 0.0%" in printed
    assert "transport: out/My Own.yaml" in printed
    sheet = load_transport(folder / "out" / "My Own.yaml")
    assert (sheet.name, sheet.library, sheet.buffers) == ("my-own", "mpi", "host")
    assert sheet.sources["overhead_s"].startswith("fitted: standard error ")
    assert "6 figures of osu.log, simulated on cluster.yaml" in sheet.sources["overhead_s"]
    assert sheet.sources["buffers"] == "a document"
    assert sheet.overhead_s == pytest.approx(30e-6, rel=1e-3)
    row = time_collective("send-recv", TWO_HOSTS, "auto", 2, [4e6], str(folder / "out" / "My Own.yaml"))["rows"][0]
    assert row["time_s"] == pytest.approx(32e-6 + 4e6 / 0.8e9, rel=1e-4)


def test_the_document_has_constants_and_every_figure(folder: Path, capsys) -> None:
    assert main([*CALIBRATE, "--json"]) == 0
    document = json.loads(capsys.readouterr().out)
    assert document["schema"] == "clustersim.calibration/1"
    (fit,) = document["fits"]
    assert [each["key"] for each in fit["constants"]] == ["overhead_s", "efficiency"]
    assert fit["constants"][0]["unit"] == "s"
    assert fit["constants"][0]["before"] == 1e-6
    assert fit["summary"]["num_points"] == len(fit["points"]) == 6
    assert {"measured_s", "simulated_s", "error", "source", "line"} <= set(fit["points"][0])
    assert fit["sources"] == [{"file": "osu.log", "tool": "OSU micro-benchmarks", "notes": []}]


def test_the_page_shows_what_is_left_over(folder: Path, capsys) -> None:
    assert main([*CALIBRATE, "--report", "left.html"]) == 0
    text = (folder / "left.html").read_text()
    assert "with the fitted constants" in text
    assert "osu.log:3" in text
    assert "default-src 'none'" in text


def test_the_figure_puts_every_error_at_its_size(folder: Path) -> None:
    found = calibrate(["osu.log"], "cluster.yaml", "start.yaml")
    data = residuals_data(found)
    assert [point.num_bytes for point in data.points] == SIZES
    before, after = draw_residuals(data).traces
    assert before["x"][:3] == [1.0, 8.0, 4096.0]  # what has no size stands at a byte
    assert before["y"][0] == pytest.approx(100 * (3e-6 / 32e-6 - 1))
    assert after["y"] == pytest.approx([0.0] * 6, abs=1e-3)


@pytest.mark.parametrize(
    ("arguments", "status", "said"),
    [
        (["osu.log", "--transport", "mpi"], 2, "'--topology': logs need --topology and --transport"),
        (["osu.log", "--topology", "dgx-1"], 2, "'--transport': logs need --topology and --transport"),
        (["--topology", "dgx-1"], 2, "'--topology': only valid with logs"),
        (["-o", "mine.yaml"], 2, "'--output': only valid with logs"),
        ([*CALIBRATE[1:], "--store"], 2, "'--store': with logs, write a sheet of your own with -o"),
        ([*CALIBRATE[1:], "-o", "mine.txt"], 3, "a transport sheet must be a .yaml file (got 'mine.txt')"),
        (["--transport", "tcp"], 3, "no case has microbenchmarks of the transport 'tcp' (known: "),
        (["none.log", *CALIBRATE[2:]], 3, "none.log: cannot be read: No such file or directory"),
        (["cluster.yaml", "start.yaml", *CALIBRATE[2:]], 3, "start.yaml:1: this is not a log of a known benchmark"),
    ],
)
def test_impossible_requests_are_refused(folder: Path, capsys, arguments: list[str], status: int, said: str) -> None:
    assert main(["calibrate", *arguments]) == status
    assert said in " ".join(capsys.readouterr().err.split()).replace("│ ", "")


def test_a_fit_without_figures_is_refused() -> None:
    with pytest.raises(InputError, match="there are no figures for the fit"):
        fit_transport([], known())


def test_a_sheet_that_is_fitted_again_keeps_its_library_and_its_documents(folder: Path) -> None:
    first = calibrate(["osu.log"], "cluster.yaml", "start.yaml")
    (folder / "first.yaml").write_text(sheet_text(first.fit, "first", "cluster.yaml"))
    again = calibrate(["osu.log"], "cluster.yaml", "first.yaml")
    text = sheet_text(again.fit, sheet_name(Path("second.yaml")), "cluster.yaml")
    assert "library: mpi\n" in text
    assert again.fit.median_abs_error < 1e-3


def test_a_fitted_sheet_keeps_the_rate_of_a_connection(folder: Path) -> None:
    fit = calibrate(["osu.log"], "cluster.yaml", "start.yaml").fit
    one_socket = load_transport("nccl-one-socket")
    key, rate = "connection_bytes_per_s", one_socket.connection_bytes_per_s
    source = one_socket.sources[key]
    after = replace(fit.after, connection_bytes_per_s=rate, sources={**fit.after.sources, key: source})
    (folder / "own.yaml").write_text(sheet_text(replace(fit, after=after), "own", "cluster.yaml"))
    own = load_transport(folder / "own.yaml")
    assert (own.connection_bytes_per_s, own.sources[key]) == (rate, source)


@pytest.mark.parametrize(
    ("device", "is_noted"),
    [("NVIDIA A100-SXM4-80GB", True), ("Tesla P100-SXM2-16GB", False), ("NVIDIA Unknown 9000", False)],
)
def test_a_log_that_names_another_gpu_than_the_cluster_has_is_noted(
    tmp_path: Path, device: str, is_noted: bool
) -> None:
    log = tmp_path / "all_reduce_perf.log"
    ranks = [
        f"#  Rank  {rank} Group  0 Pid  10{rank} on      node device  {rank} [0x0{rank}] {device}" for rank in range(2)
    ]
    rows = [
        f" {size}  {size // 4}  float  sum  -1  {time}  1.0  1.0  0" for size, time in ((8192, 30.0), (8388608, 900.0))
    ]
    heading = "#       size         count      type   redop    root     time   algbw   busbw #wrong"
    log.write_text(
        "\n".join(["# nThread 1 nGpus 2", "# Using devices", *ranks, "#", heading, *rows, "# Avg bus bandwidth : 1.0"])
    )
    (source,) = calibrate([log], "dgx-1", "nccl", collective="all-reduce").sources
    noted = [note for note in source.notes if note.startswith(f"the log is of {device}, and the cluster has p100")]
    assert len(noted) == is_noted
