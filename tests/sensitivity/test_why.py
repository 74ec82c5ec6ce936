"""Why: gains are those of simulations with other rates, and the answer says what follows from them."""

from __future__ import annotations

import csv
import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import clustersim
from clustersim.cli import main
from clustersim.communicator.algorithm import num_channels
from clustersim.errors import InputError
from clustersim.hardware.speeds import LATENCY, LIBRARY, Speeds
from clustersim.report.words import THIN
from clustersim.scenario import Point, layout, load_scenario
from clustersim.sensitivity import WHY_SCHEMA, Why, why
from clustersim.sensitivity.figure import gains_data
from clustersim.sensitivity.forecasts import forecast_alone
from clustersim.simulate import Workloads
from clustersim.simulate.setup import Setup

RING: dict[str, Any] = {
    "name": "ring",
    "model": "resnet50",
    "num_gpus": 4,
    "batch": {"per_gpu": 16},
    "topology": {"kind": "star", "host": {"gpu": "p100"}, "link": "10 Gbit/s"},
    "software": "plain",
    "transport": "mpi",
    "strategy": {"kind": "all-reduce", "algorithm": "ring", "overlap": False, "buckets": "whole"},
    "compute": {"variability": 0.0, "kernels": "law"},
    "num_iterations": 2,
}


def _of(found: Why) -> dict[str, float]:
    return {each.resource: each.gain for each in found.gains}


@pytest.fixture(scope="module")
def ring() -> Why:
    return why(RING)


def test_a_link_alone_gives_what_the_sum_says(ring: Why) -> None:
    """Of T = C + M, with M for the bytes on the links, links that are 1 + b times as fast take M (1 - 1 / (1 + b))."""
    parts = ring.breakdown_s
    first = ring.gains[0]
    assert first.resource.startswith("link.")
    on_wire_s = ring.iteration_s * (1 - 1 / (1 + first.gain)) * 1.1 / 0.1
    assert on_wire_s <= parts["communication_exposed"]
    twice = why(RING, by=1.0, upgrades=False).gain(first.resource)
    assert twice.iteration_s == pytest.approx(ring.iteration_s - on_wire_s / 2, rel=1e-6)


def test_gains_of_small_changes_have_the_sum_of_the_change() -> None:
    """Euler: time is homogeneous of degree one in all rates, so the elasticities sum to one."""
    found = why(RING, by=1e-4, upgrades=False)
    assert sum(each.elasticity for each in found.gains) == pytest.approx(1.0, rel=0.01)
    assert found.together.elasticity == pytest.approx(1.0, rel=1e-6)


def test_saved_seconds_sum_to_those_of_an_iteration(ring: Why) -> None:
    for each in (*ring.gains, ring.together):
        assert sum(each.saved_s.values()) == pytest.approx(ring.iteration_s - each.iteration_s, abs=1e-12)


def test_no_gain_is_negative_where_nothing_chooses_by_rates(ring: Why) -> None:
    assert min(_of(ring).values()) > -1e-9
    assert list(_of(ring).values()) == sorted(_of(ring).values(), reverse=True)


def test_one_gpu_has_no_network() -> None:
    found = why(RING, ["num_gpus=1"], upgrades=False)
    idle = {each.resource for each in found.gains if each.idle}
    assert {LATENCY, LIBRARY} < idle
    assert all(each.idle for each in found.gains if each.resource.startswith("link."))
    assert sum(each.gain for each in found.gains) == pytest.approx(0.1, rel=0.1)
    assert found.together.gain == pytest.approx(0.1, rel=1e-9)


@pytest.mark.parametrize(
    ("name", "texts"),
    [("hierarchical", ()), ("server-versus-tree", ("num_gpus=8",)), ("offload", ()), ("input-bound", ("num_gpus=1",))],
)
def test_a_resource_that_is_called_idle_changes_nothing(name: str, texts: tuple[str, ...]) -> None:
    found = why(name, texts, upgrades=False)
    point = load_scenario(name, found.settings).points()[0].point
    idle = {each.resource: 3.0 for each in found.gains if each.idle}
    run = forecast_alone(point.at_speeds(Speeds.of(idle)), False, Workloads())
    assert idle
    assert run.samples_per_s == found.samples_per_s


