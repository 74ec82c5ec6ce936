"""Colours: each has one meaning in all figures.

Parts of time have the colours of Okabe and Ito (Color Universal Design, 2008), which colour-blind readers can
distinguish; waiting has the most salient one. Compute is blue, its parts lighter and darker; communication is green.
Series differ by marker and by Tol's muted hues (SRON/EPS/TN/09-002, 2021), which no part uses. Loads use the magma
scale (van der Walt and Smith, 2015), oriented so that a higher load contrasts more with the page.

A colour that depends on the light or dark theme is a token (`@ink`): the page's script inserts the theme's value.
"""

from __future__ import annotations

PARTS = {
    "compute": "#2b93cd",
    "slowed": "#9fb4c4",
    "forward": "#56b4e9",
    "backward": "#0072b2",
    "weights": "@weights",
    "recompute": "#56b4e9",
    "update": "#e69f00",
    "communication": "@flight",
    "communication_exposed": "#009e73",
    "exposed": "#009e73",
    "copy": "@copy",
    "host-update": "#f5c36b",
    "host": "#6a3d9a",
    "waiting": "#d55e00",
    "input": "#cc79a7",
    "bubble": "#f0e442",
    "offload": "#a65628",
    "recovery": "#8a8a8a",
}
"""Colour of each part of an iteration and of each kind of span."""

LABELS = {
    "compute": "compute",
    "slowed": "compute slowed by collectives",
    "forward": "forward",
    "backward": "backward",
    "weights": "weight gradients, deferred",
    "recompute": "recomputed forward",
    "update": "update",
    "communication": "communication in flight",
    "communication_exposed": "exposed communication",
    "exposed": "exposed communication",
    "copy": "copy",
    "host-update": "update on the host",
    "host": "waiting for the host to issue kernels",
    "waiting": "waiting for other ranks",
    "input": "input",
    "bubble": "pipeline bubble",
    "offload": "waiting for offloaded data",
    "recovery": "recovery",
}
"""Label of each part of an iteration and of each kind of span."""

KIND_PATTERNS = {"recompute": "/"}
"""Hatching of kinds of spans that repeat another kind."""

PROVENANCE_PATTERNS = {"measured": "", "published": ".", "estimated": "/", "anchored": "x"}
"""Hatching by the provenance of a compute time."""

MARKERS = ("circle", "square", "diamond", "triangle-up", "x", "star", "hexagon")
DASHES = ("solid", "longdash", "dot", "dashdot", "dash", "longdashdot")
NUM_SERIES_HUES = 6
NUM_LOAD_STEPS = 8

LIGHT = {
    "ink": "#1b1f24",
    "muted": "#5b6570",
    "grid": "#e3e7eb",
    "surface": "#ffffff",
    "mark": "#fdebdd",
    "box": "#f1f4f7",
    "flight": "#9fdcc6",
    "copy": "#66a896",
    "weights": "#003f66",
    "series0": "#332288",
    "series1": "#aa4466",
    "series2": "#7a7a1e",
    "series3": "#2a8c82",
    "series4": "#9c4fc0",
    "series5": "#6b5a4b",
    **{
        f"load{step}": colour
        for step, colour in enumerate(
            ("#feb078", "#fc8961", "#f1605d", "#d3436e", "#b73779", "#8c2981", "#641a80", "#3b0f70")
        )
    },
}
DARK = {
    "ink": "#e8ebee",
    "muted": "#a3adb8",
    "grid": "#343b43",
    "surface": "#14181c",
    "mark": "#3d2817",
    "box": "#20262c",
    "flight": "#2f6f5b",
    "copy": "#4f8f7d",
    "weights": "#b5cfe8",
    "series0": "#a99df2",
    "series1": "#ee8fae",
    "series2": "#cfcf62",
    "series3": "#63cabd",
    "series4": "#d39bf0",
    "series5": "#c8b5a3",
    **{
        f"load{step}": colour
        for step, colour in enumerate(
            ("#6b2a85", "#8c2981", "#b73779", "#d3436e", "#f1605d", "#fc8961", "#feb078", "#fcfdbf")
        )
    },
}


def series_colour(number: int) -> str:
    """Return the token of the hue of the series of that number."""
    return f"@series{number % NUM_SERIES_HUES}"


def series_marker(number: int) -> str:
    """Return the marker of the series of that number; hue and marker together repeat after 42 series."""
    return MARKERS[number % len(MARKERS)]


def series_dash(number: int) -> str:
    """Return the dashes of the curve of the series of that number, for figures where markers are few.

    >>> [series_dash(number) for number in (0, 5, 6, 12)]  # a hue that comes again has other dashes
    ['solid', 'longdashdot', 'longdash', 'dot']
    """
    return DASHES[(number + number // NUM_SERIES_HUES) % len(DASHES)]


def load_colour(share: float) -> str:
    """Return the token of a load between 0 and 1.

    >>> load_colour(0.0), load_colour(1.0)
    ('@load0', '@load7')
    """
    assert share >= 0.0, share
    return f"@load{min(NUM_LOAD_STEPS - 1, int(share * NUM_LOAD_STEPS))}"


def load_scale() -> list[list[float | str]]:
    """Return the loads' colours as a plotly colour scale."""
    return [[step / (NUM_LOAD_STEPS - 1), f"@load{step}"] for step in range(NUM_LOAD_STEPS)]


def text_on(colour: str) -> str:
    """Return black or white, by the higher contrast on a colour (WCAG 2.2); tokens get the page's ink.

    >>> text_on("#0072b2"), text_on("#56b4e9")
    ('#ffffff', '#000000')
    """
    if colour.startswith("@"):
        return "@ink"
    channels = [int(colour[start : start + 2], 16) / 255 for start in (1, 3, 5)]
    linear = [value / 12.92 if value <= 0.04045 else ((value + 0.055) / 1.055) ** 2.4 for value in channels]
    luminance = 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]
    return "#ffffff" if 1.05 / (luminance + 0.05) > (luminance + 0.05) / 0.05 else "#000000"
