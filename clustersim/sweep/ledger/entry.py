"""What a worker sends back of a point: its forecast without detail, packed as the ledger keeps it."""

from __future__ import annotations

import json
import time
import zlib
from dataclasses import dataclass
from typing import Any

from clustersim.errors import InputError
from clustersim.results import PointError
from clustersim.results.files import to_json
from clustersim.simulate import Forecast
from clustersim.sweep.point_forecasts import lost_point
from clustersim.sweep.task import PointTask, forecast_point

_MOST_BYTES = 64 << 20


@dataclass(frozen=True)
class PointEntry:
    """A packed forecast, its error if it has one, and the seconds that the worker took."""

    packed: bytes
    error: PointError | None
    seconds: float


def make_entry(task: PointTask) -> PointEntry:
    """Return the entry of a point; called in the worker."""
    start_s = time.monotonic()
    return _entry(forecast_point(task), start_s)


def lost_entry(task: PointTask, message: str) -> PointEntry:
    """Return the entry of a point whose workers ended."""
    return _entry(lost_point(task, message), time.monotonic())


def _entry(made: Forecast, start_s: float) -> PointEntry:
    return PointEntry(pack(made), made.run.error, time.monotonic() - start_s)


def pack(made: Forecast) -> bytes:
    """Return a forecast without detail as compressed JSON."""
    return zlib.compress(to_json(made.to_dict(detail=False)).encode())


def unpack(data: bytes, axes: dict[str, Any]) -> Forecast:
    """Return the forecast of `pack` with the axes of its sweep; InputError if it is none."""
    try:
        unpacker = zlib.decompressobj()
        document = json.loads(unpacker.decompress(data, _MOST_BYTES))
        document["run"]["axes"] = axes
        return Forecast.from_dict(document)
    except (AttributeError, KeyError, TypeError, ValueError, zlib.error) as error:
        raise InputError(f"a forecast in the ledger is damaged: {error}", got="a damaged forecast") from None
