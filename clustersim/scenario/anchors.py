"""The points at which a scenario's measured runs were measured: the scenario without its sweep, and with their keys."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

from clustersim.errors import InputError, Mistake
from clustersim.hardware import load_gpu
from clustersim.model import load_workload
from clustersim.model.precision import PRECISIONS
from clustersim.reading import TreeNode
from clustersim.reading.tree import Place
from clustersim.scenario.axes import Validate
from clustersim.scenario.checks import check_point
from clustersim.scenario.cluster import build_topology
from clustersim.scenario.merge import merge
from clustersim.scenario.overrides import CASE, chosen_cases, set_node, without_axis
from clustersim.scenario.parts import MeasuredRun
from clustersim.scenario.point import Point
from clustersim.scenario.sweep_space import space_of
from clustersim.scenario.validate import read_keys
from clustersim.topology import place
from clustersim.units import parse

_OPTION = "--measured"
_OF_NETWORK = ("topology", "transport")
_WITHOUT = ("measured", "published", "baseline", "epochs", "train_tokens")

Opened = Callable[[TreeNode], TreeNode]
"""Returns a tree with the cluster itself in place of its name."""


class AnchorPoint(NamedTuple):
    """A measured run, and the training that it was."""

    measured: MeasuredRun
    point: Point


def with_measured(root: TreeNode, texts: Sequence[str]) -> tuple[TreeNode, list[Mistake]]:
    """Return the tree with the runs of `--measured` after those of the file, and the mistakes in them."""
    nodes = _nodes(root)
    mistakes: list[Mistake] = []
    for text in texts:
        try:
            nodes.append(_option_node(text))
        except InputError as error:
            mistakes += error.mistakes
    if not texts or mistakes:
        return root, mistakes
    return root.with_value({**root.children, "measured": TreeNode(nodes, Place(_OPTION))}), []


def parse_measured(text: str) -> dict[str, float | int]:
    """Return the keys of a run given as text.

    >>> parse_measured("8=105.2/s"), parse_measured("16=850 ms")
    ({'num_gpus': 8, 'samples_per_s': 105.2}, {'num_gpus': 16, 'iteration_s': 0.85})
    """
    allowed = "such as 8=105.2/s (samples per second) or 8=1.2s (of an iteration)"
    gpus, _, figure = (part.strip() for part in text.partition("="))
    try:
        num_gpus = int(gpus)
        if figure.endswith("/s"):
            return {"num_gpus": num_gpus, "samples_per_s": float(figure[:-2])}
        return {"num_gpus": num_gpus, "iteration_s": parse(figure, "duration")}
    except ValueError:
        message = f"expected the number of GPUs and a figure, {allowed} (got '{text[:60]}')"
        raise InputError(Place(_OPTION).mistake(message, None, text[:60], allowed)) from None


def anchors_of(
    root: TreeNode, measured: Sequence[MeasuredRun], validate: Validate, opened: Opened
) -> list[AnchorPoint]:
    """Return the measured runs of a valid scenario with their points, or raise an `InputError` with all mistakes."""
    anchors: list[AnchorPoint] = []
    mistakes: list[Mistake] = []
    for number, (node, each) in enumerate(zip(_nodes(root), measured, strict=True)):
        try:
            anchors.append(_anchor(root, node, each, validate, opened))
        except InputError as error:
            here = f"measured.{number}"
            mistakes += [node.place.mistake(wrong.message, here, wrong.got, wrong.allowed) for wrong in error.mistakes]
    if mistakes:
        raise InputError(mistakes)
    return anchors


def gpus_of(point: Point) -> list[str]:
    """Return the kinds of the GPUs that a point uses, as names of sheets."""
    topology = build_topology(point.topology)
    gpus = place(point.placement, topology, point.num_gpus, point.seed).tolist()
    return [name for name in dict.fromkeys(topology.gpu_sheets[gpu] for gpu in gpus) if name]


def _nodes(root: TreeNode) -> list[TreeNode]:
    """Return the nodes of the measured runs, one of which may be given without a list."""
    node = root.child("measured")
    if node is None or node.value is None:
        return []
    return list(node.value) if isinstance(node.value, list) else [node]


def _option_node(text: str) -> TreeNode:
    place = Place(_OPTION)
    return TreeNode({key: TreeNode(value, place) for key, value in parse_measured(text).items()}, place)


def _anchor(root: TreeNode, node: TreeNode, measured: MeasuredRun, validate: Validate, opened: Opened) -> AnchorPoint:
    tree = _with_keys(root, node, opened)
    space, tree = space_of(tree, read_keys, opened)
    found_axes, tree = space.at(0, tree)
    point, problems = validate(tree)
    is_log = measured.collectives is not None
    axes = [key for key in found_axes if not is_log or key.partition(".")[0] in _OF_NETWORK]
    if axes:
        message = f"the scenario has several values of {', '.join(axes)}; say in `set` which one this run had"
        raise InputError(message, got="a sweep", allowed=f"set: {{{axes[0]}: ...}}")
    found = [problem.mistake for problem in problems]
    if point is not None:
        found = list(check_point(point))
    if found or point is None:
        raise InputError(map(_as_measured, found))
    mistakes = list(_other_than_stated(measured, point))
    if mistakes:
        raise InputError(mistakes)
    return AnchorPoint(measured, point)


def _with_keys(root: TreeNode, node: TreeNode, opened: Opened) -> TreeNode:
    """Return the scenario's tree with the keys of a measured run."""
    tree = root.with_value({key: child for key, child in root.children.items() if key not in _WITHOUT})
    changes = node.child("set")
    given = dict(changes.children) if changes is not None else {}
    if (case := given.pop(CASE, None)) is not None:
        tree = chosen_cases(tree, case)
    if (num_gpus := node.child("num_gpus")) is not None and node.child("collectives") is None:
        tree = without_axis(tree.with_value({**tree.children, "num_gpus": num_gpus}), ("num_gpus",))
    for key, value in given.items():
        path = tuple(key.split("."))
        tree = without_axis(tree, path)
        is_part = len(path) > 1 or isinstance(value.value, dict)
        tree = opened(tree) if path[0] == "topology" and is_part else tree
        old = tree.at(path)
        tree = set_node(tree, path, value if old is None else merge(old, value))
    return tree


