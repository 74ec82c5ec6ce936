"""Finds and reads sheets: shipped ones by name, a user's own by path, each mistake with its place in the file."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any, Generic, cast

from pydantic import ValidationError

from clustersim.errors import InputError, Mistake, unknown_name
from clustersim.hardware.schema import Device, SheetFile
from clustersim.hardware.sheet import Sheet
from clustersim.hardware.text import Text, read_text
from clustersim.registry import Registry


class Shelf(Mapping[str, str], Generic[Device]):
    """The sheets of one kind: short names to titles; `load` gives the device itself.

    `refers` names the values that are themselves names or paths of sheets, and the shelf they stand on.
    """

    def __init__(
        self, kind: str, schema: type[SheetFile[Device]], folder: Path, refers: Mapping[str, Shelf[Any]] | None = None
    ):
        self.schema = schema
        self.refers = refers or {}
        self._shipped: dict[str, Device] = {}
        self.paths = Registry(
            kind, {path.stem: path for path in sorted(folder.glob("*.yaml"), key=lambda path: path.stem)}
        )

    def __getitem__(self, name: str) -> str:
        with self.paths[name].open(encoding="utf-8") as lines:
            return next(line.partition(":")[2].strip() for line in lines if line.startswith("title:"))

    def __contains__(self, name: object) -> bool:
        return name in self.paths

    def __iter__(self) -> Iterator[str]:
        return iter(self.paths)

    def __len__(self) -> int:
        return len(self.paths)

    def find(self, name: str | Path) -> Path:
        """Return the file of a shipped sheet's name, or the path itself (it ends in .yaml or has a slash)."""
        return Path(name) if is_path(name) else self.paths[str(name)]

    def load(self, name: str | Path) -> Device:
        """Return a device by name or path. A user's file is read again when it has changed."""
        if is_path(name):
            return self._load(name)
        if name not in self._shipped:
            self._shipped[str(name)] = self._load(name)
        return self._shipped[str(name)]

    def _load(self, name: str | Path) -> Device:
        path = self.find(name).absolute()
        try:
            stat = path.stat()
        except OSError as error:
            raise InputError(Mistake(f"cannot be read: {error.strerror}", file=str(path))) from None
        text, device = _read(self.schema, path, stat.st_mtime_ns, stat.st_size)
        return self._resolve(text, cast(Device, device))

    def _resolve(self, text: Text, device: Device) -> Device:
        """Check the sheets that this one names; a path among them counts from its own folder."""
        found: dict[str, str] = {}
        mistakes: list[Mistake] = []
        for key, shelf in self.refers.items():
            name = getattr(device, key)
            if name is None:
                continue
            found[key] = str(text.path.parent / name) if is_path(name) else name
            try:
                if not shelf.find(found[key]).is_file():
                    mistakes.append(text.mistake(f"there is no file '{found[key]}'", (key, "value"), got=name))
            except InputError as error:
                wrong = error.mistakes[0]
                mistakes.append(text.mistake(wrong.message, (key, "value"), got=wrong.got, allowed=wrong.allowed))
        if mistakes:
            raise InputError(mistakes)
        return type(device)(**(vars(device) | found))


def is_path(name: str | Path) -> bool:
    """Say whether this means a file rather than a short name.

    >>> is_path("k20x"), is_path("mine.yaml"), is_path("sheets/mine")
    (False, True, True)
    """
    return isinstance(name, Path) or name.endswith((".yaml", ".yml")) or "/" in name or "\\" in name


@lru_cache(maxsize=256)
def _read(schema: type[SheetFile[Any]], path: Path, mtime_ns: int, size: int) -> tuple[Text, Sheet]:
    """Read a sheet; its time and size are here so that a file that has changed is read again."""
    text = read_text(path)
    _check_shape(text, text.data)
    try:
        return text, schema.model_validate(text.data).device()
    except ValidationError as error:
        raise InputError([_mistake(text, schema, problem) for problem in error.errors()]) from None


def _check_shape(text: Text, data: Any, key: tuple[str, ...] = ()) -> None:
    """Refuse lists and deep nesting before anything prints them: aliases can make them larger than memory."""
    if isinstance(data, list | set | tuple) or (isinstance(data, Mapping) and len(key) > 2):
        raise InputError(text.mistake("expected one value here, not a list or a mapping", key))
    if isinstance(data, Mapping):
        for part, value in data.items():
            _check_shape(text, value, (*key, str(part)[:60]))


def _mistake(text: Text, schema: type[SheetFile[Any]], problem: Any) -> Mistake:
    """Say what pydantic found in our own words, where the file has it."""
    key = tuple(str(part) for part in problem["loc"] if part != "[key]")
    got = problem["input"] if isinstance(problem["input"], str | int | float) else None
    kind, context = problem["type"], problem.get("ctx", {})
    wrong = context.get("error")
    if isinstance(wrong, InputError):
        first = wrong.mistakes[0]
        return text.mistake(first.message, key, got=first.got, allowed=first.allowed)
    if kind == "missing":
        return text.mistake("is missing", key)
    if kind == "extra_forbidden":
        return text.mistake(unknown_name("key", key[-1], _known(schema, key)).mistakes[0].message, key, got=key[-1])
    if kind in ("model_type", "model_attributes_type", "dict_type"):
        shape = "a mapping of keys" if len(key) == 0 else "'value' and 'source'"
        return text.mistake(f"expected {shape}", key, got=None if got is None else str(got)[:60])
    shown = "" if got is None else f" (got '{str(got)[:60]}')"
    return text.mistake(
        problem["msg"][:1].lower() + problem["msg"][1:] + shown,
        key,
        got=None if got is None else str(got)[:60],
        allowed=context.get("expected"),
    )


def _known(schema: type[SheetFile[Any]], key: Sequence[str]) -> list[str]:
    return list(schema.model_fields) if len(key) == 1 else ["value", "source"]
