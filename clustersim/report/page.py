"""The HTML page: one self-contained file, with sections in the order in which a reader decides."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from html import escape
from importlib.resources import files

from clustersim.report.figure import Figure
from clustersim.report.palette import DARK, LIGHT
from clustersim.results.files import to_json

CONTENT_POLICY = "default-src 'none'; script-src 'unsafe-inline'; style-src 'unsafe-inline'; img-src data: blob:"
"""What a browser may load for this page: nothing from elsewhere."""

_PAGE = """<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta http-equiv="Content-Security-Policy" content="{policy}">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="generator" content="clustersim {version}">
<link rel="icon" href="data:,">
<title>{title}</title>
<style>{style}</style>
</head>
<body>
<main>
{body}
</main>
{data}
<script type="application/json" id="panels">{panels}</script>
<script type="application/json" id="themes">{themes}</script>
<script>{plotly}</script>
<script>{script}</script>
</body>
</html>
"""


@dataclass(frozen=True)
class Panel:
    """A card of the page for one figure, or for several variants of which the reader selects one."""

    name: str
    figures: tuple[Figure, ...]
    choose: str = "run"

    def html(self) -> str:
        """Return the card of the panel with the texts of its first figure; the script draws it when it becomes visible.

        Until then the card has the height of the figure, so that the page does not move while it is read.
        """
        first = self.figures[0]
        tall = first.layout["height"]
        height = f"--tall:{tall}px;--tall-narrow:{first.narrow.get('height', tall)}px"
        return (
            f'<section class="card" id="{self.name}">{self._choice()}'
            f'<h3 id="title-{self.name}">{escape(first.title)}</h3>'
            f'<p class="under" id="under-{self.name}">{escape(first.subtitle)}</p>'
            f'<div class="plot" id="plot-{self.name}" style="{height}" role="img"'
            f' aria-labelledby="title-{self.name}"></div>'
            f'<p class="note" id="note-{self.name}">{escape(first.note)}</p></section>'
        )

    def _choice(self) -> str:
        if len(self.figures) < 2:
            return ""
        options = "".join(
            f'<option value="{number}">{escape(figure.label)}</option>' for number, figure in enumerate(self.figures)
        )
        return f'<label class="choice">{self.choose} <select id="choice-{self.name}">{options}</select></label>'

    def data(self) -> str:
        """Return the script element with the data of every figure and its texts, parsed when it is needed."""
        words = ("title", "subtitle", "note")
        variants = [{**figure.drawing(), **{word: getattr(figure, word) for word in words}} for figure in self.figures]
        return f'<script type="application/json" id="data-{self.name}">{_script_json(variants)}</script>'


def page(title: str, version: str, body: Iterable[str], panels: Sequence[Panel]) -> str:
    """Return the whole HTML document with plotly.js, style and script inside."""
    from plotly.offline import get_plotlyjs

    return _PAGE.format(
        policy=CONTENT_POLICY,
        version=escape(version),
        title=escape(title),
        style=_resource("page.css"),
        body="\n".join(body),
        data="\n".join(panel.data() for panel in panels),
        panels=_script_json([panel.name for panel in panels]),
        themes=_script_json({"light": LIGHT, "dark": DARK}),
        plotly=get_plotlyjs(),
        script=_resource("page.js"),
    )


def part(title: str) -> str:
    """Return the heading of a part of the page."""
    return f'<h2 class="part">{escape(title)}</h2>'


def card(title: str, under: str, content: str, long: bool = False) -> str:
    """Return a card with a heading, a line below it, and content, which is HTML."""
    line = f'<p class="under">{escape(under)}</p>' if under else ""
    return f'<section class="card{" long" if long else ""}"><h3>{escape(title)}</h3>{line}{content}</section>'


def bullets(items: Sequence[str]) -> str:
    """Return texts as an HTML list."""
    return f"<ul>{''.join(f'<li>{escape(item)}</li>' for item in items)}</ul>"


def grid(headings: Sequence[str], rows: Iterable[Sequence[str]], words: Iterable[str]) -> str:
    """Return a table in a box that scrolls sideways; columns named in `words` are texts, the rest numbers."""
    words = set(words)
    kinds = ["words" if heading in words else "number" for heading in headings]
    head = _row("th", kinds, headings)
    body = "".join(_row("td", kinds, row) for row in rows)
    return f'<div class="scroll"><table><thead>{head}</thead><tbody>{body}</tbody></table></div>'


def _row(tag: str, kinds: Sequence[str], texts: Sequence[str]) -> str:
    cells = (f'<{tag} class="{kind}">{escape(text)}</{tag}>' for kind, text in zip(kinds, texts, strict=True))
    return f"<tr>{''.join(cells)}</tr>"


def _script_json(document: object) -> str:
    """Return JSON that cannot end its script element."""
    return to_json(document).replace("<", "\\u003c")


def _resource(name: str) -> str:
    return files("clustersim.report").joinpath(name).read_text(encoding="utf-8")
