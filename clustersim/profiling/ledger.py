"""The log of measurements so far, one line each, from which an interrupted campaign resumes."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from clustersim.profiling.errors import ProfilingError

SCHEMA = "clustersim.profile-ledger/1"


class Ledger:
    """Values by key, on disk as soon as they are recorded.

    The first line identifies the model, device and software (`identity`); a ledger with another identity is refused. An
    incomplete last line, after a power failure or with a full disk, is dropped.
    """

    def __init__(self, path: Path, identity: Mapping[str, Any]):
        self.path = path
        self.values: dict[str, Any] = {}
        header = {"schema": SCHEMA, "identity": dict(identity)}
        lines = _whole_lines(path)
        if lines:
            self._check(lines[0], header)
            for number, line in enumerate(lines[1:], start=2):
                self._take(line, number)
        else:
            path.parent.mkdir(parents=True, exist_ok=True)
            self._append(header)

    def __contains__(self, key: str) -> bool:
        return key in self.values

    def __getitem__(self, key: str) -> Any:
        return self.values[key]

    def record(self, key: str, value: Any) -> None:
        """Store a value; it is on disk when this returns."""
        self._append({"key": key, "value": value})
        self.values[key] = value

    def _append(self, entry: Mapping[str, Any]) -> None:
        with self.path.open("a", encoding="utf-8") as file:
            file.write(json.dumps(entry, allow_nan=False) + "\n")
            file.flush()
            os.fsync(file.fileno())

    def _check(self, line: str, header: Mapping[str, Any]) -> None:
        found = _parsed(line)
        if not isinstance(found, dict) or found.get("schema") != SCHEMA:
            raise ProfilingError(f"{self.path} is not a ledger of a profile; choose another folder")
        before, now = found.get("identity", {}), header["identity"]
        different = [key for key in now if before.get(key) != now[key]]
        if different:
            key = different[0]
            raise ProfilingError(
                f"{self.path} was measured with {key} = {before.get(key)!r}, and this is {now[key]!r}; the two are "
                "never mixed: choose another folder, or remove that file and its profile"
            )

    def _take(self, line: str, number: int) -> None:
        entry = _parsed(line)
        if not isinstance(entry, dict) or not {"key", "value"} <= entry.keys():
            raise ProfilingError(f"{self.path}:{number}: this line is damaged; remove it to measure it again")
        self.values[entry["key"]] = entry["value"]


def _whole_lines(path: Path) -> list[str]:
    """Return the complete lines, and truncate the file after the last of them."""
    if not path.exists():
        return []
    data = path.read_bytes()
    whole = data[: data.rfind(b"\n") + 1]
    if len(whole) < len(data):
        with path.open("r+b") as file:
            file.truncate(len(whole))
    return whole.decode("utf-8", errors="replace").splitlines()


def _parsed(line: str) -> Any:
    try:
        return json.loads(line)
    except ValueError:
        return None
