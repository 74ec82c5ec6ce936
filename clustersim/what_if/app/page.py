"""The Dash application of one scenario."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from importlib.resources import files
from typing import Any

from dash import ALL, ClientsideFunction, Dash, Input, Output, State, dcc, html, no_update
from dash.exceptions import PreventUpdate

from clustersim.errors import InputError
from clustersim.report.figure import Figure
from clustersim.report.palette import DARK, LIGHT
from clustersim.report.words import gpus
from clustersim.results.files import to_json
from clustersim.what_if.app.controls import control, described, value_id
from clustersim.what_if.app.guard import guard, title_markup
from clustersim.what_if.app.turns import Superseded, TooLong, Turns
from clustersim.what_if.comparison import HEADINGS, compare
from clustersim.what_if.evaluation import FIGURE_NAMES, Evaluation, refusal_parts
from clustersim.what_if.study import WhatIf

_INDEX = """<!DOCTYPE html>
<html lang="en">
<head>
{%metas%}
<link rel="icon" href="data:,">
<title>{%title%}</title>
{%css%}
</head>
<body>
{%app_entry%}
{%config%}
{%scripts%}
{%renderer%}
</body>
</html>
"""

_PLOT: dict[str, Any] = {"displaylogo": False, "showSendToCloud": False, "displayModeBar": False}


def page_app(study: WhatIf, port: int) -> Any:
    """Return the WSGI application that serves the page of a scenario on a port of this machine."""
    app = Dash(
        __name__,
        title=title_markup(f"{study.name}: what if"),
        update_title=None,
        serve_locally=True,
        index_string=_INDEX,
        enable_mcp=False,
        websocket_callbacks=False,
        add_log_handler=False,
    )
    guard(app.server, port)
    _serve_shared(app)
    app.layout = _layout(study)
    _connect(app, study)
    return app.server


def _serve_shared(app: Any) -> None:
    """Serve the style of the report, and the script that paints its figures with this page's own."""
    from flask import Response

    style = _resource("clustersim.report", "page.css") + _resource(__package__, "what_if.css")
    themes = f"const THEMES = {to_json({'light': LIGHT, 'dark': DARK})};"
    parts = (
        "(() => {",
        _resource("clustersim.report", "shared.js"),
        themes,
        _resource(__package__, "what_if.js"),
        "})();",
    )
    script = "\n".join(parts)
    app.server.add_url_rule("/style.css", "style", lambda: Response(style, mimetype="text/css"))
    app.server.add_url_rule("/script.js", "script", lambda: Response(script, mimetype="text/javascript"))
    app.config.external_stylesheets = ["/style.css"]
    app.config.external_scripts = ["/script.js"]


def _resource(package: str | None, name: str) -> str:
    return files(str(package)).joinpath(name).read_text(encoding="utf-8")


def _layout(study: WhatIf) -> Any:
    knobs = [described(knob) for knob in study.knobs]
    return html.Div(
        [
            dcc.Store(id="knobs", data=knobs),
            dcc.Store(id="state"),
            dcc.Store(id="drawn"),
            dcc.Store(id="window"),
            html.Aside(_side(study), className="knobs", **{"aria-label": "What may be changed"}),
            html.Main(_main(study)),
        ],
        className="what-if",
    )


def _side(study: WhatIf) -> list[Any]:
    return [
        html.P(study.name, className="name"),
        html.H2("What if"),
        *(control(number, knob) for number, knob in enumerate(study.knobs)),
        html.Div(
            [html.Button("Back to the scenario", id="reset", type="button", className="plain")],
            className="buttons",
        ),
    ]


def _main(study: WhatIf) -> list[Any]:
    return [
        html.Div(id="refusal", className="refusal", role="alert"),
        html.Div(
            [
                html.Header([html.H1(id="headline"), html.P(id="warnings", className="note")]),
                html.Div(
                    [
                        html.Button("Pin this run", id="pin", type="button"),
                        html.Button("Unpin", id="unpin", type="button", className="plain"),
                    ],
                    className="buttons",
                ),
                html.Div(id="differences"),
                html.Div([_card("scaling"), html.Div([_card("breakdown"), html.Div(id="runs")])], className="beside"),
                _card("timeline"),
                _text_card("The command", "Forecasts the same, and writes the report.", "command"),
                _text_card("The scenario", "With all changes.", "scenario"),
            ],
            id="results",
            className="results",
        ),
        html.Footer("Served on this machine, to this machine only. Nothing is loaded from elsewhere."),
    ]


def _card(name: str) -> Any:
    return html.Section(
        [
            html.H3(id=f"title-{name}"),
            html.P(id=f"under-{name}", className="under"),
            dcc.Graph(id=f"plot-{name}", config=_PLOT, responsive=True),
            html.P(id=f"note-{name}", className="note"),
        ],
        id=name,
        className="card",
    )


def _text_card(title: str, under: str, name: str) -> Any:
    return html.Section(
        [
            html.Button("Copy", id=f"copy-{name}", type="button", className="plain copy"),
            html.H3(title),
            html.P(under, className="under"),
            html.Pre(id=name),
        ],
        className="card",
    )


