"""Draws docs/images/llama-h100.png: forecasts of Llama on H100 beside what was measured.

    python tools/llama_picture.py

Every scored figure of the shipped cases (`validate/`) for Llama 2, 3 or 3.1 on H100, as tokens a second and GPU.
Errors are those of `clustersim/results/bands.json`, which `make validation` writes; nothing is simulated here. Needs
Chromium and the extra `browser`.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from math import log10
from pathlib import Path
from statistics import median, quantiles

from gallery import browser_page, save_png

from clustersim.model import load_model
from clustersim.scenario import load_scenario
from clustersim.scenario.anchors import gpus_of
from clustersim.validation.case import Case, load_cases

ROOT = Path(__file__).resolve().parent.parent
PICTURE = ROOT / "docs" / "images" / "llama-h100.png"
PROGRAMS = {  # cases of one program have one colour: Okabe and Ito's palette
    "torchtitan": ("torchtitan", "#0072B2"),
    "aws-torchtitan": ("torchtitan", "#0072B2"),
    "flagperf": ("Megatron-LM (FlagPerf)", "#E69F00"),
    "maxtext-a3": ("MaxText", "#009E73"),
    "dgxc-jax": ("MaxText", "#009E73"),
}
OTHERS = ("NeMo, Megatron Bridge", "#CC79A7")


@dataclass(frozen=True)
class Point:
    """One published figure and its forecast, in tokens a second and GPU."""

    case: str
    num_gpus: int
    measured: float
    forecast: float


def points() -> list[Point]:
    """Return every figure of a Llama on H100 that a case predicts."""
    seen = json.loads((ROOT / "clustersim" / "results" / "bands.json").read_text(encoding="utf-8"))["seen_errors"]
    return [point for case in load_cases() if "llama" in _texts(case) for point in _of_case(case, seen[case.name])]


def _texts(case: Case) -> str:
    paths = [*case.folder.glob("*.yaml"), case.folder / "measured.csv"]
    return "".join(path.read_text(encoding="utf-8") for path in paths)


def _of_case(case: Case, errors: list[float]) -> Iterator[Point]:
    rows = [row for row in case.rows if row.role == "prediction" and row.provenance == "read"]
    for row, error in zip(rows, errors, strict=True):
        question = case.question(row)
        (found,) = load_scenario(str(question.file), overrides=question.overrides).points()
        point = found.point
        model = load_model(point.model)
        if not point.model.startswith("llama") or not all(name.startswith("h100") for name in gpus_of(point)):
            continue
        tokens = (model.tokens or 1) * point.global_batch / point.num_gpus
        per_s = row.value / point.global_batch if row.metric == "samples_per_s" else 1.0 / row.value
        gain = 1.0 + error if row.metric == "samples_per_s" else 1.0 / (1.0 + error)
        yield Point(case.name, point.num_gpus, tokens * per_s, tokens * per_s * gain)


def figure(found: list[Point]) -> dict[str, object]:
    """Return the picture: forecast over measured on logarithmic axes, with the diagonal and 10 % beside it."""
    low, high = min(each.measured for each in found) * 0.7, max(each.measured for each in found) * 1.4
    line = {"type": "scatter", "mode": "lines", "hoverinfo": "skip"}
    traces: list[dict[str, object]] = [
        {
            **line,
            "x": [low, high, high, low],
            "y": [0.9 * low, 0.9 * high, 1.1 * high, 1.1 * low],
            "fill": "toself",
            "fillcolor": "#e8e8ee",
            "line": {"width": 0},
            "name": "within 10 %",
        },
        {
            **line,
            "x": [low, high],
            "y": [low, high],
            "line": {"color": "#888", "width": 1, "dash": "dash"},
            "showlegend": False,
        },
    ]
    for name, colour in dict.fromkeys([*PROGRAMS.values(), OTHERS]):
        mine = [each for each in found if PROGRAMS.get(each.case, OTHERS)[0] == name]
        traces.append(
            {
                "type": "scatter",
                "mode": "markers",
                "name": name,
                "x": [each.measured for each in mine],
                "y": [each.forecast for each in mine],
                "marker": {"size": 10, "color": colour, "line": {"color": "white", "width": 1}},
            }
        )
    return {"data": traces, "layout": _layout(low, high)}


def _layout(low: float, high: float) -> dict[str, object]:
    axis = {
        "type": "log",
        "range": [log10(low), log10(high)],
        "tickvals": [500, 1000, 2000, 5000, 10000, 20000],
        "ticktext": ["500", "1,000", "2,000", "5,000", "10,000", "20,000"],
        "gridcolor": "#eee",
        "linecolor": "#444",
        "zeroline": False,
    }
    return {
        "width": 760,
        "height": 470,
        "margin": {"l": 80, "r": 20, "t": 10, "b": 55},
        "font": {"family": "sans-serif", "size": 14, "color": "#222"},
        "paper_bgcolor": "white",
        "plot_bgcolor": "white",
        "xaxis": {**axis, "title": {"text": "measured (tokens a second and GPU)"}},
        "yaxis": {**axis, "title": {"text": "forecast"}},
        "legend": {"x": 0.02, "y": 0.98, "bgcolor": "rgba(255,255,255,0.8)"},
    }


def title(found: list[Point]) -> str:
    """Return the finding, from the points."""
    errors = [abs(each.forecast / each.measured - 1.0) for each in found]
    sizes = [each.num_gpus for each in found]
    return (
        f"Llama on {min(sizes)} to {max(sizes):,} H100: half of {len(found)} published figures are forecast within "
        f"{100 * median(errors):.0f} %, nine in ten within {100 * quantiles(errors, n=10)[-1]:.0f} %"
    )


def main() -> None:
    found = points()
    print(title(found))
    num_cases = len({each.case for each in found})
    under = f"Published figures of {num_cases} sources, all known while clustersim was developed."
    with browser_page() as page:
        save_png(page, figure(found), title(found), under, PICTURE)


if __name__ == "__main__":
    main()
