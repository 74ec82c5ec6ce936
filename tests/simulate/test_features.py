"""Features of a forecast, the guesses that it rests on, and the band that it states."""

from __future__ import annotations

import json
import sys
from dataclasses import replace
from typing import Any

import pytest

from clustersim import load_scenario, simulate
from clustersim.hardware import LINKS, load_link
from clustersim.model import load_workload
from clustersim.results import Run, Sweep
from clustersim.results.checked import shipped_forecasts
from clustersim.simulate.features import assumed_rates, program_of, work_kind
from clustersim.simulate.setup import Setup
from clustersim.software import load_host

PLAIN: dict[str, Any] = {
    "name": "plain",
    "model": "nin",
    "num_gpus": 2,
    "batch": {"per_gpu": 8},
    "topology": {"kind": "star", "num_hosts": 2, "link": "infiniband-fdr", "host": {"gpu": "a100"}},
    "transport": "nccl",
    "strategy": {"kind": "all-reduce"},
    "precision": "tf32",
    "num_iterations": 2,
}


def setup_of(**keys: Any) -> Setup:
    return Setup(load_scenario({**PLAIN, **keys}).points()[0].point)


def test_a_run_has_its_features() -> None:
    found = simulate({**PLAIN}).features
    assert found is not None
    assert (found.architecture, found.precision) == ("ampere", "tf32")
    assert (found.strategy, found.layout, found.origin) == ("all-reduce", "copies", "estimated")
    assert (found.hosts, found.work) == ("few", "convolutions")
    host = {"gpu": "v100", "num_gpus": 2}
    one = simulate({**PLAIN, "precision": "fp32", "topology": {**PLAIN["topology"], "num_hosts": 1, "host": host}})
    assert one.features is not None
    assert (one.features.hosts, one.features.architecture) == ("one", "volta")


def test_the_origin_is_that_of_the_layer_times_and_the_layout_that_of_the_point() -> None:
    rate = {"single_gpu": {"samples_per_s": 900.0, "batch": 8, "source": "a table"}}
    published = simulate({**PLAIN, "compute": rate}).features
    assert published is not None
    assert published.origin == "published"
    keys = {"model": "gpt-12x768x12-seq128-vocab50257", "precision": "amp-bf16", "memory_check": False}
    sharded = simulate({**PLAIN, **keys, "parallelism": {"sharding": "zero-3"}}).features
    split = simulate({**PLAIN, **keys, "parallelism": {"tensor": 2}}).features
    assert sharded is not None
    assert split is not None
    assert (sharded.layout, split.layout, split.work) == ("sharded", "split", "products")


def test_an_anchor_is_the_origin_of_a_forecast() -> None:
    without = simulate({**PLAIN})
    measured = [{"num_gpus": 2, "samples_per_s": 0.9 * without.samples_per_s}]
    anchored = simulate({**PLAIN, "measured": measured})
    assert anchored.features is not None
    assert anchored.features.origin == "anchored"
    assert without.band is not None
    assert anchored.band is not None
    wide, narrow = (low_high[1] / low_high[0] for low_high in (without.band.samples_per_s, anchored.band.samples_per_s))
    assert narrow < wide
    assert "anchored" in anchored.band.class_name


def test_a_program_is_the_family_of_its_sheet() -> None:
    assert program_of(setup_of(software="megatron-lm-2023").point) == "megatron"


@pytest.mark.parametrize(
    ("model", "work"),
    [("resnet50", "convolutions"), ("lstm-lm", "recurrent"), ("gpt-12x768x12-seq128-vocab50257", "products")],
)
def test_work_is_what_most_flop_are_in(model: str, work: str) -> None:
    assert work_kind(load_workload(model)[0]) == work


def test_rates_that_are_guesses_are_those_in_use() -> None:
    board = setup_of(topology={**PLAIN["topology"], "host": {"gpu": "h100-96gb"}})
    assert assumed_rates(board, [], is_estimated=True) == (
        "flop_per_s.tf32 of NVIDIA H100 SXM5 with 96 GB of HBM2e (Grand Teton)",
    )
    assert assumed_rates(board, [], is_estimated=False) == ()
    assert assumed_rates(setup_of(), [], is_estimated=True) == ()
    guessed = next(name for name in LINKS if "bytes_per_s" in load_link(name).assumed())
    assert assumed_rates(setup_of(), [guessed, guessed], is_estimated=False) == (
        f"bytes_per_s of {load_link(guessed).title}",
    )


def test_a_guess_of_what_the_host_needs_for_a_kernel_is_one(monkeypatch: pytest.MonkeyPatch) -> None:
    setup = setup_of(software="pytorch-ddp")
    sheet = load_host("pytorch-eager")
    assert assumed_rates(setup, [], is_estimated=True) == ()
    guessed = replace(sheet, sources={**sheet.sources, "kernel_s": "assumed: as elsewhere"})
    monkeypatch.setattr(sys.modules[assumed_rates.__module__], "load_host", lambda name: guessed)
    assert assumed_rates(setup, [], is_estimated=True) == (f"kernel_s of {sheet.title}",)
    assert assumed_rates(setup, [], is_estimated=False) == ()


def test_a_run_states_its_band_and_keeps_it_in_json() -> None:
    run = simulate({**PLAIN})
    assert run.band is not None
    document = json.loads(json.dumps(run.to_dict()))
    band = document["band"]
    assert (band["level"], band["unchecked"]) == (0.9, [])
    assert band["sources"] >= 10
    low, high = band["samples_per_s"]
    assert low < band["half"][0] < band["half"][1] < high
    assert Run.from_dict(document).band == run.band
    assert Run.from_dict(document).features == run.features


def test_an_older_result_has_neither_features_nor_band() -> None:
    document = simulate({**PLAIN}).to_dict()
    del document["features"], document["band"]
    old = Sweep.from_dict({"version": "0", "scenario": {}, "seed": 0, "runs": [document], "assumptions": [],
                           "warnings": [], "shortcuts": []})  # fmt: skip
    assert (old.runs[0].features, old.runs[0].band) == (None, None)


@pytest.mark.parametrize(
    ("keys", "words"),
    [
        ({"topology": {**PLAIN["topology"], "host": {"gpu": "mi300x"}}, "precision": "fp32"}, "architecture other"),
        ({"strategy": {"kind": "gossip", "graph": "ring"}}, "strategy gossip"),
    ],
)
def test_what_was_never_checked_says_so_with_the_band_of_all(keys: dict[str, Any], words: str) -> None:
    run = simulate({**PLAIN, **keys})
    assert run.band is not None
    assert words in run.band.unchecked
    assert run.band.class_name == "all"
    assert run.band.sources == len({each.source for each in shipped_forecasts().of_anchored(False)})
