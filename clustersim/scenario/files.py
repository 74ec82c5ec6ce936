"""Reads a scenario file and all files that it extends."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

from clustersim.data import data_folder
from clustersim.errors import InputError, Mistake
from clustersim.reading.files import find_file, named_by, read_map
from clustersim.reading.tree import TreeNode
from clustersim.scenario.merge import merge

MAX_FILES = 50


@dataclass
class _Reading:
    """Reads one scenario with all files that it extends."""

    may_extend: tuple[Path, ...] | None
    mistakes: list[Mistake] = field(default_factory=list)
    num_files: int = 0

    def tree(self, path: Path, open_files: tuple[Path, ...]) -> TreeNode:
        self.num_files += 1
        root, mistakes = read_map(path, "scenario")
        self.mistakes += mistakes
        extends = root.children.get("extends")
        if extends is None:
            return root
        base: TreeNode | None = None
        for element in extends.value if isinstance(extends.value, list) else [extends]:
            part = self.extended(element, path, (*open_files, path.resolve()))
            base = part if base is None else merge(base, part)
        own = root.with_value({key: child for key, child in root.children.items() if key != "extends"})
        return own if base is None else merge(base, own)

    def extended(self, element: TreeNode, path: Path, open_files: tuple[Path, ...]) -> TreeNode:
        if not isinstance(element.value, str):
            got = str(element.plain())[:60]
            message = f"expected the name or the file of a scenario (got {got})"
            raise InputError(element.place.mistake(message, "extends", got, "a name or a file"))
        with named_by(element, "extends"):
            found = find_file(element.value, "scenarios", "scenario", path.parent)
            self.check_inside(found, element)
            if found.resolve() in open_files:
                chain = " -> ".join(file.name for file in (*open_files, found))
                raise InputError(f"a scenario cannot extend itself ({chain})", got=element.value)
            if self.num_files >= MAX_FILES:
                raise InputError(
                    f"a scenario may extend at most {MAX_FILES} files (this is one more); merge some", got=element.value
                )
            return self.tree(found, open_files)

    def check_inside(self, found: Path, element: TreeNode) -> None:
        """Refuse a file in a folder that has nothing to do with the scenario: messages show lines of what they read."""
        if self.may_extend is None or any(_holds(folder, found.resolve()) for folder in self.may_extend):
            return
        allowed = "the working directory, the scenario's folder, the repositories around them, or a shipped scenario"
        outside = "outside the folders that a scenario may extend"
        message = f"'{found}' is {outside}; only `clustersim run --allow-outside` reads it"
        raise InputError(message, got=str(element.value), allowed=allowed)


def folders_to_extend(path: Path) -> tuple[Path, ...]:
    """Return the folders whose files a scenario may extend: its own and the working directory's, and shipped ones.

    Of a folder in a git repository, the whole repository counts. A working directory that was deleted has no files.
    """
    folders = [path.resolve().parent]
    with suppress(FileNotFoundError):
        folders.append(Path.cwd())
    return (*map(_repository, folders), *map(data_folder, ("scenarios", "validate")))


def _repository(folder: Path) -> Path:
    """Return the git repository around a folder, or the folder itself outside of one."""
    around = (each for each in (folder, *folder.parents) if (each / ".git").exists() and not _is_broad(each))
    return next(around, folder).resolve()


def _holds(folder: Path, file: Path) -> bool:
    """Return whether a folder has a file; the root and the home have only those directly in them."""
    return file.parent == folder if _is_broad(folder) else file.is_relative_to(folder)


def _is_broad(folder: Path) -> bool:
    """Return whether a folder has all files of a machine or of a user: no project is there."""
    home: Path | None = None
    with suppress(RuntimeError):  # a user without a home
        home = Path.home().resolve()
    return folder.resolve() in (Path(folder.anchor), home)


def read_scenario(path: Path, allow_outside: bool = False) -> tuple[TreeNode, list[Mistake]]:
    """Return the tree of a scenario file, merged with all files that it extends, and mistakes that do not stop reading.

    `extends` is a file (relative to this one) or a shipped name, or a list of them where the later wins; the
    keys of the file itself win over all. Every value keeps its place in its file. A file in another folder than
    `folders_to_extend` says is refused unless `allow_outside`.
    """
    reading = _Reading(None if allow_outside else folders_to_extend(path))
    root = reading.tree(path, ())
    return root, reading.mistakes
