"""Hooks of mkdocs (`mkdocs.yml`, `make docs`) that let the site hold what docs/ links to outside docs/.

A page links to other files of the repository by their relative path, so that links work where the repository is read.
In the site such a file is a page, or a file to download, under `project/`, and links are written for that place.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from os.path import relpath
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from mkdocs.config.defaults import MkDocsConfig
    from mkdocs.structure.files import Files
    from mkdocs.structure.pages import Page

ROOT = Path(__file__).resolve().parent.parent
DOCS = ROOT / "docs"
OUTSIDE = "project"
LISTED = ("CONTRIBUTING.md", "CHANGELOG.md")
"""Files outside docs/ that the navigation names."""
EXPLAINS = {"index.md", "tutorial", "how-to", "reference"}
"""Folders of docs/ whose pages are found first."""

_CODE_OR_LINK = re.compile(r"(?P<code>^ *```.*?^ *```$)|\]\((?P<path>[^)#\s:]+)(?P<anchor>#[^)\s]*)?\)", re.M | re.S)
_FILE_BLOCK = re.compile(r"^```(\w+) file=(\S+)$", re.MULTILINE)
_INSTALLED_BLOCK = re.compile(r"^```console installed$", re.MULTILINE)


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add what lies outside docs/ and is linked from a page, directly or through another such page."""
    from mkdocs.structure.files import File

    for path in linked_outside():
        files.append(File.generated(config, site_path(path), abs_src_path=str(path)))
    return files


def on_page_markdown(markdown: str, page: Page, config: MkDocsConfig, files: Files) -> str:
    """Return a page's text with links for the site, and the names of files above the blocks that make them.

    Sources of cases are not searched: they would hide the pages that explain.
    """
    if page.file.src_uri.endswith("/source.md"):
        page.meta["search"] = {"exclude": True}
    elif page.file.src_uri.split("/")[0] in EXPLAINS:
        page.meta["search"] = {"boost": 2}
    source = page.file.abs_src_path
    return for_site(markdown, Path(source)) if source else markdown


def for_site(markdown: str, page: Path) -> str:
    """Return the text of the file `page` as the site needs it.

    >>> for_site("[Rule](../validate/register/README.md#files-of-an-entry)", DOCS / "register.md")
    '[Rule](project/validate/register/README.md#files-of-an-entry)'
    """
    here = Path(site_path(page)).parent

    def written(match: re.Match[str]) -> str:
        target = _target(page, match["path"]) if match["path"] else None
        return f"]({relpath(site_path(target), here)}{match['anchor'] or ''})" if target else match[0]

    text = _CODE_OR_LINK.sub(written, markdown)
    return _INSTALLED_BLOCK.sub("```console", _FILE_BLOCK.sub(r'```\1 title="\2"', text))


def linked_outside() -> list[Path]:
    """Return the files outside docs/ that the site needs."""
    waiting = [*DOCS.rglob("*.md"), *(ROOT / name for name in LISTED)]
    found = set(waiting)
    while waiting:
        page = waiting.pop()
        new = set(_targets(page)) - found
        found |= new
        waiting += [path for path in new if path.suffix == ".md"]
    return sorted(path for path in found if not path.is_relative_to(DOCS))


def site_path(path: Path) -> str:
    """Return where the site has a file, relative to its root: `how-to/x.md`, `project/validate/README.md`."""
    if path.is_relative_to(DOCS):
        return path.relative_to(DOCS).as_posix()
    return f"{OUTSIDE}/{path.relative_to(ROOT).as_posix()}"


def _targets(page: Path) -> Iterator[Path]:
    for match in _CODE_OR_LINK.finditer(page.read_text(encoding="utf-8")):
        target = _target(page, match["path"]) if match["path"] else None
        if target:
            yield target


def _target(page: Path, link: str) -> Path | None:
    """Return the file that a link of a page leads to, of a folder its README; None if there is none."""
    path = (page.parent / link).resolve()
    path = path / "README.md" if path.is_dir() else path
    return path if path.is_file() and path.is_relative_to(ROOT) else None
