"""Finds and reads sheets: shipped ones by name, a user's own by path; each mistake has its place in the file."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from functools import lru_cache
from pathlib import Path
from typing import Any, Generic, cast

from pydantic import ValidationError

from clustersim.errors import InputError, Mistake, in_order
from clustersim.hardware.schema import Device, SheetFile
from clustersim.hardware.sheet import Sheet
from clustersim.reading import Limits, TreeNode, explain, place_of, read_map
from clustersim.registry import Registry

_LIMITS = Limits(num_bytes=128 << 10, num_events=5_000, num_values=5_000)
"""A sheet is a page long; anything larger is another kind of file."""


class SheetCatalogue(Mapping[str, str], Generic[Device]):
    """The sheets of one kind: short names to titles; `load` gives the device itself.

    `refers` names the values that are themselves names or paths of sheets, and their catalogue.
    """

    def __init__(
        self,
        kind: str,
        schema: type[SheetFile[Device]],
        folder: Path,
        refers: Mapping[str, SheetCatalogue[Any]] | None = None,
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
        tree, device = _read(self.schema, path, stat.st_mtime_ns, stat.st_size)
        return self._resolve(path, tree, cast(Device, device))

    def _resolve(self, path: Path, tree: TreeNode, device: Device) -> Device:
        """Check the sheets that this one refers to; a relative path is resolved from its own folder."""
        found: dict[str, str] = {}
        mistakes: list[Mistake] = []
        for key, catalogue in self.refers.items():
            name = getattr(device, key)
            if name is None:
                continue
            found[key] = str(path.parent / name) if is_path(name) else name
            here = place_of((key, "value"), tree)
            try:
                if not catalogue.find(found[key]).is_file():
                    message, allowed = f"there is no file '{found[key]}'", "a sheet's name or file"
                    mistakes.append(here.mistake(message, f"{key}.value", name, allowed))
            except InputError as error:
                mistakes += [here.located(wrong, f"{key}.value") for wrong in error.mistakes]
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
def _read(schema: type[SheetFile[Any]], path: Path, mtime_ns: int, size: int) -> tuple[TreeNode, Sheet]:
    """Read a sheet; its time and size are arguments so that a changed file is read again."""
    tree, mistakes = read_map(path, "sheet", _LIMITS)
    if mistakes:
        raise InputError(in_order(mistakes))
    try:
        return tree, schema.model_validate_json(json.dumps(tree.plain()), strict=True).device()
    except ValidationError as error:
        raise InputError(in_order(problem.mistake for problem in explain(error, tree, schema))) from None