def test_a_library_keeps_its_channels() -> None:
    """NCCL has more channels on faster links, and each takes a multiprocessor: a jump that no rate makes."""
    point = load_scenario("llama-h100", ["num_gpus=8"]).points()[0].point
    before, after = (Setup(each, detail=False) for each in (point, point.at_speeds(Speeds.of({"link.nvlink-4": 1.1}))))
    assert num_channels(after.topology, after.gpus(0)) == num_channels(before.topology, before.gpus(0))
    found = why("llama-h100", ["num_gpus=8"], upgrades=False)
    assert found.gain("link.nvlink-4").gain > 0
    assert found.together.elasticity == pytest.approx(1.0, abs=3e-3)


def test_stages_keep_their_layers() -> None:
    """Stages of equal cost can be cut in several ways, and other rates could choose another one."""
    texts = ["parallelism.micro_batches=16", "parallelism.schedule=interleaved"]
    found = why("gpipe-bubble", texts, upgrades=False)
    assert (
        found.iteration_s
        == forecast_alone(load_scenario("gpipe-bubble", texts).points()[0].point, False, Workloads()).iteration_s
    )
    assert found.together.gain == pytest.approx(0.1, rel=2e-3)


@pytest.mark.parametrize(
    ("name", "texts"),
    [
        ("firecaffe-nin", ("num_gpus=8",)),
        ("gpipe-bubble", ("parallelism.micro_batches=4", "parallelism.schedule=1f1b")),
    ],
)
def test_quick_is_exact(name: str, texts: tuple[str, ...]) -> None:
    quick, exact = (why(name, texts, upgrades=False, exact=exact) for exact in (False, True))
    assert _of(quick) == pytest.approx(_of(exact), rel=1e-9, abs=1e-9)


def test_processes_change_no_digit(ring: Why) -> None:
    assert why(RING, workers=2) == ring


def test_a_gpu_that_computes_alone_has_the_elasticity_of_its_kernels() -> None:
    """Large products of vgg16 are bound by FLOP: most of the time follows their rate."""
    found = why({**RING, "model": "vgg16", "num_gpus": 1, "batch": {"per_gpu": 64}}, upgrades=False)
    assert found.gains[0].resource == "gpu.flop"
    assert 0.7 < found.gains[0].elasticity < 1.0


def test_input_limits_what_waits_for_it() -> None:
    found = why("input-bound", ["num_iterations=12"], upgrades=False)
    assert found.gains[0].resource == "input"
    assert found.gains[0].saved_s["input"] > 0


def test_draws_are_the_same() -> None:
    texts = ["stragglers=[{kind: lognormal, cv: 0.3}]", "num_iterations=8"]
    found = why(RING, texts, upgrades=False)
    assert found.together.gain == pytest.approx(0.1, rel=1e-9)
    assert any("random draws" in each for each in found.notes)


def test_measured_runs_keep_their_factor() -> None:
    given = {**RING, "measured": [{"num_gpus": 4, "samples_per_s": 150.0}]}
    found = why(given, upgrades=False)
    assert found.samples_per_s == pytest.approx(150.0, rel=1e-6)
    assert found.together.gain == pytest.approx(0.1, rel=1e-6)


def test_of_a_sweep_the_fastest_of_the_largest_is_explained() -> None:
    texts = ["num_gpus=[2, 4]", "topology.link=[10 Gbit/s, 100 Gbit/s]"]
    found = why(RING, texts, upgrades=False)
    assert (found.axes["num_gpus"], found.num_points) == (4, 4)
    alone = why(RING, ["topology.link=100 Gbit/s"], upgrades=False)
    assert _of(found) == _of(alone)
    assert why(RING, [*found.settings], upgrades=False).samples_per_s == found.samples_per_s


