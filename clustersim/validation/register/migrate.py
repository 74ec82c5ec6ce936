"""Notes that the files of an entry were rewritten without a change of their meaning, such as renamed keys."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

from clustersim.errors import InputError, Mistake
from clustersim.validation.register.code import code_state, file_sha256
from clustersim.validation.register.entry import load_entry
from clustersim.validation.register.first import FIRST_FILE, Migration, read_first, write_noted


def note_migration(folder: Path, reason: str) -> Migration:
    """Add the hashes of an entry's rewritten files, with date, code and reason; first forecasts stay as they are."""
    path = folder / FIRST_FILE
    if not reason.strip():
        raise InputError("a migration needs its reason, such as 'clustersim migrate: compute.library is software'")
    first = read_first(path)
    absent = [name for name in first.present_files if not (folder / name).is_file()]
    if absent:
        raise InputError([Mistake("the file is missing; restore it", file=str(folder / name)) for name in absent])
    files = {name: file_sha256(folder / name) for name in first.present_files}
    if files == first.present_files:
        raise InputError(Mistake("no file of this entry has changed, so there is no migration to note", file=str(path)))
    code = code_state()
    migration = Migration(now(), code.version, code.commit, reason.strip(), files)
    noted = first.with_migration(migration)
    load_entry(folder, noted)
    write_noted(noted, path)
    return migration


def now() -> str:
    """Return the date and time in UTC, to the second."""
    return datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
