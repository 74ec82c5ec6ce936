"""Wrong files have clear messages; `extends` merges files and keeps the place of every value."""

from __future__ import annotations

import os
import time
from pathlib import Path

import pytest

from clustersim.data import shipped_files
from clustersim.errors import InputError, Mistake
from clustersim.scenario import files, load_scenario


def refused(source: Path | str) -> Mistake:
    with pytest.raises(InputError) as caught:
        load_scenario(source)
    assert len(caught.value.mistakes) == 1
    return caught.value.mistakes[0]


def written(folder: Path, **texts: str) -> Path:
    """Write files by name and return the last."""
    path = folder
    for name, text in texts.items():
        path = folder / f"{name}.yaml"
        path.write_text(text, encoding="utf-8")
    return path


def test_a_missing_file_names_the_nearest_shipped_scenario() -> None:
    mistake = refused("firecafe-googlenet")
    assert "there is no file 'firecafe-googlenet'" in mistake.message
    assert "did you mean 'firecaffe-googlenet'?" in mistake.message
    assert mistake.allowed == ", ".join(shipped_files("scenarios"))


def test_a_directory_is_refused(tmp_path: Path) -> None:
    assert "this is a directory" in refused(tmp_path).message


def test_a_shipped_name_is_found_beside_a_directory_of_that_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "firecaffe-googlenet").mkdir()
    monkeypatch.chdir(tmp_path)
    assert files.find_file("firecaffe-googlenet", "scenarios", "scenario").is_file()


