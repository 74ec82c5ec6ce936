"""Interpolation on a grid: exact for powers, within stated residuals for a law with steps, nothing outside."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from clustersim.kernels.measured_tables.grid import TimeGrid

SIZES = (np.array([32.0, 64.0, 256.0, 1024.0]), np.array([64.0, 128.0, 4096.0]), np.array([32.0, 512.0, 8192.0]))


def power(points: np.ndarray) -> np.ndarray:
    return 3e-9 * points[:, 0] ** 0.8 * points[:, 1] * points[:, 2] ** 1.2


def grid_of(law: object, axes: tuple[np.ndarray, ...] = SIZES) -> TimeGrid:
    points = np.stack([each.ravel() for each in np.meshgrid(*axes, indexing="ij")], axis=1)
    return TimeGrid.of_rows(list(points.T), law(points))  # type: ignore[operator]


@given(st.floats(32, 1024), st.floats(64, 4096), st.floats(32, 8192))
def test_a_product_of_powers_is_met_exactly(m: float, n: float, k: float) -> None:
    point = np.array([[m, n, k]])
    assert grid_of(power).seconds(point) == pytest.approx(power(point), rel=1e-9)


@given(st.floats(32, 1024), st.floats(64, 4096), st.floats(32, 8192))
def test_a_time_lies_between_those_of_its_neighbours(m: float, n: float, k: float) -> None:
    rng = np.random.default_rng(0)
    grid = TimeGrid(SIZES, rng.normal(size=(4, 3, 3)))
    seconds = grid.seconds(np.array([[m, n, k]]))[0]
    corners = [
        axis[[max(np.searchsorted(axis, size) - 1, 0), min(np.searchsorted(axis, size), len(axis) - 1)]]
        for axis, size in zip(SIZES, (m, n, k), strict=True)
    ]
    around = np.stack([each.ravel() for each in np.meshgrid(*corners, indexing="ij")], axis=1)
    known = grid.seconds(around)
    assert known.min() * (1 - 1e-9) <= seconds <= known.max() * (1 + 1e-9)


def test_measured_points_keep_their_times() -> None:
    grid = TimeGrid(SIZES, np.random.default_rng(1).normal(size=(4, 3, 3)))
    for axis, sizes in enumerate(SIZES):
        for index in range(len(sizes)):
            points, seconds = grid.at(axis, index)
            assert grid.seconds(points) == pytest.approx(seconds, rel=1e-12)


def test_nothing_is_extrapolated() -> None:
    grid = grid_of(power)
    outside = np.array([[31, 64, 32], [1025, 64, 32], [32, 63, 32], [32, 4097, 32], [32, 64, 31], [32, 64, 8193]])
    assert np.isnan(grid.seconds(outside.astype(float))).all()
    inside = grid.nearest(outside.astype(float))
    assert np.isfinite(grid.seconds(inside)).all()
    assert inside[1].tolist() == [1024, 64, 32]


def test_beside_a_missing_neighbour_there_is_no_time() -> None:
    table = np.zeros((4, 3, 3))
    table[1, 1, 1] = np.nan
    grid = TimeGrid(SIZES, table)
    assert np.isnan(grid.seconds(np.array([[50.0, 100.0, 100.0]]))[0])
    assert grid.seconds(np.array([[50.0, 64.0, 32.0]]))[0] == 1.0  # its two neighbours are there
    assert grid.num_points == 35


def test_a_point_measured_several_times_has_the_median() -> None:
    sizes = [np.array([1, 1, 1, 2]), np.array([4, 4, 4, 4])]
    assert TimeGrid.of_rows(sizes, np.array([3.0, 1.0, 2.0, 5.0])).seconds(np.array([[1.0, 4.0]])) == pytest.approx(
        [2.0]
    )
    two = TimeGrid.of_rows([np.array([1, 1]), np.array([4, 4])], np.array([2.0, 8.0]))
    assert two.seconds(np.array([[1.0, 4.0]])) == pytest.approx([4.0])


def test_the_order_of_rows_does_not_matter() -> None:
    points = np.stack([each.ravel() for each in np.meshgrid(*SIZES, indexing="ij")], axis=1)
    order = np.random.default_rng(2).permutation(len(points))
    assert (
        grid_of(power).log_seconds == TimeGrid.of_rows(list(points[order].T), power(points[order])).log_seconds
    ).all()


def test_a_few_shapes_beside_the_grid_are_left_out() -> None:
    points = np.stack([each.ravel() for each in np.meshgrid(np.arange(1, 11), np.arange(1, 11))], axis=1)
    points = np.concatenate([points, [[3.5, 2.0]]])
    assert len(TimeGrid.of_rows(list(points.T), points[:, 0]).axes[0]) == 10


# leaving points out, of times as kernels have them: a floor, a roofline, and waves of tiles


def kernel(points: np.ndarray) -> np.ndarray:
    m, n, k = points.T
    waves = np.ceil(np.ceil(m / 128) * np.ceil(n / 128) / 132)
    compute_s = waves * 2 * 128 * 128 * k / (800e12 / 132)
    return 2.5e-6 + np.maximum(compute_s, 2 * (m * k + k * n + m * n) / 3e12)


AXES = (
    np.array([1, 16, 64, 256, 512, 1024, 1025, 1536, 2048, 4096, 4097, 8192.0]),
    np.array([64, 256, 1024, 1536, 2048, 3072, 4096, 8192.0]),
    np.array([64, 256, 1024, 2048, 4096, 8192.0]),
)


@pytest.mark.parametrize("axis", range(3))
def test_left_out_points_of_a_kernel_are_met_within_a_few_percent(axis: int) -> None:
    grid, residuals = grid_of(kernel, AXES), []
    for index in range(1, len(AXES[axis]) - 1):
        points, seconds = grid.at(axis, index)
        residuals.append(np.log(grid.without(axis, index).seconds(points) / seconds))
    found = np.abs(np.concatenate(residuals))
    assert np.isfinite(found).all()
    assert np.median(found) < 0.10
    assert found.max() > 0.02  # the test would see a point that gave itself away


def test_a_value_beside_the_one_left_out_goes_too() -> None:
    grid = grid_of(kernel, AXES)
    assert 4097 not in grid.without(0, 9).axes[0]
    assert 1.0 in grid.without(0, 1).axes[0]
