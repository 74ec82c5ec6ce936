"""Tables of text for a terminal of any width: columns that do not fit go into further tables, and nothing is cut."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from textwrap import wrap
from typing import TYPE_CHECKING, Literal

from clustersim.report.words import THIN

if TYPE_CHECKING:
    from rich.table import Table

_LEAST_AXIS = 16
"""Characters to which the column of an axis is wrapped at most, or its longest word; a shorter one keeps its width."""

_WORD = re.compile(r"(?:[^ _=,]|,(?=\d))+[_=,]*|[_=,]+")
"""What stays on one line in the column of an axis: lines break at spaces and after `_`, `=` and `,`."""

_NO_BREAK = "\u00a0"


@dataclass(frozen=True)
class Row:
    """The cells of a row [num_columns], and rich's style for all of them."""

    cells: tuple[str, ...]
    style: str = ""


@dataclass(frozen=True)
class TextTable:
    """A table of texts: the first `num_named` columns say which row it is and stand in every part of it.

    Of these all but the first may be wrapped, and columns with a heading in `wrapped`. Headings in `left` are aligned
    to the left, all others to the right.
    """

    title: str
    headings: tuple[str, ...]
    rows: tuple[Row, ...]
    num_named: int = 1
    caption: str = ""
    left: frozenset[str] = field(default=frozenset())
    wrapped: frozenset[str] = field(default=frozenset())

    def parts(self, columns: int) -> list[Table | str]:
        """Return the table, in as many parts as are needed for so many columns of text.

        Where not even one column fits beside the named ones, it is a text with a line for each cell.
        """
        groups = self._groups(columns)
        if groups is None:
            return [self._as_lines(columns)]
        tables: list[Table | str] = [self._rich(group, number == 0, columns) for number, group in enumerate(groups)]
        return [*tables, "\n".join(self._caption_lines(columns))] if self.caption else tables

    def width(self) -> int:
        """Return the columns of text that the table takes if nothing is wrapped."""
        return sum(map(self._widest, range(len(self.headings)))) + len(self.headings) - 1

    def rich(self) -> Table:
        """Return the table in one part, with its caption."""
        from rich.text import Text

        table = self._rich(range(self.num_named, len(self.headings)), True)
        if self.caption:
            table.caption, table.caption_justify = Text(plain(self.caption)), "left"
        return table

    def _caption_lines(self, columns: int) -> list[str]:
        return [line for text in self.caption.splitlines() for line in wrapped(text, columns)]

    def _widest(self, column: int) -> int:
        return max(len(plain(text)) for text in (self.headings[column], *(row.cells[column] for row in self.rows)))

    def _groups(self, columns: int) -> list[list[int]] | None:
        """Return the columns of each part without the named ones; None if one does not fit beside these."""
        named = [self._least(column) for column in range(self.num_named)]
        groups: list[list[int]] = []
        free = -1
        for column in range(self.num_named, len(self.headings)):
            needed = self._least(column) + 1
            if not groups or needed > free:
                groups.append([])
                free = columns - sum(named) - len(named) + 1
            if needed > free:
                return None
            groups[-1].append(column)
            free -= needed
        return groups

    def _least(self, column: int) -> int:
        """Return the characters to which a column can be wrapped."""
        if not self._may_wrap(column):
            return self._widest(column)
        texts = (self.headings[column], *(row.cells[column] for row in self.rows))
        words = (word for text in texts for word in _WORD.findall(text))
        return min(self._widest(column), max(_LEAST_AXIS, *map(len, words)))

    def _may_wrap(self, column: int) -> bool:
        return 0 < column < self.num_named or self.headings[column] in self.wrapped

    def _widths(self, shown: Sequence[int], columns: int | None) -> dict[int, int]:
        """Return the width of each column: the widest ones of axes are wrapped until all fit in `columns`."""
        widths = {column: self._widest(column) for column in shown}
        least = {column: self._least(column) for column in shown}
        while columns is not None and sum(widths.values()) + len(shown) - 1 > columns:
            wide = [column for column in shown if widths[column] > least[column]]
            if not wide:
                break
            widths[max(wide, key=lambda column: widths[column])] -= 1
        return widths

    def _rich(self, group: Sequence[int], is_first: bool, columns: int | None = None) -> Table:
        from rich import box
        from rich.table import Table
        from rich.text import Text

        table = Table(box=box.SIMPLE_HEAD, padding=0, show_edge=False)
        if is_first:
            table.title, table.title_justify = Text(plain(self.title)), "left"
        shown = [*range(self.num_named), *group]
        widths = self._widths(shown, columns)
        for column in shown:
            heading, may_wrap = self.headings[column], self._may_wrap(column)
            side: Literal["left", "right"] = "left" if heading in self.left else "right"
            table.add_column(plain(heading), justify=side, no_wrap=not may_wrap, overflow="fold")
        for row in self.rows:
            if any(row.cells[column] for column in group):
                table.add_row(*(Text(plain(_broken(row.cells[column], widths[column])), row.style) for column in shown))
        return table

    def _as_lines(self, columns: int) -> str:
        """Return one line for each cell, its heading before it, or above it where they do not fit side by side."""
        lines = [*wrapped(self.title, columns)]
        for row in self.rows:
            lines.append("")
            for heading, cell in zip(self.headings, row.cells, strict=True):
                is_whole = heading in self.headings[self.num_named :] and heading not in self.wrapped
                text = plain(cell).replace(" ", _NO_BREAK) if is_whole else cell
                if cell:
                    lines += wrapped(f"{heading} {text}", columns)
        lines += ["", *self._caption_lines(columns)]
        return "\n".join(lines).replace(_NO_BREAK, " ").rstrip()


def _broken(text: str, width: int) -> str:
    """Return a cell as lines of at most so many characters, broken at spaces, else after `_`, `=` and `,`.

    >>> _broken("tensor=8 sequence_parallel=true", 18).split(chr(10))
    ['tensor=8', 'sequence_parallel=', 'true']
    """
    lines = [""]
    if len(plain(text)) <= width:
        return text
    for word in text.split(" "):
        joined = f"{lines[-1]} {word}".strip(" ")
        if len(joined) <= width:
            lines[-1] = joined
            continue
        lines += [""] if lines[-1] else []
        for part in _WORD.findall(word):
            if lines[-1] and len(f"{lines[-1]}{part}") > width:
                lines.append("")
            lines[-1] += part
    return "\n".join(lines)


def wrapped(text: str, columns: int) -> list[str]:
    """Return a text as lines of at most so many columns; a longer word stays whole, and a number with its unit."""
    lines = wrap(text, columns, subsequent_indent="  ", break_long_words=False, break_on_hyphens=False)
    return [plain(line) for line in lines]


def plain(text: str) -> str:
    """Return a text for the terminal, with ordinary spaces."""
    return text.replace(f"{THIN}%", "%").replace(THIN, " ")
