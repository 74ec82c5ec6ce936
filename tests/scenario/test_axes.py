"""A list is a sweep axis if, and only if, the model does not accept it as a value."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from clustersim.errors import Mistake
from clustersim.scenario import Scenario, load_scenario
from clustersim.scenario.axes import labels

Load = Callable[..., Scenario]
Mistakes = Callable[..., list[Mistake]]


@pytest.mark.parametrize(
    ("added", "axes"),
    [
        ("num_gpus: [1, 2, 4]", {"num_gpus": [1, 2, 4]}),
        ("batch: {per_gpu: [8, 16]}", {"batch.per_gpu": [8, 16]}),
        ("batch: [{per_gpu: 8}, {global: 64}]", {"batch": ["per_gpu=8", "global=64"]}),
        ("strategy: {kind: [all-reduce, server]}", {"strategy.kind": ["all-reduce", "server"]}),
        ("strategy: [{kind: all-reduce, algorithm: ring}, {kind: server}]", {"strategy": ["all-reduce", "server"]}),
        (
            "strategy: [{kind: all-reduce, algorithm: ring}, {kind: all-reduce, algorithm: tree}]",
            {"strategy": ["all-reduce algorithm=ring", "all-reduce algorithm=tree"]},
        ),
        ("placement: [block, spread]", {"placement": ["block", "spread"]}),
        ("placement: {kind: fragmented, free: [0.9, 1.0]}", {"placement.free": [0.9, 1.0]}),
        ("stragglers: [{kind: gamma, cv: [0.1, 0.2]}]", {"stragglers.0.cv": [0.1, 0.2]}),
        ("stragglers: [[], [{kind: gamma, cv: 0.1}]]", {"stragglers": ["[]", "[{kind: gamma, cv: 0.1}]"]}),
        ("topology: [titan, {kind: star, num_hosts: 4, link: 1 Gbit/s, gpu: k80}]", {"topology": ["titan", "star"]}),
        ("memory_check: [true, false]", {"memory_check": [True, False]}),
        ("placement: [3, 2, 1, 0]", {}),
        ("stragglers: [{kind: gamma, cv: 0.1}, {kind: constant, factor: 2, of: [0, 1]}]", {}),
        ("published: [{num_gpus: 4, hours: 3, source: x}, {num_gpus: 8, hours: 2, source: x}]", {}),
    ],
)
def test_a_list_that_the_model_does_not_accept_is_an_axis(load: Load, added: str, axes: dict[str, Any]) -> None:
    scenario = load(added)
    assert scenario.axes == axes
    assert len(scenario.points()) == max([len(values) for values in axes.values()], default=1)


TORUS = "topology: {{kind: torus, dims: {dims}, link: {link}, injection: 1 Gbit/s, gpu: k80}}"


@pytest.mark.parametrize(
    ("dims", "link", "axes"),
    [
        ("[4, 4]", "1 Gbit/s", {}),
        ("[4, 4]", "[1 Gbit/s, 2 Gbit/s]", {}),
        ("[[4, 4], [2, 8]]", "1 Gbit/s", {"topology.dims": ["[4, 4]", "[2, 8]"]}),
        ("[4, 4]", "[[1 Gbit/s, 2 Gbit/s], 3 Gbit/s]", {"topology.link": ["[1 Gbit/s, 2 Gbit/s]", "3 Gbit/s"]}),
    ],
)
def test_a_list_of_a_torus_is_not_an_axis(load: Load, dims: str, link: str, axes: dict[str, Any]) -> None:
    assert load(TORUS.format(dims=dims, link=link)).axes == axes


def test_points_are_the_product_with_the_first_axis_slowest(load: Load) -> None:
    scenario = load("num_gpus: [1, 2]\nseed: [5, 6]\nbatch: {per_gpu: [8, 16]}")
    assert [tuple(axes.values()) for axes, _ in scenario.points()] == [
        (gpus, seed, batch) for gpus in (1, 2) for seed in (5, 6) for batch in (8, 16)
    ]
    for axes, point in scenario.points():
        assert (point.num_gpus, point.seed, point.per_gpu_batch) == tuple(axes.values())


def test_one_value_of_an_axis_may_contain_another_axis(load: Load) -> None:
    scenario = load("strategy: [{kind: all-reduce, algorithm: [ring, tree]}, {kind: server}]")
    assert [axes for axes, _ in scenario.points()] == [
        {"strategy": "all-reduce", "strategy.algorithm": "ring"},
        {"strategy": "all-reduce", "strategy.algorithm": "tree"},
        {"strategy": "server"},
    ]


def test_a_mapping_is_loaded_like_a_file(load: Load) -> None:
    raw = load("num_gpus: [1, 2]").raw
    scenario = load_scenario(raw)
    assert scenario.axes == {"num_gpus": [1, 2]}
    assert load_scenario(scenario) is scenario
    assert load_scenario(scenario, ["num_gpus=8"]).num_gpus == 8


def test_what_all_points_share_can_be_read_from_the_scenario(load: Load) -> None:
    scenario = load("num_gpus: [1, 2]\nseed: 9")
    assert scenario.seed == 9
    with pytest.raises(AttributeError, match="'num_gpus' differs between the points"):
        _ = scenario.num_gpus
    with pytest.raises(AttributeError, match="no attribute 'colour'"):
        _ = scenario.colour


def test_the_text_of_a_scenario_gives_the_scenario_again(load: Load) -> None:
    from clustersim.reading.yaml_reader import read_yaml

    scenario = load("num_gpus: [1, 2]\nstragglers: [{kind: gamma, cv: 0.1}]\n$schema: x")
    assert read_yaml(scenario.yaml(), None)[0].plain() == scenario.raw


def test_every_wrong_element_of_an_axis_is_reported_once(mistakes: Mistakes) -> None:
    found = mistakes("num_gpus: [1, x, 0]\nseed: [1, 2]")
    assert [(mistake.key, mistake.got) for mistake in found] == [("num_gpus", "'x'"), ("num_gpus", "0")]


@pytest.mark.parametrize(
    ("added", "key", "words"),
    [
        ("num_gpus: []", "num_gpus", "the list is empty; give at least one value"),
        ("num_gpus: [2, 4, 2]", "num_gpus", "2 is listed twice; keep one"),
        ("name: [a, b]", "name", "expected text (got a list)"),
        ("placement: [blok]", "placement", "did you mean 'block'?"),
        ("placement: [0, 1, 2, -1]", "placement.3", "expected a number of at least 0 (got -1)"),
        ("stragglers: [{kind: gama, cv: 1}]", "stragglers.0.kind", "did you mean 'gamma'?"),
    ],
)
def test_a_list_that_is_neither_a_value_nor_an_axis_is_refused(
    mistakes: Mistakes, added: str, key: str | None, words: str
) -> None:
    (mistake,) = mistakes(added)
    assert words in mistake.message
    assert mistake.key == key
    assert mistake.line is not None


def test_labels_distinguish_the_values() -> None:
    assert labels([{"a": 1, "b": 2}, {"a": 1, "b": 3}]) == ["b=2", "b=3"]
    assert labels(["titan", {"kind": "star", "num_hosts": 2}]) == ["titan", "star"]
    assert labels([{"kind": "x"}, {"kind": "x", "on": True}]) == ["x", "x on=true"]
    assert labels([{}, {"data": 4}]) == ["default", "data=4"]
