"""Keys and kinds that the scenario language has and this version does not simulate: refused, never ignored."""

from __future__ import annotations

_NOT_YET = "this version does not simulate {what} yet; leave it out"

_KEYS = {f"parallelism.kind={kind}": "that layout" for kind in ("local-fields", "paths")}

LATER: dict[str, str] = {key: _NOT_YET.format(what=what) for key, what in _KEYS.items()}
"""Why a key (`jobs`), or a kind (`strategy.kind=...`), is refused, by dotted path."""
