"""First screen of the report: one sentence, a few numbers, and the table of all runs."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal

from clustersim.report.band import NEVER_CHECKED, band_basis, band_cell, band_heading, band_range
from clustersim.report.baselines import baseline_cell
from clustersim.report.machine import IDEAL
from clustersim.report.palette import LABELS
from clustersim.report.published import comparisons, error_summary
from clustersim.report.series import (
    axis_cell,
    axis_headings,
    has_one_baseline,
    headline,
    largest,
    series,
    setting,
    varied,
)
from clustersim.report.words import count, duration, gpus, percent, plural, size, times
from clustersim.results import BREAKDOWN, Run, Sweep

_TOLD = 0.05
"""Share of an iteration from which on a part of it is named as a limit."""

_MOST_LIMITS = 4


@dataclass(frozen=True)
class Tile:
    """One number of the first screen, its label, and a note that qualifies it."""

    label: str
    value: str
    note: str


def answer(sweep: Sweep) -> str:
    """Return the forecast in one sentence."""
    run = headline(sweep)
    subject = gpus(run.num_gpus)
    name = setting(sweep, run)
    subject = f"{subject} ({name})" if name else subject
    verb = "trains" if run.num_gpus == 1 else "train"
    rate = f"{subject} {verb} {count(run.samples_per_s)} samples per second{_between_words(run)}"
    if run.has_ideal_network:
        rate = f"On an {IDEAL}, {rate}"
    if run.speedup is not None and run.num_gpus > 1:
        rate += f", {times(run.speedup)} the baseline"
    if run.time_to_train_s is not None:
        epochs = sweep.scenario.get("epochs")
        what = f"{plural(epochs, 'epoch')} take" if epochs and epochs != 1 else "training takes"
        rate += f"; {what} {duration(run.time_to_train_s)}"
    return f"{rate}."


def limits(sweep: Sweep) -> tuple[str, ...]:
    """Return what takes the time of the runs on the most GPUs, at most four of them, the fastest first."""
    return tuple(_limits(sweep, run) for run in largest(sweep)[:_MOST_LIMITS])


def real_tokens(sweep: Sweep) -> tuple[str, ...]:
    """Return the real tokens per second of the runs on the most GPUs, where documents are packed or padded."""
    return tuple(
        f"real tokens of {gpus(run.num_gpus)}: {count(run.facts['real_tokens_per_s'])}/s, "
        f"{percent(run.facts['real_token_share'])} of all; {count(run.facts['documents_per_s'])} documents/s"
        for run in largest(sweep)[:_MOST_LIMITS]
        if "real_tokens_per_s" in run.facts
    )


def _limits(sweep: Sweep, run: Run) -> str:
    """Return the parts of a run's iteration from 5 % on, the largest first, and the busiest kind of link."""
    shares = {part: run.breakdown_s.get(part, 0.0) / run.iteration_s for part in BREAKDOWN}
    told = sorted((part for part in shares if shares[part] >= _TOLD), key=lambda part: -shares[part])
    name = setting(sweep, run)
    subject = f"{gpus(run.num_gpus)} ({name})" if name else gpus(run.num_gpus)
    parts = ", ".join(f"{LABELS[part]} {percent(shares[part])}" for part in told)
    busiest = max(run.link_classes, key=lambda links: links.max_utilisation, default=None)
    if "communication_exposed" not in told or busiest is None:
        return f"limits of {subject}: {parts}"
    return f"limits of {subject}: {parts}; busiest link {busiest.kind}, at {percent(busiest.max_utilisation)}"


def _between_words(run: Run) -> str:
    """Return the band of a run in parentheses; empty without one."""
    if run.band is None:
        return ""
    words = f"{NEVER_CHECKED}, " if run.band.unchecked else ""
    return f" ({words}{percent(run.band.level)} band {band_range(run.band.samples_per_s)})"


def tiles(sweep: Sweep) -> tuple[Tile, ...]:
    """Return the numbers of the headline run, with their intervals and the band."""
    run = headline(sweep)
    level = f"{percent(run.interval.level)} interval " if run.interval else ""
    found = [_speedup(run, level), _time_to_train(sweep, run)]
    low_high = _between(run.interval.samples_per_s, level) if run.interval else "one replicate, no interval"
    found.append(Tile("Samples per second", count(run.samples_per_s), low_high))
    found.append(_tokens(run))
    found.append(_real_tokens(run))
    found.append(_band(run))
    found.append(Tile("Iteration", duration(run.iteration_s), f"batch {count(run.batch_per_gpu)} per GPU"))
    found.append(Tile("Efficiency", percent(run.efficiency), "relative to as many single GPUs"))
    if run.memory_bytes > 0:
        found.append(Tile("Memory", size(run.memory_bytes), "on the GPU that holds most"))
    found.append(_cost(run))
    found.append(_anchor(run))
    found.append(_error(sweep))
    return tuple(tile for tile in found if tile)


def _tokens(run: Run) -> Tile | None:
    """Return the tokens per second of a GPU, and the model FLOP utilisation; None for models without tokens."""
    if run.tokens_per_s is None or run.mfu is None:
        return None
    note = f"MFU {percent(run.mfu)}" if run.hfu == run.mfu else f"MFU {percent(run.mfu)}, HFU {percent(run.hfu or 0.0)}"
    return Tile("Tokens per second and GPU", count(run.tokens_per_s / run.num_gpus), note)


