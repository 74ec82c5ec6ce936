"""Logs of nccl-tests, OSU, nvbandwidth and p2pBandwidthLatencyTest, in the format of these tools."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from clustersim.errors import InputError
from clustersim.reading.benchmark_logs import HOST, CollectiveTime, CopyTime, read_benchmark

NCCL = """\
# nccl-tests version 2.17.1 nccl-headers=22703 nccl-library=22703
# Collective test starting: all_reduce_perf
# nThread 1 nGpus 2 minBytes 0 maxBytes 2097152 step: 2(factor) warmup iters: 5 iters: 20 agg iters: 1 validation: 1
#
# Using devices
#  Rank  0 Group  0 Pid   1201 on    node-a device  0 [0000:1b:00] NVIDIA H100 80GB HBM3
#  Rank  1 Group  0 Pid   1201 on    node-a device  1 [0000:2c:00] NVIDIA H100 80GB HBM3
#  Rank  2 Group  0 Pid    733 on    node-b device  0 [0000:1b:00] NVIDIA H100 80GB HBM3
#  Rank  3 Group  0 Pid    733 on    node-b device  1 [0000:2c:00] NVIDIA H100 80GB HBM3
#
#                                                              out-of-place                       in-place
#       size         count      type   redop    root     time   algbw   busbw #wrong     time   algbw   busbw #wrong
#        (B)    (elements)                               (us)  (GB/s)  (GB/s)            (us)  (GB/s)  (GB/s)
           0             0     float     sum      -1     7.41    0.00    0.00      0     7.32    0.00    0.00      0
node-a:1201:1213 [0] NCCL INFO comm 0x55 rank 0 nranks 4 - Init COMPLETE
     1048576        262144     float     sum      -1    131.0    8.00   12.01      0    130.0    8.07   12.10      0
     2097152        524288     float     sum      -1    209.7   10.00   15.00      0    209.0   10.03   15.05      0
# Out of bounds values : 0 OK
# Avg bus bandwidth    : 13.54
#
"""

OLD_NCCL = """\
# nThread 1 nGpus 2 minBytes 8 maxBytes 16 step: 2(factor) warmup iters: 5 iters: 20 validation: 1
#   Rank  0 Pid   4321 on       box device  0 [0x1b] Tesla P100-SXM2-16GB
#   Rank  1 Pid   4321 on       box device  1 [0x1c] Tesla P100-SXM2-16GB
#                                             out-of-place                    in-place
#       size         count    type     time   algbw   busbw  error     time   algbw   busbw  error
#        (B)    (elements)             (us)  (GB/s)  (GB/s)            (us)  (GB/s)  (GB/s)
          16             4   float    10.25    0.00    0.00  0e+00    10.11    0.00    0.00  0e+00
# Avg bus bandwidth    : 0.001
"""

OSU_LATENCY = """\
# OSU MPI Latency Test v5.9
# Size          Latency (us)
0                       1.05
8                       1.12
1048576                95.50
"""

OSU_RATE = """\
# OSU MPI-CUDA Bandwidth Test v5.6.2
# Send Buffer on DEVICE (D) and Receive Buffer on DEVICE (D)
# Size      Bandwidth (MB/s)
1                       0.89
65536               10000.00
1048576             12000.00
"""

OSU_ALL_REDUCE = """\

# OSU MPI Allreduce Latency Test v7.4
# Datatype: MPI_INT.
# Size       Avg Latency(us)   Min Latency(us)   Max Latency(us)  Iterations        Validation
4                       7.93              7.11              8.80        1000              Pass
1048576               520.25            500.00            540.00         100              Pass
"""

P2P = r"""[P2P (Peer-to-Peer) GPU Bandwidth Latency Test]
Device: 0, Tesla V100, pciBusID: 6, pciDeviceID: 0, pciDomainID:0
P2P Connectivity Matrix
     D\D     0     1
     0	     1     1
     1	     1     1
Unidirectional P2P=Disabled Bandwidth Matrix (GB/s)
   D\D     0      1
     0 755.10   9.91
     1   9.93 757.00
Unidirectional P2P=Enabled Bandwidth (P2P Writes) Matrix (GB/s)
   D\D     0      1
     0 755.10  40.00
     1  32.00 757.00
Bidirectional P2P=Disabled Bandwidth Matrix (GB/s)
   D\D     0      1
     0 760.00  17.00
     1  17.10 760.00
