"""Cards of the page that hold a figure: of the sweep, with variants to select, or of the chosen run."""

from __future__ import annotations

from dataclasses import dataclass
from html import escape

from clustersim.report.figure import Figure, Json

NO_DATA = "No data for this run."

_SAVED_AS = {"svg": "a drawing", "png": "a picture", "csv": "numbers"}
"""File formats of a figure, and what each is."""


@dataclass(frozen=True)
class Panel:
    """A card for one figure, or for several variants of which the reader selects one; `choose` labels the selection.

    `heading` names the card in the list of contents. `rows` is what the named rows of an axis without a title are, such
    as `run`, for the table of its numbers.
    """

    name: str
    figures: tuple[Figure, ...]
    choose: str = "run"
    heading: str = ""
    rows: str = ""

    def html(self) -> str:
        """Return the card with the texts of its first figure; the script draws it when it becomes visible."""
        return _card(self, self.figures[0], self._choice())

    def variants(self) -> list[Json]:
        """Return what the page's script needs of every variant."""
        return [figure.document() for figure in self.figures]

    def _choice(self) -> str:
        if len(self.figures) < 2:
            return ""
        options = "".join(
            f'<option value="{number}">{escape(figure.label)}</option>' for number, figure in enumerate(self.figures)
        )
        return f'<label class="choice">{self.choose} <select id="choice-{self.name}">{options}</select></label>'


@dataclass(frozen=True)
class RunPanel:
    """A card for a figure of the chosen run, which is `figure` until the reader chooses another; None has no data."""

    name: str
    heading: str
    figure: Figure | None
    rows: str = ""

    def html(self) -> str:
        """Return the card with the texts of the first run's figure."""
        return _card(self, self.figure)


def _card(panel: Panel | RunPanel, figure: Figure | None, choice: str = "") -> str:
    """Return the card of a panel: one line where its figure has nothing to tell, which the reader may open.

    Until it is drawn, a figure has its height, so that the page does not move while it is read.
    """
    name, heading = panel.name, escape(panel.heading or (figure.title if figure else panel.name))
    reason = NO_DATA if figure is None else figure.quiet
    told = figure is not None and not reason
    title = escape(figure.title) if figure and told else heading
    under = escape(figure.subtitle) if figure and told else escape(reason)
    can_open = figure is not None and bool(reason)
    return (
        f'<section class="card panel{"" if told else " folded"}" id="{name}" data-contents="{heading}">{choice}'
        f'<div class="head"><h3 id="title-{name}">{title}</h3><p class="under" id="under-{name}">{under}</p>'
        f'<button type="button" class="fold" id="fold-{name}" aria-controls="body-{name}" aria-expanded="false"'
        f"{_hidden(not can_open)}>Show</button></div>"
        f'<div id="body-{name}"{_hidden(not told)}>{_plot(name, figure)}'
        f'<p class="note" id="note-{name}">{escape(figure.note) if figure else ""}</p>{_tools(name)}'
        f'<div class="data" id="data-{name}" hidden></div></div></section>'
    )


def _plot(name: str, figure: Figure | None) -> str:
    """Return the place of the drawing, with its height."""
    tall = figure.layout["height"] if figure else 0
    narrow = figure.narrow.get("height", tall) if figure else 0
    return (
        f'<div class="plot" id="plot-{name}" style="--tall:{tall}px;--tall-narrow:{narrow}px" role="img" tabindex="0"'
        f' aria-labelledby="title-{name}" aria-describedby="under-{name} zoom-keys"></div>'
    )


def _hidden(is_hidden: bool) -> str:
    return " hidden" if is_hidden else ""


def _tools(name: str) -> str:
    """Return the buttons that save a figure, and the one that shows its numbers as a table."""
    saves = "".join(
        f'<button type="button" data-save="{kind}" aria-label="Save as {kind.upper()}, {what}">{kind.upper()}</button>'
        for kind, what in _SAVED_AS.items()
    )
    table = f'<button type="button" data-table aria-expanded="false" aria-controls="data-{name}">Table</button>'
    return f'<div class="tools" role="group" aria-label="Save the figure">Save {saves}{table}</div>'
