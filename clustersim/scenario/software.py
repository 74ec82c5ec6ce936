"""Settles which program a training runs, and gives the training the settings of its software sheet.

A setting of `software` overrides the sheet, and so does a key of the scenario that stays outside of `software`
(`STAYS`). Without `software` the layout decides. A setting of the sheet that the layout has no use for is left out.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any, get_args

from pydantic import TypeAdapter, ValidationError

from clustersim.errors import InputError
from clustersim.kernels.fused_attention import is_fused
from clustersim.model import load_workload
from clustersim.model.precision import PRECISIONS
from clustersim.reading import Path, Place, Problem, TreeNode, raised
from clustersim.reading.tree import dotted
from clustersim.scenario.point import Point
from clustersim.scenario.software_keys import FIELDS, NAME_OF, STAYS, SoftwareKeys, as_written, by_name
from clustersim.scenario.software_sheets import checked_software
from clustersim.software import SOFTWARE, Layout, Software, load_software
from clustersim.strategies import STRATEGIES
from clustersim.topology.gpu_names import named_gpus

_HALF = 2.0  # bytes

_OLD = ("fermi", "kepler", "maxwell")
"""GPU architectures from before 2016."""

_SERVERS = ("async", "backup", "bounded-staleness", "hierarchical", "server", "softsync")
_DEGREES = ("tensor", "pipeline", "expert", "context")


@dataclass(frozen=True)
class Settled:
    """A training with the settings of its program in it.

    `supplied` are the paths of values that come from a sheet and not from the scenario. `is_chosen` says that the
    scenario names no program and the layout decided. `unable` says why the program cannot train with this layout.
    """

    root: TreeNode
    problems: tuple[Problem, ...] = ()
    supplied: frozenset[Path] = frozenset()
    is_chosen: bool = False
    unable: tuple[Problem, ...] = ()

    def without(self, paths: frozenset[Path]) -> Settled:
        """Return the training without these supplied values."""
        root = self.root
        for path in paths:
            root = _without(root, path)
        return replace(self, root=root, supplied=self.supplied - paths)


def settle(root: TreeNode) -> Settled:
    """Return the tree of a training, and of each of its jobs, with the settings of its program."""
    settled = _settle(root, ())
    jobs = settled.root.child("jobs")
    for number, job in enumerate(jobs.value if jobs is not None and isinstance(jobs.value, list) else ()):
        if isinstance(job.value, dict):
            prefix: Path = ("jobs", number)
            of_job = _settle(_with_shared(job, settled.root), prefix)
            settled = Settled(
                settled.root.put(prefix, of_job.root),
                (*settled.problems, *of_job.problems),
                settled.supplied | of_job.supplied,
                settled.is_chosen,
                (*settled.unable, *of_job.unable),
            )
    return settled


def _with_shared(job: TreeNode, root: TreeNode) -> TreeNode:
    """Return a job with the transport of its cluster, which all jobs share."""
    transport = root.child("transport")
    return job if transport is None else _with(job, ("transport",), transport)


def with_settled(point: Point, settled: Settled) -> Point:
    """Return a point, and each of its jobs, that knows which of its values come from the sheet."""
    for number, each in enumerate(point.jobs if isinstance(point.jobs, list) else ()):
        _note(each, settled, ("jobs", number))
    _note(point, settled, ())
    return point


def _note(point: Point, settled: Settled, prefix: Path) -> None:
    own = [
        path[len(prefix) :]
        for path in settled.supplied
        if path[: len(prefix)] == prefix and (prefix or path[0] != "jobs")
    ]
    point._settled = frozenset(map(dotted, own)), settled.is_chosen


def of_no_use(point: Point) -> frozenset[Path]:
    """Return the paths of settings from the sheet that apply to other models than the point's."""
    supplied = point.supplied & {"compute.attention", "compute.embedding", "compute.head", "compute.layout"}
    if not supplied:
        return frozenset()
    try:
        layers = load_workload(point.model)[0].layers
    except InputError:
        return frozenset()
    has_words = any(layer.op == "embedding" for layer in layers)
    applies = {
        "compute.attention": any(map(is_fused, layers)),
        "compute.embedding": has_words,
        "compute.head": has_words,
        "compute.layout": any(layer.op == "convolution" for layer in layers)
        and PRECISIONS[point.precision].activation_bytes == _HALF,
    }
    return frozenset(tuple(key.split(".")) for key in supplied if not applies[key])


def written(problem: Problem) -> Problem:
    """Return a problem with a field of the program as it is named and placed in the scenario."""
    path, meant = _written(problem.path), problem.meant
    mistake = problem.mistake
    key = mistake.key
    if key is not None:
        key = dotted(path) if path != problem.path else as_written(key)
    return Problem(path, replace(mistake, message=as_written(mistake.message), key=key), meant)


