"""The points of a sweep are made on demand, and are those that trying every combination gives."""

from __future__ import annotations

import pickle
import tracemalloc
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from clustersim.data import shipped_files
from clustersim.errors import InputError
from clustersim.reading import Path, Problem, TreeNode, from_python, takes_list
from clustersim.reading.tree import dotted
from clustersim.scenario import Scenario, load_scenario
from clustersim.scenario.axes import Validate, labels
from clustersim.scenario.point import Point
from clustersim.scenario.point_tree import PointTrees
from clustersim.scenario.sweep_space import space_of
from clustersim.scenario.validate import open_topology, read_keys, validate

Load = Callable[..., Scenario]
NEVER = ("name", "description", "$schema", "extends", "measured")


def every_combination(
    root: TreeNode, axes: dict[str, Any], check: Validate
) -> Iterator[tuple[dict[str, Any], Any]]:
    """Yield every setting: all keys are checked for each value of each axis, and the first wrong list is an axis."""
    problems = check(root)[1]
    path = next(tried_axes(root, problems, check), None) if problems else None
    if path is None:
        yield axes, root.plain()
        return
    node = root.at(path)
    assert node is not None
    for label, element in zip(labels([each.plain() for each in node.value]), node.value, strict=True):
        yield from every_combination(root.put(path, element), {**axes, dotted(path): label}, check)


def tried_axes(root: TreeNode, problems: list[Problem], check: Validate) -> Iterator[Path]:
    for path, node in lists(root, ()):
        here = within(problems, path)
        if path[-1] in ("kind", "template") and within(problems, path[:-1]):
            yield path
        elif here and path[0] not in NEVER:
            alone = [within(check(root.put(path, each))[1], path) for each in node.value[:16]]
            is_short = any(each.path == path for each in here) or sum(map(len, alone)) <= len(here)
            if not all(alone) or (not takes_list(Point, root, path) and is_short):
                yield path


def lists(node: TreeNode, path: Path) -> Iterator[tuple[Path, TreeNode]]:
    for key, child in node.items():
        if isinstance(child.value, list):
            yield (*path, key), child
        yield from lists(child, (*path, key))


def within(problems: list[Problem], path: Path) -> list[Problem]:
    return [problem for problem in problems if problem.path[: len(path)] == path]


def on_demand(root: TreeNode) -> list[tuple[dict[str, Any], Any]]:
    return [(dict(tree.axes), tree.root.plain()) for tree in PointTrees(*space_of(root, read_keys, open_topology))]


WITH_LISTS = sorted(set(shipped_files("scenarios")) - {"h100-or-b200"})


@pytest.mark.parametrize("name", WITH_LISTS)
def test_shipped_scenarios_have_the_points_of_every_combination(name: str) -> None:
    root = load_scenario(name, strict=False).tree()
    expected = list(every_combination(root, {}, validate))
    assert on_demand(root) == expected


PARTS: dict[str, list[Any]] = {
    "num_gpus": [4, [2, 4], [2, 4, 8]],
    "batch": [{"per_gpu": 8}, {"per_gpu": [8, 16]}, [{"per_gpu": 8}, {"global": 64}], [{"per_gpu": [4, 8]}, {"global": 64}]],
    "strategy": [
        {"kind": "all-reduce", "algorithm": ["ring", "tree"]},
        {"kind": ["all-reduce", "server"]},
        [{"kind": "all-reduce", "algorithm": ["ring", "tree"], "overlap": [True, False]}, {"kind": "server"}],
        [{"kind": "all-reduce", "algorithm": "ring"}, {"kind": "async", "servers": {"num": [1, 2], "on": "workers"}}],
    ],
    "topology": [
        {"kind": "star", "num_hosts": 16, "link": ["1 Gbit/s", "10 Gbit/s"], "gpu": "k80"},
        {"kind": "torus", "dims": [[4, 4], [2, 8]], "link": "1 Gbit/s", "injection": "1 Gbit/s", "gpu": ["k80", "p100"]},
        {"kind": "torus", "dims": [4, 4], "link": [["1 Gbit/s", "2 Gbit/s"], "3 Gbit/s"], "injection": "1 Gbit/s", "gpu": "k80"},
        ["titan", {"kind": "star", "num_hosts": [16, 32], "link": "1 Gbit/s", "gpu": "k80"}],
        {"kind": "star", "num_hosts": 8, "link": "1 Gbit/s", "host": {"template": "dual-socket", "gpu": ["k80", "p100"], "num_gpus": [2, 4]}},
    ],
    "placement": ["block", [3, 2, 1, 0], ["block", "spread"], {"kind": "fragmented", "free": [0.9, 1.0]}],
    "stragglers": [[], [{"kind": "gamma", "cv": [0.1, 0.2]}], [[], [{"kind": "gamma", "cv": 0.1}]]],
    "compression": ["none", ["none", "fp16", {"kind": "top-k", "density": [0.01, 0.1]}]],
    "software": ["plain", ["plain", "pytorch-ddp"]],
    "seed": [0, [1, 2]],
}


@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(st.fixed_dictionaries({key: st.sampled_from(values) for key, values in PARTS.items()}))
def test_any_scenario_has_the_points_of_every_combination(keys: dict[str, Any]) -> None:
    root = from_python({"model": "alexnet", **keys})
    expected: list[Any] = []
    for setting in every_combination(root, {}, read_keys):
        expected.append(setting)
        if len(expected) > 40:
            break
    found = on_demand(root)
    assert found[: len(expected)] == expected
    assert len(expected) > 40 or len(found) == len(expected)
