"""What if: knobs come from the scenario, and an evaluation is what the printed command gives."""

from __future__ import annotations

import json
import shlex
from pathlib import Path
from typing import Any

import pytest

from clustersim.cli import main
from clustersim.errors import InputError
from clustersim.reading import read_yaml
from clustersim.report.findings import findings
from clustersim.report.text_table import plain
from clustersim.results.files import to_json
from clustersim.what_if import Evaluation, Knob, WhatIf, value_text
from clustersim.what_if.evaluation import refusal_parts

STAR: dict[str, Any] = {
    "name": "star",
    "model": "resnet50",
    "num_gpus": 8,
    "batch": {"per_gpu": 16},
    "topology": {"kind": "star", "host": {"template": "dgx-1"}, "link": "infiniband-edr"},
    "software": "plain",
    "transport": "nccl",
    "strategy": {"kind": "all-reduce"},
    "num_iterations": 2,
}


def _knob(study: WhatIf, name: str) -> Knob:
    return next(knob for knob in study.knobs if knob.name == name)


def _run_of(command: str, capsys: pytest.CaptureFixture[str]) -> dict[str, Any]:
    """Return the JSON document that a command line prints."""
    arguments = shlex.split(command)[1:]
    assert main([*arguments, "--json", "--quiet"]) == 0
    document: dict[str, Any] = json.loads(capsys.readouterr().out)
    return document


def _as_json(found: Evaluation) -> dict[str, Any]:
    assert found.sweep is not None
    document: dict[str, Any] = json.loads(to_json(found.sweep.to_dict(detail=False)))
    return document


@pytest.mark.parametrize(
    ("name", "settings"),
    [
        ("overlap-10gbe", {}),
        ("overlap-10gbe", {"num_gpus": 8, "topology.link": "ethernet-100g", "strategy.overlap": False}),
        ("overlap-10gbe", {"topology.link": "390 Gbit/s", "variation": 0.1, "slow-gpu": 1.5}),
        ("gpt-3d", {"parallelism.tensor": 8, "topology.nics": 2, "topology.host.nvlink": "nvlink-4"}),
        ("stragglers", {"strategy": "{kind: gossip, graph: ring}", "stragglers.1.cv": 0.5, "num_gpus": 8}),
        ("backup-workers", {"strategy.kind": "bounded-staleness", "batch.per_gpu": 32}),
        ("backup-workers", {"strategy.backups": 2, "stragglers.0.cv": 0.6}),
    ],
)
def test_an_evaluation_is_what_the_printed_command_gives(
    name: str, settings: dict[str, Any], capsys: pytest.CaptureFixture[str]
) -> None:
    found = WhatIf(name).evaluate(settings)
    assert not found.is_refused, found.refusal
    printed = _run_of(found.command, capsys)
    assert found.sweep is not None
    assert printed.pop("answer") == [plain(sentence) for sentence in findings(found.sweep)]
    assert printed == _as_json(found)


def test_the_order_of_evaluations_changes_nothing() -> None:
    first, second = WhatIf(STAR), WhatIf(STAR)
    faster, slower = {"topology.link": "infiniband-ndr"}, {"topology.link": "infiniband-fdr", "batch.per_gpu": 32}
    found = [_as_json(first.evaluate(each)) for each in (faster, slower)]
    assert found == [_as_json(second.evaluate(each)) for each in (slower, faster)][::-1]


def test_the_scenarios_own_values_change_nothing() -> None:
    study = WhatIf(STAR)
    own = {knob.name: knob.now.value for knob in study.knobs}
    assert study.evaluate(own) is study.evaluate({})
    assert study.evaluate(own).settings == {}


def test_a_knob_has_the_values_that_the_scenario_lists_first() -> None:
    study = WhatIf("stragglers")
    strategy = _knob(study, "strategy")
    assert [stop.value["kind"] for stop in strategy.stops][:3] == ["all-reduce", "server", "backup"]
    assert strategy.now is strategy.stops[0]
    assert _knob(WhatIf("gpt-3d"), "parallelism.tensor").now.value == 1
    assert {8, 16} <= {stop.value for stop in _knob(WhatIf("overlap-10gbe"), "num_gpus").stops}