def _as_measured(mistake: Mistake) -> Mistake:
    key = f"{mistake.key}: " if mistake.key else ""
    message = f"with the keys of this run the scenario is wrong: {key}{mistake.message}; state in `set` what differed"
    return Mistake(message, got=mistake.got, allowed=mistake.allowed)


def _other_than_stated(measured: MeasuredRun, point: Point) -> Iterator[Mistake]:
    """Yield that the run has another GPU, model or precision than it says it was measured with."""
    stated = {"gpu": measured.gpu, "model": measured.model, "precision": measured.precision}
    found = {"gpu": ", ".join(gpus_of(point)), "model": point.model, "precision": point.precision}
    keys = {"gpu": "topology.gpu"}
    for what, name in stated.items():
        if name is not None and not _is_same(what, name, point):
            message = (
                f"it was measured with {what} {name}, and with its keys the scenario has {found[what]}: a figure of "
                f"another {what} is used only if `set` states it"
            )
            yield Mistake(message, got=name, allowed=f"{found[what]}, or set: {{{keys.get(what, what)}: {name}}}")


def _is_same(what: str, name: str, point: Point) -> bool:
    if what == "gpu":
        return [load_gpu(each) for each in gpus_of(point)] == [load_gpu(name)]
    if what == "model":
        return name == point.model or load_workload(name)[0].name == load_workload(point.model)[0].name
    return PRECISIONS[name] == PRECISIONS[point.precision]
