"""Logs of nccl-tests as people paste them: with a launcher's prefixes, several tables, pieces, and nothing but rows."""

from __future__ import annotations

import gzip
import json
import zipfile
from pathlib import Path

import pytest

from clustersim.cli import main
from clustersim.errors import InputError
from clustersim.reading.benchmark_logs import CollectiveTime, read_benchmark
from tests.interchange.test_benchmark_logs import NCCL, NVBANDWIDTH, OSU_ALL_REDUCE, OSU_LATENCY, P2P, nccl_json
from tests.mutations import check_mutations

ROWS = [line for line in NCCL.splitlines() if " float " in line]
KEPT = [(1048576.0, 131e-6), (2097152.0, 209.7e-6)]
CLUSTER = """\
kind: star
num_hosts: 2
link: 100 Gbit/s
hop: 1 us
host: {template: dual-socket, gpu: v100, num_gpus: 4, nics: 1}
"""


def write(folder: Path, text: str, name: str = "run.log") -> Path:
    path = folder / name
    path.write_text(text, encoding="utf-8")
    return path


def figures(path: Path, collective: str | None = None) -> list[tuple[float, float]]:
    return [(each.num_bytes, pytest.approx(each.time_s)) for each in read_benchmark(path, collective).measurements]


def refused(path: Path, collective: str | None = None) -> tuple[int | None, str]:
    with pytest.raises(InputError) as caught:
        read_benchmark(path, collective)
    (mistake,) = caught.value.mistakes
    return mistake.line, mistake.message


