"""A SQLite file that holds a ledger: opened, checked, written in transactions; its errors say what to do."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from urllib.parse import quote

from clustersim import __version__
from clustersim.errors import ClustersimError, InputError, Mistake

APPLICATION_ID = 0x636C7374
SCHEMA = 1
"""The number of the tables' layout, `user_version` of the file."""

_HEAD = b"SQLite format 3\0"
_WAIT_S = 60.0
"""How long another program may hold the file."""
_NETWORK_FILES = {"nfs", "nfs4", "cifs", "smb3", "9p", "afs", "beegfs", "ceph", "fuse.sshfs", "gpfs", "lustre", "pvfs2"}
"""File systems of several machines, whose memory is not shared as a write-ahead log needs it."""

_TABLES = """
CREATE TABLE ledger (version TEXT NOT NULL);
CREATE TABLE sweeps (
    id INTEGER PRIMARY KEY,
    digest TEXT NOT NULL UNIQUE,
    name TEXT NOT NULL,
    seed INTEGER NOT NULL,
    exact INTEGER NOT NULL,
    num_points INTEGER NOT NULL,
    scenario TEXT NOT NULL,
    scenario_text TEXT NOT NULL,
    started_s REAL NOT NULL
);
CREATE TABLE points (
    sweep INTEGER NOT NULL,
    number INTEGER NOT NULL,
    key TEXT NOT NULL,
    num_gpus INTEGER NOT NULL,
    axes TEXT NOT NULL,
    PRIMARY KEY (sweep, number)
) WITHOUT ROWID;
CREATE TABLE forecasts (key TEXT PRIMARY KEY, forecast BLOB NOT NULL, seconds REAL NOT NULL);
CREATE TABLE failures (
    sweep INTEGER NOT NULL,
    number INTEGER NOT NULL,
    kind TEXT NOT NULL,
    forecast BLOB NOT NULL,
    seconds REAL NOT NULL,
    PRIMARY KEY (sweep, number)
) WITHOUT ROWID;
CREATE TABLE shards (
    sweep INTEGER NOT NULL,
    num_shards INTEGER NOT NULL,
    PRIMARY KEY (sweep, num_shards)
) WITHOUT ROWID;
"""


class LedgerError(ClustersimError):
    """A ledger cannot be written or read now; what is in it is kept."""


def is_sqlite(path: Path) -> bool:
    """Return whether a path is a file that begins as those of SQLite do."""
    try:
        with path.open("rb") as file:
            return file.read(len(_HEAD)) == _HEAD
    except OSError:
        return False


def open_store(path: Path | None) -> sqlite3.Connection:
    """Return a connection that reads and writes a ledger, made if there is none; without a path, a temporary one."""
    if path is not None:
        _check_file(path)
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise InputError(f"cannot write {path}: {error.strerror}", got=str(path)) from None
    with explained(path):
        store = _connected("" if path is None else _uri(path, "rwc"))
        try:
            if path is not None:
                _set_journal(store, path)
            with transaction(store):
                if _is_new(store):
                    _make_tables(store)
            _check(store, path)
            store.execute("UPDATE ledger SET version = version")  # an error where the file can only be read
        except BaseException:
            store.close()
            raise
        return store


def read_store(path: Path) -> sqlite3.Connection:
    """Return a connection that only reads a ledger."""
    _check_file(path)
    if not path.exists():
        raise _wrong(path, "there is no such ledger; `clustersim sweep SCENARIO --ledger FILE` makes one")
    with explained(path):
        store = _connected(_uri(path, "ro"))
        try:
            if _is_new(store):
                raise _wrong(path, "has nothing in it yet: no sweep was begun", "an empty file", "a ledger")
            _check(store, path)
        except BaseException:
            store.close()
            raise
        return store


def close_store(store: sqlite3.Connection) -> None:
    """Close a connection; the last one leaves a single file, which can be copied and read anywhere."""
    with suppress(sqlite3.Error):  # another program has it open, or it is read only
        store.execute("PRAGMA busy_timeout = 0")
        store.execute("PRAGMA journal_mode = DELETE")
    store.close()


@contextmanager
def transaction(store: sqlite3.Connection) -> Iterator[None]:
    """Keep all changes of the block or none."""
    store.execute("BEGIN IMMEDIATE")
    try:
        yield
        store.execute("COMMIT")
    except BaseException:
        with suppress(sqlite3.Error):
            store.execute("ROLLBACK")
        raise


@contextmanager
def explained(path: Path | None) -> Iterator[None]:
    """Raise the errors of SQLite as InputError where the file is wrong, else as LedgerError."""
    try:
        yield
    except sqlite3.Error as error:
        raise _explained(error, Path("the temporary ledger") if path is None else path) from None


