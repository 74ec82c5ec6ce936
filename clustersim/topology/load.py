"""From what a user names, writes or holds to a `Topology`."""

from __future__ import annotations

from functools import reduce
from operator import or_
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from pydantic import Field, TypeAdapter, ValidationError

from clustersim.data import shipped_files
from clustersim.errors import InputError, Mistake, unknown_name
from clustersim.registry import Registry
from clustersim.topology.dragonfly import Dragonfly
from clustersim.topology.fat_tree import FatTree
from clustersim.topology.graph import graph_topology
from clustersim.topology.leaf_spine import LeafSpine
from clustersim.topology.network_spec import TopologySpec
from clustersim.topology.star import Star
from clustersim.topology.topology import Topology
from clustersim.topology.torus import Torus

if TYPE_CHECKING:
    import networkx as nx

TOPOLOGIES: Registry[type[TopologySpec]] = Registry(
    "topology kind",
    {
        "dragonfly": Dragonfly,
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


def load_topology(where: str | Path | dict[str, Any] | TopologySpec | Topology | nx.Graph) -> Topology:
    """Return a cluster: a shipped one by name, a YAML file by path, a mapping, or a networkx graph."""
    if isinstance(where, Topology):
        return where
    if isinstance(where, str | Path | dict | TopologySpec):
        return topology_spec(where).build()
    if hasattr(where, "nodes") and hasattr(where, "edges"):
        return graph_topology(where)
    raise InputError(f"expected a cluster's name, a file, a mapping or a networkx graph (got {type(where).__name__})")


def topology_spec(where: str | Path | dict[str, Any] | TopologySpec) -> TopologySpec:
    """Return the cluster as it is written: by shipped name, by the path of a YAML file, or from a mapping.

    A file's top level is what a scenario has under `topology`.
    """
    if isinstance(where, TopologySpec):
        return where
    if isinstance(where, dict):
        return _validate(where, None, None)
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
    if path.suffix in (".yaml", ".yml") or path.name != str(where):
        if not path.is_file():
            reason = "it is a directory" if path.is_dir() else "there is no such file"
            raise InputError(f"cannot read the topology '{where}': {reason}", got=str(where))
        return path
    raise unknown_name("cluster", where, shipped)


def _read(path: Path) -> Any:
    from ruamel.yaml import YAML
    from ruamel.yaml.error import MarkedYAMLError, YAMLError

    try:
        text = path.read_bytes().decode()
        return YAML(typ="rt", pure=True).load(text)
    except MarkedYAMLError as error:
        mark = error.problem_mark
        line, column = (mark.line + 1, mark.column + 1) if mark else (None, None)
        raise InputError(
            Mistake(f"this is not YAML: {error.problem}", file=str(path), line=line, column=column)
        ) from None
    except (YAMLError, UnicodeDecodeError, OSError) as error:
        raise InputError(Mistake(f"cannot read it as YAML: {error}", file=str(path))) from None


def _validate(mapping: dict[str, Any], path: Path | None, tree: Any) -> TopologySpec:
    if "kind" not in mapping:
        raise InputError(
            Mistake(
                "a topology needs `kind`", key="kind", file=str(path) if path else None, allowed=", ".join(TOPOLOGIES)
            )
        )
    TOPOLOGIES[mapping["kind"]]
    try:
        return TypeAdapter(AnyTopology).validate_python(mapping)
    except ValidationError as error:
        raise InputError([_mistake(detail, path, tree) for detail in error.errors()]) from None


def _mistake(detail: Any, path: Path | None, tree: Any) -> Mistake:
    keys: list[str] = []
    line = column = None
    node = tree
    for part in detail["loc"]:
        if isinstance(node, dict) and part not in node and part in (node.get("kind"), node.get("template")):
            continue
        if tree is None and not keys and part in TOPOLOGIES:
            continue
        keys.append(str(part))
        if node is not None and hasattr(node, "lc") and part in (node if isinstance(node, dict) else range(len(node))):
            line, column = (
                number + 1 for number in (node.lc.key(part) if isinstance(node, dict) else node.lc.item(part))
            )
            node = node[part]
        else:
            node = None
    inner = detail.get("ctx", {}).get("error")
    message = str(inner) if isinstance(inner, InputError) else detail["msg"]
    return Mistake(
        message,
        key=".".join(keys) or None,
        file=str(path) if path else None,
        line=line,
        column=column,
        got=str(detail["input"])[:60],
    )
