"""The register: a first forecast is written once, before the figures, and scored as it was written."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Callable
from pathlib import Path

import pytest

from clustersim.cli import main
from clustersim.errors import InputError, SimulationError
from clustersim.results.band import Checked
from clustersim.validation.band_data import checked_forecasts
from clustersim.validation.case import CHOSEN_AFTER
from clustersim.validation.figures.register import draw_register, register_curves
from clustersim.validation.register import (
    add_entry,
    load_entries,
    note_migration,
    register_rows,
    score_register,
)
from clustersim.validation.register.code import code_state, package_sha256
from clustersim.validation.register.first import read_first, write_first
from clustersim.validation.register.page import register_html, seen_errors
from clustersim.validation.register.text import score_page
from tests.validation.conftest import SCENARIO
from tests.validation.test_first_forecasts import made_up_verdict

SWEEP = SCENARIO.replace("num_gpus: 1", "num_gpus: [1, 2]")
POINTS = "num_gpus,metric,unit\n1,samples_per_s,images/s\n4,samples_per_s,images/s\n4,iteration_s,s\n"
HEADER = "num_gpus,metric,value,unit,role,provenance,where\n"
FIGURES = HEADER + "1,samples_per_s,400,images/s,prediction,read,a log\n4,iteration_s,100,ms,prediction,read,a log\n"
HEX = re.compile(r"[0-9a-f]{64}")


@pytest.fixture
def make_entry(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., Path]:
    """Return a function that adds an entry of the register in the working directory and returns its folder."""
    monkeypatch.chdir(tmp_path)

    def make(name: str = "tiny", points: str = POINTS, source: str = "") -> Path:
        folder = tmp_path / "register" / name
        folder.mkdir(parents=True)
        (folder / "scenario.yaml").write_text(SCENARIO, encoding="utf-8")
        (folder / "points.csv").write_text(points, encoding="utf-8")
        (folder / "source.md").write_text(f"# A made-up cluster\n\n{source}\n", encoding="utf-8")
        return add_entry(str(folder / "scenario.yaml"), workers=1).folder

    return make


def with_first(folder: Path, *values: float) -> None:
    """Let an entry have first forecasts as an earlier version may have made them."""
    document = json.loads((folder / "forecast.json").read_text(encoding="utf-8"))
    for forecast, value in zip(document["forecasts"], values, strict=True):
        forecast["value"] = value
    (folder / "forecast.json").write_text(json.dumps(document), encoding="utf-8")


def messages(error: pytest.ExceptionInfo[InputError]) -> list[tuple[str | None, int | None, str]]:
    return [(Path(each.file).name if each.file else None, each.line, each.message) for each in error.value.mistakes]


def refused(*arguments: object) -> pytest.ExceptionInfo[InputError]:
    with pytest.raises(InputError) as caught:
        add_entry(*arguments, workers=1)  # type: ignore[arg-type]
    return caught


def test_a_forecast_is_written_with_date_code_and_hashes(make_entry) -> None:
    folder = make_entry(source="Source: acme-blog\nPublished: 2025-03")
    document = json.loads((folder / "forecast.json").read_text(encoding="utf-8"))
    assert document["schema"] == "clustersim.first-forecast/1"
    assert document["source"] == "acme-blog"
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ", document["date"])
    assert HEX.fullmatch(document["package_sha256"])
    for name in ("scenario.yaml", "points.csv"):
        assert document["files"].pop(name) == hashlib.sha256((folder / name).read_bytes()).hexdigest()
    assert document["files"] == {}
    one, four, iteration = document["forecasts"]
    assert one["value"] == pytest.approx(320.0)  # the published rate of one GPU
    assert one["settings"] == {"num_gpus": "1"}
    assert iteration["value"] == pytest.approx(4 * 32 / four["value"])
    assert (four["features"]["origin"], four["num_gpus"]) == ("published", 4)
    assert four["band"]["level"] == 0.9
    assert load_entries([str(folder)])[0].published == "2025-03"


def test_a_scenario_is_copied_with_the_files_that_it_names_and_its_sweep_becomes_the_points(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("base.yaml").write_text(SWEEP, encoding="utf-8")
    Path("mine.yaml").write_text("name: mine\nextends: base.yaml\n", encoding="utf-8")
    added = add_entry("mine.yaml", workers=1)
    assert added.folder == Path("register/mine")
    names = sorted(path.name for path in added.folder.iterdir())
    assert names == ["base.yaml", "forecast.json", "points.csv", "scenario.yaml", "source.md"]
    assert set(added.first.files) == {"base.yaml", "points.csv", "scenario.yaml"}
    assert (added.folder / "points.csv").read_text(encoding="utf-8").splitlines() == [
        "scenario,num_gpus,metric,unit,label",
        "scenario,1,samples_per_s,samples/s,num_gpus=1",
        "scenario,2,samples_per_s,samples/s,num_gpus=2",
    ]
    assert [forecast.num_gpus for forecast in added.first.forecasts] == [1, 2]
    assert added.first.source == "mine"


def test_a_sweep_over_maps_becomes_points_with_the_maps(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    strategies = "strategy:\n  - {kind: local, steps: [2, 4]}\n  - {"
    Path("mine.yaml").write_text(SWEEP.replace("strategy: {", strategies), encoding="utf-8")
    added = add_entry("mine.yaml", workers=1)
    assert [each.features["strategy"] for each in added.first.forecasts] == 2 * ["local", "local", "all-reduce"]
    assert {each.settings.get("strategy.steps") for each in added.first.forecasts} == {"2", "4", None}


def test_a_sweep_over_files_needs_a_scenario_for_each(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A path on the command line is relative to the working directory, and not to the scenario."""
    monkeypatch.chdir(tmp_path)
    folder = tmp_path / "mine"
    folder.mkdir()
    cluster = "kind: star\nnum_hosts: {}\ngpu: p100\nlink: 1 GB/s\nhop: 1 us\n"
    for name, num_hosts in (("four", 4), ("eight", 8)):
        (folder / f"{name}.yaml").write_text(cluster.format(num_hosts), encoding="utf-8")
    scenario = re.sub(r"topology: .*", "topology: [four.yaml, eight.yaml]", SCENARIO)
    (folder / "mine.yaml").write_text(scenario, encoding="utf-8")
    assert "an axis of files (topology) has no settings" in str(refused(str(folder / "mine.yaml")).value)


