"""What a rank holds as an iteration goes on."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class MemoryLine:
    """The bytes that a rank of a stage holds from each of some times on [num], in seconds of an iteration."""

    stage: int
    rank: int
    time_s: tuple[float, ...]
    num_bytes: tuple[float, ...]

    @classmethod
    def from_dict(cls, document: Mapping[str, Any]) -> MemoryLine:
        """Read a line whose columns have become lists."""
        columns = {key: tuple(document[key]) for key in ("time_s", "num_bytes")}
        return cls(**{**document, **columns})
