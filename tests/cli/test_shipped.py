"""`list`, `copy` and `schema`."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from clustersim.cli import main
from clustersim.cli.listing import SECTIONS, first_comment
from clustersim.data import shipped_files


class TestListCopySchema:
    @pytest.mark.parametrize("name", SECTIONS)
    def test_every_member_has_one_line(self, name: str, capsys: pytest.CaptureFixture[str]) -> None:
        assert main(["list", name]) == 0
        heading, *lines = capsys.readouterr().out.splitlines()
        assert heading == f"{name}:"
        assert lines
        assert all(len(line.split(maxsplit=1)) == 2 for line in lines), lines

    def test_list_has_every_section(self, capsys: pytest.CaptureFixture[str]) -> None:
        assert main(["list"]) == 0
        out = capsys.readouterr().out
        assert [line[:-1] for line in out.splitlines() if line and not line.startswith(" ")] == list(SECTIONS)

    def test_comments_for_editors_are_not_titles(self, tmp_path: Path) -> None:
        path = tmp_path / "a.yaml"
        path.write_text("# yaml-language-server: $schema=x\n#\n# What it shows.\nname: a\n")
        assert first_comment(path) == "What it shows."

    def test_copy_gives_a_file_that_runs(self, folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
        assert main(["copy", "firecaffe-googlenet", "mine.yaml"]) == 0
        assert (folder / "mine.yaml").read_bytes() == shipped_files("scenarios")["firecaffe-googlenet"].read_bytes()
        assert main(["run", "mine.yaml", "--json", "--set", "num_gpus=16", "--set", "replicates=1"]) == 0

    def test_copy_overwrites_nothing(self, folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
        assert main(["copy", "firecaffe-googlenet"]) == 0
        assert main(["copy", "firecaffe-googlenet"]) == 3
        assert "already exists" in capsys.readouterr().err
        assert main(["copy", "firecaffe-googlenet", "no/such/folder.yaml"]) == 3
        assert "cannot write" in capsys.readouterr().err

    def test_copy_of_an_unknown_scenario_suggests_one(self, capsys: pytest.CaptureFixture[str]) -> None:
        assert main(["copy", "firecafe-googlenet"]) == 3
        assert "did you mean 'firecaffe-googlenet'" in capsys.readouterr().err

    def test_schema_is_a_json_schema(self, capsys: pytest.CaptureFixture[str]) -> None:
        assert main(["schema"]) == 0
        document = json.loads(capsys.readouterr().out)
        assert "2020-12" in document["$schema"]
        assert "num_gpus" in document["properties"]
