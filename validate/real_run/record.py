"""The run file: `clustersim.real-run/1`, written anew after every phase, each time whole or not at all."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from clustersim.profiling.document import write_document

SCHEMA = "clustersim.real-run/1"


class Record:
    """What is measured so far. A job that dies leaves every phase that had ended, and which ones were still to come."""

    def __init__(self, path: Path, head: Mapping[str, Any], planned: list[str]):
        self.path = path
        self._head = dict(head)
        self._planned = planned
        self._phases: list[dict[str, Any]] = []
        self._write(complete=False)

    def add(self, name: str, kind: str, phase: Mapping[str, Any]) -> None:
        """Keep a phase; it is on disk when this returns."""
        self._phases.append({"name": name, "kind": kind, **phase})
        self._write(complete=False)

    def fail(self, name: str, reason: str) -> None:
        """Say what ended the job."""
        self._head["failure"] = {"phase": name, "reason": reason}
        self._write(complete=False)

    def finish(self) -> None:
        """Say that all that was planned is there."""
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
