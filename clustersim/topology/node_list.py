"""The short forms of a list of nodes."""

from __future__ import annotations

import re
from collections.abc import Collection
from typing import Any


def node_list(value: Any, kinds: Collection[str], other: str | None = None) -> Any:
    """Read `{h0: host, s: {kind: switch}}` or `[host0, switch]` as the equivalent list of nodes.

    A name alone has the kind in `kinds` that its first letters are, or `other`.

    >>> node_list(["gpu0"], ("gpu",)), node_list({"a": "gpu"}, ("gpu",))
    ([{'name': 'gpu0', 'kind': 'gpu'}], [{'name': 'a', 'kind': 'gpu'}])
    """
    if isinstance(value, dict):
        rows = value.items()
        return [{"name": name, **(node if isinstance(node, dict) else {"kind": node})} for name, node in rows]
    if isinstance(value, list):
        return [_named(node, kinds, other) if isinstance(node, str) else node for node in value]
    return value


def _named(name: str, kinds: Collection[str], other: str | None) -> dict[str, str]:
    word = re.match("[a-z]*", name)
    kind = word[0] if word and word[0] in kinds else other
    return {"name": name} if kind is None else {"name": name, "kind": kind}