def test_a_kind_of_an_axis_keeps_the_options_beside_it() -> None:
    texts = ["strategy={kind: [all-reduce, local], buckets: layer}", "num_gpus=2"]
    found = why(RING, texts, upgrades=False)
    best = max(each.samples_per_s for each in clustersim.sweep(load_scenario(RING, texts)).runs)
    assert found.samples_per_s == pytest.approx(best, rel=1e-9)


def test_a_large_sweep_says_how_to_select() -> None:
    batches = list(range(1, 40))
    with pytest.raises(InputError, match=r"39 points, and one is explained at a time; set batch\.per_gpu"):
        why(RING, [f"batch.per_gpu={batches}"])


def test_a_case_or_a_point_of_sweep_is_explained() -> None:
    """The conditions of `sweep` are not for upgrades: with 8 GPUs `where` does not hold."""
    swept = {
        **RING,
        "cases": {"slow": {"topology": {"link": "1 Gbit/s"}}, "fast": {}},
        "sweep": {"grid": {"batch.per_gpu": [8, 16]}, "where": "num_gpus * batch.per_gpu <= 64"},
    }
    found = why(swept)
    assert (found.axes, found.num_points) == ({"case": "fast", "batch.per_gpu": 16}, 4)
    assert found.samples_per_s == why(RING, upgrades=False).samples_per_s
    (more,) = (each for each in found.upgrades if each.key == "num_gpus")
    assert (more.num_gpus, more.refused) == (8, "")
    slow = why(swept, ["case=[slow]", "batch.per_gpu=8"], upgrades=False)
    assert _of(slow) == _of(why(RING, ["topology.link=1 Gbit/s", "batch.per_gpu=8"], upgrades=False))


@pytest.mark.parametrize("by", [0, -0.1, 10.0, "much"])
def test_a_change_is_a_share_above_zero(by: Any) -> None:
    with pytest.raises(InputError, match="by must be a number above 0 and at most 9"):
        why(RING, by=by)


def test_upgrades_are_the_forecasts_of_their_settings(ring: Why) -> None:
    tried = {each.key: each for each in ring.upgrades if each.key != "topology.gpu"}
    assert {"topology.link", "topology.nics", "num_gpus"} <= set(tried)
    for each in tried.values():
        run = clustersim.simulate(load_scenario(RING, [*ring.settings, *each.settings]))
        assert each.samples_per_s == pytest.approx(run.samples_per_s, rel=1e-9)


def test_prices_say_what_an_upgrade_may_cost() -> None:
    found = why(RING, ["prices={p100: 1.0, v100: 1.5}"])
    assert found.dollars_per_hour == 1.0
    first = found.gains[0]
    assert first.worth_dollars == pytest.approx(first.gain)
    gpu = next(each for each in found.upgrades if each.then == "v100")
    assert gpu.gain is not None
    assert (gpu.dollars_per_hour, gpu.pays_up_to) == pytest.approx((1.5, 1 + gpu.gain))
    assert gpu.cost_change == pytest.approx(1.5 / (1 + gpu.gain) - 1)
    link = next(each for each in found.upgrades if each.key == "topology.link")
    assert link.gain is not None
    assert (link.dollars_per_million, link.pays_up_to) == (None, pytest.approx(1 + link.gain))
    more = next(each for each in found.upgrades if each.key == "num_gpus")
    assert more.samples_per_s is not None
    assert more.num_gpus == 8
    assert more.pays_up_to == pytest.approx(more.samples_per_s / 8 / (found.samples_per_s / 4))
    costs = [each.dollars_per_million for each in found.upgrades if each.is_priced]
    assert costs == sorted(costs)  # type: ignore[type-var]


def test_an_upgrade_that_does_not_fit_is_refused() -> None:
    given = {**RING, "num_gpus": 4, "batch": {"global": 4}}
    found = why(given)
    more = next(each for each in found.upgrades if each.key == "num_gpus")
    assert (more.gain, more.samples_per_s) == (None, None)
    assert "does not divide" in more.refused
    assert found.upgrades[-1] == more


