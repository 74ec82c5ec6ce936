"""Open tables: what `register` takes and refuses, and that new members are used at once."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Literal

import pytest

import clustersim
from clustersim.collectives import ALL_REDUCE
from clustersim.collectives.ring import ring_all_reduce
from clustersim.errors import InputError
from clustersim.model.catalogue import MODELS, load_model
from clustersim.registry import Registry
from clustersim.strategies import STRATEGIES
from clustersim.strategies.delayed import Delayed
from clustersim.topology import TOPOLOGIES
from clustersim.topology.star import Star

SCENARIO: dict[str, Any] = {
    "model": "alexnet",
    "num_gpus": 4,
    "batch": {"per_gpu": 16},
    "topology": {"kind": "star", "num_hosts": 4, "host": {"gpu": "v100"}, "link": "10 Gbit/s", "hop": "1 us"},
    "software": "plain",
    "strategy": {"kind": "all-reduce"},
}


class Mine(Delayed):
    kind: Literal["mine"] = "mine"  # type: ignore[assignment]


class MyStar(Star):
    kind: Literal["my-star"] = "my-star"  # type: ignore[assignment]


@pytest.fixture(autouse=True)
def restored() -> Iterator[None]:
    """Take what a test has registered out of the tables again."""
    tables: list[Registry[Any]] = [STRATEGIES, TOPOLOGIES, MODELS, ALL_REDUCE]
    before = [dict(table) for table in tables]
    yield
    for table, members in zip(tables, before, strict=True):
        table._members = members
        for listener in table._listeners:
            listener()


def test_a_registered_strategy_is_one_like_any_other() -> None:
    clustersim.simulate(SCENARIO)
    STRATEGIES.register("mine", Mine)
    run = clustersim.simulate(SCENARIO | {"strategy": {"kind": "mine"}})
    assert run.iteration_s == clustersim.simulate(SCENARIO | {"strategy": {"kind": "delayed"}}).iteration_s
    with pytest.raises(InputError, match="did you mean 'mine'"):
        clustersim.simulate(SCENARIO | {"strategy": {"kind": "minee"}})


def test_a_registered_topology_is_one_like_any_other() -> None:
    TOPOLOGIES.register("my-star", MyStar)
    asked = SCENARIO | {"topology": SCENARIO["topology"] | {"kind": "my-star"}}
    assert clustersim.simulate(asked).iteration_s == clustersim.simulate(SCENARIO).iteration_s
    assert clustersim.load_topology(asked["topology"]).num_gpus == 4


def test_a_registered_algorithm_is_one_like_any_other() -> None:
    ALL_REDUCE.register("our-ring", ring_all_reduce)
    ours, theirs = ({"strategy": {"kind": "all-reduce", "algorithm": name}} for name in ("our-ring", "ring"))
    assert clustersim.simulate(SCENARIO | ours).iteration_s == clustersim.simulate(SCENARIO | theirs).iteration_s


def test_a_subclass_has_no_shortcut_of_its_base() -> None:
    for base in STRATEGIES.values():
        mine = type("Mine", (base,), {"__module__": __name__})
        assert not vars(mine).get("proved_shortcuts"), base


@pytest.mark.parametrize(
    ("table", "name", "member", "message"),
    [
        (STRATEGIES, "server", Mine, "called 'server' already"),
        (STRATEGIES, "My Strategy", Mine, "kebab-case"),
        (STRATEGIES, "other", Mine, "must declare `kind: Literal"),
        (STRATEGIES, "star", Star, "must be a subclass of clustersim.strategies.strategy.Strategy"),
        (STRATEGIES, "three", 3, "must be a subclass"),
        (TOPOLOGIES, "mine", Mine, "must be a subclass of"),
        (ALL_REDUCE, "two", 2, "must be a function of num_ranks and num_bytes"),
        (ALL_REDUCE, "print", lambda text: None, "must be a function of num_ranks and num_bytes"),
        (MODELS, "other-net", lambda: load_model("alexnet"), "got a model called 'alexnet'"),
        (MODELS, "nothing", None, "must be a function without arguments"),
    ],
)  # fmt: skip
def test_what_cannot_be_a_member_is_refused(table: Registry[Any], name: str, member: Any, message: str) -> None:
    with pytest.raises(InputError, match=message):
        table.register(name, member)
    assert name not in table or name == "server"