def test_first_forecasts_are_never_rewritten(make_entry, capsys) -> None:
    folder = make_entry()
    before = (folder / "forecast.json").read_bytes()
    assert main(["register", "add", str(folder / "scenario.yaml"), "--quiet"]) == 3
    assert "never rewritten" in capsys.readouterr().err
    first = read_first(folder / "forecast.json")
    with pytest.raises(InputError, match="never rewritten"):
        write_first(first, folder / "forecast.json")
    assert (folder / "forecast.json").read_bytes() == before
    assert not list(folder.glob(".*"))


def test_an_entry_whose_figures_are_known_is_refused(make_entry) -> None:
    folder = make_entry()
    (folder / "forecast.json").unlink()
    (folder / "measured.csv").write_text(FIGURES, encoding="utf-8")
    caught = refused(str(folder / "scenario.yaml"))
    assert messages(caught) == [
        ("measured.csv", None, "the figures of this entry are known already; a forecast is written before them")
    ]
    assert not (folder / "forecast.json").exists()


@pytest.mark.parametrize(
    ("scenario", "message"),
    [
        (SCENARIO + "published: [{num_gpus: 1, speedup: 1.0}]\n", "these figures are known already"),
        ("extends: ../outside.yaml\n" + SCENARIO, "an entry holds all its files"),
        (SCENARIO + "compute: 3\n", "compute"),
    ],
)
def test_what_cannot_be_an_entry_is_refused_and_nothing_is_written(
    scenario: str, message: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    inside = tmp_path / "inside"
    inside.mkdir()
    monkeypatch.chdir(tmp_path)
    (tmp_path / "outside.yaml").write_text(SCENARIO, encoding="utf-8")
    (inside / "mine.yaml").write_text(scenario, encoding="utf-8")
    caught = refused("inside/mine.yaml")
    assert message in str(caught.value)
    assert not list(tmp_path.rglob("register"))


@pytest.mark.parametrize(
    ("points", "line", "message"),
    [
        ("num_gpus,metric,unit,value\n1,samples_per_s,images/s,3\n", 1, "has no figures; leave this column out"),
        ("num_gpus,unit\n1,images/s\n", 1, "there is no column 'metric'"),
        (POINTS + "4,iteration_s,ms\n", 5, "line 4 has this point already"),
        ("num_gpus,metric,unit\n9,samples_per_s,images/s\n", 2, "num_gpus"),
        ("num_gpus,metric,unit\n2,time_s,s\n", 2, "the simulation has no 'time_s' here"),
        ("scenario,metric,unit\nother,samples_per_s,images/s\n", 2, "there is no file"),
    ],
)
def test_a_wrong_table_of_points_is_refused_by_its_line(points: str, line: int, message: str, make_entry) -> None:
    with pytest.raises(InputError) as caught:
        make_entry(points=points)
    found = messages(caught)
    assert [each[:2] for each in found] == [("points.csv", line)]
    assert message in str(caught.value)


def test_nothing_is_written_if_a_simulation_fails(make_entry, tmp_path, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*arguments: object, **others: object) -> None:
        raise ArithmeticError("the clock ran backwards")

    monkeypatch.setattr("clustersim.validation.question.forecast", broken)
    with pytest.raises(SimulationError, match="num_gpus=1: ArithmeticError: the clock ran backwards; nothing was"):
        make_entry()
    assert not (tmp_path / "register" / "tiny" / "forecast.json").exists()


def test_a_file_of_the_entry_is_not_overwritten_by_another(make_entry, tmp_path: Path) -> None:
    folder = make_entry()
    (folder / "forecast.json").unlink()
    (tmp_path / "other.csv").write_text("num_gpus,metric,unit\n2,samples_per_s,images/s\n", encoding="utf-8")
    caught = refused(str(folder / "scenario.yaml"), tmp_path / "other.csv")
    assert "the entry has another file of this name" in str(caught.value)


def test_the_name_of_an_entry_is_one_of_a_folder(tmp_path: Path) -> None:
    (tmp_path / "My run.yaml").write_text(SCENARIO, encoding="utf-8")
    assert "give it with --name" in str(refused(str(tmp_path / "My run.yaml")).value)


def test_the_first_forecast_is_scored_and_the_present_one_beside_it(make_entry) -> None:
    folder = make_entry()
    with_first(folder, 380.0, 1000.0, 0.12)
    (folder / "measured.csv").write_text(FIGURES, encoding="utf-8")
    scored = score_register([str(folder)], workers=1)
    (score,) = scored.entries
    assert score.first.errors() == pytest.approx([380 / 400 - 1, 0.1 / 0.12 - 1])  # of a time, that of the speed
    assert score.present is not None
    assert score.present.errors()[0] == pytest.approx(320 / 400 - 1)
    assert scored.summary().median_abs_error == pytest.approx((0.05 + 1 / 6) / 2)
    assert scored.summary(present=True).median_abs_error != scored.summary().median_abs_error
    recorded = score_register([str(folder)], replay=False)
    assert recorded.summary() == scored.summary()
    assert recorded.to_dict()["present"] is None


def test_what_the_figures_are_scored_by_is_in_the_document_in_si(make_entry, capsys) -> None:
    folder = make_entry()
    with_first(folder, 380.0, 1000.0, 0.12)
    (folder / "measured.csv").write_text(FIGURES, encoding="utf-8")
    assert main(["register", "score", str(folder.parent), "--json", "--quiet", "--workers", "1"]) == 0
    document = json.loads(capsys.readouterr().out)
    assert document["schema"] == "clustersim.register/1"
    point = document["entries"][0]["points"][1]
    assert (point["unit"], point["measured"], point["first"]) == ("s", pytest.approx(0.1), pytest.approx(0.12))
    assert point["first_error"] == pytest.approx(-1 / 6)
    assert set(document["first"]) >= {"median_abs_error", "p90_abs_error", "bias", "num_points"}


def test_a_changed_scenario_is_refused_until_its_migration_is_noted(make_entry, capsys) -> None:
    folder = make_entry()
    (folder / "measured.csv").write_text(FIGURES, encoding="utf-8")
    first = read_first(folder / "forecast.json")
    with pytest.raises(InputError, match="no file of this entry has changed"):
        note_migration(folder, "nothing")
    path = folder / "scenario.yaml"
    path.write_text(path.read_text(encoding="utf-8").replace("name: tiny", "name: tiny  # migrated"), encoding="utf-8")
    assert main(["register", "score", str(folder), "--recorded"]) == 3
    assert "not the file of the first forecast" in capsys.readouterr().err
    assert main(["register", "note-migration", str(folder), "--reason", "clustersim migrate"]) == 0
    assert main(["register", "score", str(folder), "--recorded"]) == 0
    noted = read_first(folder / "forecast.json")
    assert noted.forecasts == first.forecasts
    assert (noted.date, noted.files) == (first.date, first.files)
    (migration,) = noted.migrations
    assert migration.reason == "clustersim migrate"
    assert migration.files["points.csv"] == first.files["points.csv"]
    assert migration.files["scenario.yaml"] != first.files["scenario.yaml"]


def test_a_migration_keeps_every_point_and_has_a_reason(make_entry) -> None:
    folder = make_entry()
    before = (folder / "forecast.json").read_bytes()
    path = folder / "points.csv"
    path.write_text(POINTS + "2,samples_per_s,images/s\n", encoding="utf-8")
    with pytest.raises(InputError, match="needs its reason"):
        note_migration(folder, " ")
    with pytest.raises(InputError, match=r"4 points, and forecast\.json has 3 first forecasts"):
        note_migration(folder, "one more")
    path.unlink()
    with pytest.raises(InputError, match="the file is missing"):
        note_migration(folder, "one less")
    assert (folder / "forecast.json").read_bytes() == before


def test_renamed_keys_still_find_their_first_forecasts(make_entry) -> None:
    folder = make_entry(points="strategy.algorithm,num_gpus,metric,unit\nring,4,samples_per_s,images/s\n")
    with_first(folder, 1000.0)
    (folder / "points.csv").write_text(
        'num_gpus,strategy,metric,unit\n4,"{kind: all-reduce, algorithm: ring}",samples_per_s,images/s\n',
        encoding="utf-8",
    )
    note_migration(folder, "made-up: the strategy is one key")
    (folder / "measured.csv").write_text(
        "strategy,num_gpus,metric,value,unit,role,provenance,where\n"
        '"{algorithm: ring, kind: all-reduce}",4,samples_per_s,500,images/s,prediction,read,a log\n'.replace(
            "{algorithm: ring, kind: all-reduce}", "{kind: all-reduce,   algorithm: 'ring'}"
        ),
        encoding="utf-8",
    )
    assert score_register([str(folder)], replay=False).entries[0].first.errors() == pytest.approx([1.0])


def test_a_figure_without_a_first_forecast_is_refused_by_its_line(make_entry) -> None:
    folder = make_entry()
    (folder / "measured.csv").write_text(
        FIGURES + "2,samples_per_s,600,images/s,prediction,read,a log\n", encoding="utf-8"
    )
    with pytest.raises(InputError) as caught:
        score_register([str(folder)], replay=False)
    ((file, line, message),) = messages(caught)
    assert (file, line) == ("measured.csv", 4)
    assert message.startswith("no forecast of this point was written before its figure was known")


def test_only_predictions_that_were_read_are_scored(make_entry) -> None:
    folder = make_entry()
    rows = "1,samples_per_s,400,images/s,prediction,recalled,a talk\n4,iteration_s,1,s,calibration,read,a log\n"
    (folder / "measured.csv").write_text(HEADER + rows, encoding="utf-8")
    scored = score_register([str(folder)], replay=False)
    assert scored.summary().num_points == 0
    assert register_rows(scored) == []
    assert "no figure of the register" in register_html(scored, []).lower()


def test_every_source_has_equal_weight(make_entry) -> None:
    rows = "1,samples_per_s,{},images/s,prediction,read,a log\n"
    for name, source, figure in (("a-one", "a", 200), ("a-two", "a", 250), ("b", "b", 400)):
        folder = make_entry(name, source=f"Source: {source}")
        with_first(folder, 300.0, 1.0, 1.0)
        (folder / "measured.csv").write_text(HEADER + rows.format(figure), encoding="utf-8")
    scored = score_register([str(folder.parent)], replay=False)
    assert {name: len(errors) for name, errors in scored.errors_by_source().items()} == {"a": 2, "b": 1}
    assert scored.summary().median_abs_error == pytest.approx(((0.5 + 0.2) / 2 + 0.25) / 2)
    assert [score.entry.name for score in scored.entries] == ["a-one", "b", "a-two"]


def test_entries_without_figures_wait(make_entry, capsys) -> None:
    folder = make_entry()
    assert main(["register", "score", str(folder), "--quiet"]) == 0
    assert "without figures yet: tiny" in capsys.readouterr().out
    assert main(["register", "list", str(folder.parent)]) == 0
    assert re.search(
        r"^tiny +tiny +\d{4}-\d\d-\d\d +\S+ +3 +none yet +A made-up cluster$", capsys.readouterr().out, re.M
    )
    assert main(["register", "list", str(folder.parent), "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["entries"][0]["num_figures"] == 0
    assert main(["register", "score", str(folder), "--recorded", "--max-error", "10%"]) == 4


def test_the_tolerance_is_of_first_forecasts(make_entry, capsys) -> None:
    folder = make_entry()
    with_first(folder, 380.0, 1000.0, 0.12)
    (folder / "measured.csv").write_text(FIGURES, encoding="utf-8")
    arguments = ["register", "score", str(folder), "--recorded", "--max-error"]
    assert main([*arguments, "13%"]) == 0
    assert main([*arguments, "10%"]) == 4
    assert "the median error of first forecasts is 10.8%" in capsys.readouterr().err


def test_a_point_that_the_present_version_cannot_simulate_is_skipped(
    make_entry, monkeypatch: pytest.MonkeyPatch, capsys
) -> None:
    folder = make_entry()
    with_first(folder, 380.0, 1000.0, 0.12)
    (folder / "measured.csv").write_text(FIGURES, encoding="utf-8")

    def broken(*arguments: object, **others: object) -> None:
        raise ArithmeticError("the clock ran backwards")

    monkeypatch.setattr("clustersim.validation.question.forecast", broken)
    assert main(["register", "score", str(folder), "--quiet", "--workers", "1"]) == 1
    out = capsys.readouterr().out
    assert "skipped: tiny: scenario.yaml num_gpus=1: ArithmeticError" in out
    assert "first forecasts, 1 source: 2 points, median error 10.8%" in out


def test_rows_have_what_a_band_is_made_of(make_entry) -> None:
    folder = make_entry(source="Source: acme\nPublished: 2025-03")
    with_first(folder, 380.0, 1000.0, 0.12)
    (folder / "measured.csv").write_text(FIGURES, encoding="utf-8")
    rate, iteration = register_rows(score_register([str(folder)], workers=1))
    assert (rate.source, rate.entry, rate.published) == ("acme", "tiny", "2025-03")
    assert (rate.first, rate.present, rate.measured) == (380.0, pytest.approx(320.0), 400.0)
    assert (iteration.unit, iteration.first, iteration.measured) == ("ms", pytest.approx(120.0), 100.0)
    assert rate.question.file == folder / "scenario.yaml"
    assert iteration.question.overrides == ("num_gpus=4",)
    assert (iteration.features["origin"], iteration.num_gpus) == ("published", 4)
    (recorded, _) = register_rows(score_register([str(folder)], replay=False))
    assert recorded.present is None
    assert (recorded.features["origin"], recorded.num_gpus) == ("published", 1)


def test_bands_are_made_from_figures_of_the_register_too(make_entry) -> None:
    """By the present version, unless a choice was made after errors had been seen: then as first forecast."""
    folder = make_entry(source="Source: acme\nPublished: 2025-03")
    with_first(folder, 380.0, 1000.0, 0.12)
    (folder / "measured.csv").write_text(FIGURES, encoding="utf-8")

    def acme() -> list[Checked]:
        register = score_register([str(folder)], workers=1)
        found = checked_forecasts(made_up_verdict(is_chosen_after=True), register).forecasts
        return [each for each in found if each.source == "acme"]

    replayed = acme()
    assert {each.record for each in replayed} == {"replay"}
    assert max(ratio for each in replayed for ratio in each.ratios) == pytest.approx(400 / 320)
    with (folder / "source.md").open("a", encoding="utf-8") as file:
        file.write(f"\n{CHOSEN_AFTER} The batch.\n")
    first = acme()
    assert {each.record for each in first} == {"first"}
    assert sorted(ratio for each in first for ratio in each.ratios) == pytest.approx([400 / 380, 120 / 100])


def test_the_figure_has_the_errors_of_the_table(make_entry) -> None:
    folder = make_entry()
    with_first(folder, 380.0, 1000.0, 0.12)
    (folder / "measured.csv").write_text(FIGURES, encoding="utf-8")
    scored = score_register([str(folder)], replay=False)
    first, seen = register_curves(scored, [[0.01, -0.02], [0.03]])
    assert first.sizes == pytest.approx([0.05, 1 / 6])
    assert first.shares == pytest.approx([0.5, 1.0])
    assert seen.sizes == pytest.approx([0.01, 0.02, 0.03])
    assert seen.shares == pytest.approx([0.25, 0.5, 1.0])
    assert first.median == pytest.approx(scored.summary().median_abs_error)
    assert [first.share_within(size) for size in (0.01, 0.051, 0.16, 5.0)] == [0.0, 0.5, 0.5, 1.0]
    figure = draw_register([first, seen])
    assert "known is 11\u202f%, and nine in ten are within 17\u202f%" in figure.title
    assert "of cases seen during development 2.2\u202f% and 3.0\u202f%" in figure.title
    marks = figure.traces[1]
    assert marks["x"] == pytest.approx([(5 + 100 / 6) / 2, 100 / 6])
    assert marks["y"] == pytest.approx([50.0, 100.0])
    assert register_curves(score_register([str(folder)], workers=1), [])[1].kind == "present"


def test_the_pages_have_every_figure(make_entry, tmp_path: Path, capsys) -> None:
    folder = make_entry()
    (folder / "measured.csv").write_text(FIGURES, encoding="utf-8")
    arguments = ["register", "score", str(folder), "--workers", "1", "--quiet"]
    assert main([*arguments, "--report", "r.html", "--markdown", "r.md"]) == 0
    assert "report: r.html" in capsys.readouterr().out
    page = Path("r.html").read_text(encoding="utf-8")
    assert "2 figures of 1 source, forecast before they were known" in page.replace("\u202f", " ")
    assert 'id="plot-register"' in page
    markdown = Path("r.md").read_text(encoding="utf-8")
    assert markdown == score_page(score_register([str(folder)], workers=1))
    assert "## tiny" in markdown
    assert "| 1 | samples_per_s | 400 | images/s | 320 | -20.0% | 320 | -20.0% |" in markdown


def test_the_cases_beside_it_are_those_that_forecasts_quote() -> None:
    errors = seen_errors()
    assert len(errors) > 50
    assert all(errors)


def test_unknown_entries_and_folders_without_one_are_refused(tmp_path: Path, capsys) -> None:
    assert main(["register", "score", "no-such-entry"]) == 3
    assert "no entry of the register is called 'no-such-entry'" in capsys.readouterr().err
    assert main(["register", "score", str(tmp_path)]) == 3
    assert "neither an entry nor a register" in capsys.readouterr().err


def test_a_broken_record_is_refused(make_entry) -> None:
    folder = make_entry()
    (folder / "forecast.json").write_text('{"schema": "clustersim.result/1"}', encoding="utf-8")
    with pytest.raises(InputError, match=r"not a file of `clustersim register add`: its schema is"):
        load_entries([str(folder)])


def test_the_code_of_a_forecast_has_a_hash_that_does_not_depend_on_the_day() -> None:
    assert HEX.fullmatch(package_sha256())
    assert code_state().package_sha256 == package_sha256()
    commit = code_state().commit
    assert commit is None or re.fullmatch(r"[0-9a-f]{40}", commit)