def test_the_answer_names_the_limit(ring: Why) -> None:
    first = ring.gains[0]
    assert f"the {first.title} limits" in ring.sentences[0]
    assert any(each.startswith("Next to nothing from: ") for each in ring.sentences)
    assert all(each.endswith(".") and (each[0].isupper() or each[0].isdigit()) for each in ring.sentences)


def test_savings_are_summed_and_not_gains(ring: Why) -> None:
    """Where nothing overlaps, what single resources save sums to what all save, although the gains do not."""
    assert ring.together.gain - sum(_of(ring).values()) > 0.002
    assert "Everything 10% faster gives 10%." in [each.replace(THIN, "") for each in ring.sentences]
    strategy = {"kind": "all-reduce", "algorithm": "ring"}
    found = why({**RING, "strategy": strategy}, ["topology.link=30 Gbit/s"], upgrades=False)
    saved_s = sum(sum(each.saved_s.values()) for each in found.gains)
    assert saved_s < found.iteration_s - found.together.iteration_s - 0.002 * found.iteration_s
    assert "is saved only where several are faster at once" in " ".join(found.sentences)


def test_the_figure_divides_each_gain_by_part(ring: Why) -> None:
    data = gains_data(ring)
    for place, row in enumerate(data.rows):
        assert sum(values[place] for values in data.parts.values()) == pytest.approx(100 * row.gain, abs=1e-9)
    assert data.rows[-1] == ring.together


def test_it_is_plain_data(ring: Why) -> None:
    document = json.loads(json.dumps(ring.to_dict(), allow_nan=False))
    assert document["schema"] == WHY_SCHEMA
    assert document["gains"][0]["gain"] == ring.gains[0].gain
    assert clustersim.why is why
    with pytest.raises(KeyError):
        replace(ring, gains=()).gain("gpu.flop")


def test_the_command_prints_tables_and_writes_files(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    table, page = tmp_path / "why.csv", tmp_path / "why.html"
    arguments = ["why", "firecaffe-nin", "--set", "num_gpus=8", "-q"]
    assert main([*arguments, "--csv", str(table), "--report", str(page)]) == 0
    printed = capsys.readouterr().out
    assert "FLOP rate of the GPU (fp32)" in printed
    assert f"csv: {table}" in printed
    assert "everything together" in page.read_text(encoding="utf-8")
    assert main([*arguments, "--json", "--by", "0.1"]) == 0
    document = json.loads(capsys.readouterr().out)
    rows = list(csv.DictReader(table.open(encoding="utf-8")))
    assert len(rows) == len(document["gains"]) + 1 + len(document["upgrades"])
    assert float(rows[0]["gain"]) == document["gains"][0]["gain"]


def test_a_narrow_terminal_cuts_nothing(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setenv("COLUMNS", "40")
    assert main(["why", "firecaffe-nin", "--set", "num_gpus=8", "-q", "--no-upgrades"]) == 0
    printed = capsys.readouterr().out
    assert "elasticity" in printed
    assert max(map(len, printed.splitlines())) <= 40


@pytest.mark.parametrize("text", ["0%", "-5%", "ten", "1000%", ""])
def test_a_wrong_share_is_a_usage_error(text: str) -> None:
    assert main(["why", "firecaffe-nin", f"--by={text}"]) == 2


def test_a_wrong_scenario_is_an_input_error(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["why", "firecaffe-nim", "--json"]) == 3
    assert json.loads(capsys.readouterr().out)["schema"] == "clustersim.error/1"


def test_layouts_are_shared_where_compute_is_as_it_was(monkeypatch: pytest.MonkeyPatch) -> None:
    computed = []

    def counted(point: Point, *args: Any) -> Any:
        computed.append(point.speeds)
        return compute(point, *args)

    compute = layout._computed
    monkeypatch.setattr(layout, "_computed", counted)
    why("gpt-3d", ["parallelism.tensor=8", "parallelism.pipeline=2"], upgrades=False)
    with_speeds = [each for each in computed if each.factors]
    assert with_speeds
    assert all(each.of_compute.factors for each in with_speeds)
