"""From what a user names, writes or holds to a `Topology`."""

from __future__ import annotations

from functools import reduce
from itertools import accumulate
from operator import or_
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from pydantic import Field, TypeAdapter, ValidationError

from clustersim.data import shipped_files
from clustersim.errors import InputError, Mistake, unknown_name
from clustersim.registry import Registry
from clustersim.topology.dragonfly import Dragonfly
from clustersim.topology.explicit import Explicit
from clustersim.topology.fat_tree import FatTree
from clustersim.topology.graph import graph_topology
from clustersim.topology.hosted_spec import TopologySpec
from clustersim.topology.leaf_spine import LeafSpine
from clustersim.topology.star import Star
from clustersim.topology.topology import Topology
from clustersim.topology.torus import Torus

if TYPE_CHECKING:
    import networkx as nx

_MAX_BYTES = 16 * 2**20
_MAX_PARTS = 500_000
_MAX_DEPTH = 50

TOPOLOGIES: Registry[type[TopologySpec]] = Registry(
    "topology kind",
    {
        "dragonfly": Dragonfly,
        "explicit": Explicit,
        "fat-tree": FatTree,
        "leaf-spine": LeafSpine,
        "star": Star,
        "torus": Torus,
    },
)

if TYPE_CHECKING:
    AnyTopology = TopologySpec
else:
    AnyTopology = Annotated[reduce(or_, TOPOLOGIES.values()), Field(discriminator="kind")]
"""Any member of `TOPOLOGIES`, told apart by `kind`."""


def load_topology(where: str | Path | dict[str, Any] | TopologySpec | Topology | nx.Graph[Any]) -> Topology:
    """Return a cluster: a shipped one by name, a YAML file by path, a mapping, or a networkx graph."""
    if isinstance(where, Topology):
        return where
    if isinstance(where, str | Path | dict | TopologySpec):
        return topology_spec(where).cluster()
    if hasattr(where, "nodes") and hasattr(where, "edges"):
        return graph_topology(where)
    got = type(where).__name__
    raise InputError(
        f"expected a cluster's name, a file, a mapping or a networkx graph (got a value of type {got})", got=got
    )


def topology_spec(where: str | Path | dict[str, Any] | TopologySpec) -> TopologySpec:
    """Return the cluster as it is written: by shipped name, by the path of a YAML file, or from a mapping.

    A file's top level is what a scenario has under `topology`; its name is the file's unless it says another.
    """
    if isinstance(where, TopologySpec):
        return where
    if isinstance(where, dict):
        return _validate(where, None)
    path = topology_file(where)
    tree = _read(path)
    if not isinstance(tree, dict):
        raise InputError(Mistake("expected a mapping with `kind`, as under a scenario's `topology`", file=str(path)))
    return _validate({"name": path.stem, **tree}, path, tree)


def topology_file(where: str | Path) -> Path:
    """Return the file of a cluster that is given by shipped name or by path."""
    shipped = shipped_files("topologies")
    if str(where) in shipped:
        return shipped[str(where)]
    path = Path(where)
    if path.suffix not in (".yaml", ".yml") and path.name == str(where):
        raise unknown_name("cluster", where, shipped)
    if not path.is_file():
        reason = "it is a directory" if path.is_dir() else "there is no such file"
        raise InputError(f"cannot read the topology '{where}': {reason}", got=str(where))
    return path


def _read(path: Path) -> Any:
    """Read a YAML file that cannot fill the memory or the stack, whatever is in it."""
    if path.stat().st_size > _MAX_BYTES:
        raise InputError(Mistake(f"the file is larger than {_MAX_BYTES} bytes", file=str(path)))
    tree = _parse(path)
    budget = _MAX_PARTS
    waiting = [tree]
    while waiting and budget > 0:
        part = waiting.pop()
        budget -= 1
        waiting += part.values() if isinstance(part, dict) else part if isinstance(part, list) else ()
    if waiting:
        message = f"the file has more than {_MAX_PARTS} parts, aliases counted each time"
        raise InputError(Mistake(message, file=str(path)))
    return tree


def _parse(path: Path) -> Any:
    from ruamel.yaml import YAML
    from ruamel.yaml.error import MarkedYAMLError, YAMLError

    try:
        text = path.read_bytes().decode()
        depths = accumulate((char in "[{") - (char in "]}") for char in text if char in "[]{}")
        if max(depths, default=0) > _MAX_DEPTH:
            raise InputError(Mistake(f"brackets are nested more than {_MAX_DEPTH} deep", file=str(path)))
        return YAML(typ="rt", pure=True).load(text)
    except MarkedYAMLError as error:
        mark = error.problem_mark
        line, column = (mark.line + 1, mark.column + 1) if mark else (None, None)
        problem = Mistake(f"this is not YAML: {error.problem}", file=str(path), line=line, column=column)
        raise InputError(problem) from None
    except (YAMLError, UnicodeDecodeError, OSError, RecursionError) as error:
        raise InputError(Mistake(f"cannot read it as YAML: {error}", file=str(path))) from None


def _validate(mapping: dict[str, Any], path: Path | None, tree: Any = None) -> TopologySpec:
    file = str(path) if path else None
    kind = mapping.get("kind")
    known = ", ".join(TOPOLOGIES)
    if kind is None:
        raise InputError(Mistake("a topology needs `kind`", key="kind", file=file, allowed=known))
    if not isinstance(kind, str) or kind not in TOPOLOGIES:
        error = unknown_name("topology kind", kind, TOPOLOGIES)
        raise InputError(Mistake(str(error), key="kind", file=file, got=str(kind), allowed=known))
    try:
        return TypeAdapter(AnyTopology).validate_python(mapping)
    except ValidationError as error:
        raise InputError(
            [mistake for detail in error.errors() for mistake in _mistakes(detail, file, tree or mapping)]
        ) from None


def _mistakes(detail: Any, file: str | None, node: Any) -> list[Mistake]:
    """Turn a complaint of pydantic into mistakes with the key and, for a file, the line."""
    keys: list[str] = []
    line = column = None
    for part in detail["loc"]:
        is_tag = isinstance(node, dict) and part not in node and part in (node.get("kind"), node.get("template"))
        if is_tag or str(part).endswith("]"):
            continue
        keys.append(str(part))
        if part in node if isinstance(node, dict) else isinstance(node, list) and part in range(len(node)):
            line, column = _position(node, part) or (line, column)
            node = node[part]
    inner = detail.get("ctx", {}).get("error")
    own = (Mistake(detail["msg"], got=str(detail["input"])[:60]),)
    causes = inner.mistakes if isinstance(inner, InputError) else own
    key = ".".join(keys) or None
    return [Mistake(str(cause), key, file, line, column, cause.got, cause.allowed) for cause in causes]


def _position(node: Any, part: str | int) -> tuple[int, int] | None:
    """Return line and column, from 1, of a part of a YAML file; None for what was not read from one."""
    places = getattr(node, "lc", None)
    if places is None:
        return None
    line, column = places.key(part) if isinstance(node, dict) else places.item(part)
    return line + 1, column + 1
