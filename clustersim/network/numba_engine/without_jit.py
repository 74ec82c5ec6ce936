"""The kernels' tables as plain Python reads them where numba's JIT is disabled (`NUMBA_DISABLE_JIT=1`), to debug.

A compiled kernel reads the address of a table from a field of a record. Here the arrays are found by these addresses,
so an index behind the end of a table is an error, as everywhere in Python.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Any
from weakref import WeakValueDictionary

import numpy as np

_ARRAYS: WeakValueDictionary[int, np.ndarray] = WeakValueDictionary()  # those whose addresses are in records


def remember(array: np.ndarray) -> None:
    """Let an array be found by its address, as long as it exists."""
    _ARRAYS[array.ctypes.data] = array


class Record:
    """A row of an array of records: its fields are attributes. Writing one changes the array.

    >>> rows = np.zeros(2, [("size", np.int64), ("ends", [("first", np.int64)])])
    >>> row = Record(rows[1, ...])
    >>> row.size += 3
    >>> row.ends.first = row.size
    >>> rows.tolist()
    [(0, (0,)), (3, (3,))]
    """

    __slots__ = ("_row",)

    def __init__(self, row: np.ndarray):
        object.__setattr__(self, "_row", row)

    def __getattr__(self, name: str) -> Any:
        value = self._row[name]
        return value.item() if value.dtype.names is None else Record(value)

    def __setattr__(self, name: str, value: Any) -> None:
        self._row[name] = value


class Records:
    """An array of records, whose rows are `Record`s."""

    def __init__(self, rows: np.ndarray):
        self._rows = rows

    def __getitem__(self, number: int) -> Record:
        if number < 0:
            raise IndexError(f"rows have numbers from 0 on (got {number})")
        return Record(self._rows[number, ...])


def kernel(function: Callable[..., Any]) -> Callable[..., Any]:
    """Return a function that passes on its arguments to a kernel, with arrays of records as kernels see them."""

    @wraps(function)
    def call(*arguments: Any) -> Any:
        return function(*(Records(each) if _has_records(each) else each for each in arguments))

    return call


def table(name: str) -> Callable[[Any], np.ndarray]:
    """Make what returns the table whose address is in a field of a record."""

    def view(record: Record) -> np.ndarray:
        return _ARRAYS[getattr(record, name)].reshape(-1)

    return view


def row(name: str) -> Callable[[Any, int], Record]:
    """Make what returns a row of the table of records whose address is in a field of a record."""

    def view(record: Record, number: int) -> Record:
        return Records(_ARRAYS[getattr(record, name)])[number]

    return view


def _has_records(value: Any) -> bool:
    return isinstance(value, np.ndarray) and value.dtype.names is not None