def file_system(path: Path, mounts: Path = Path("/proc/self/mounts")) -> str | None:
    """Return the kind of file system that a path is on; None where that is not known."""
    try:
        where, lines = path.resolve(), mounts.read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:
        return None
    found = [(line.split()[1].replace("\\040", " "), line.split()[2]) for line in lines if len(line.split()) > 2]
    holding = [(place, kind) for place, kind in found if where.is_relative_to(place)]
    return max(holding, key=lambda each: len(each[0]))[1] if holding else None


def _uri(path: Path, mode: str) -> str:
    return f"file:{quote(str(path.absolute()))}?mode={mode}"


def _connected(uri: str) -> sqlite3.Connection:
    store = sqlite3.connect(uri, timeout=_WAIT_S, isolation_level=None, uri=True)
    store.execute("PRAGMA trusted_schema = OFF")
    return store


def _set_journal(store: sqlite3.Connection, path: Path) -> None:
    """Choose the write-ahead log, where a commit waits for no disk; on files of several machines the rollback journal.

    Either survives the end of this process, and of the machine, at any moment; with the write-ahead log the last
    points may be missing after the latter.
    """
    mode = "DELETE" if file_system(path) in _NETWORK_FILES else "WAL"
    with suppress(sqlite3.OperationalError):  # another program has it open, or there is no shared memory
        store.execute(f"PRAGMA journal_mode = {mode}")
    has_log = store.execute("PRAGMA journal_mode").fetchone()[0] == "wal"
    store.execute(f"PRAGMA synchronous = {'NORMAL' if has_log else 'FULL'}")


def _is_new(store: sqlite3.Connection) -> bool:
    """Return whether a database has no table yet, as after the end of a process that was making it."""
    return not store.execute("SELECT count(*) FROM sqlite_master").fetchone()[0]


def _make_tables(store: sqlite3.Connection) -> None:
    for statement in filter(str.strip, _TABLES.split(";")):
        store.execute(statement)
    store.execute("INSERT INTO ledger VALUES (?)", (__version__,))
    store.execute(f"PRAGMA application_id = {APPLICATION_ID}")
    store.execute(f"PRAGMA user_version = {SCHEMA}")


def _check_file(path: Path) -> None:
    if path.is_dir():
        raise _wrong(path, "is a folder, not a ledger", "a folder", "a file such as runs.db")
    if path.exists() and path.stat().st_size and not is_sqlite(path):
        raise _wrong(path, "is not a ledger: not a SQLite file", allowed="a new file, or a ledger")


def _check(store: sqlite3.Connection, path: Path | None) -> None:
    """Raise InputError for a database that is no ledger, that is newer or that is damaged."""
    if path is None:
        return
    if store.execute("PRAGMA application_id").fetchone()[0] != APPLICATION_ID:
        raise _wrong(path, "is a SQLite file of another program, not a ledger", allowed="a new file, or a ledger")
    schema = store.execute("PRAGMA user_version").fetchone()[0]
    if schema != SCHEMA:
        message = f"is a ledger of schema {schema}; clustersim {__version__} has schema {SCHEMA}"
        more = "; use the clustersim that wrote it" if schema < SCHEMA else "; use a newer clustersim"
        raise _wrong(path, message + more, str(schema), str(SCHEMA))
    found = store.execute("PRAGMA quick_check(1)").fetchone()[0]
    if found != "ok":
        raise _damaged(path, found)


def _damaged(path: Path, what: str) -> InputError:
    message = f"is damaged ({what}); `sqlite3 {path} .recover` writes what can be read, or start with a new file"
    return _wrong(path, message, "a damaged file", "a ledger")


def _wrong(path: Path, message: str, got: str | None = None, allowed: str | None = None) -> InputError:
    return InputError(Mistake(message, file=str(path), got=got or str(path), allowed=allowed))


def _explained(error: sqlite3.Error, path: Path) -> ClustersimError:
    """Return an error of SQLite as one of clustersim."""
    code = getattr(error, "sqlite_errorcode", sqlite3.SQLITE_ERROR) & 0xFF
    if code in (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB):
        return _damaged(path, str(error))
    if code in (sqlite3.SQLITE_READONLY, sqlite3.SQLITE_CANTOPEN, sqlite3.SQLITE_PERM):
        return _wrong(
            path, f"cannot be opened or written: {error}", allowed="a file that can be written, in its folder"
        )
    if code in (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED):
        return LedgerError(f"{path}: another program has locked it for {_WAIT_S:.0f} s; wait for that program")
    if code in (sqlite3.SQLITE_FULL, sqlite3.SQLITE_IOERR):
        return LedgerError(f"{path}: cannot be written: {error}; free some space on its disk")
    return _wrong(path, f"is not a complete ledger: {error}", allowed="a ledger")