def test_an_axis_of_any_key_is_a_knob() -> None:
    study = WhatIf({**STAR, "precision": ["fp32", "fp16"]})
    assert [stop.value for stop in _knob(study, "precision").stops] == ["fp32", "fp16"]
    slow, quick = (study.evaluate({"precision": each}).run for each in ("fp32", "fp16"))
    assert slow is not None
    assert quick is not None
    assert quick.samples_per_s > slow.samples_per_s


def test_a_choice_with_an_axis_inside_takes_its_first_value(capsys: pytest.CaptureFixture[str]) -> None:
    strategies = [{"kind": "all-reduce"}, {"kind": "local", "steps": [2, 4]}]
    study = WhatIf({**STAR, "strategy": strategies})
    found = study.evaluate({"strategy": strategies[1]})
    assert "strategy.steps=2" in found.command
    assert found.sweep is not None
    assert {run.num_gpus for run in found.sweep.runs} == {1, 2, 4, 8}
    assert len(found.sweep.runs) == 4


def test_gpus_are_those_of_the_cluster() -> None:
    fixed = {**STAR, "topology": {**STAR["topology"], "num_hosts": 3}}
    assert [stop.value for stop in _knob(WhatIf(fixed), "num_gpus").stops] == [1, 2, 4, 8, 16]
    assert _knob(WhatIf(STAR), "num_gpus").stops[-1].value == 64


def test_a_host_with_nvlink_offers_gpus_with_nvlink() -> None:
    gpus = {stop.value for stop in _knob(WhatIf(STAR), "topology.gpu").stops}
    assert {"p100", "v100"} <= gpus
    assert "k80" not in gpus


def test_a_link_offers_its_family_and_higher_rates_at_its_delay() -> None:
    stops = _knob(WhatIf(STAR), "topology.link").stops
    assert [stop.text for stop in stops][-4:] == ["infiniband-ndr", "infiniband-xdr", "1500 Gbit/s", "3100 Gbit/s"]
    assert [dict(stop.also) for stop in stops][-3:-1] == [{}, {"topology.hop": "250 ns"}]


def test_a_link_without_a_family_offers_multiples_of_its_rate() -> None:
    topology = {**STAR["topology"], "link": "100 Gbit/s"}
    stops = _knob(WhatIf({**STAR, "topology": topology}), "topology.link").stops
    assert [stop.number for stop in stops] == pytest.approx([12, 25, 50, 100, 200, 400, 800], rel=0.05)
    assert not any(stop.also for stop in stops)


def test_a_rate_at_the_delay_of_a_sheet_is_the_sheet() -> None:
    sheet, rate = (
        WhatIf({**STAR, "topology": {**STAR["topology"], **link}}).evaluate({"num_gpus": 16}).run
        for link in ({}, {"link": "96.8 Gbit/s", "hop": "250 ns"})
    )
    assert sheet is not None
    assert rate is not None
    assert rate.iteration_s == pytest.approx(sheet.iteration_s, rel=1e-9)


def test_a_refused_choice_is_an_evaluation_with_its_message() -> None:
    study = WhatIf({**STAR, "model": "vgg16", "batch": {"per_gpu": 64}})
    found = study.evaluate({"batch.per_gpu": 512})
    assert found.is_refused
    assert found.sweep is None
    assert found.figures == {}
    assert "memory" in found.refusal
    assert found.to_dict()["refusal"][0]["message"]
    assert found.command.startswith("clustersim run star.yaml --set ")


def test_a_size_that_is_refused_is_left_out_of_the_curve() -> None:
    study = WhatIf({**STAR, "stragglers": [{"kind": "constant", "factor": 2, "of": [5]}]})
    found = study.evaluate({})
    assert found.sweep is not None
    assert [run.num_gpus for run in found.sweep.runs] == [8]
    assert list(found.left_out) == [1, 2, 4]
    assert "stragglers.0.of" in found.left_out[4]


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"topology.links": "1 Gbit/s"}, "no knob is called 'topology.links'"),
        ({"topology.link": "/etc/passwd"}, "'Link of the network' has no value '/etc/passwd'"),
        ({"num_gpus": "8, model: vgg16"}, "'GPUs' has no value '8, model: vgg16'"),
    ],
)
def test_a_value_that_no_knob_has_is_refused(settings: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError, match=message):
        WhatIf(STAR).evaluate(settings)


