"""The controls of the page: a slider for each number, a list for each choice."""

from __future__ import annotations

from typing import Any

from dash import dcc, html

from clustersim.what_if.knob import Knob


def control(number: int, knob: Knob) -> Any:
    """Return the control of a knob, by its number; its value is the number of the stop."""
    parts = (_slider if _form(knob) == "slider" else _list)(number, knob)
    label = html.Div(_label(number, knob), className="knob-label", id=f"label-{number}")
    return html.Div([label, parts], className="knob", role="group", **{"aria-labelledby": f"label-{number}"})


def value_id(number: int) -> dict[str, int]:
    """Return the identifier of the control with the value of a knob."""
    return {"knob": number}


def shown_id(number: int) -> dict[str, int]:
    """Return the identifier of the text that shows the value of a slider."""
    return {"shown": number}


def described(knob: Knob) -> dict[str, Any]:
    """Return what the page's script needs to know of a knob."""
    unit = f" {knob.unit}" if knob.unit and _form(knob) == "slider" else ""
    labels = [stop.label if unit.strip() in stop.label else f"{stop.label}{unit}" for stop in knob.stops]
    return {
        "name": knob.name,
        "now": knob.current,
        "texts": [stop.text for stop in knob.stops],
        "labels": labels,
    }


def _form(knob: Knob) -> str:
    return "slider" if knob.kind == "number" else "list"


def _label(number: int, knob: Knob) -> list[Any]:
    if _form(knob) == "list":
        return [html.Span(knob.label)]
    return [html.Span(knob.label), html.Output(described(knob)["labels"][knob.current], id=shown_id(number))]


def _slider(number: int, knob: Knob) -> Any:
    return dcc.Slider(
        id=value_id(number),
        min=0,
        max=len(knob.stops) - 1,
        step=1,
        marks={place: "" for place in range(len(knob.stops))},
        value=knob.current,
        updatemode="mouseup",
        allow_direct_input=False,
    )


def _list(number: int, knob: Knob) -> Any:
    options = [{"label": stop.label, "value": place} for place, stop in enumerate(knob.stops)]
    return dcc.Dropdown(
        options, knob.current, id=value_id(number), clearable=False, searchable=len(options) > 8, maxHeight=320
    )
