"""What if as one file: its points are what the printed commands forecast, and it says what it has."""

from __future__ import annotations

import base64
import gzip
import json
import re
import shlex
from pathlib import Path
from typing import Any

import pytest

import clustersim
from clustersim.cli import main
from clustersim.report.findings import findings
from clustersim.what_if import WhatIf
from clustersim.what_if.planned_points import PlannedPoints
from clustersim.what_if_file import what_if_html, write_what_if
from clustersim.what_if_file.packs import fitting_packs, packs_of
from clustersim.what_if_file.points import document_of, points_of
from tests.cli.tiny import SCENARIO

NUM_POINTS = 60


class Page:
    """A page, read as its script reads it."""

    def __init__(self, html: str) -> None:
        self.html = html
        about = re.search(r'<script type="application/json" id="page">(.*?)</script>', html)
        assert about
        self.about: dict[str, Any] = json.loads(about[1])
        packs = re.findall(r'id="packed-points-\d+">([^<]*)<', html)
        self.points: list[dict[str, Any]] = [point for pack in packs for point in json.loads(unpacked(pack))]


def unpacked(text: str) -> bytes:
    return gzip.decompress(base64.b64decode(text))


@pytest.fixture(scope="module")
def tiny(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("what-if") / "tiny.yaml"
    path.write_text(SCENARIO)
    return path


@pytest.fixture(scope="module")
def page(tiny: Path) -> Page:
    return Page(write_what_if(tiny, tiny.with_name("what-if.html"), most=NUM_POINTS, workers=1).read_text())


def test_the_first_point_is_the_scenario_as_it_is(page: Page) -> None:
    assert page.points[0]["settings"] == {}
    assert len(page.points) <= NUM_POINTS


def test_points_are_what_the_printed_commands_forecast(page: Page, capsys: pytest.CaptureFixture[str]) -> None:
    forecasts = [point for point in page.points if point["rate"] is not None]
    assert len(forecasts) > 20
    for point in forecasts[:: len(forecasts) // 8]:
        assert main([*shlex.split(point["command"])[1:], "--json", "--quiet"]) == 0
        runs = json.loads(capsys.readouterr().out)["runs"]
        assert point["rate"] == max(runs, key=lambda run: run["num_gpus"])["samples_per_s"], point["command"]
        assert len(point["table"]["rows"]) == len(runs)


def test_points_that_are_refused_say_what_the_printed_command_says(
    page: Page, capsys: pytest.CaptureFixture[str]
) -> None:
    refused = [point for point in page.points if point["rate"] is None]
    assert refused
    for point in refused[::3]:
        assert main([*shlex.split(point["command"])[1:], "--json", "--quiet"]) == 3
        messages = [mistake["message"] for mistake in json.loads(capsys.readouterr().out)["errors"]]
        assert len(messages) == len(point["refusal"])
        assert all(text.endswith(message) for text, message in zip(point["refusal"], messages, strict=True))
        assert point["figures"] == {}


def test_no_folder_of_this_machine_is_in_a_message(page: Page, tiny: Path) -> None:
    assert str(tiny.parent) not in "".join(text for point in page.points for text in point["refusal"])


def test_the_settings_of_a_point_are_its_knobs_and_stops(page: Page) -> None:
    assert len(page.about["points"]) == len(page.points)
    assert len({json.dumps(pairs) for pairs in page.about["points"]}) == len(page.points)
    for pairs, point in zip(page.about["points"], page.points, strict=True):
        assert {page.about["knobs"][place]["name"] for place, _ in pairs} == set(point["settings"])
        assert all(stop != page.about["knobs"][place]["current"] for place, stop in pairs)


def test_every_combination_that_the_page_names_is_in_it(page: Page) -> None:
    combined = [place for place, knob in enumerate(page.about["knobs"]) if knob["combined"]]
    assert combined
    assert any(len(pairs) > 1 for pairs in page.about["points"])
    assert all(place in combined for pairs in page.about["points"] if len(pairs) > 1 for place, _ in pairs)
    assert f"{len(page.points)} points in all" in page.html


def test_the_file_depends_on_neither_the_processes_nor_the_time(tiny: Path, page: Page) -> None:
    again = write_what_if(tiny, tiny.with_name("again.html"), most=NUM_POINTS, workers=2)
    assert again.read_text() == page.html


def test_nothing_is_loaded_and_the_file_can_be_mailed(page: Page) -> None:
    assert "default-src 'none'" in page.html
    assert not re.findall(r'(?:src|href)="(?!data:)', page.html)
    assert len(page.html) < 4_000_000


def test_a_file_that_would_be_too_large_loses_its_longest_timelines(page: Page) -> None:
    most = sum(map(len, packs_of(page.points))) * 9 // 10
    packs = fitting_packs(page.points, most)
    assert sum(map(len, packs)) <= most
    fitting = [point for pack in packs for point in json.loads(unpacked(pack))]
    lengths = [len(json.dumps(point["figures"].get("timeline"))) for point in page.points]
    kept = [length for length, point in zip(lengths, fitting, strict=True) if "no_timeline" not in point]
    lost = [length for length, point in zip(lengths, fitting, strict=True) if "no_timeline" in point]
    assert min(lost) >= max(kept)
    assert all("scaling" in point["figures"] for point in fitting if "no_timeline" in point)


def test_a_page_of_a_comparison_opens_on_its_answer(tiny: Path) -> None:
    settings = ["strategy.kind=[server, all-reduce]"]
    page = Page(write_what_if(tiny, tiny.with_name("two.html"), settings, most=6, workers=1).read_text())
    first = page.points[page.about["first"]]
    headline, *_ = findings(clustersim.sweep(clustersim.load_scenario(tiny, settings)))
    assert first["question"]["headline"] == headline
    listed = [each for each in page.points if set(each["settings"]) <= {"strategy.kind"} and each["rate"]]
    assert first["rate"] == max(each["rate"] for each in listed)
    assert "Shown below: Strategy: " in first["question"]["more"]


def test_a_page_of_one_setting_opens_on_the_scenario(page: Page) -> None:
    assert page.about["first"] == 0
    assert not any("question" in each for each in page.points)


def test_notes_have_no_lines_of_the_file(page: Page, tiny: Path) -> None:
    notes = [why for each in page.points for why in each["left_out"].values()]
    assert not any("^" in why or "\n" in why or tiny.name in why for why in notes)


def test_text_of_a_scenario_never_ends_the_data(tmp_path: Path) -> None:
    path = tmp_path / "tiny.yaml"
    path.write_text(SCENARIO.replace("name: tiny", "name: </script><b>"))
    study = WhatIf(path)
    html = what_if_html(study, PlannedPoints({}, {}), [document_of(study.evaluate({}))])
    assert "</script><b>" not in html


class TestCommand:
    def test_run_writes_the_page_beside_the_report(self, folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
        assert main(["run", "tiny.yaml", "--what-if", "--what-if-points", "6", "--workers", "1"]) == 0
        assert capsys.readouterr().out.splitlines()[-1] == "what-if: runs/tiny/what-if.html"
        assert len(Page((folder / "runs/tiny/what-if.html").read_text()).points) <= 6

    def test_json_stays_one_document(self, folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
        assert main(["run", "tiny.yaml", "--what-if-file", "w.html", "--what-if-points", "4", "--json",
                     "--workers", "1"]) == 0  # fmt: skip
        json.loads(capsys.readouterr().out)
        assert (folder / "w.html").exists()

    def test_keys_alone_are_a_scenario_too(self, folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
        keys = ["model=alexnet", "num_gpus=2", "batch.per_gpu=16", "topology=star.yaml", "topology.host.gpu=k80",
                "software=plain"]  # fmt: skip
        settings = [text for key in keys for text in ("--set", key)]
        assert main(["run", *settings, "--what-if-file", "w.html", "--what-if-points", "4", "--workers", "1"]) == 0
        point = Page((folder / "w.html").read_text()).points[-1]
        capsys.readouterr()
        assert main([*shlex.split(point["command"])[1:], "--json", "--quiet"]) == 0
        assert json.loads(capsys.readouterr().out)["runs"][-1]["samples_per_s"] == point["rate"]

    @pytest.mark.parametrize("other", [["--exact"], ["--measured", "2=10/s"]])
    def test_what_the_page_cannot_follow_is_refused(
        self, folder: Path, other: list[str], capsys: pytest.CaptureFixture[str]
    ) -> None:
        assert main(["run", "tiny.yaml", "--what-if", *other]) == 2
        assert "--what-if cannot be combined with" in capsys.readouterr().err


def test_a_changed_file_gives_another_page(tmp_path: Path) -> None:
    path = tmp_path / "tiny.yaml"
    path.write_text(SCENARIO)
    before, *_ = points_of(path, (), 2, 1, lambda share, what: None)[2]
    path.write_text(SCENARIO + "seed: 7\n")
    after, *_ = points_of(path, (), 2, 1, lambda share, what: None)[2]
    assert "seed: 7" in after["scenario"]
    assert "seed: 7" not in before["scenario"]
