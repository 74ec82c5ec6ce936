"""A ledger: the sweeps that it has, and what their points gave. Only the process of the command writes it."""

from __future__ import annotations

import hashlib
import json
import sqlite3
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from types import TracebackType
from typing import Self

from clustersim import __version__
from clustersim.errors import InputError, Mistake
from clustersim.results.point_error import RETRIED_KINDS
from clustersim.scenario import Scenario
from clustersim.sweep.ledger.entry import PointEntry
from clustersim.sweep.ledger.ledger_keys import LedgerKeys, canonical
from clustersim.sweep.ledger.shard import SweepShard
from clustersim.sweep.ledger.store import close_store, explained, open_store, read_store, transaction
from clustersim.sweep.ledger.sweep_in_ledger import SweepInLedger


class SweepLedger:
    """A file of sweeps, used in a `with` block.

    It may have several sweeps: points with the same keys are simulated once for all of them. Failures belong to one
    sweep, since their messages name lines of its file.
    """

    def __init__(self, store: sqlite3.Connection, path: Path | None):
        self.store, self.path = store, path

    @classmethod
    def open(cls, path: str | Path | None) -> SweepLedger:
        """Return a ledger to be written, made if there is none; without a path, one that ends with the process."""
        place = None if path is None else Path(path)
        ledger = cls(open_store(place), place)
        if (version := ledger.version) != __version__:
            ledger.close()
            message = f"is of clustersim {version}, this is {__version__}; results would differ: name another file"
            raise InputError(Mistake(message, file=str(path), got=version, allowed=__version__))
        return ledger

    @classmethod
    def read(cls, path: str | Path) -> SweepLedger:
        """Return a ledger that is only read, of any version of clustersim with the same tables."""
        return cls(read_store(Path(path)), Path(path))

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Close the file; the last one to close it leaves no other files beside it."""
        close_store(self.store)

    @property
    def version(self) -> str:
        """The version of clustersim that all forecasts are of."""
        with explained(self.path):
            return str(self.store.execute("SELECT version FROM ledger").fetchone()[0])

    def sweeps(self) -> list[SweepInLedger]:
        """Return every sweep, the one that was begun or continued last first."""
        with explained(self.path):
            found = self.store.execute("SELECT id FROM sweeps ORDER BY started_s DESC, digest").fetchall()
        return [SweepInLedger(self.store, self.path, number) for (number,) in found]

    def last(self, name: str | None = None) -> SweepInLedger:
        """Return the sweep that was begun or continued last, of those with a name if one is given."""
        found = [each for each in self.sweeps() if name in (None, each.name)]
        if not found:
            names = ", ".join(dict.fromkeys(each.name for each in self.sweeps())) or "none"
            wanted = "no sweep" if name is None else f"no sweep '{name}'"
            message = f"the ledger has {wanted} (it has: {names})"
            raise InputError(Mistake(message, file=str(self.path), got=name, allowed=names))
        return found[0]

    def begin(
        self, loaded: Scenario, exact: bool = False, shard: SweepShard | None = None, learns: bool = True
    ) -> SweepInLedger:
        """Return the sweep of a scenario, noted with its points unless the ledger has it.

        A sweep that `learns` is another one than that of the same scenario that does not.
        """
        scenario, text = json.dumps({"name": loaded.name, **loaded.raw}, ensure_ascii=False), loaded.yaml()
        digest = hashlib.sha256(canonical([__version__, exact, text, loaded.name]).encode())
        trees = loaded.trees()
        with explained(self.path), self._listed(_points(loaded, exact, learns, digest)), transaction(self.store):
            head = digest.hexdigest(), loaded.name, trees[0].seed, exact, len(trees), scenario, text, time.time()
            number = self._noted(head)
            if shard is not None:
                self.store.execute("INSERT OR IGNORE INTO shards VALUES (?, ?)", (number, shard.num_shards))
        return SweepInLedger(self.store, self.path, number)

    @contextmanager
    def _listed(self, points: Iterable[tuple[object, ...]]) -> Iterator[None]:
        """Have points in the temporary table `listed`, apart from the ledger's file and from memory."""
        self.store.execute("CREATE TEMP TABLE listed (number, key, num_gpus, axes)")
        try:
            self.store.execute("BEGIN")
            self.store.executemany("INSERT INTO listed VALUES (?, ?, ?, ?)", points)
            self.store.execute("COMMIT")
            yield
        finally:
            with suppress(sqlite3.Error):
                if self.store.in_transaction:
                    self.store.execute("ROLLBACK")
                self.store.execute("DROP TABLE IF EXISTS temp.listed")

    def _noted(self, head: tuple[object, ...]) -> int:
        """Return the number of a sweep in this ledger, which is noted with the listed points if it is new."""
        known = self.store.execute("SELECT id FROM sweeps WHERE digest = ?", head[:1]).fetchone()
        if known:
            self.store.execute("UPDATE sweeps SET started_s = ? WHERE id = ?", (head[-1], known[0]))
            return int(known[0])
        made = self.store.execute(
            "INSERT INTO sweeps (digest, name, seed, exact, num_points, scenario, scenario_text, started_s)"
            " VALUES (?, ?, ?, ?, ?, ?, ?, ?)",
            head,
        )
        number = int(made.lastrowid or 0)
        self.store.execute("INSERT INTO points SELECT ?, number, key, num_gpus, axes FROM temp.listed", (number,))
        return number

    def left(self, sweep: SweepInLedger, shard: SweepShard, retry: bool = False) -> list[int]:
        """Return the numbers of the points of a shard without a result, those of the most GPUs first.

        With `retry` also points that were stuck or took too long.
        """
        again = json.dumps(RETRIED_KINDS if retry else ())
        with explained(self.path):
            found = self.store.execute(
                "SELECT number FROM points AS p WHERE sweep = ? AND number % ? = ?"
                " AND NOT EXISTS (SELECT 1 FROM forecasts AS f WHERE f.key = p.key)"
                " AND NOT EXISTS (SELECT 1 FROM failures AS e WHERE e.sweep = p.sweep AND e.number = p.number"
                "  AND e.kind NOT IN (SELECT value FROM json_each(?)))"
                " ORDER BY num_gpus DESC, number",
                (sweep.number, shard.num_shards, shard.rest, again),
            )
            return [number for (number,) in found]

    def has_forecast(self, sweep: SweepInLedger, number: int) -> bool:
        """Return whether a point has a forecast: of an equal point, or from another process since."""
        query = "SELECT 1 FROM forecasts WHERE key = (SELECT key FROM points WHERE sweep = ? AND number = ?)"
        with explained(self.path):
            return self.store.execute(query, (sweep.number, number)).fetchone() is not None

    def record(self, sweep: SweepInLedger, number: int, entry: PointEntry) -> None:
        """Keep what a point gave, in a transaction of its own."""
        with explained(self.path), transaction(self.store):
            if entry.error is None:
                self.store.execute(
                    "INSERT OR IGNORE INTO forecasts SELECT key, ?, ? FROM points WHERE sweep = ? AND number = ?",
                    (entry.packed, entry.seconds, sweep.number, number),
                )
                self.store.execute("DELETE FROM failures WHERE sweep = ? AND number = ?", (sweep.number, number))
            else:
                row = (sweep.number, number, entry.error.kind, entry.packed, entry.seconds)
                self.store.execute("INSERT OR REPLACE INTO failures VALUES (?, ?, ?, ?, ?)", row)

    def dump(self) -> Iterator[tuple[object, ...]]:
        """Yield all that the ledger says, in an order that does not depend on how it was made; without times."""
        with explained(self.path):
            yield from self.store.execute("SELECT version FROM ledger")
            yield from self.store.execute("SELECT digest, name, num_points, scenario_text FROM sweeps ORDER BY digest")
            points = "SELECT digest, p.* FROM points AS p JOIN sweeps AS s ON s.id = sweep"
            yield from (row[:1] + row[2:] for row in self.store.execute(f"{points} ORDER BY digest, number"))
            yield from self.store.execute("SELECT key, forecast FROM forecasts ORDER BY key")
            failed = "SELECT digest, number, kind, forecast FROM failures JOIN sweeps AS s ON s.id = sweep"
            yield from self.store.execute(f"{failed} ORDER BY digest, number")


def _points(loaded: Scenario, exact: bool, learns: bool, digest: hashlib._Hash) -> Iterator[tuple[object, ...]]:
    """Yield the row of each point, and add it to a digest."""
    keys = LedgerKeys(loaded, exact, learns)
    for tree in loaded.trees():
        axes = json.dumps(dict(tree.axes), ensure_ascii=False)
        point = tree.number, keys.key(tree), tree.num_gpus, axes
        digest.update(canonical(point).encode())
        yield point