def table(rows: str, program: str | None = None, num_ranks: int = 4, header: str = "") -> str:
    """Return a log of one table with the ranks of two hosts."""
    half = max(num_ranks // 2, 1)
    ranks = [
        f"#  Rank  {rank} Group  0 Pid {1000 + rank} on node-{rank // half} device {rank % half} [0x1a] Tesla V100"
        for rank in range(num_ranks)
    ]
    lines = [f"# Collective test starting: {program}_perf"] if program else []
    lines += ["# nThread 1 nGpus 1 minBytes 8 maxBytes 8", *ranks, header or HEADING, rows.rstrip("\n")]
    return "\n".join([*lines, "# Avg bus bandwidth    : 3.4", ""])


NVBANDWIDTH_TEST = {
    "name": "device_to_host_memcpy_ce",
    "status": "Passed",
    "bandwidth_description": "memcpy CE CPU(row) <- GPU(column) bandwidth (GB/s) ",
    "bandwidth_matrix": [["40.00", "N/A"]],
}
NVBANDWIDTH_JSON = {"nvbandwidth": {"testcases": [NVBANDWIDTH_TEST]}}
HEADING = "#  size  count  type  redop  root  time  algbw  busbw #wrong  time  algbw  busbw #wrong"
SUM = " 1048576 262144 float sum -1 131.0 8.00 12.01 0 130.0 8.07 12.10 0\n"
NONE = " 1048576 262144 float none -1 131.0 8.00 6.00 0 130.0 8.07 6.05 0\n"


# what launchers put before lines


@pytest.mark.parametrize(
    "before",
    [
        "[0]",
        "[0] ",
        "[12] ",
        "0: ",
        "  3: ",
        "[1,0]<stdout>:",
        "[1,0]<stderr>: ",
        "[prterun-node-1-4242@1,0]<stdout>: ",
        "Fri Nov 27 23:59:5{i} 2026[1,0]<stdout>:",
        "[rank0]: ",
        "[default0]:",
        "node-1: ",
        "10.1.2.3: ",
        "worker-0  | ",
        "> ",
        "    ",
        "[pod/nccl-launcher-x7k2p/mpi] ",
        "[pod/nccl-launcher-x7k2p/mpi] 2026-11-27T18:05:0{i}.12345678{i}Z ",
        "2026-11-27T18:05:0{i}Z ",
        "2026-11-27 18:05:0{i},10{i} ",
        "2026-11-27T18:05:0{i}.000001+01:00 stdout F ",
        "[2026-11-27 18:05:0{i}] ",
        "Nov 27 18:05:0{i} node-1 srun[4242]: ",
        "2026-11-27T18:05:0{i}+0000 node-1 slurmstepd[77]: 0: ",
        "1732730{i}00.12{i} ",
        "\x1b[32m[0]\x1b[0m ",
        "INFO:nccl_test:",
    ],
)
def test_any_prefix_of_lines_is_learnt_and_removed(tmp_path: Path, before: str) -> None:
    lines = [before.replace("{i}", str(number % 10)) + line for number, line in enumerate(NCCL.splitlines())]
    log = read_benchmark(write(tmp_path, "\n".join(["srun: job 17 queued", *lines])))
    assert [(each.num_bytes, pytest.approx(each.time_s)) for each in log.measurements] == KEPT
    assert (log.notes, log.measurements[0].num_ranks, log.measurements[0].num_hosts) == ((), 4, 2)
    assert log.measurements[0].line == 17


@pytest.mark.parametrize("before", ["[1,0]<stdout>:", "0: ", "2026-11-27T18:05:01.123Z "])
def test_it_is_removed_from_other_benchmarks_too(tmp_path: Path, before: str) -> None:
    for number, text in enumerate((OSU_LATENCY, OSU_ALL_REDUCE, P2P, NVBANDWIDTH)):
        plain = read_benchmark(write(tmp_path, text, f"plain-{number}.log"))
        marked = "\n".join(before + line for line in text.splitlines())
        assert read_benchmark(write(tmp_path, marked, f"marked-{number}.log")).measurements == plain.measurements


def test_lines_of_other_processes_and_of_launchers_are_passed_over(tmp_path: Path) -> None:
    lines = NCCL.splitlines()
    noise = ["[node-2:00733] mca_base_component: opened", "Warning: Permanently added 'node-b' (ED25519).", "-" * 70]
    mixed = [line for number, own in enumerate(lines) for line in (own, noise[number % 3])]
    assert figures(write(tmp_path, "\n".join(mixed))) == KEPT


@pytest.mark.parametrize("before", ["", "[0] "])
def test_a_row_that_messages_of_nccl_cut_into_pieces_is_put_together(tmp_path: Path, before: str) -> None:
    """A row is printed in three pieces, and NCCL_DEBUG=INFO writes between them, as in public logs."""
    message = f"{before}node-a:1201:1213 [0] NCCL INFO 1048576 Bytes -> Algo 0 proto 2 time 25.874907"
    lines = []
    for line in NCCL.splitlines():
        if "float" not in line:
            lines.append(before + line)
            continue
        tokens = line.split()
        lines += [f"{before}{' '.join(tokens[:5])}{message}", message, f"{before} {' '.join(tokens[5:9])}{message}"]
        lines += [f"{before} {' '.join(tokens[9:])}"]
    assert figures(write(tmp_path, "\n".join(lines))) == KEPT


# several tables


def test_a_second_table_that_cannot_be_the_same_collective_is_refused(tmp_path: Path) -> None:
    both = table(SUM) + table(NONE)
    line, message = refused(write(tmp_path, both, "all_reduce_perf.log"))
    assert both.splitlines()[line - 1].strip() == NONE.strip()
    assert "the redop is none, which all-reduce does not have" in message
    assert "put each test into a file of its own and name the collective with --collective NAME" in message


def test_tables_that_name_their_collectives_are_both_used(tmp_path: Path) -> None:
    both = table(SUM, "all_reduce") + table(NONE, "all_gather")
    assert [each.op for each in read_benchmark(write(tmp_path, both)).measurements] == ["all-reduce", "all-gather"]
    script = "+ mpirun ./all_reduce_perf -g 1\n" + table(SUM) + "+ mpirun ./all_gather_perf -g 1\n" + table(NONE)
    assert [each.op for each in read_benchmark(write(tmp_path, script)).measurements] == ["all-reduce", "all-gather"]


def test_a_program_may_be_named_after_its_table_or_with_mpi(tmp_path: Path) -> None:
    concluded = "# Collective test concluded: all_gather_perf\n"
    (after,) = read_benchmark(write(tmp_path, table(NONE) + concluded)).measurements
    (with_mpi,) = read_benchmark(write(tmp_path, "$ srun all_gather_perf_mpi -g 1\n" + table(NONE))).measurements
    assert isinstance(after, CollectiveTime)
    assert isinstance(with_mpi, CollectiveTime)
    assert after.op == with_mpi.op == "all-gather"


def test_tables_of_one_collective_and_size_are_noted(tmp_path: Path) -> None:
    again = SUM.replace("131.0 8.00 12.01", "140.0 7.49 11.23")
    log = read_benchmark(write(tmp_path, table(SUM, "all_reduce") + table(again, "all_reduce")))
    assert len(log.measurements) == 2
    assert log.notes == (
        "2 tables: all-reduce has up to 2 figures at one size and number of ranks; all of them are used",
    )


def test_what_several_ranks_or_tee_repeat_is_used_once(tmp_path: Path) -> None:
    twice = "".join(f"[1,{rank}]<stdout>:{line}\n" for line in NCCL.splitlines() for rank in (0, 1))
    log = read_benchmark(write(tmp_path, twice))
    assert len(log.measurements) == 2
    assert "1 of 2 tables repeat another one, figure by figure: used once" in log.notes
    doubled = "\n".join(line for line in NCCL.splitlines() for _ in range(2))
    log = read_benchmark(write(tmp_path, doubled))
    assert len(log.measurements) == 2
    assert "3 lines repeat another one of their table: used once" in log.notes


@pytest.mark.parametrize(
    ("op", "row", "said"),
    [
        ("all_reduce", NONE, "the redop is none, which all-reduce does not have"),
        ("all_gather", SUM, "the redop is sum, which all-gather does not have"),
        ("broadcast", NONE, "the root is -1, which broadcast does not have"),
        ("all_reduce", SUM.replace(" -1 ", " 0 "), "the root is 0, which all-reduce does not have"),
        ("all_reduce", SUM.replace("12.01", "6.00"), "6 GB/s, which all-reduce of 4 ranks would have 12.00 GB/s"),
        ("reduce_scatter", SUM, "12.01 GB/s, which reduce-scatter of 4 ranks would have 6.00 GB/s"),
    ],
)
def test_a_table_that_says_it_is_another_is_refused(tmp_path: Path, op: str, row: str, said: str) -> None:
    assert said in refused(write(tmp_path, table(row, op)))[1]


# without MPI


def test_a_build_without_mpi_is_told(tmp_path: Path) -> None:
    alone = table(SUM.replace("12.01", "0.00").replace("12.10", "0.00"), "all_reduce", num_ranks=1)
    for text in (alone, alone + alone.replace("node-0", "node-1")):
        line, message = refused(write(tmp_path, text))
        assert "each communicator has one rank" in message
        assert "make MPI=1" in message
        assert line == 5
    ranks = "#  Rank  0 Pid 1320 on node-a device 0 [0x00] V100\n#  Rank  0 Pid 2066 on node-b device 0 [0x00] V100\n"
    line, message = refused(write(tmp_path, f"# nThread 1\n# nThread 1\n{ranks}{HEADING}\n{HEADING}\n{SUM}"))
    assert (line, "rank 0 stands twice" in message, "make MPI=1" in message) == (4, True, True)
    single = nccl_json()
    single["config"]["devices"].pop()  # type: ignore[index]
    assert "each communicator has one rank" in refused(write(tmp_path, json.dumps(single), "one.json"))[1]


def test_tables_of_one_rank_among_others_are_left_out_with_a_note(tmp_path: Path) -> None:
    alone = table(SUM.replace("12.01", "0.00").replace("12.10", "0.00"), "all_reduce", num_ranks=1)
    log = read_benchmark(write(tmp_path, alone + table(SUM, "all_reduce")))
    assert [each.num_ranks for each in log.measurements] == [4]
    assert "1 of 2 tables are not used: each communicator has one rank" in log.notes[0]


# bare tables and broken ends


BARE = {
    "redop, root": ("sum -1 131.0 8.00 12.01 0 130.0 8.07 12.10 0", "all-reduce"),
    "no root": ("sum 131.0 8.00 12.01 2e-06 130.0 8.07 12.10 2e-06", "all-reduce"),
    "no redop": ("131.0 8.00 6.00 0e+00 130.0 8.07 6.05 0e+00", "all-gather"),
    "out of place only": ("sum -1 131.0 8.00 12.01 0", "all-reduce"),
    "no wrong": ("none 0 131.0 8.00 8.00 130.0 8.07 8.07", "broadcast"),
}


@pytest.mark.parametrize("kind", BARE)
@pytest.mark.parametrize("before", ["", "[0]  ", "2026-11-27 18:05:01 ", "0: "])
def test_a_bare_table_is_read_with_the_name_of_its_collective(tmp_path: Path, kind: str, before: str) -> None:
    values, op = BARE[kind]
    path = write(tmp_path, f"{before}  1048576        262144     float     {values}\n{before}\n")
    (measured,) = read_benchmark(path, op).measurements
    assert measured == CollectiveTime(op, 1048576.0, pytest.approx(131e-6), 1)
    line, message = refused(path)
    assert (line, "say what it measures with --collective NAME (all-gather, all-reduce" in message) == (1, True)


def test_rows_whose_rate_is_not_that_of_their_time_are_no_table(tmp_path: Path) -> None:
    path = write(tmp_path, "1048576 262144 float sum -1 131.0 9.00 12.01 0\n")
    assert "not a log of a known benchmark" in refused(path, "all-reduce")[1]


def test_names_of_collectives_are_those_of_users(tmp_path: Path) -> None:
    path = write(tmp_path, "\n".join(ROWS))
    for name in ("all-reduce", "AllReduce", "all_reduce_perf", "allreduce"):
        assert figures(path, name) == KEPT
    with pytest.raises(InputError, match="is called 'al-reduce'; did you mean 'all-reduce'"):
        read_benchmark(path, "al-reduce")


def test_a_row_cut_off_at_the_end_is_left_out_and_noted(tmp_path: Path) -> None:
    text = NCCL[: NCCL.index("209.7") + 3]
    log = read_benchmark(write(tmp_path, text))
    assert len(log.measurements) == 1
    assert "line 17 is cut off at the end of the log: it is not used" in log.notes
    assert any("may be truncated" in note for note in log.notes)


def test_a_name_that_is_not_needed_is_noted(tmp_path: Path) -> None:
    log = read_benchmark(write(tmp_path, OSU_ALL_REDUCE), "all-gather")
    assert "the collective that was given (all-gather) is not used: OSU micro-benchmarks" in log.notes


# commands


def test_calibrate_asks_for_a_collective_and_takes_it(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    cluster = write(tmp_path, CLUSTER, "cluster.yaml")
    rates = ((1048576, 724.2), (4194304, 1819.4), (16777216, 6009.9), (67108864, 24106.9))
    rows = "\n".join(f"{size} {size // 4} float sum -1 {time} {size / time * 1e-3:.2f} 0 0" for size, time in rates)
    log = write(tmp_path, rows)
    command = ["calibrate", str(log), "--topology", str(cluster), "--transport", "nccl", "--gpus", "8", "-q"]
    assert main(command) == 3
    assert f"{log}:1: this is a table of nccl-tests without its heading" in capsys.readouterr().err
    assert main([*command, "--collective", "all-reduce"]) == 0
    assert "4 figures" in capsys.readouterr().out


def test_a_measured_log_of_a_scenario_may_name_its_collective(tmp_path: Path) -> None:
    from clustersim.scenario.parts import MeasuredRun

    run = MeasuredRun(collectives="run.log", collective="all-reduce", num_gpus=8)
    assert run.collective == "all-reduce"
    with pytest.raises(ValueError, match="only a log of collectives has one"):
        MeasuredRun(samples_per_s=5.0, num_gpus=8, collective="all-reduce")


# compressed, and mutated


def test_compressed_logs_are_read_and_bounded(tmp_path: Path) -> None:
    packed = tmp_path / "run.log.gz"
    packed.write_bytes(gzip.compress(NCCL.encode()))
    assert figures(packed) == KEPT
    with zipfile.ZipFile(tmp_path / "run.zip", "w") as archive:
        archive.writestr("run.log", NCCL)
    assert figures(tmp_path / "run.zip") == KEPT
    packed.write_bytes(gzip.compress(b"0" * (65 << 20)))
    assert "the file is too large; at most 67 MB, unpacked" in refused(packed)[1]


@pytest.mark.parametrize(
    ("text", "name", "collective"),
    [
        (NCCL, "nccl.log", None),
        ("\n".join(f"[1,0]<stdout>:{line}" for line in NCCL.splitlines()), "prefixed.log", None),
        ("\n".join(ROWS), "bare.log", "all-reduce"),
        (json.dumps(nccl_json()), "nccl.json", None),
        (OSU_ALL_REDUCE, "osu.log", None),
        (P2P, "p2p.log", None),
        (NVBANDWIDTH, "nvbandwidth.log", None),
        (json.dumps(NVBANDWIDTH_JSON), "nvbandwidth.json", None),
    ],
)
def test_mutated_logs_are_read_or_refused(tmp_path: Path, text: str, name: str, collective: str | None) -> None:
    num_read, num_refused = check_mutations(
        lambda path: read_benchmark(path, collective), text.encode(), tmp_path / name
    )
    assert num_refused > 20
    assert num_read > 20


def test_hosts_that_run_alone_are_apart_by_their_addresses(tmp_path: Path) -> None:
    alone = table(SUM.replace("12.01", "0.00").replace("12.10", "0.00"), "all_reduce", num_ranks=1)
    lines = [f"10.0.0.{host}: {line}" for line in alone.splitlines() for host in (123, 124)]
    line, message = refused(write(tmp_path, "\n".join(lines)))
    assert "each communicator has one rank" in message
    assert "10.0.0.123" in lines[line - 1]
