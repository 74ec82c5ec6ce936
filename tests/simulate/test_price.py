"""Price and energy of an iteration: those of its GPUs for its duration."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

import clustersim
from clustersim.cli import main
from clustersim.errors import InputError
from clustersim.hardware import load_gpu
from clustersim.hardware.price import price_of, price_setting
from clustersim.model import load_model
from clustersim.report.answer import rows
from clustersim.results import Run

SCENARIO: dict[str, Any] = {
    "model": "alexnet",
    "num_gpus": 4,
    "batch": {"per_gpu": 32},
    "topology": {"kind": "star", "num_hosts": 4, "gpu": "v100", "link": "10 Gbit/s"},
    "software": "plain",
    "transport": "nccl",
    "strategy": {"kind": "all-reduce"},
    "num_iterations": 2,
}


def test_an_iteration_costs_its_gpus_for_as_long_as_it_lasts() -> None:
    run, gpu = clustersim.simulate(SCENARIO), load_gpu("v100")
    assert run.iteration_dollars == pytest.approx(4 * gpu.dollars_per_hour * run.iteration_s / 3600)
    assert run.iteration_joules == pytest.approx(4 * gpu.power_w * run.iteration_s)
    again = Run.from_dict(run.to_dict(detail=False))
    assert (again.iteration_dollars, again.iteration_joules) == (run.iteration_dollars, run.iteration_joules)


def test_where_a_sheet_has_no_price_there_is_no_cost() -> None:
    run = clustersim.simulate({**SCENARIO, "topology": {**SCENARIO["topology"], "gpu": "p100"}})
    assert load_gpu("p100").dollars_per_hour is None
    assert run.iteration_dollars is None


def test_gpus_of_several_kinds_cost_what_each_does() -> None:
    hosts = [{"count": 2, "host": {"gpu": "v100"}}, {"count": 2, "host": {"gpu": "a100-40gb"}}]
    topology = {"kind": "star", "hosts": hosts, "link": "10 Gbit/s"}
    run = clustersim.simulate({**SCENARIO, "topology": topology})
    powers = [load_gpu(kind).power_w for kind in ("v100", "a100-40gb")]
    assert run.iteration_joules == pytest.approx(2 * sum(powers) * run.iteration_s)


def test_a_scenario_gives_a_price_that_its_sheet_lacks() -> None:
    cluster = {**SCENARIO["topology"], "gpu": "p100"}
    run = clustersim.simulate({**SCENARIO, "topology": cluster, "prices": {"p100": 1.5, "v100": 9}})
    assert run.dollars_per_hour == pytest.approx(4 * 1.5)
    assert run.dollars_per_million("samples") == pytest.approx(1e6 / run.samples_per_s * 4 * 1.5 / 3600)


def test_a_gpu_with_a_limit_of_power_costs_what_its_board_does() -> None:
    assert price_of("h100 at 500 W", 3.99, {"h100": 2.0}) == 2.0
    assert price_of("h100 at 500 W", 3.99, {"h100": 2.0, "h100 at 500 W": 1.0}) == 1.0
    assert price_of("h100 at 500 W", 3.99, {"a100": 2.0}) == 3.99


def test_the_table_has_dollars_where_a_price_is_known() -> None:
    whole = clustersim.sweep({**SCENARIO, "num_gpus": [2, 4]})
    headings, body = rows(whole)
    assert headings[-2:] == ["$/h", "$/M samples"]
    assert [cells[-2] for cells in body] == ["6.12", "12.2"]
    bare = clustersim.sweep({**SCENARIO, "topology": {**SCENARIO["topology"], "gpu": "p100"}})
    assert "$/h" not in rows(bare)[0]


def test_models_of_language_cost_by_the_token() -> None:
    asked = {**SCENARIO, "model": "gpt2-small", "batch": {"per_gpu": 1}, "precision": "amp-fp16"}
    run = clustersim.simulate(asked)
    assert run.tokens_per_sample == 1024
    samples, tokens = (run.dollars_per_million(unit) for unit in ("samples", "tokens"))
    assert samples == pytest.approx(1024 * tokens)
    assert rows(clustersim.sweep(asked))[0][-1] == "$/M tokens"
    assert [load_model(name).tokens for name in ("vit-b-16", "resnet50")] == [None, None]


@pytest.mark.parametrize("text", ["h100", "h100=", "h100=$2", "h100=-2", "h100=0", "h100=inf", "=2", "h100=nan"])
def test_a_price_that_is_none_is_refused(text: str) -> None:
    with pytest.raises(InputError, match="expected GPU=DOLLARS"):
        price_setting(text)


def test_prices_of_unknown_gpus_are_refused() -> None:
    with pytest.raises(InputError, match="no GPU is called 'h1000'"):
        clustersim.simulate({**SCENARIO, "prices": {"h1000": 2}})
    with pytest.raises(InputError, match="given under `prices` in the scenario"):
        price_setting("mine.yaml=2")


def test_the_command_line_sets_prices(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    file = tmp_path / "small.json"
    file.write_text(json.dumps(SCENARIO), encoding="utf-8")
    assert main(["run", str(file), "--json", "--price", "v100=1", "--price", "a100=2"]) == 0
    (run,) = json.loads(capsys.readouterr().out)["runs"]
    assert run["iteration_dollars"] == pytest.approx(4 * run["iteration_s"] / 3600)
    assert main(["run", str(file), "--json", "--price", "v100"]) == 3
