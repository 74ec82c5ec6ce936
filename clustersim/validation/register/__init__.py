"""The register: forecasts that were written down before the measured figures were known.

An entry is a folder of `validate/register/`, or of a register of your own: a scenario (`scenario.yaml`), the points to
forecast (`points.csv`), what was known and assumed (`source.md`), the forecasts as they were first made
(`forecast.json`), and the figures, typed in later (`measured.csv`). A first forecast is never rewritten; the same
files simulated by the present version give a second error beside the first. Nothing here is fitted.
"""

from clustersim.validation.register.add import NewEntry, add_entry
from clustersim.validation.register.entry import RegisterEntry, load_entries, shipped_entries
from clustersim.validation.register.first import FirstForecast, FirstForecasts, Migration
from clustersim.validation.register.migrate import note_migration
from clustersim.validation.register.rows import RegisterRow, register_rows
from clustersim.validation.register.score import EntryScore, RegisterScore, score_register

__all__ = [
    "EntryScore",
    "FirstForecast",
    "FirstForecasts",
    "Migration",
    "NewEntry",
    "RegisterEntry",
    "RegisterRow",
    "RegisterScore",
    "add_entry",
    "load_entries",
    "note_migration",
    "register_rows",
    "score_register",
    "shipped_entries",
]
