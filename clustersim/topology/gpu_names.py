"""The GPUs that a topology names, found before the topology is checked or built."""

from __future__ import annotations

from collections.abc import Iterator

from clustersim.errors import InputError
from clustersim.hardware import load_gpu
from clustersim.hardware.sheet import Gpu
from clustersim.reading import TreeNode
from clustersim.topology.host_sheets import host_sheet
from clustersim.topology.host_table import HOSTS


def named_gpus(topology: TreeNode | None) -> tuple[Gpu, ...]:
    """Return the sheets of the GPUs that the tree of a topology names, each once.

    Names without a sheet, and topologies that are wrong, give none. They are reported when the topology is checked.
    """
    found: dict[str, Gpu] = {}
    for name in _names(topology):
        try:
            found[name] = load_gpu(name)
        except InputError:
            continue
    return tuple(found.values())


def _names(topology: TreeNode | None) -> Iterator[str]:
    if topology is None or not isinstance(topology.value, dict):
        return
    own = list(_texts(topology.child("gpu")))
    yield from own or _of_parts(topology)


def _of_parts(node: TreeNode) -> Iterator[str]:
    """Yield the GPUs of every host and node below this one."""
    for key, child in node.items():
        if key == "gpu":
            yield from _texts(child)
        elif key in ("host", "template") and isinstance(child.value, str) and node.child("gpu") is None:
            default = _default_gpu(child.value)
            if isinstance(default, str):
                yield default
        elif isinstance(child.value, dict | list):
            yield from _of_parts(child)


def _default_gpu(host: str) -> object:
    """Return the GPU of a host's sheet or template; None for an unknown one."""
    try:
        sheet = host_sheet(host)
    except InputError:
        return None
    if sheet is not None:
        return sheet.options.get("gpu", _default_gpu(sheet.template))
    return HOSTS[host].model_fields["gpu"].default if host in HOSTS else None


def _texts(node: TreeNode | None) -> Iterator[str]:
    """Yield the text of a GPU's name, of a name with a power limit, and of each of a list."""
    if node is None:
        return
    if isinstance(node.value, str):
        yield node.value
    for key, child in node.items():
        if isinstance(key, int) or key == "gpu":
            yield from _texts(child)
