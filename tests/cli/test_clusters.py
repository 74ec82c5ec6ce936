"""`collective` and `topology`: numbers, files, and errors."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import typer

import clustersim
from clustersim.cli import main
from clustersim.cli.collectives import nccl_tests_table, parse_sizes


class TestCollective:
    def test_ring_on_an_idle_star_takes_its_closed_form(self, folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
        arguments = ["--topology", "star.yaml", "--algorithm", "ring", "--gpus", "4", "--bytes", "1MB..4MB", "--json"]
        assert main(["collective", "all-reduce", *arguments]) == 0
        document = json.loads(capsys.readouterr().out)
        assert document["schema"] == "clustersim.collective/1"
        assert [row["num_bytes"] for row in document["rows"]] == [1e6, 2e6, 4e6]
        for row in document["rows"]:
            expected = 6 * (2e-6 + row["num_bytes"] / 4 / 1e9)
            assert row["time_s"] == pytest.approx(expected, rel=1e-9)
            assert row["algbw_bytes_per_s"] == pytest.approx(row["num_bytes"] / expected)
            assert row["busbw_bytes_per_s"] == pytest.approx(row["num_bytes"] / expected * 1.5)

    def test_table_is_in_microseconds_and_gigabytes_a_second(
        self, folder: Path, capsys: pytest.CaptureFixture[str]
    ) -> None:
        arguments = ["--topology", "star.yaml", "--algorithm", "ring", "--gpus", "2", "--bytes", "1MB"]
        assert main(["collective", "all-reduce", *arguments]) == 0
        assert capsys.readouterr().out.splitlines()[-1].split() == ["1000000", "1004.00", "0.996", "0.996"]

    def test_more_gpus_than_there_are_exits_3(self, folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
        assert main(["collective", "all-reduce", "--topology", "star.yaml", "--gpus", "5", "--bytes", "1B"]) == 3
        assert "4" in capsys.readouterr().err

    @pytest.mark.parametrize(
        ("text", "sizes"),
        [("8B", [8.0]), ("0 B", [0.0]), ("8B..64B", [8.0, 16.0, 32.0, 64.0]), ("3B .. 13B", [3.0, 6.0, 12.0])],
    )
    def test_sizes_double_to_at_most_the_last(self, text: str, sizes: list[float]) -> None:
        assert parse_sizes(text) == sizes

    @pytest.mark.parametrize(
        ("text", "reason"),
        [
            ("8 Gb", "write Gbit or GB"),
            ("0B..8B", "above zero"),
            ("9B..8B", "the smaller one first"),
            ("8B..", "expected a size"),
        ],
    )
    def test_sizes_that_are_none_are_refused(self, text: str, reason: str) -> None:
        with pytest.raises(typer.BadParameter, match=reason):
            parse_sizes(text)

    def test_a_barrier_has_no_bandwidth(self) -> None:
        row = {"num_bytes": 0.0, "time_s": 1e-6, "algbw_bytes_per_s": None, "busbw_bytes_per_s": None}
        assert nccl_tests_table([row]).splitlines()[-1].split() == ["0", "1.00", "-", "-"]


class TestTopology:
    def test_show_prints_counts_and_route(self, folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
        assert main(["topology", "show", "star.yaml", "--route", "0", "3"]) == 0
        out = capsys.readouterr().out
        assert "GPUs       4" in out
        assert "latency    2.00 us" in out
        assert "bottleneck 1.00 GB/s, gpu0->switch" in out

    def test_show_json(self, folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
        assert main(["topology", "show", "star.yaml", "--route", "0", "3", "--json"]) == 0
        document = json.loads(capsys.readouterr().out)
        assert document["schema"] == "clustersim.topology/1"
        assert (document["num_hosts"], document["num_gpus"], document["num_links"]) == (4, 4, 8)
        assert document["route"]["latency_s"] == pytest.approx(2e-6)

    def test_show_writes_a_drawing_unless_disabled(self, folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
        assert main(["topology", "show", "star.yaml", "--no-report"]) == 0
        assert main(["topology", "show", "star.yaml", "--json"]) == 0
        assert not (folder / "runs").exists()
        assert main(["topology", "show", "star.yaml"]) == 0
        assert "<html" in (folder / "runs" / "star" / "topology.html").read_text()[:200]

    def test_show_draws_where_asked(self, folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
        assert main(["topology", "show", "star.yaml", "-o", "star.html"]) == 0
        assert "drawing: star.html" in capsys.readouterr().out
        assert "<html" in (folder / "star.html").read_text()[:200]

    def test_export_reads_back_as_a_graph(self, folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
        import networkx as nx

        assert main(["topology", "export", "star.yaml"]) == 0
        graph = nx.node_link_graph(json.loads(capsys.readouterr().out), edges="edges")
        assert (graph.number_of_nodes(), graph.number_of_edges()) == (5, 8)
        assert main(["topology", "export", "star.yaml", "-o", "graph.json"]) == 0
        assert clustersim.load_topology(graph).num_gpus == 4
        assert json.loads((folder / "graph.json").read_text())["directed"] is True

    @pytest.mark.parametrize(
        "command",
        [
            ["topology", "show", "bad.yaml", "--json"],
            ["topology", "export", "bad.yaml", "--json"],
            ["collective", "all-reduce", "--topology", "bad.yaml", "--gpus", "2", "--bytes", "1MB", "--json"],
        ],
        ids=["show", "export", "collective"],
    )
    def test_every_mistake_in_a_topology_file_has_its_line_and_key(
        self, command: list[str], folder: Path, capsys: pytest.CaptureFixture[str]
    ) -> None:
        (folder / "bad.yaml").write_text("kind: torus\ndims: [2, 2]\nlink: 10 Gb/s\nhost: {gpus: k80}\nbogus: 3\n")
        assert main(command) == 3
        out, err = capsys.readouterr()
        errors = json.loads(out)["errors"]
        found = [(each["file"], each["line"], each["column"], each["key"], each["got"]) for each in errors]
        assert found == [
            ("bad.yaml", 3, 7, "link", "10 Gb/s"),
            ("bad.yaml", 4, 8, "host.gpus", "gpus"),
            ("bad.yaml", 5, 1, "bogus", "bogus"),
        ]
        assert all(each["allowed"] for each in errors)
        assert "bad.yaml:3:7: link: expected a rate" in err

    def test_unknown_clusters_exit_3(self, capsys: pytest.CaptureFixture[str]) -> None:
        assert main(["topology", "show", "titanic"]) == 3
        assert "did you mean 'titan'" in capsys.readouterr().err


class TestImportTopology:
    MATRIX = "GPU0 GPU1 NIC0\nGPU0 X NV12 PXB\nGPU1 NV12 X SYS\nNIC0 PXB SYS X\n"

    def test_it_writes_a_file_and_prints_the_notes(self, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
        source, out = tmp_path / "topo.txt", tmp_path / "cluster.yaml"
        source.write_text(self.MATRIX)
        options = ["--gpu", "a100", "--hosts", "2", "--link", "25 Gbit/s"]
        assert main(["import", "topology", str(source), *options, "-o", str(out)]) == 0
        printed = capsys.readouterr()
        assert "star: 2 hosts, 4 GPUs" in printed.out
        assert "note: 2 hosts are on one switch" in printed.err
        assert clustersim.load_topology(out).num_gpus == 4
        assert "# note: 2 hosts are on one switch" in out.read_text()

    @pytest.mark.parametrize(
        ("text", "options", "says"),
        [
            ("hello", [], "topo.txt: this is no description of a host or a network known here"),
            (MATRIX, [], "gpu: the file does not name the GPU"),
            (MATRIX, ["--gpu", "a1000"], "a1000"),
            (MATRIX, ["--gpu", "a100", "--format", "dot"], "no topology format is called 'dot'"),
            (MATRIX, ["--gpu", "a100", "--link", "fast"], "fast"),
            (MATRIX, ["--gpu", "a100", "-o", "cluster.txt"], "a topology file ends in .yaml"),
        ],
    )
    def test_what_is_wrong_exits_3(
        self, text: str, options: list[str], says: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
    ) -> None:
        source = tmp_path / "topo.txt"
        source.write_text(text)
        assert main(["import", "topology", str(source), *options]) == 3
        assert says in capsys.readouterr().err


def test_keys_alone_are_a_scenario(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    keys = ["model=alexnet", "topology=star.yaml", "topology.gpu=v100", "num_gpus=2", "batch.per_gpu=4"]
    assert main(["run", "--no-report", *(word for key in keys for word in ("--set", key))]) == 0
    assert "scenario" in capsys.readouterr().out
    assert main(["run"]) == 2
    assert "name a SCENARIO" in capsys.readouterr().err
