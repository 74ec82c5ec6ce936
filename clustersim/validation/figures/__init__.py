"""Plots of a validation, each with a data function and a draw function."""

from clustersim.validation.figures.by_case import by_case_data, draw_by_case
from clustersim.validation.figures.by_size import by_size_data, draw_by_size
from clustersim.validation.figures.curves import curves_data, draw_curves
from clustersim.validation.figures.scatter import draw_scatter, scatter_data

__all__ = [
    "by_case_data",
    "by_size_data",
    "curves_data",
    "draw_by_case",
    "draw_by_size",
    "draw_curves",
    "draw_scatter",
    "scatter_data",
]
