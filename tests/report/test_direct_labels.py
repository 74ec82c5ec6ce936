"""Names beside curves: near their own, away from all others, or not at all."""

from __future__ import annotations

import numpy as np

from clustersim.report.direct_labels import label_places


def line(start: tuple[float, float], end: tuple[float, float]) -> np.ndarray:
    share = np.linspace(0.0, 1.0, 50)[:, None]
    return np.array(start) * (1 - share) + np.array(end) * share


def test_two_curves_far_apart_both_have_their_names() -> None:
    curves = [line((0, 100), (400, 0)), line((0, 300), (400, 200))]
    first, second = label_places(curves, ["one", "two"], (400, 300))
    assert first is not None
    assert second is not None
    # both rise: a name is above and left, or below and right
    assert first.is_above == first.is_left
    assert second.is_above == second.is_left


def test_falling_curves_have_names_above_and_right_or_below_and_left() -> None:
    (place,) = label_places([line((0, 0), (400, 300))], ["one"], (400, 300))
    assert place is not None
    assert place.is_above != place.is_left


def test_curves_on_top_of_each_other_have_no_names() -> None:
    curves = [line((0, 100), (400, 0)), line((0, 101), (400, 1)), line((0, 99), (400, -1))]
    assert label_places(curves, ["one", "two", "three"], (400, 300)) == [None, None, None]


def test_a_name_keeps_away_from_what_is_taken_and_inside_the_plot() -> None:
    everywhere = np.array([(x, y) for x in range(0, 400, 5) for y in range(0, 300, 5)], dtype=float)
    curve = line((0, 200), (400, 100))
    assert label_places([curve], ["one"], (400, 300), [everywhere]) == [None]
    assert label_places([curve], ["a name that is much wider than the plot is" * 2], (400, 300)) == [None]