def test_a_setting_that_the_strategy_has_no_use_for_is_left_out() -> None:
    found = WhatIf(STAR).evaluate({"strategy.kind": "server", "strategy.algorithm": "ring"})
    assert dict(found.settings) == {"strategy.kind": "server"}


def test_results_are_kept_and_the_oldest_are_dropped(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("clustersim.what_if.study._MOST_CACHED", 2)
    study = WhatIf({**STAR, "num_gpus": 2})
    first, second = study.evaluate({}), study.evaluate({"num_gpus": 1})
    assert study.evaluate({}) is first
    study.evaluate({"batch.per_gpu": 32})
    assert study.evaluate({}) is first
    assert study.evaluate({"num_gpus": 1}) is not second


@pytest.mark.parametrize("value", ["a, b", "on", "{", "-", "1e3", "x: y", "#", "", "null", "é", "400 Gbit/s"])
def test_a_text_is_read_again_as_itself(value: str) -> None:
    for whole in (value, [value, 1], {"a": value}):
        node, mistakes = read_yaml(value_text(whole), "text")
        assert not mistakes
        assert node.plain() == whole


class _StopError(Exception):
    """Ends an evaluation."""


def test_an_evaluation_can_be_stopped_and_leaves_nothing_behind() -> None:
    study, calls = WhatIf(STAR), []

    def stop() -> None:
        calls.append(1)
        if len(calls) > 2:
            raise _StopError

    with pytest.raises(_StopError):
        study.evaluate({}, stop)
    assert _as_json(study.evaluate({})) == _as_json(WhatIf(STAR).evaluate({}))


def test_a_listed_number_in_other_digits_is_the_stop_of_that_number() -> None:
    study = WhatIf(STAR, ["batch.per_gpu=[32.0,64]"])
    knob = _knob(study, "batch.per_gpu")
    assert knob.now.text == "32"
    assert study.listed["batch.per_gpu"] == ["32", "64"]
    assert knob.stop("32.0") is knob.now


def test_the_sizes_are_those_that_fit() -> None:
    large = {
        **STAR,
        "model": "llama-3.1-8b",
        "num_gpus": 64,
        "batch": {"global": 192},
        "topology": {"kind": "star", "host": "dgx-h100", "link": "infiniband-ndr"},
        "software": "torchtitan",
        "optimizer": "adam",
        "parallelism": {"sharding": "zero-3", "micro_batches": 3, "recompute": "full"},
    }
    sizes = [stop.value for stop in _knob(WhatIf(large), "num_gpus").stops]
    assert sizes[-1] == 64
    assert 1 not in sizes  # does not fit into memory
    assert 128 not in sizes  # does not divide the batch


def test_the_gpus_are_those_of_the_same_maker_and_board() -> None:
    host = {**STAR, "topology": {"kind": "star", "host": "dgx-h100", "link": "infiniband-ndr"}}
    gpus = {stop.value for stop in _knob(WhatIf(host), "topology.gpu").stops}
    assert {"h100", "h200", "b200"} <= gpus
    assert not gpus & {"gb200", "h100-pcie", "mi300x", "v100", "rtx-4090"}


def test_a_link_of_several_says_how_many() -> None:
    host = {**STAR, "topology": {"kind": "star", "host": "dgx-h100", "link": "infiniband-ndr"}}
    assert _knob(WhatIf(host), "topology.host.nvlink").now.label == "nvlink-4, 164.8 Gbit/s a link, 18 links"


def test_settings_of_an_old_address_are_told_apart() -> None:
    study = WhatIf(STAR)
    settings = {"batch.per_gpu": "32", "gone": "1", "num_gpus": "7"}
    assert study.known(settings) == ({"batch.per_gpu": "32"}, ["gone=1", "num_gpus=7"])


def test_a_refusal_has_no_line_of_the_source(tmp_path: Path) -> None:
    path = tmp_path / "star.json"
    path.write_text(json.dumps({**STAR, "model": "vgg16", "batch": {"per_gpu": 64}}))
    found = WhatIf(path).evaluate({"batch.per_gpu": 512})
    assert found.is_refused
    assert "^" not in found.refusal
    assert all("weights" not in refusal_parts(mistake)[0] for mistake in found.mistakes)