def _written(path: Path) -> Path:
    prefix, own = (path[:2], path[2:]) if path[:1] == ("jobs",) else ((), path)
    name = NAME_OF.get(own)
    return path if name is None else (*prefix, "software", name)


def _settle(root: TreeNode, prefix: Path) -> Settled:
    root, moved = _without_moved(root, prefix)
    node = root.child("software")
    given = _valid_settings(node)
    is_named = node is not None and (not isinstance(node.value, dict | None) or node.child("name") is not None)
    name = given.pop("name", None)
    wrong: list[Problem] = []
    try:
        sheet = checked_software(default_software(root) if name is None else str(name.value))
    except InputError as error:
        path: Path = ("software",)
        wrong = [raised(each, path, root) for each in error.mistakes]
        sheet = load_software(default_software(root))
    place = node.place if node is not None else root.place
    if not is_named:
        kept = node.value if node is not None and isinstance(node.value, dict) else {}
        root = _with(root, ("software",), TreeNode({**kept, "name": TreeNode(sheet.name, place)}, place))
    if root.child("strategy") is None:
        kind = "all-reduce" if {"all-reduce", "any"} & set(sheet.strategies) else sheet.strategies[0]
        root = _with(root, ("strategy",), TreeNode({"kind": TreeNode(kind, place)}, place))
    unable = tuple(_unable(root, sheet, prefix)) if is_named else ()
    for field, value in given.items():
        if _has_place(root, FIELDS[field].path):
            root = _with(root, FIELDS[field].path, value)
    supplied = []
    for path, value in _settings(sheet, given, root):
        root = _with(root, path, _tree(value, place))
        supplied.append((*prefix, *path))
    return Settled(root, (*moved, *wrong), frozenset(supplied), not is_named, unable)


def _settings(sheet: Software, given: Mapping[str, TreeNode], root: TreeNode) -> Iterator[tuple[Path, Any]]:
    """Yield the settings of a sheet that the scenario does not give, each with the path of its key."""
    paths = {name: field.path for name, field in FIELDS.items()} | STAYS
    for name, value in sheet.values.items():
        path = paths[name]
        if name in given or root.at(path) is not None or not _has_place(root, path):
            continue
        if name == "buckets" and not STRATEGIES[_kind(root)].buckets_as_software:
            continue
        if name == "precision":
            value = _precision(value, root)
        if value is not None and (path[0] != "strategy" or _takes(root, path, value)):
            yield path, value


def _precision(wanted: Any, root: TreeNode) -> str:
    """Return the first of these precisions that all GPUs of the cluster have; the last one if there is none."""
    names = list(map(str, wanted)) if isinstance(wanted, list) else [str(wanted)]
    known = [set(gpu.flop_per_s) for gpu in named_gpus(root.child("topology"))]
    return next((each for each in names if all(each in have for have in known)), names[-1])


def _has_place(root: TreeNode, path: Path) -> bool:
    """Return whether the key at a path exists: in the scenario's strategy, or in a map that is not a list of maps."""
    if path[0] != "strategy":
        holder = root.child(path[0]) if len(path) > 1 else None
        return holder is None or not isinstance(holder.value, list)
    return _strategy_field(root, path) is not None


def _strategy_field(root: TreeNode, path: Path) -> Any:
    kind = _kind(root)
    model: Any = STRATEGIES[kind] if kind else None
    for key in path[1:]:
        if not hasattr(model, "model_fields") or key not in model.model_fields:
            return None
        field = model.model_fields[key]
        model = field.annotation
    return None if model is None else field


def _kind(root: TreeNode) -> str:
    """Return the kind of a scenario's strategy; empty if it is none that there is."""
    node = root.at(("strategy", "kind"))
    kind = node.value if node is not None else None
    return kind if isinstance(kind, str) and kind in STRATEGIES else ""


def _takes(root: TreeNode, path: Path, value: Any) -> bool:
    """Return whether a key of the scenario's strategy takes this value."""
    try:
        TypeAdapter(_strategy_field(root, path).annotation).validate_python(value)
    except (ValidationError, InputError):
        return False
    return True


def default_software(root: TreeNode) -> str:
    """Return the program that a training runs which names none, by its layout, its strategy and its GPUs."""
    layout = root.child("parallelism")
    ways = _layouts(layout)
    kind = _kind(root)
    gpus = named_gpus(root.child("topology"))
    if gpus and all(gpu.architecture in _OLD for gpu in gpus):
        return "caffe-mpi"
    if ways & {"tensor", "pipeline", "expert", "context"}:
        return "megatron-core"
    offload = layout.child("offload") if layout is not None else None
    if "zero-1" in ways or (offload is not None and offload.value not in (None, "none")):
        return "deepspeed-zero"
    if ways & {"zero-2", "zero-3"}:
        return "pytorch-fsdp"
    return "mxnet-kvstore" if kind in _SERVERS else "pytorch-ddp"


