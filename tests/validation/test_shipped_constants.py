"""Fits of shipped transports to the cases' microbenchmarks; no case is scored on a fit to its own figures."""

from __future__ import annotations

from pathlib import Path

import pytest

from clustersim.hardware import TRANSPORTS, load_transport
from clustersim.validation import load_case, load_cases, validate
from clustersim.validation.calibration import fit_shipped, microbenchmarks, store
from clustersim.validation.leave_one_out import SHEETS, before_any_fit, sheet_without

LINE = "ring,2,{size} B,time_s,{us},us,calibration,read,a made-up log\n"
HEADER = "scenario,num_gpus,bytes,metric,value,unit,role,provenance,where\n"
SCORED = "scenario,2,,samples_per_s,500,images/s,prediction,read,a made-up log\n"


def table(overhead_us: float, seconds: float = 1.0) -> str:
    """Times of a ring of two over 1 GB/s links with a given cost per message, and a scored figure."""
    sizes = [1000, 100_000, 4_000_000]
    rows = [LINE.format(size=size, us=seconds * (2 * overhead_us + size / 1e3)) for size in sizes]
    return HEADER + "".join(rows) + SCORED


@pytest.fixture
def cases(make_case):
    """Two cases of the transport tcp, whose overhead is assumed: 100 us in one, 300 us in the other."""
    folders = [make_case(table(100.0), "one"), make_case(table(300.0), "two")]
    for folder in folders:
        ring = folder / "ring.yaml"
        ring.write_text(ring.read_text().replace("transport: ideal", "transport: tcp"))
    return [load_case(folder) for folder in folders]


@pytest.fixture
def shelf(tmp_path: Path) -> Path:
    """A copy of the shipped transports that may be written to."""
    folder = tmp_path / "transports"
    folder.mkdir()
    for name in TRANSPORTS:
        (folder / f"{name}.yaml").write_text(TRANSPORTS.find(name).read_text())
    return folder


def test_only_microbenchmarks_that_calibrate_are_used(cases) -> None:
    found = microbenchmarks(cases)
    assert list(found) == ["tcp"]
    assert {point.what for point in found["tcp"]} == {"all-reduce, ring"}
    assert len(found["tcp"]) == 6


def test_no_figure_of_a_shipped_fit_is_scored() -> None:
    cases = load_cases()
    scored = {(case.name, row.line) for case in cases for row in case.rows if row.role == "prediction"}
    fitted = {(point.source, point.line) for points in microbenchmarks(cases).values() for point in points}
    assert fitted
    assert not scored & fitted


def test_documented_constants_are_held_and_assumed_ones_fitted(cases) -> None:
    (fit,) = fit_shipped(cases)
    assert fit.transport == "tcp"
    assert fit.changes == ("overhead_s",)
    assert fit.assumed is not None
    assert fit.assumed.after.efficiency == load_transport("tcp").efficiency
    assert 100e-6 < fit.assumed.after.overhead_s < 300e-6


def test_a_stored_fit_has_a_sheet_without_each_of_its_cases(cases, shelf: Path, tmp_path: Path) -> None:
    (fit,) = fit_shipped(cases)
    written = store(fit, tmp_path / "fitted", shelf)
    assert len(written) == 4
    together = load_transport(shelf / "tcp.yaml")
    assert together.sources["overhead_s"].startswith("fitted: standard error")
    assert "one, two" in together.sources["overhead_s"]
    assert together.library == together.name == "tcp"
    alone = {}
    for name in ("one", "two"):
        path = sheet_without(name, "tcp", tmp_path / "fitted")
        assert path is not None
        alone[name] = load_transport(path).overhead_s
    assert alone["one"] > together.overhead_s > alone["two"]
    assert before_any_fit("tcp", tmp_path / "fitted").overhead_s == load_transport("tcp").overhead_s
    assert sheet_without("three", "tcp", tmp_path / "fitted") is None
    assert sheet_without("one", "my.yaml", tmp_path / "fitted") is None


def test_a_transport_that_one_case_alone_determines_is_assumed_again_without_it(cases, shelf, tmp_path: Path) -> None:
    (fit,) = fit_shipped(cases[:1])
    store(fit, tmp_path / "fitted", shelf)
    path = sheet_without("one", "tcp", tmp_path / "fitted")
    assert path is not None
    assert load_transport(path) == load_transport("tcp")


def test_nothing_is_written_where_nothing_is_determined(cases, shelf: Path, tmp_path: Path) -> None:
    (fit,) = fit_shipped(cases[:1])
    held = type(fit)(fit.transport, fit.free)
    assert store(held, tmp_path / "fitted", shelf) == []
    assert not (tmp_path / "fitted").exists()


def test_a_case_is_scored_with_constants_fitted_without_it(
    cases, shelf: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = cases[0].folder
    scenario = folder / "scenario.yaml"
    scenario.write_text(scenario.read_text() + "transport: tcp\n")

    def forecast() -> float:
        points = validate([str(folder)], workers=1).cases[0].points
        return next(point.simulated for point in points if point.metric == "samples_per_s")

    before = forecast()
    (fit,) = fit_shipped(cases)
    store(fit, tmp_path / "fitted", shelf)
    monkeypatch.setattr("clustersim.validation.leave_one_out.sheet_without.__defaults__", (tmp_path / "fitted",))
    assert forecast() < 0.999 * before  # the other case's messages cost 300 us each


def test_no_scored_case_uses_a_constant_fitted_to_its_own_figures() -> None:
    """Of a transport that has been fitted, every case with a part in it has a sheet without that part."""
    cases = load_cases()
    fitted = {path.stem for path in (SHEETS / "before").glob("*.yaml")}
    assert {
        name for name in TRANSPORTS if any(_is_stored(text) for text in load_transport(name).sources.values())
    } == fitted
    for transport, points in microbenchmarks(cases).items():
        for case in {point.source for point in points} if transport in fitted else ():
            assert sheet_without(case, transport) is not None, (case, transport)


def _is_stored(source: str) -> bool:
    return source.startswith("fitted: ") and "the cases' own clusters" in source