def _real_tokens(run: Run) -> Tile | None:
    """Return the real tokens of packed or padded documents; None where sequences are whole documents."""
    if "real_tokens_per_s" not in run.facts:
        return None
    share = f"{percent(run.facts['real_token_share'])} of all tokens"
    return Tile("Real tokens per second", count(run.facts["real_tokens_per_s"]), share)


def _band(run: Run) -> Tile:
    """Return the band of a run and what it rests on."""
    if run.band is None:
        return Tile("Band", "–", "unknown: too few checked forecasts")
    return Tile(f"{percent(run.band.level)} band", band_range(run.band.samples_per_s), band_basis(run.band))


def _error(sweep: Sweep) -> Tile | None:
    """Return the error against figures published for this scenario; None without any."""
    found = comparisons(sweep)
    if not found:
        return None
    worst = max(found, key=lambda row: abs(row.error))
    return Tile("Model error", percent(worst.error, signed=True), error_summary(found))


def _anchor(run: Run) -> Tile | None:
    """Return the factor on kernels by measured runs, and the forecast without it."""
    if run.anchor is None or not run.anchor.points:
        return None
    without = f"{count(run.anchor.samples_per_s_without)} samples/s without measured runs"
    return Tile("Anchor", f"kernels {times(run.anchor.factor)}", without)


def _cost(run: Run) -> Tile | None:
    """Return the cost of the training, or of a million samples where its length is unknown; with the energy."""
    if run.iteration_dollars is None:
        return None
    unit = unit_of_cost([run])
    samples = 1e6 / (run.tokens_per_sample or 1)
    iterations = (run.time_to_train_s or samples / run.samples_per_s) / run.iteration_s
    what = "to train" if run.time_to_train_s else f"for a million {unit}"
    energy = None if run.iteration_joules is None else count(run.iteration_joules * iterations / 3.6e6)
    energy_note = "" if energy is None else f"; its GPUs use at most {energy} kWh"
    return Tile("Cost", f"$ {count(run.iteration_dollars * iterations)}", f"{what}, on-demand price{energy_note}")


def _between(pair: tuple[float, float], level: str) -> str:
    return f"{level}{count(pair[0])} to {count(pair[1])}"


def _speedup(run: Run, level: str) -> Tile | None:
    if run.speedup is None:
        return None
    note = "over the baseline"
    if run.interval and run.interval.speedup:
        note = _between(run.interval.speedup, level)
    return Tile("Speedup", times(run.speedup), note)


def _time_to_train(sweep: Sweep, run: Run) -> Tile | None:
    if run.time_to_train_s is None:
        return None
    epochs = sweep.scenario.get("epochs")
    return Tile("Time to train", duration(run.time_to_train_s), f"{count(epochs)} epochs" if epochs else "")


def rows(sweep: Sweep) -> tuple[list[str], list[list[str]]]:
    """Return the table of all runs: its headings, and a row of texts for each run, series by series.

    Where runs have different baselines, a column gives each baseline in samples per second, and its GPUs from two up.
    """
    keys = varied(sweep)
    runs = [run for one in series(sweep) for run in one.runs]
    timed, sped = any(run.time_to_train_s for run in runs), any(run.speedup is not None for run in runs)
    based = sped and not has_one_baseline(sweep)
    bands = [band_heading(run.band) for run in runs if run.band is not None][:1]
    headings = ["GPUs", *axis_headings(keys), "iteration", "samples/s", *bands] + ["baseline"] * based
    headings += ["speedup"] * sped + ["efficiency"] + ["training"] * timed
    priced, unit = any(run.iteration_dollars is not None for run in runs), unit_of_cost(runs)
    worded = unit == "tokens"
    headings += ["tokens/s", "MFU"] * worded + ["$/h", f"$/M {unit}"] * priced
    body = []
    for run in runs:
        cells = [count(run.num_gpus), *(axis_cell(key, run.axes.get(key)) for key in keys)]
        cells += [duration(run.iteration_s), count(run.samples_per_s)] + [band_cell(run)] * len(bands)
        cells += [baseline_cell(run)] * based
        cells += ["–" if run.speedup is None else times(run.speedup)] * sped + [percent(run.efficiency)]
        cells += ["–" if run.time_to_train_s is None else duration(run.time_to_train_s)] * timed
        cells += [_known(run.tokens_per_s, count), _known(run.mfu, percent)] * worded
        cells += [_known(run.dollars_per_hour, count), _known(run.dollars_per_million(unit), count)] * priced
        body.append(cells)
    return headings, body


def unit_of_cost(runs: Sequence[Run]) -> Literal["tokens", "samples"]:
    """Return what is trained at a price: tokens where all runs know how many a sample has, otherwise samples."""
    return "tokens" if all(run.tokens_per_sample for run in runs) else "samples"


def _known(value: float | None, text: Callable[[float], str]) -> str:
    return "–" if value is None else text(value)


METRIC_COLUMNS = {
    "hours": "training",
    "speedup": "speedup",
    "samples_per_s": "samples/s",
    "efficiency": "efficiency",
}
"""Column of `rows` for each published metric."""


def time_rows(sweep: Sweep) -> tuple[list[str], list[list[str]]]:
    """Return each run's time shares in the order of `rows`: headings of parts that reach 1 % in any run, and shares."""
    runs = [run for one in series(sweep) for run in one.runs]
    shares = [{part: run.breakdown_s.get(part, 0.0) / run.iteration_s for part in BREAKDOWN} for run in runs]
    parts = [part for part in BREAKDOWN if any(row[part] >= 0.01 for row in shares)]
    return [_SHORT.get(part, part) for part in parts], [[percent(row[part]) for part in parts] for row in shares]


_SHORT = {"communication_exposed": "comm."}
