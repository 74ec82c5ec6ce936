"""The HTML page: one self-contained file, with sections in the order in which a reader decides."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from html import escape
from importlib.resources import files
from typing import TYPE_CHECKING

from clustersim.report.packed import packed, packed_plotly
from clustersim.report.palette import DARK, LIGHT
from clustersim.report.panel import Panel, RunPanel
from clustersim.report.words import sort_number
from clustersim.results.files import to_json

if TYPE_CHECKING:
    from clustersim.report.run_details import RunDetails

CONTENT_POLICY = "default-src 'none'; script-src 'unsafe-inline'; style-src 'unsafe-inline'; img-src data: blob:"
"""What a browser may load for this page: nothing from elsewhere."""

_SCRIPTS = ("shared.js", "page.js", "choices.js", "drawing.js", "saving.js", "start.js")
"""Parts of the page's script, in one scope."""

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
<noscript><style>.plot, .tools, .choose-run, .theme, #menu {{ display: none; }}</style></noscript>
<script>{theme}</script>
</head>
<body>
<a class="skip" href="#content">Skip to the content</a>
{controls}
{contents}
<main id="content" tabindex="-1">
{body}
</main>
<p id="zoom-keys" class="hint">Zoom: drag, or the keys + − ← → and 0. Double-click: whole figure.</p>
<script type="application/json" id="page">{page}</script>
{packed}
<script>{script}</script>
</body>
</html>
"""


def page(
    title: str,
    version: str,
    body: Iterable[str],
    panels: Sequence[Panel | RunPanel],
    runs: RunDetails | None = None,
    name: str = "clustersim",
) -> str:
    """Return the whole HTML document with plotly.js, style and script inside; `runs` are those the reader chooses of.

    `name` stands at the top of the page, and before the names of saved figures.
    """
    text = "\n".join(body)
    contents = _contents(text)
    variants = {panel.name: panel.variants() for panel in panels if isinstance(panel, Panel)}
    data = {"plotly": packed_plotly(), "figures": packed(variants)}
    if runs is not None:
        data["cards"] = packed([run.cards for run in runs.runs])
        data |= {f"run-{number}": run.packed for number, run in enumerate(runs.runs) if run.packed}
    return _PAGE.format(
        policy=CONTENT_POLICY,
        version=escape(version),
        title=escape(title),
        style=_resource("page.css"),
        theme=_resource("theme.js"),
        controls=_controls(name, runs, bool(contents)),
        contents=contents,
        body=text,
        page=_script_json(_about(name, version, panels, runs)),
        packed="\n".join(f'<script type="text/plain" id="packed-{name}">{data[name]}</script>' for name in data),
        script='"use strict";\n(() => {\n' + "\n".join(map(_resource, _SCRIPTS)) + "\n})();",
    )


def _about(name: str, version: str, panels: Sequence[Panel | RunPanel], runs: RunDetails | None) -> dict[str, object]:
    """Return what the script needs at once: the panels, the runs, and the colours."""
    found = runs.runs if runs else ()
    return {
        "name": name,
        "version": version,
        "panels": [
            {"name": panel.name, "heading": panel.heading, "rows": panel.rows, "ofRun": isinstance(panel, RunPanel)}
            for panel in panels
        ],
        "runs": [{"label": run.label, "slug": run.slug, "kept": bool(run.packed)} for run in found],
        "first": runs.first if runs else 0,
        "themes": {"light": LIGHT, "dark": DARK},
    }


def _controls(name: str, runs: RunDetails | None, has_contents: bool) -> str:
    """Return the bar that stays at the top: the contents, the choice of run, and the theme."""
    choice = ""
    if runs is not None and len(runs.runs) > 1:
        options = "".join(
            f'<option value="{number}"{" selected" if number == runs.first else ""}>{escape(run.label)}</option>'
            for number, run in enumerate(runs.runs)
        )
        choice = (
            '<div class="choose-run"><label for="run">Run</label>'
            '<button type="button" id="previous" aria-label="Previous run">‹</button>'
            f'<select id="run">{options}</select>'
            '<button type="button" id="next" aria-label="Next run">›</button></div>'
        )
    themes = "".join(f'<option value="{theme}">{theme}</option>' for theme in ("auto", "light", "dark"))
    menu = '<button type="button" id="menu" aria-expanded="false" aria-controls="contents">Contents</button>'
    return (
        f'<div class="top">{menu if has_contents else ""}<span class="of">{escape(name)}</span>{choice}'
        f'<label class="theme">Theme <select id="theme">{themes}</select></label></div>'
    )


_ENTRY = re.compile(r'<(h2|section) class="[^"]*" id="([^"]+)" data-contents="([^"]+)"')

_FEWEST = 3
"""Parts and cards from which on a page has a list of contents."""


def _contents(body: str) -> str:
    """Return the list of contents, parts and their cards that have a name; empty for a short page."""
    found = _ENTRY.findall(body)
    if len(found) < _FEWEST:
        return ""
    parts: list[tuple[str, list[str]]] = [('<a href="#content">Overview</a>', [])]
    for tag, name, heading in found:
        link = f'<a href="#{name}">{heading}</a>'
        if tag == "h2":
            parts.append((link, []))
        else:
            parts[-1][1].append(link)
    lists = (f"<ul>{''.join(f'<li>{link}</li>' for link in links)}</ul>" if links else "" for _, links in parts)
    entries = "".join(f"<li>{link}{inner}</li>" for (link, _), inner in zip(parts, lists, strict=True))
    return f'<nav id="contents" aria-label="Contents"><ul>{entries}</ul></nav>'


def part(title: str) -> str:
    """Return the heading of a part of the page."""
    return f'<h2 class="part" id="{_id(title)}" data-contents="{escape(title)}">{escape(title)}</h2>'


def card(title: str, under: str, content: str, long: bool = False, name: str = "") -> str:
    """Return a card with a heading, a line below it, and content, which is HTML; with a name it is in the contents."""
    line = f'<p class="under">{escape(under)}</p>' if under else ""
    place = f' id="{_id(name)}" data-contents="{escape(name)}"' if name else ""
    return f'<section class="card{" long" if long else ""}"{place}><h3>{escape(title)}</h3>{line}{content}</section>'


def of_run(name: str, html: str) -> str:
    """Return a place for a card of the chosen run, with the card of the first one."""
    return f'<div class="of-run" data-card="{escape(name)}">{html}</div>'


def _id(title: str) -> str:
    return re.sub(r"[^a-z0-9]+", "-", title.lower()).strip("-")


def bullets(items: Sequence[str]) -> str:
    """Return texts as an HTML list."""
    return f"<ul>{''.join(f'<li>{escape(item)}</li>' for item in items)}</ul>"


def grid(headings: Sequence[str], rows: Iterable[Sequence[str]], words: Iterable[str], box: str = "scroll") -> str:
    """Return a table in a box that scrolls sideways; columns named in `words` are texts, the rest numbers."""
    kinds = _kinds(headings, words)
    head = "".join(f'<th class="{kind}">{escape(text)}</th>' for kind, text in zip(kinds, headings, strict=True))
    body = "".join(f"<tr>{_cells(kinds, row)}</tr>" for row in rows)
    return f'<div class="{box}"><table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table></div>'


def choice_grid(
    headings: Sequence[str], rows: Sequence[Sequence[str]], words: Iterable[str], names: Sequence[str]
) -> str:
    """Return a table with a run in each row, which a click or its button chooses; a heading sorts.

    `names` are those of the runs [num_rows].
    """
    kinds = _kinds(headings, words)
    head = "".join(
        f'<th class="{kind}" scope="col"><button type="button" class="sort">{escape(text)}</button></th>'
        for kind, text in zip(kinds, headings, strict=True)
    )
    named = zip(rows, names, strict=True)
    body = "".join(_choice_row(kinds, number, row, name) for number, (row, name) in enumerate(named))
    table = f'<table class="runs"><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>'
    return f'<div class="scroll many">{table}</div>'


def _choice_row(kinds: Sequence[str], number: int, row: Sequence[str], name: str) -> str:
    button = f'<button type="button" class="pick" aria-label="Show {escape(name)}">{escape(row[0])}</button>'
    first = f'<th scope="row" class="{kinds[0]}"{_value(row[0])}>{button}</th>'
    return f'<tr data-run="{number}">{first}{_cells(kinds[1:], row[1:], _value)}</tr>'


def _kinds(headings: Sequence[str], words: Iterable[str]) -> list[str]:
    named = set(words)
    return ["words" if heading in named else "number" for heading in headings]


def _cells(kinds: Sequence[str], texts: Sequence[str], value: Callable[[str], str] = lambda text: "") -> str:
    cells = zip(kinds, texts, strict=True)
    return "".join(f'<td class="{kind}"{value(text)}>{escape(text)}</td>' for kind, text in cells)


def _value(text: str) -> str:
    number = sort_number(text)
    return "" if number is None else f' data-value="{number:.9g}"'


def _script_json(document: object) -> str:
    """Return JSON that cannot end its script element."""
    return to_json(document).replace("<", "\\u003c")


def _resource(name: str) -> str:
    return files("clustersim.report").joinpath(name).read_text(encoding="utf-8")