def _connect(app: Any, study: WhatIf) -> None:
    """Connect knobs, evaluations and figures."""
    values = Input({"knob": ALL}, "value")
    app.clientside_callback(
        ClientsideFunction("whatIf", "state"),
        Output("state", "data"),
        values,
        *(Input(button, "n_clicks") for button in ("pin", "unpin", "reset")),
        State("knobs", "data"),
        State("state", "data"),
    )
    app.clientside_callback(
        ClientsideFunction("whatIf", "labels"), Output({"shown": ALL}, "children"), values, State("knobs", "data")
    )
    figure_parts = [Output(f"{part}-{name}", prop) for name in FIGURE_NAMES for part, prop in _FIGURE_PARTS]
    app.clientside_callback(
        ClientsideFunction("whatIf", "draw"),
        *figure_parts,
        *(Output(name, "hidden") for name in FIGURE_NAMES),
        Input("drawn", "data"),
        Input("window", "data"),
        prevent_initial_call=True,
    )
    for name in ("command", "scenario"):
        app.clientside_callback(
            ClientsideFunction("whatIf", "copy"),
            Output(f"copy-{name}", "children"),
            Input(f"copy-{name}", "n_clicks"),
            State(name, "children"),
            prevent_initial_call=True,
        )
    outputs = [Output(name, "children") for name in ("refusal", "headline", "warnings", "differences", "runs")]
    app.callback(
        *outputs,
        Output("command", "children"),
        Output("scenario", "children"),
        Output("drawn", "data"),
        Output("results", "className"),
        Output("unpin", "disabled"),
        *(Output(value_id(number), "disabled") for number in range(len(study.knobs))),
        Input("state", "data"),
        prevent_initial_call=True,
        running=[(Output("results", "aria-busy"), "true", "false")],
    )(_Answers(study).of)


_FIGURE_PARTS = (
    ("plot", "figure"),
    ("plot", "style"),
    ("title", "children"),
    ("under", "children"),
    ("note", "children"),
)


class _Answers:
    """Answers what the page sends; a page that has sent more since does not get an answer to what it sent before."""

    def __init__(self, study: WhatIf):
        self._study, self._turns = study, Turns()

    def of(self, state: Any) -> tuple[Any, ...]:
        """Return everything that the page shows for a state: settings, and those of the pinned run."""
        settings, pinned = _settings(state, "settings"), _settings(state, "pinned")
        dropped: list[str] = []
        if pinned is not None:
            pinned, dropped = self._study.known(pinned)
        disabled = _disabled(self._study, settings or {})
        try:
            check = self._turns.check_of(state)
            now = self._study.evaluate(settings or {}, check)
            then = None if pinned is None else self._study.evaluate(pinned, check)
        except Superseded:
            raise PreventUpdate from None
        except InputError as error:
            return _refused([*map(refusal_parts, error.mistakes)], pinned, disabled)
        except TooLong as error:
            return _refused([(str(error), "")], pinned, disabled)
        return (
            _refused([*map(refusal_parts, now.mistakes)], pinned, disabled)
            if now.is_refused
            else self._good(now, then, disabled, dropped)
        )

    def _good(
        self, now: Evaluation, then: Evaluation | None, disabled: Sequence[bool], dropped: Sequence[str]
    ) -> tuple[Any, ...]:
        comparison = None if then is None else compare(then, now, self._study.knobs)
        figures = now.figures if comparison is None else comparison.figures
        return (
            "",
            now.headline,
            _notes(now, dropped),
            _table("Against the pinned run", HEADINGS, comparison.rows) if comparison else "",
            _table("Every size on the curve", *now.table),
            now.command,
            now.scenario_text,
            {name: _drawing(figure) for name, figure in figures.items()},
            "results",
            then is None,
            *disabled,
        )


def _refused(
    messages: Sequence[tuple[str, str]], pinned: Mapping[str, str] | None, disabled: Sequence[bool]
) -> tuple[Any, ...]:
    """Return the messages, each a sentence and the rest of it; everything else stays as it was, greyed."""
    text = [html.Strong("This does not work. "), html.Span("Below is the last forecast that does.")]
    for sentence, rest in messages:
        text.append(html.P(sentence))
        if rest:
            text.append(html.Details([html.Summary("Why, and what would work"), html.P(rest)]))
    return (text, *[no_update] * 7, "results old", pinned is None, *disabled)


def _settings(state: Any, key: str) -> dict[str, str] | None:
    """Return settings that the page sent, as texts by name; anything else is no setting."""
    sent = state.get(key) if isinstance(state, dict) else None
    if not isinstance(sent, dict):
        return None
    return {str(name): str(text) for name, text in sent.items()}


def _disabled(study: WhatIf, settings: Mapping[str, str]) -> list[bool]:
    """Return for each knob whether the strategy of these settings has no use for it."""
    kind = study.strategy_kind(settings)
    return [bool(knob.kinds) and kind not in knob.kinds for knob in study.knobs]


def _notes(found: Evaluation, dropped: Sequence[str]) -> str:
    left_out = [f"Not on the curve, {gpus(size)}: {why.splitlines()[0]}." for size, why in found.left_out.items()]
    gone = [f"The pinned run has no {each} any more: no knob of this scenario has it." for each in dropped]
    return " ".join([*(found.sweep.warnings if found.sweep else ()), *left_out, *gone])


def _table(title: str, headings: Sequence[str], rows: Sequence[Sequence[str]]) -> Any:
    head = html.Tr(
        [html.Th(heading, className="number" if place else "words") for place, heading in enumerate(headings)]
    )
    body = [
        html.Tr([html.Td(cell, className="number" if place else "words") for place, cell in enumerate(row)])
        for row in rows
    ]
    table = html.Table([html.Thead(head), html.Tbody(body)])
    return html.Section([html.H3(title), html.Div(table, className="scroll")], className="card")


def _drawing(figure: Figure) -> dict[str, Any]:
    return {**figure.drawing(), "title": figure.title, "subtitle": figure.subtitle, "note": figure.note}
