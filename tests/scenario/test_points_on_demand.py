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


def every_combination(root: TreeNode, axes: dict[str, Any], check: Validate) -> Iterator[tuple[dict[str, Any], Any]]:
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


WITH_LISTS = sorted(set(shipped_files("scenarios")) - {"h100-or-b200", "time-to-accuracy"})
"""Those without `cases`."""


@pytest.mark.parametrize("name", WITH_LISTS)
def test_shipped_scenarios_have_the_points_of_every_combination(name: str) -> None:
    root = load_scenario(name, strict=False).tree()
    expected = list(every_combination(root, {}, validate))
    assert on_demand(root) == expected


PARTS: dict[str, list[Any]] = {
    "num_gpus": [4, [2, 4], [2, 4, 8]],
    "batch": [
        {"per_gpu": 8},
        {"per_gpu": [8, 16]},
        [{"per_gpu": 8}, {"global": 64}],
        [{"per_gpu": [4, 8]}, {"global": 64}],
    ],
    "strategy": [
        {"kind": "all-reduce", "algorithm": ["ring", "tree"]},
        {"kind": ["all-reduce", "server"]},
        [{"kind": "all-reduce", "algorithm": ["ring", "tree"], "overlap": [True, False]}, {"kind": "server"}],
        [{"kind": "all-reduce", "algorithm": "ring"}, {"kind": "async", "servers": {"num": [1, 2], "on": "workers"}}],
    ],
    "topology": [
        {"kind": "star", "num_hosts": 16, "link": ["1 Gbit/s", "10 Gbit/s"], "gpu": "k80"},
        {
            "kind": "torus",
            "dims": [[4, 4], [2, 8]],
            "link": "1 Gbit/s",
            "injection": "1 Gbit/s",
            "gpu": ["k80", "p100"],
        },
        {
            "kind": "torus",
            "dims": [4, 4],
            "link": [["1 Gbit/s", "2 Gbit/s"], "3 Gbit/s"],
            "injection": "1 Gbit/s",
            "gpu": "k80",
        },
        ["titan", {"kind": "star", "num_hosts": [16, 32], "link": "1 Gbit/s", "gpu": "k80"}],
        {
            "kind": "star",
            "num_hosts": 8,
            "link": "1 Gbit/s",
            "host": {"template": "dual-socket", "gpu": ["k80", "p100"], "num_gpus": [2, 4]},
        },
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


TEN_THOUSAND = (
    "num_gpus: [1, 2, 3, 4, 5, 6, 7, 8]\nbatch: {per_gpu: [1, 2, 4, 8, 16]}\nseed: [0, 1, 2, 3, 4]\n"
    "topology: {kind: star, num_hosts: 8, link: [1 Gbit/s, 2 Gbit/s, 5 Gbit/s, 10 Gbit/s, 20 Gbit/s], "
    "hop: [1 us, 2 us, 3 us, 4 us, 5 us], host: {gpu: k80}}\nstrategy: {kind: all-reduce, algorithm: [ring, tree]}"
)


def test_the_points_of_a_large_sweep_are_neither_checked_nor_kept(
    varied: Callable[[str], str], monkeypatch: pytest.MonkeyPatch
) -> None:
    from clustersim.reading.yaml_reader import read_yaml
    from clustersim.scenario import file_mistakes, loader, validate

    checks = 0

    def counted(root: TreeNode) -> Any:
        nonlocal checks
        checks += 1
        return read_keys(root)

    def never(root: TreeNode) -> Any:
        pytest.fail("a point was checked as a whole")

    for module in (loader, file_mistakes):
        monkeypatch.setattr(module, "read_keys", counted)
    monkeypatch.setattr(validate, "point_problems", never)
    raw = read_yaml(varied(TEN_THOUSAND), None)[0].plain()
    load_scenario(raw, strict=False)
    first, checks = checks, 0
    tracemalloc.start()
    scenario = load_scenario(raw, strict=False)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert len(scenario.trees()) == 10_000
    assert checks == first < 60, "so many checks as all axes have values, and a few for each axis"
    assert peak < 3e6, "bytes: 300 a point would not fit"


def test_a_point_is_made_when_it_is_asked_for(load: Load) -> None:
    trees = load("num_gpus: [1, 2, 4]\nseed: [5, 6]").trees()
    assert len(trees) == 6
    assert dict(trees[-1].axes) == {"num_gpus": 4, "seed": 6}
    assert [tree.number for tree in trees[1:3]] == [1, 2]
    sent = pickle.loads(pickle.dumps(trees[3]))
    assert sent == trees[3]
    assert (sent.point().num_gpus, sent.seed, sent.num_gpus) == (2, 6, 2)
    with pytest.raises(IndexError):
        trees[6]


def test_more_points_than_allowed_are_refused_at_the_list_that_is_too_long(load: Load) -> None:
    many = ", ".join(map(str, range(400)))
    with pytest.raises(InputError, match=r"seed: with this list of 400 values .* more than 100,000 runs"):
        load(f"num_gpus: [{', '.join(map(str, range(1, 301)))}]\nseed: [{many}]")
