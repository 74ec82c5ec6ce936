"""Writes the run file, `clustersim.real-run/1`: atomically, after every phase."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from clustersim.profiling.document import write_document

SCHEMA = "clustersim.real-run/1"


class Record:
    """The measurements so far. After a crash, the file has all finished phases and the names of the missing ones."""

    def __init__(self, path: Path, head: Mapping[str, Any], planned: list[str]):
        self.path = path
        self._head = dict(head)
        self._planned = planned
        self._phases: list[dict[str, Any]] = []
        self._write(complete=False)

    def add(self, name: str, kind: str, phase: Mapping[str, Any]) -> None:
        """Add a phase; it is on disk when this returns."""
        self._phases.append({"name": name, "kind": kind, **phase})
        self._write(complete=False)

    def fail(self, name: str, reason: str) -> None:
        """Record the failure that ended the job."""
        self._head["failure"] = {"phase": name, "reason": reason}
        self._write(complete=False)

    def finish(self) -> None:
        """Mark the file as complete."""
        self._write(complete=True)

    def _write(self, complete: bool) -> None:
        document = {
            "schema": SCHEMA,
            **self._head,
            "planned": self._planned,
            "phases": self._phases,
            "complete": complete,
        }
        write_document(document, self.path)
