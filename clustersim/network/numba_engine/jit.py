"""Compiles kernels, and keeps what has been compiled wherever that may be written.

Where numba's JIT is disabled (`NUMBA_DISABLE_JIT=1`), kernels are plain Python functions (see `without_jit`).
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache
from hashlib import sha256
from pathlib import Path
from tempfile import TemporaryFile
from typing import Any, TypeVar, cast

import numba
import numpy as np
from llvmlite.ir import Constant
from numba.core import types
from numba.core.cgutils import get_record_member
from numba.extending import intrinsic
from numba.np.arrayobj import populate_array

from clustersim.network.numba_engine import without_jit
from clustersim.network.paths import BYTES_MOVED_PER_ADDED
from clustersim.network.progress import SAME_INSTANT
from clustersim.network.python_engine.max_min import FEW, FULL, SAME

# kernels allocate nothing, so arrays need no reference counts; no division is by zero
_OPTIONS: Any = {"error_model": "numpy", "_nrt": False}
_FOR_PARTS: Any = {**_OPTIONS, "no_cpython_wrapper": True, "no_cfunc_wrapper": True}  # a quarter less to compile

Function = TypeVar("Function", bound=Callable[..., object])

_IS_DISABLED = bool(cast(Any, numba.config).DISABLE_JIT)


def kernel(function: Function) -> Function:
    """Compile a function that Python calls; what an earlier process has compiled is loaded instead."""
    if _IS_DISABLED:
        return cast(Function, without_jit.kernel(function))
    with _keeping_in(_folder()) as may_keep:
        return cast(Function, numba.njit(cache=may_keep, **_OPTIONS)(function))


def part(function: Function) -> Function:
    """Compile a function that only kernels call, as a part of them."""
    if _IS_DISABLED:
        return function
    return cast(Function, numba.njit(**_FOR_PARTS)(function))


@cache
def _folder() -> Path | None:
    """Return where compiled kernels are kept: by the sources, or else in the user's cache; None where neither works.

    Kernels call each other across files, and numba checks the date of one file only. So a digest of all of them, in
    all packages, is part of the name.
    """
    here = Path(__file__).parent
    digest = sha256(f"{numba.__version__} {BYTES_MOVED_PER_ADDED} {FEW} {FULL} {SAME} {SAME_INSTANT}".encode())
    sources = [*here.rglob("*.py"), *(here.parents[1] / "strategies" / "kernels").glob("*.py")]
    for source in sorted(sources):
        digest.update(source.read_bytes())
    name = f"kernels-{digest.hexdigest()[:16]}"
    own = os.environ.get("NUMBA_CACHE_DIR")
    users = Path(os.environ.get("XDG_CACHE_HOME") or Path("~/.cache").expanduser()) / "clustersim"
    places = [Path(own)] if own else [here / "__pycache__", users]
    return next((place / name for place in places if _is_writable(place / name)), None)


def _is_writable(folder: Path) -> bool:
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with TemporaryFile(dir=folder):
            return True
    except OSError:
        return False


@contextmanager
def _keeping_in(folder: Path | None) -> Iterator[bool]:
    """Let numba use a folder for the functions that are decorated inside this context."""
    config: Any = numba.config
    before = config.CACHE_DIR
    config.CACHE_DIR = "" if folder is None else str(folder)
    try:
        yield folder is not None
    finally:
        config.CACHE_DIR = before


def address_of(array: np.ndarray) -> int:
    """Return the address of an array, for a field of a record that kernels read."""
    if _IS_DISABLED:
        without_jit.remember(array)
    return int(array.ctypes.data)


def table(name: str, kind: np.dtype[Any]) -> Callable[[Any], Any]:
    """Make a function that gives kernels the table whose address is in a field of a record; it has no length.

    An array as an argument of a kernel costs seven words a call and a reference count; this costs one load.
    """
    if _IS_DISABLED:
        return without_jit.table(name)
    rows = types.Array(numba.from_dtype(kind), 1, "C")

    @intrinsic
    def view(context: Any, record: Any) -> Any:
        """Return the type of the table, and the function that generates its code."""

        def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
            """Load the address, and make an array at it."""
            word = context.get_value_type(types.int64)
            field = get_record_member(builder, arguments[0], signature.args[0].offset(name), word)
            data = builder.inttoptr(builder.load(field), context.get_data_type(rows.dtype).as_pointer())
            one, size = Constant(word, 1), Constant(word, kind.itemsize)
            array = context.make_array(rows)(context, builder)
            populate_array(array, data=data, shape=[one], strides=[size], itemsize=size, meminfo=None)
            return array._getvalue()

        return rows(record), generate

    return cast(Callable[[Any], Any], view)


def row(name: str, kind: np.dtype[Any]) -> Callable[[Any, Any], Any]:
    """Make a function that gives kernels a row of the table of records whose address is in a field of a record."""
    if _IS_DISABLED:
        return without_jit.row(name)
    found = numba.from_dtype(kind)

    @intrinsic
    def view(context: Any, record: Any, number: Any) -> Any:
        """Return the type of a row, and the function that generates its code."""

        def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
            """Load the address, and add the offset of the row."""
            word = context.get_value_type(types.int64)
            field = get_record_member(builder, arguments[0], signature.args[0].offset(name), word)
            offset = builder.mul(arguments[1], Constant(word, kind.itemsize))
            address = builder.add(builder.load(field), offset)
            return builder.inttoptr(address, context.get_value_type(found))

        return found(record, types.int64), generate

    return cast(Callable[[Any, Any], Any], view)