P2P=Disabled Latency Matrix (us)
   GPU     0      1
     0   1.88  16.50
     1  17.49   1.87

   CPU     0      1
     0   4.55  11.50
     1  11.20   4.48
P2P=Enabled Latency (P2P Writes) Matrix (us)
   GPU     0      1
     0   1.87   1.50
     1   1.75   1.88

   CPU     0      1
     0   4.50   3.18
     1   3.20   4.51

NOTE: The CUDA Samples are not meant for performance measurements.
"""

NVBANDWIDTH = """\
nvbandwidth Version: v0.7
Built from Git version: v0.7

CUDA Runtime Version: 12040
Device 0: NVIDIA H100 80GB HBM3 (00000000:18:00)
Device 1: NVIDIA H100 80GB HBM3 (00000000:2a:00)

Running host_to_device_memcpy_ce.
memcpy CE CPU(row) -> GPU(column) bandwidth (GB/s)
           0         1
 0     55.00     50.00

SUM host_to_device_memcpy_ce 105.00

Running device_to_host_memcpy_ce.
memcpy CE CPU(row) <- GPU(column) bandwidth (GB/s)
           0         1
 0     40.00     44.00

SUM device_to_host_memcpy_ce 84.00

Running device_to_device_memcpy_read_ce.
memcpy CE GPU(row) <- GPU(column) bandwidth (GB/s)
           0         1
 0       N/A    390.00
 1    380.00       N/A

Running device_to_device_bidirectional_memcpy_read_ce.
memcpy CE GPU(row) <-> GPU(column) Total bandwidth (GB/s)
           0         1
 0       N/A    760.00
 1    760.00       N/A

Running host_to_device_memcpy_sm.
memcpy SM CPU(row) -> GPU(column) bandwidth (GB/s)
           0         1
 0     53.00     53.00
