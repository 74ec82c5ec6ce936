"""Why a point of a sweep has no forecast."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any, Literal, get_args

ErrorKind = Literal["does-not-fit", "refused", "stuck", "too-long"]
"""The point lacks memory; its keys are wrong together; its simulation cannot end; it took longer than allowed."""

ERROR_KINDS: tuple[str, ...] = get_args(ErrorKind)

INPUT_KINDS = ("does-not-fit", "refused")
"""Kinds that the scenario has to mend: InputError, exit status 3."""

RETRIED_KINDS = tuple(kind for kind in ERROR_KINDS if kind not in INPUT_KINDS)
"""Kinds that another time limit or another machine may end otherwise: SimulationError, exit status 1."""


@dataclass(frozen=True)
class PointError:
    """Why a point has no forecast, with the bytes that it needs and has and the least change that fits, if known."""

    kind: ErrorKind
    message: str
    needed_bytes: float | None = None
    available_bytes: float | None = None
    remedy: str | None = None

    def to_dict(self) -> dict[str, Any]:
        """Return the JSON form, in `runs` of `clustersim.result/1`."""
        return asdict(self)

    @classmethod
    def from_dict(cls, document: Mapping[str, Any]) -> PointError:
        """Return the error of a JSON document."""
        return cls(**document)
