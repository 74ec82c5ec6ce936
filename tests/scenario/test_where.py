"""Conditions on points: which they keep, and which are refused."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from clustersim.errors import InputError
from clustersim.scenario import Scenario, load_scenario
from clustersim.scenario.where import parse_condition

Load = Callable[..., Scenario]

LISTS = """\
num_gpus: [2, 4, 8]
batch: {per_gpu: [8, 16]}
strategy: [{kind: all-reduce, algorithm: ring}, {kind: softsync, n: 2, servers: {num: 1, on: workers}}]
topology: {kind: star, num_hosts: 8, link: [1 Gbit/s, 10 Gbit/s], hop: 1 us, host: {gpu: k80}}
"""


@pytest.fixture
def load(tmp_path: Path, varied: Callable[[str], str]) -> Load:
    def loaded(where: str, added: str = LISTS) -> Scenario:
        path = tmp_path / "small.yaml"
        path.write_text(varied(added), encoding="utf-8")
        return load_scenario(path, strict=False, where=[where])

    return loaded


@pytest.mark.parametrize(
    ("where", "kept"),
    [
        ("num_gpus * batch <= 64", 20),  # the only value of a map stands for it
        ("num_gpus * batch.per_gpu <= 64", 20),
        ("num_gpus in [2, 8] and not batch.per_gpu == 8", 8),
        ("2 < num_gpus < 8", 8),
        ("num_gpus % 4 == 0 or num_gpus // 2 == 1 and seed + 1 > 1", 16),
        ("topology.link >= 5 Gbit/s", 12),
        ("topology.link == '1 Gbit/s'", 12),
        ("topology.link == '1000 Mbit/s'", 12),
        ("topology.hop == 1000 ns", 24),  # 1000 * 1e-9 is not 1e-6 as a float
        ("topology.hop <= 1000 ns and not topology.hop < 1000 ns", 24),
        ("topology.hop * 2 + 1 us < 4 us and topology.hop > 0", 24),
        ("topology.link * topology.hop < 1 kB", 12),
        ("topology.link / 2 in [500 Mbit/s, 7 MB/s]", 12),
        ("1 == 1.and num_gpus < 4", 8),
        ("strategy == 'all-reduce'", 12),
        ("strategy.kind != 'softsync' or strategy.n < 2", 12),
        ("strategy.n != null and strategy.n == 2", 12),
        ("replicates == 1 and memory_check == true", 24),  # defaults
        ("-num_gpus + 10 > 2", 16),
        ("name == 'small'", 24),
    ],
)
def test_points_for_which_it_holds_are_kept(load: Load, where: str, kept: int) -> None:
    assert len(load(where).trees()) == kept


def test_points_that_are_kept_keep_their_order_and_values(load: Load) -> None:
    scenario = load("num_gpus * batch.per_gpu == 32 and strategy == 'all-reduce'")
    assert [tuple(tree.axes.values())[:2] for tree in scenario.trees()] == [(2, 16), (2, 16), (4, 8), (4, 8)]
    assert [tree.number for tree in scenario.trees()] == [0, 1, 2, 3]
    assert scenario.axes["num_gpus"] == [2, 4]
    assert load_scenario(scenario.raw).axes == scenario.axes, "the condition is saved with the scenario"


def test_the_file_may_have_conditions_too(load: Load) -> None:
    assert len(load("num_gpus > 2", f"{LISTS}sweep: {{where: [num_gpus < 8, batch == 8]}}").trees()) == 4


def test_mistakes_in_points_that_are_left_out_are_not_told(load: Load) -> None:
    assert len(load("num_gpus > 0", "num_gpus: [0, 2, 4]").trees()) == 2
    with pytest.raises(InputError, match="at least 1"):
        load("num_gpus < 4", "num_gpus: [0, 2, 4]")


@pytest.mark.parametrize(
    ("where", "words"),
    [
        ("num_gps < 4", "no key of a scenario is called 'num_gps'; did you mean 'num_gpus'?"),
        ("per_gpu < 4", "did you mean 'batch.per_gpu'?"),
        ("num_gpus <", "expected a condition such as"),
        ("", "expected a condition such as"),
        ("num_gpus", "it is 2, which is neither true nor false (at num_gpus 2"),
        ("num_gpus < 'x'", "2 and 'x' have no order"),
        ("strategy.n < 4", "this point has no strategy.n; write 'strategy.n != null and ...'"),
        ("strategy.n == 4", "this point has no strategy.n"),
        ("precision == 'fp32'", "this point has no precision"),  # the software decides
        ("topology < 3", "have no order"),
        ("topology.host < 3", "have no order"),
        ("strategy.servers < 3", "strategy.servers is a map"),
        ("num_gpus / 0 > 1", "divides by zero"),
        ("topology.link >= 10 us", "1 Gbit/s is a rate, and 10 us is a duration"),
        ("topology.link == 10 us", "1 Gbit/s is a rate, and 10 us is a duration"),
        ("topology.hop <= 2", "2 has no unit, and 1 us is a duration; write a unit"),
        ("topology.hop + topology.link > 0", "1 us is a duration, and 1 Gbit/s is a rate"),
        ("topology.link * 2 > 1", "2.5e+08 B/s is a rate; write a unit"),
        ("topology.link < 'x'", "1 Gbit/s and 'x' have no order"),
        ("num_gpus == '8'", "2 is a number and '8' a text; write numbers without quotes"),
        ("num_gpus in ['8']", "2 is a number and '8' a text"),
        ("num_gpus < 10if", "expected a condition such as"),
        ("num_gpus == 1_0", "expected a condition such as"),
        ("case == 'b'", "there is no axis 'case' here; --set 'case=[NAME]' keeps it"),
        ("'a' * 9999999 == 'b'", "only numbers are added"),
        ("num_gpus ** 99 > 1", "a condition cannot have num_gpus ** 99"),
        ("__import__('os').system('true')", "a condition cannot have __import__('os')"),
        ("[x for x in [1]] == 1", "expected a condition"),
        ("num_gpus > 100", "no point is left: 'num_gpus > 100' holds for none of 24"),
        ("num_gpus == 2 and " * 200 + "true", "longer than 1000 characters"),
    ],
)
def test_a_wrong_condition_is_refused(load: Load, where: str, words: str) -> None:
    added = LISTS.replace("{kind: all-reduce, algorithm: ring}", "{kind: server, servers: {num: 1, on: workers}}")
    with pytest.raises(InputError) as caught:
        load(where, added if "servers" in where else LISTS)
    (mistake,) = caught.value.mistakes
    assert words in mistake.message
    assert mistake.file == "--where"


@given(st.text(alphabet="ab_.()[]{}<>=!+-*/%'\"0189 ,:;@lambdnotrif\n", max_size=40))
def test_any_text_is_a_condition_or_refused(text: str) -> None:
    with suppress(InputError):
        assert parse_condition(text).text == text