def test_a_pipe_is_not_waited_for(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe.yaml")
    assert "not a regular file" in refused(tmp_path / "pipe.yaml").message


def test_a_large_file_is_refused_without_reading_it(tmp_path: Path) -> None:
    path = tmp_path / "large.yaml"
    with path.open("wb") as stream:
        stream.truncate(100_000_000)
    begin = time.process_time()
    mistake = refused(path)
    assert "too large (100.0 MB)" in mistake.message
    assert mistake.allowed == "1 MiB at most"
    assert time.process_time() - begin < 0.5


@pytest.mark.parametrize(
    ("data", "line", "words"),
    [
        (b"", None, "the file is empty"),
        (b"# only a comment\n", None, "the file is empty"),
        (b"\x89PNG\r\n\x1a\n\x00\x00", 1, "not text in UTF-8"),
        (b"a: 1\nb: caf\xe9\n", 2, "not text in UTF-8"),
        (b"a: 1\nb: \x00\n", 2, "a NUL character"),
        (b"- 1\n- 2\n", 1, "a scenario is a list of 'key: value' lines (got a list)"),
        (b"resnet50\n", 1, "a scenario is a list of 'key: value' lines (got 'resnet50')"),
    ],
)
def test_a_file_that_is_not_a_scenario_is_refused(tmp_path: Path, data: bytes, line: int | None, words: str) -> None:
    path = tmp_path / "f.yaml"
    path.write_bytes(data)
    mistake = refused(path)
    assert words in mistake.message
    assert (mistake.file, mistake.line) == (str(path), line)


def test_a_byte_order_mark_is_accepted(small: str, tmp_path: Path) -> None:
    path = tmp_path / "f.yaml"
    path.write_bytes(b"\xef\xbb\xbf" + small.encode())
    assert load_scenario(path).name == "small"


def test_extends_merges_maps_and_replaces_lists(small: str, tmp_path: Path) -> None:
    path = written(
        tmp_path,
        base=small + "stragglers: [{kind: gamma, cv: 0.1}, {kind: uniform, cv: 0.1}]\n",
        child="extends: base.yaml\ntopology: {num_hosts: 4}\nstragglers: [{kind: pareto, cv: 0.2}]\n",
    )
    scenario = load_scenario(path)
    assert scenario.raw["topology"]["num_hosts"] == 4
    assert scenario.raw["topology"]["link"] == "10 Gbit/s"
    assert [straggler.kind for straggler in scenario.stragglers] == ["pareto"]


def test_a_map_of_another_kind_replaces_the_whole_map(small: str, tmp_path: Path) -> None:
    path = written(tmp_path, base=small, child="extends: base.yaml\nstrategy: {kind: server}\n")
    assert load_scenario(path).raw["strategy"] == {"kind": "server"}


def test_of_two_alternatives_the_nearer_one_wins(small: str, tmp_path: Path) -> None:
    path = written(tmp_path, base=small, child="extends: base.yaml\nbatch: {global: 64}\n")
    assert load_scenario(path).raw["batch"] == {"global": 64}


def test_the_later_of_several_bases_wins_and_the_file_itself_over_all(small: str, tmp_path: Path) -> None:
    path = written(
        tmp_path,
        base=small,
        more="seed: 3\nnum_gpus: 2\nreplicates: 2\n",
        child="extends: [base.yaml, more.yaml]\nseed: 4\n",
    )
    scenario = load_scenario(path)
    assert (scenario.seed, scenario.num_gpus, scenario.replicates) == (4, 2, 2)


def test_a_mistake_in_a_base_has_its_place_in_the_base(small: str, tmp_path: Path) -> None:
    path = written(tmp_path, base=small + "seed: -1\n", child="extends: base.yaml\nreplicates: 0\n")
    with pytest.raises(InputError) as caught:
        load_scenario(path)
    places = {(Path(mistake.file or "").name, mistake.line, mistake.key) for mistake in caught.value.mistakes}
    assert places == {("base.yaml", 8, "seed"), ("child.yaml", 2, "replicates")}


def test_a_shipped_scenario_can_be_extended(tmp_path: Path) -> None:
    path = written(tmp_path, child="extends: firecaffe-googlenet\nseed: 77\n")
    assert load_scenario(path).seed == 77


@pytest.mark.parametrize(
    ("extends", "words"),
    [
        ("nowhere.yaml", "there is no file 'nowhere.yaml'"),
        ("child.yaml", "a scenario cannot extend itself (child.yaml -> child.yaml)"),
        ("other.yaml", "a scenario cannot extend itself (child.yaml -> other.yaml -> child.yaml)"),
        ("3", "expected the name or the file of a scenario (got 3)"),
    ],
)
def test_a_wrong_extends_is_reported_at_its_line(tmp_path: Path, extends: str, words: str) -> None:
    path = written(tmp_path, other="extends: child.yaml\n", child=f"seed: 1\nextends: {extends}\n")
    mistake = refused(path)
    assert words in mistake.message
    assert mistake.key == "extends"
    assert (Path(mistake.file or "").name, mistake.line) in {("child.yaml", 2), ("other.yaml", 1)}


def test_doubling_includes_are_refused(small: str, tmp_path: Path) -> None:
    texts = {f"f{n}": f"extends: [f{n - 1}.yaml, f{n - 1}.yaml]\n" for n in range(1, 20)}
    assert "at most 50 files" in refused(written(tmp_path, f0=small, **texts)).message


def test_paths_are_relative_to_their_file(small: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    inner = tmp_path / "inner"
    inner.mkdir()
    written(inner, cluster="kind: star\nnum_hosts: 3\nlink: 1 Gbit/s\nhost: {gpu: k80}\n")
    path = written(
        inner, mine=small.replace("topology: {", "topology: cluster.yaml\n#").replace("num_gpus: 4", "num_gpus: 3")
    )
    monkeypatch.chdir(tmp_path)
    scenario = load_scenario(path)
    assert (scenario.topology.num_hosts, scenario.topology.name) == (3, "cluster")


def test_a_mistake_in_a_cluster_file_has_its_place_there(small: str, tmp_path: Path) -> None:
    written(tmp_path, cluster="kind: star\nnum_hosts: 3\nlink: 1 Gb/s\n")
    path = written(tmp_path, mine=small.replace("topology: {", "topology: cluster.yaml\n#"))
    mistake = refused(path)
    assert (Path(mistake.file or "").name, mistake.line, mistake.column) == ("cluster.yaml", 3, 7)
    assert "write Gbit/s or GB/s" in mistake.message


@pytest.mark.parametrize(
    ("named", "words"),
    [
        ("''", "this is not the name of a topology (got '')"),
        (".", "this is a directory"),
        ("empty.yaml", "the file is empty"),
        ("gone.yaml", "there is no file 'gone.yaml'"),
    ],
)
def test_an_unreadable_file_is_reported_where_it_is_named(small: str, tmp_path: Path, named: str, words: str) -> None:
    path = written(tmp_path, empty="", mine=small.replace("topology: {", f"topology: {named}\n#"))
    mistake = refused(path)
    assert words in mistake.message
    assert (mistake.file, mistake.line, mistake.key) == (str(path), 5, "topology")


def test_an_unreadable_workload_file_is_reported_where_it_is_named(small: str, tmp_path: Path) -> None:
    path = written(tmp_path, mine=small.replace("model: alexnet", "model: gone.yaml"))
    mistake = refused(path)
    assert "gone.yaml" in mistake.message
    assert (mistake.file, mistake.line, mistake.key) == (str(path), 2, "model")


class TestFilesOutside:
    """A scenario extends what is beside it or beside the user, not any file of the machine."""

    BASE = (
        "model: googlenet\nnum_gpus: 2\nbatch: {per_gpu: 32}\ntopology: {kind: star, num_hosts: 2, link: 1 GB/s, "
        "hop: 1 us, host: {gpu: k80}}\n"
    )

    def files(self, folder: Path, extends: str) -> Path:
        """Write a scenario in `inner` that extends a file, and a file to extend in `outer`."""
        for name, text in {"outer/base.yaml": self.BASE, "inner/mine.yaml": f"extends: {extends}\nseed: 2\n"}.items():
            (folder / name).parent.mkdir(exist_ok=True)
            (folder / name).write_text(text, encoding="utf-8")
        return folder / "inner" / "mine.yaml"

    def test_another_folder_is_refused_unless_allowed(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        mine = self.files(tmp_path, "../outer/base.yaml")
        monkeypatch.chdir(tmp_path / "inner")
        mistake = refused(mine)
        assert "only `clustersim run --allow-outside` reads it" in mistake.message
        assert mistake.line == 1
        assert load_scenario(mine, allow_outside=True).points

    def test_a_link_to_another_folder_is_refused(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        mine = self.files(tmp_path, "linked.yaml")
        (tmp_path / "inner" / "linked.yaml").symlink_to(tmp_path / "outer" / "base.yaml")
        monkeypatch.chdir(tmp_path / "inner")
        assert "outside the folders" in refused(mine).message

    def test_the_working_directory_and_the_repository_are_allowed(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        mine = self.files(tmp_path, "../outer/base.yaml")
        monkeypatch.chdir(tmp_path / "outer")
        assert load_scenario(mine).points
        monkeypatch.chdir(tmp_path / "inner")
        (tmp_path / ".git").mkdir()
        assert load_scenario(mine).points

    def test_the_root_and_the_home_are_no_projects(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        mine = self.files(tmp_path, "../outer/base.yaml")
        monkeypatch.chdir("/")
        assert "outside the folders" in refused(mine).message
        monkeypatch.setenv("HOME", str(tmp_path))
        (tmp_path / ".git").mkdir()
        monkeypatch.chdir(tmp_path)
        assert "outside the folders" in refused(mine).message
        (tmp_path / "home.yaml").write_text(self.BASE)
        (tmp_path / "beside.yaml").write_text("extends: home.yaml\n")
        assert load_scenario(tmp_path / "beside.yaml").points

    def test_a_working_directory_that_was_deleted_has_no_files(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        (tmp_path / "gone").mkdir()
        monkeypatch.chdir(tmp_path / "gone")
        (tmp_path / "gone").rmdir()
        assert load_scenario("firecaffe-googlenet").points