def _layouts(layout: TreeNode | None) -> set[str]:
    """Return the ways in which a layout places the model, as far as its keys are valid."""
    keys = layout.children if layout is not None else {}
    first = {key: node.value[0].value if isinstance(node.value, list) and node.value else node.value
             for key, node in keys.items()}  # fmt: skip
    ways = {axis for axis in _DEGREES if isinstance(first.get(axis), int) and first[axis] > 1}
    ways |= {str(first.get("sharding"))} & set(get_args(Layout))
    return ways | ({"historical"} if first.get("kind", "grid") != "grid" else set())


def _unable(root: TreeNode, sheet: Software, prefix: Path) -> Iterator[Problem]:
    """Yield why the program cannot train with this layout or strategy."""
    for way in sorted(_layouts(root.child("parallelism")) - set(sheet.layouts)):
        key = {"historical": "kind"}.get(way, "sharding" if way.startswith("zero") else way)
        able = [each for each in SOFTWARE if way in load_software(each).layouts]
        yield _cannot(root, (*prefix, "parallelism", key), sheet, way, able)
    kind = _kind(root)
    if kind and not {kind, "any"} & set(sheet.strategies):
        able = [each for each in SOFTWARE if kind in load_software(each).strategies]
        if able:  # a strategy that no sheet names is of a user's own package, and goes with every program
            yield _cannot(root, (*prefix, "strategy", "kind"), sheet, kind, able)


def _cannot(root: TreeNode, path: Path, sheet: Software, way: str, able: list[str]) -> Problem:
    names = {"tensor": "tensor parallelism", "pipeline": "pipeline stages", "expert": "expert parallelism"}
    names |= {"context": "context parallelism", "historical": "a layout of this kind"}
    node = root.at(path[-2:])
    place = node.place if node is not None else root.place
    allowed = ", ".join(able) or "no shipped program"
    message = f"{sheet.name} has no {names.get(way, way)}; take a software that has: {allowed}"
    return Problem(path, place.mistake(message, dotted(path), None if node is None else str(node.plain()), allowed))


def _without_moved(root: TreeNode, prefix: Path) -> tuple[TreeNode, list[Problem]]:
    """Return a tree without fields of the program outside of `software`, and a problem for each."""
    problems = []
    for path, name in NAME_OF.items():
        node = root.at(path)
        if node is None:
            continue
        place = node.key_place or node.place
        message = (
            f"this key says how a program is written, and is now `software: {{{name}: ...}}`; `clustersim migrate` "
            "rewrites a scenario"
        )
        full: Path = (*prefix, *path)
        problems.append(Problem(full, place.mistake(message, dotted(full), None, f"software.{name}")))
        root = _without(root, path)
    return root, problems


def _valid_settings(node: TreeNode | None) -> dict[str, TreeNode]:
    """Return the settings under `software` that are valid; `Point` says what is wrong with the others."""
    if node is None or not isinstance(node.value, str | dict):
        return {}
    children = {"name": node} if isinstance(node.value, str) else dict(node.children)
    children = {key: child for key, child in children.items() if child.value is not None}
    try:
        SoftwareKeys.model_validate_json(json.dumps(by_name(node.plain())), strict=True)
    except ValidationError as error:
        wrong = {str(each["loc"][0]) for each in error.errors(include_url=False) if each["loc"]}
        children = {key: child for key, child in children.items() if key not in wrong}
    return {key: child for key, child in children.items() if key == "name" or key in FIELDS}


def _tree(value: Any, place: Place) -> TreeNode:
    if isinstance(value, Mapping):
        return TreeNode({key: _tree(child, place) for key, child in value.items()}, place)
    return TreeNode([_tree(child, place) for child in value] if isinstance(value, list) else value, place)


def _with(root: TreeNode, path: Path, node: TreeNode) -> TreeNode:
    """Return a tree with a node at a path whose parents may be missing; a name in place of a map is its kind."""
    if not path:
        return replace(node, key_place=root.key_place)
    children = {"kind": root.with_value(root.value)} if isinstance(root.value, str) else dict(root.children)
    inside = children.get(str(path[0])) or TreeNode({}, node.place)
    return root.with_value({**children, str(path[0]): _with(inside, path[1:], node)})


def _without(root: TreeNode, path: Path) -> TreeNode:
    """Return a tree without the node at a path."""
    if isinstance(root.value, list):
        number = int(path[0])
        return root.with_value(
            [_without(node, path[1:]) if at == number else node for at, node in enumerate(root.value)]
        )
    children = dict(root.children)
    if len(path) == 1:
        children.pop(str(path[0]), None)
    elif str(path[0]) in children:
        children[str(path[0])] = _without(children[str(path[0])], path[1:])
    return root.with_value(children)