"""


def nccl_json(**changes: object) -> dict[str, object]:
    devices = [{"rank": rank, "group": 0, "hostname": "node-a", "device": rank} for rank in range(2)]
    half = {"time": 209.7, "alg_bw": 10.0, "bus_bw": 15.0, "nwrong": 0}
    row = {"size": 2097152, "count": 524288, "type": "float", "out_of_place": half, "in_place": half}
    document: dict[str, object] = {
        "version": 3,
        "args": ["./build/all_gather_perf", "-b", "2M"],
        "env": ["SECRET=do-not-copy-me"],
        "nccl_version": 22809,
        "config": {"nthreads": 1, "ngpus": 2, "devices": devices},
        "results": [row],
        "average_bus_bandwidth": {"bandwidth": 15.0},
    }
    return document | changes


@pytest.fixture
def write(tmp_path: Path):
    def written(content: str, name: str = "run.log") -> Path:
        path = tmp_path / name
        path.write_text(content, encoding="utf-8")
        return path

    return written


def refused(path: Path) -> tuple[int | None, str]:
    with pytest.raises(InputError) as caught:
        read_benchmark(path)
    assert len(caught.value.mistakes) == 1
    assert caught.value.mistakes[0].file == str(path)
    return caught.value.mistakes[0].line, caught.value.mistakes[0].message


def test_nccl_tests_give_out_of_place_times_and_the_ranks(write) -> None:
    log = read_benchmark(write(NCCL))
    assert log.tool == "nccl-tests"
    assert log.notes == ()
    assert log.measurements == (
        CollectiveTime("all-reduce", 1048576.0, pytest.approx(131e-6), 16, num_ranks=4, num_hosts=2),
        CollectiveTime("all-reduce", 2097152.0, pytest.approx(209.7e-6), 17, num_ranks=4, num_hosts=2),
    )


@pytest.mark.parametrize("before", ["[1,0]<stdout>:", "0: "])
def test_what_launchers_put_before_lines_is_passed_over(write, before: str) -> None:
    marked = "\n".join(before + line for line in NCCL.splitlines())
    assert read_benchmark(write(marked)).measurements == read_benchmark(write(NCCL, "bare.log")).measurements


def test_columns_of_old_nccl_tests_are_found_by_their_names_and_the_collective_by_the_files(write) -> None:
    found = read_benchmark(write(OLD_NCCL, "all_gather_perf.txt")).measurements
    assert found == (CollectiveTime("all-gather", 16.0, pytest.approx(10.25e-6), 7, num_ranks=2, num_hosts=1),)
    line, message = refused(write(OLD_NCCL, "log.txt"))
    assert line == 7
    assert "the log does not name its collective" in message


def test_runs_one_after_the_other_are_separated(write) -> None:
    second = NCCL.replace("all_reduce_perf", "broadcast_perf").replace("sum      -1", "none       0")
    for bus, rate in (("12.01", "8.00"), ("15.00", "10.00")):
        second = second.replace(bus, rate)
    found = read_benchmark(write(NCCL + second)).measurements
    assert [each.op for each in found if isinstance(each, CollectiveTime)] == ["all-reduce"] * 2 + ["broadcast"] * 2


@pytest.mark.parametrize(
    ("old", "new", "line", "said"),
    [
        ("209.7   10.00   15.00      0    209.0   10.03   15.05      0\n", "209.7   10", 17, "the line is truncated"),
        ("209.7   10.00   15.00      0", "209.7   10.00   15.00     12", 17, "found 12 wrong values"),
        ("    131.0 ", "    0.000 ", 16, "expected a time in us, a number above 0 (got '0.000')"),
        ("redop    root     time", "redop    root  cputime", 14, "there is no column 'time'"),
        ("Rank  3 Group  0", "Rank  3 Group  1", 9, "several groups of ranks"),
        ("all_reduce_perf", "hypercube_perf", 14, "hypercube_perf does not measure a known collective"),
    ],
)
def test_a_broken_log_of_nccl_tests_is_reported_with_its_line(write, old: str, new: str, line: int, said: str) -> None:
    text = NCCL.replace(old, new, 1) if old != "redop    root     time" else NCCL.replace("   time ", "cputime ")
    found, message = refused(write(text))
    assert said in message
    assert found == line


def test_a_log_that_ends_early_is_used_as_far_as_it_goes_and_says_so(write) -> None:
    log = read_benchmark(write("\n".join(NCCL.splitlines()[:16]) + "\n"))
    assert len(log.measurements) == 1
    assert "may be truncated" in log.notes[0]
    _, message = refused(write("\n".join(NCCL.splitlines()[:13])))
    assert "has no result" in message


def test_the_json_of_nccl_tests_gives_the_same_and_no_secret(write) -> None:
    log = read_benchmark(write(json.dumps(nccl_json()), "run.json"))
    assert log.measurements == (CollectiveTime("all-gather", 2097152.0, pytest.approx(209.7e-6), 1, 2, 1),)
    assert "do-not-copy-me" not in repr(log)


@pytest.mark.parametrize(
    ("document", "said"),
    [
        (json.dumps(nccl_json())[:-40], "is truncated after"),
        (json.dumps(nccl_json(config={})), "not a complete document of nccl-tests: KeyError: 'devices'"),
        (json.dumps(nccl_json(results=[])), "has no result"),
        (json.dumps({"some": "thing"}), "not from a known benchmark"),
        ("[1, 2]", "not a log of a known benchmark"),
    ],
)
def test_broken_json_is_reported(write, document: str, said: str) -> None:
    assert said in refused(write(document, "run.json"))[1]


def test_osu_latency_is_a_message_between_two_ranks_in_host_memory(write) -> None:
    found = read_benchmark(write(OSU_LATENCY)).measurements
    assert found[0] == CopyTime(0.0, pytest.approx(1.05e-6), 3, buffers="host")
    assert [each.num_bytes for each in found] == [0.0, 8.0, 1048576.0]


def test_osu_rates_are_of_a_window_of_messages_and_small_ones_are_left_out(write) -> None:
    log = read_benchmark(write(OSU_RATE))
    assert log.measurements[0] == CopyTime(65536.0, pytest.approx(64 * 65536 / 10e9), 5, num_messages=64, buffers="gpu")
    assert len(log.measurements) == 2
    assert "below 64 KiB are not used" in log.notes[0]


def test_osu_collectives_give_the_mean_of_the_ranks(write) -> None:
    found = read_benchmark(write(OSU_ALL_REDUCE)).measurements
    assert found[1] == CollectiveTime("all-reduce", 1048576.0, pytest.approx(520.25e-6), 6, buffers="host")
    gathered = read_benchmark(write(OSU_ALL_REDUCE.replace("Allreduce", "Allgather"))).measurements[1]
    assert isinstance(gathered, CollectiveTime)
    assert gathered.is_per_rank


@pytest.mark.parametrize(
    ("text", "line", "said"),
    [
        (OSU_LATENCY + "2097152", 6, "a size without a figure: the log is truncated"),
        (OSU_LATENCY.replace("(us)", "(ms)"), 2, "expected a column in (us)"),
        (OSU_ALL_REDUCE.replace("100              Pass", "100              Fail"), 6, "OSU's own check failed"),
        (OSU_LATENCY.replace("Latency Test", "Multi Latency Test"), 5, "'OSU Multi Latency Test' is not used"),
    ],
)
def test_a_broken_log_of_osu_is_reported_with_its_line(write, text: str, line: int, said: str) -> None:
    found, message = refused(write(text))
    assert said in message
    assert found == line


def test_p2p_test_gives_pairs_with_peer_access_without_diagonals(write) -> None:
    found = read_benchmark(write(P2P)).measurements
    assert found == (
        CopyTime(160e6, pytest.approx(160e6 / 40e9), 13, (0, 1)),
        CopyTime(160e6, pytest.approx(160e6 / 32e9), 14, (1, 0)),
        CopyTime(16.0, pytest.approx(1.5e-6), 29, (0, 1)),
        CopyTime(16.0, pytest.approx(1.75e-6), 30, (1, 0)),
    )


def test_p2p_test_without_peer_access_is_used_as_it_is(write) -> None:
    log = read_benchmark(write("\n".join(line for line in P2P.splitlines()[:10])))
    assert log.measurements[0] == CopyTime(160e6, pytest.approx(160e6 / 9.91e9), 9, (0, 1))
    assert "those without it are used" in log.notes[1]


@pytest.mark.parametrize(
    ("num_lines", "line", "said"),
    [(8, 8, "ends inside a matrix"), (7, 7, "no matrix follows this title"), (13, 13, "ends inside a matrix")],
)
def test_a_p2p_test_that_is_truncated_is_reported(write, num_lines: int, line: int, said: str) -> None:
    found, message = refused(write("\n".join(P2P.splitlines()[:num_lines])))
    assert said in message
    assert found == line


def test_a_row_with_too_few_values_is_reported_with_its_line(write) -> None:
    line, message = refused(write(P2P.replace("     0 755.10  40.00", "     0 755.10")))
    assert line == 13
    assert "expected a GPU's number and 2 values" in message


def test_nvbandwidth_gives_copies_one_way_in_the_direction_of_its_arrow(write) -> None:
    log = read_benchmark(write(NVBANDWIDTH))
    size = 512 * 2**20
    rates = [(copy.ends, size / copy.time_s / 1e9) for copy in log.measurements if isinstance(copy, CopyTime)]
    assert rates == [
        ((HOST, 0), pytest.approx(55)),
        ((HOST, 1), pytest.approx(50)),
        ((0, HOST), pytest.approx(40)),
        ((1, HOST), pytest.approx(44)),
        ((1, 0), pytest.approx(390)),
        ((0, 1), pytest.approx(380)),
    ]
    assert "device_to_device_bidirectional_memcpy_read_ce, host_to_device_memcpy_sm" in log.notes[0]


def test_the_json_of_nvbandwidth_gives_the_same(write) -> None:
    test = {
        "name": "device_to_host_memcpy_ce",
        "status": "Passed",
        "bandwidth_description": "memcpy CE CPU(row) <- GPU(column) bandwidth (GB/s) ",
        "bandwidth_matrix": [["40.00", "N/A"]],
    }
    document = {"nvbandwidth": {"git_version": "v0.7", "testcases": [test, {"name": "x", "status": "Waived"}]}}
    found = read_benchmark(write(json.dumps(document, indent=1), "run.json")).measurements
    assert found == (CopyTime(512 * 2.0**20, pytest.approx(512 * 2**20 / 40e9), 1, (0, HOST)),)
    document["nvbandwidth"]["testcases"] = [{"name": "x", "status": "Waived"}]
    assert "no test of this log measures unidirectional copies" in refused(write(json.dumps(document), "none.json"))[1]


def test_a_matrix_of_nvbandwidth_that_is_truncated_is_reported(write) -> None:
    line, message = refused(write("\n".join(NVBANDWIDTH.splitlines()[:10])))
    assert line == 10
    assert "ends inside a matrix" in message


@pytest.mark.parametrize("text", ["", "\n\n", "model,accuracy\nresnet50,0.76\n", "# Avg bus bandwidth\n"])
def test_a_foreign_or_empty_file_is_reported(write, text: str) -> None:
    _, message = refused(write(text))
    assert "the file is empty" in message or "not a log of a known benchmark (known: nccl-tests," in message


def test_a_file_that_is_not_there_is_reported(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="cannot be read: No such file"):
        read_benchmark(tmp_path / "none.log")
