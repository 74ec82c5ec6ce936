"""`--set` changes any value, creates missing maps, and reports its own mistakes."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from clustersim.errors import Mistake
from clustersim.scenario import Scenario

Load = Callable[..., Scenario]
Mistakes = Callable[..., list[Mistake]]


def test_scalars_lists_and_new_maps_are_set(load: Load) -> None:
    added = ("num_gpus=[1, 2]", "seed=5", "topology.link=40 Gbit/s", "baseline.samples_per_s=3.5", "baseline.source=me")
    scenario = load(overrides=added)
    assert [point.num_gpus for _, point in scenario.points()] == [1, 2]
    assert scenario.seed == 5
    assert scenario.topology.link == "40 Gbit/s"
    assert scenario.baseline.samples_per_s == 3.5


def test_the_last_of_two_wins(load: Load) -> None:
    assert load(overrides=("seed=1", "seed=2")).seed == 2


def test_a_map_is_set_as_a_whole(load: Load) -> None:
    assert load(overrides=("strategy={kind: server}",)).raw["strategy"] == {"kind": "server"}


def test_null_leaves_a_key_out(load: Load) -> None:
    scenario = load("baseline: {hours: 3, source: x}", ("baseline=null",))
    assert scenario.baseline is None


def test_another_kind_drops_the_options_of_the_file_and_keeps_those_set(load: Load) -> None:
    scenario = load(overrides=("strategy.buckets=layer", "strategy.kind=server", "strategy.servers.num=2"))
    assert scenario.raw["strategy"] == {"kind": "server", "buckets": "layer", "servers": {"num": 2}}


def test_the_same_kind_keeps_its_options(load: Load) -> None:
    assert load(overrides=("strategy.kind=all-reduce",)).raw["strategy"]["algorithm"] == "ring"


def test_an_alternative_replaces_the_other(load: Load) -> None:
    assert load(overrides=("batch.global=64",)).raw["batch"] == {"global": 64}


def test_an_element_of_a_list_is_set_by_its_number(load: Load) -> None:
    scenario = load("stragglers: [{kind: gamma, cv: 0.1}, {kind: gamma, cv: 0.2}]", ("stragglers.1.cv=0.4",))
    assert [straggler.cv for straggler in scenario.stragglers] == [0.1, 0.4]


def test_a_named_cluster_can_be_changed(load: Load) -> None:
    scenario = load("topology: titan\nnum_gpus: 1", ("topology.gpu=k80", "topology.dims=[2, 2, 2]"))
    assert scenario.topology.gpu == "k80"
    assert scenario.topology.dims == [2, 2, 2]
    assert scenario.topology.name == "titan"


@pytest.mark.parametrize(
    ("text", "key", "words"),
    [
        ("num_gpus", None, "expected KEY=VALUE, such as 'strategy.kind=server' (got 'num_gpus')"),
        ("=3", None, "expected KEY=VALUE"),
        ("a..b=3", None, "expected KEY=VALUE"),
        ("seed=", "seed", "the value is missing"),
        ("seed=[1", "seed", "a '[' that is never closed"),
        ("seed=\t{", "seed", "a tab"),
        ("seed=.inf", "seed", "a number must be finite"),
        ("seed.x=1", "seed.x", "'seed' is 3 and has no keys; set 'seed' itself"),
        (
            "stragglers.x=1",
            "stragglers.x",
            "a list of 1; name an element by its number, 0 to 0 (got 'x')",
        ),
        ("stragglers.7.cv=1", "stragglers.7.cv", "name an element by its number, 0 to 0 (got '7')"),
        ("sede=3", "sede", "did you mean 'seed'?"),
        ("num_gpus=x", "num_gpus", "expected a whole number (got 'x')"),
        ("topology=titn", "topology", "did you mean 'titan'?"),
    ],
)
def test_a_mistake_on_the_command_line_names_its_key(
    mistakes: Mistakes, text: str, key: str | None, words: str
) -> None:
    (mistake,) = mistakes("seed: 3\nstragglers: [{kind: gamma, cv: 0.1}]", (text,))
    assert words in mistake.message
    assert (mistake.file, mistake.line, mistake.key) == ("--set", None, key)


def test_mistakes_of_file_and_command_line_come_together(mistakes: Mistakes) -> None:
    found = mistakes("seed: -1", ("replicates=0", "nonsense"))
    assert {mistake.key for mistake in found} == {"seed", "replicates", None}
