"""First screen of the report: a few numbers, and the table of all runs."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from clustersim.report.band import band_basis, band_cell, band_heading, band_range
from clustersim.report.baselines import baseline_cell
from clustersim.report.failing import every_point
from clustersim.report.findings import findings
from clustersim.report.limiting import NAMED_SHARE, busiest_words, limit_of, server_words, share_of
from clustersim.report.palette import LABELS
from clustersim.report.published import comparisons, error_summary
from clustersim.report.rate_words import SURER, dropped_share, length_words, unit_of_cost
from clustersim.report.series import (
    axis_cells,
    axis_headings,
    has_one_baseline,
    headline,
    largest,
    runs_in_order,
    setting,
    varied,
)
from clustersim.report.words import amount, count, duration, gpus, long_duration, percent, size, times, versions
from clustersim.results import BREAKDOWN, Run, Sweep

_MOST_LIMITS = 4


@dataclass(frozen=True)
class Tile:
    """One number of the first screen, its label, and a note that qualifies it."""

    label: str
    value: str
    note: str


def answer(sweep: Sweep) -> str:
    """Return the answer of a sweep as one text."""
    return " ".join(findings(sweep))


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
    told = sorted((part for part in shares if shares[part] >= NAMED_SHARE), key=lambda part: -shares[part])
    name = setting(sweep, run)
    subject = f"{gpus(run.num_gpus)} ({name})" if name else gpus(run.num_gpus)
    parts = ", ".join(f"{LABELS[part]} {percent(shares[part])}" for part in told)
    busiest = max(run.link_classes, key=lambda links: links.max_utilisation, default=None)
    if "communication_exposed" not in told or busiest is None:
        return f"limits of {subject}: {parts}"
    if words := server_words(run):
        return f"limits of {subject}: {parts}; {words}"
    return f"limits of {subject}: {parts}; busiest link {busiest.kind}, at {percent(busiest.max_utilisation)}"


def tiles(sweep: Sweep) -> tuple[Tile, ...]:
    """Return the numbers of the headline run, with their intervals and the band."""
    run = headline(sweep)
    level = f"{percent(run.interval.level)} interval " if run.interval else ""
    found = [_speedup(run, level), _time_to_train(sweep, run)]
    low_high = _between(run.interval.samples_per_s, level) if run.interval else "one replicate, no interval"
    found.append(_tokens(run))
    found.append(Tile("Samples per second", count(run.samples_per_s), low_high))
    found.append(_real_tokens(run))
    found.append(_band(sweep, run))
    found.append(_limit(run))
    found.append(Tile("Iteration", duration(run.iteration_s), f"batch {count(run.batch_per_gpu)} per GPU"))
    found.append(Tile("Efficiency", percent(run.efficiency), _efficiency_note(run)))
    found.append(_memory(run))
    found.append(_cost(run))
    found.append(_anchor(run))
    found.append(_error(sweep))
    return tuple(tile for tile in found if tile)


def _tokens(run: Run) -> Tile | None:
    """Return the tokens per second, those of a GPU, and the model FLOP utilisation; None for models without tokens."""
    if run.tokens_per_s is None or run.mfu is None:
        return None
    hfu = "" if run.hfu == run.mfu else f", HFU {percent(run.hfu or 0.0)}"
    each = "" if run.num_gpus == 1 else f"{count(run.tokens_per_s / run.num_gpus)} per GPU; "
    return Tile("Tokens per second", count(run.tokens_per_s), f"{each}MFU {percent(run.mfu)}{hfu}")


def _real_tokens(run: Run) -> Tile | None:
    """Return the real tokens of packed or padded documents; None where sequences are whole documents."""
    if "real_tokens_per_s" not in run.facts:
        return None
    share = f"{percent(run.facts['real_token_share'])} of all tokens"
    return Tile("Real tokens per second", count(run.facts["real_tokens_per_s"]), share)


def _efficiency_note(run: Run) -> str:
    """Say what the efficiency of a run is relative to, and why that is not one GPU."""
    if run.baseline is None:
        return "relative to as many single GPUs"
    why = f": {run.baseline.why}" if run.baseline.why else ""
    return f"of the rate per GPU of {run.baseline.short}{why}"


def _limit(run: Run) -> Tile:
    """Return the part of the iteration that limits a run, and the busiest links where it is communication."""
    part = limit_of(run)
    links = busiest_words(run, part)
    note = f"of an iteration{f'; {links}' if links else ''}"
    return Tile(f"Limit: {LABELS[part]}", percent(share_of(run, part)), note)


def _memory(run: Run) -> Tile | None:
    """Return the memory of the GPU that holds most, and what share of its capacity that is."""
    if run.memory_bytes <= 0:
        return None
    where = "on the GPU that holds most"
    if run.gpu_memory_bytes:
        where = f"of {size(run.gpu_memory_bytes)} ({percent(run.memory_bytes / run.gpu_memory_bytes)}), {where}"
    return Tile("Memory", size(run.memory_bytes), where)


def _band(sweep: Sweep, run: Run) -> Tile:
    """Return the band of a run and what it rests on."""
    if run.band is None:
        return Tile("Band", "–", "unknown: too few checked forecasts")
    surer = f"; {SURER}" if len(sweep.ran) > 1 else ""
    return Tile(f"{percent(run.band.level)} band", band_range(run.band.samples_per_s), band_basis(run.band) + surer)


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
    total = run.train_dollars
    iterations = (run.time_to_train_s or samples / run.samples_per_s) / run.iteration_s
    what = "to train" if run.time_to_train_s else f"for a million {unit}"
    energy = None if run.iteration_joules is None else count(run.iteration_joules * iterations / 3.6e6)
    energy_note = "" if energy is None else f"; its GPUs use at most {energy} kWh"
    hourly = f"at ${count(run.dollars_per_hour or 0.0)} an hour"
    dollars = count(run.iteration_dollars * iterations) if total is None else amount(total)
    return Tile("Cost", f"${dollars}", f"{what}, {hourly}{energy_note}")


def _between(pair: tuple[float, float], level: str) -> str:
    return f"{level}{count(pair[0])} to {count(pair[1])}"


def _speedup(run: Run, level: str) -> Tile | None:
    if run.speedup is None:
        return None
    note = f"over {run.speedup_basis}"
    if run.interval and run.interval.speedup:
        note = f"{_between(run.interval.speedup, level)}; {note}"
    return Tile("Speedup", times(run.speedup), note)


def _time_to_train(sweep: Sweep, run: Run) -> Tile | None:
    if run.time_to_train_s is None:
        return None
    return Tile("Time to train", long_duration(run.time_to_train_s), length_words(sweep, run)[0])


def rows(sweep: Sweep) -> tuple[list[str], list[list[str]]]:
    """Return the table of all runs: its headings, and a row of texts for each run, series by series.

    Where runs have different baselines, a column gives each baseline in samples per second, and its GPUs from two up.
    """
    whole = every_point(sweep)
    keys, runs = varied(whole), runs_in_order(sweep)
    timed, sped = any(run.time_to_train_s for run in runs), any(run.speedup is not None for run in runs)
    based = sped and not has_one_baseline(sweep)
    bands = [band_heading(run.band) for run in runs if run.band is not None][:1]
    headings = ["GPUs", *axis_headings(keys), "iteration", "samples/s", *bands] + ["baseline"] * based
    headings += ["speedup"] * sped + ["efficiency"] + ["training"] * timed
    axes_of = axis_cells(whole)
    more = [column for column in MORE_COLUMNS if column.is_shown(runs)]
    headings += [column.heading for column in more]
    body = []
    for run in runs:
        cells = [count(run.num_gpus), *axes_of(run)]
        cells += [duration(run.iteration_s), count(run.samples_per_s)] + [band_cell(run)] * len(bands)
        cells += [baseline_cell(run)] * based
        cells += ["–" if run.speedup is None else times(run.speedup)] * sped + [percent(run.efficiency)]
        cells += ["–" if run.time_to_train_s is None else long_duration(run.time_to_train_s)] * timed
        cells += [_known(column.value(run), column.text) for column in more]
        body.append(cells)
    return headings, body


@dataclass(frozen=True)
class Column:
    """A column of the table of all runs that is shown where it tells something."""

    heading: str
    value: Callable[[Run], float | None]
    text: Callable[[float], str]
    is_shown: Callable[[Sequence[Run]], bool]


def _has_tokens(runs: Sequence[Run]) -> bool:
    return unit_of_cost(runs) == "tokens"


def _has_price(*units: str) -> Callable[[Sequence[Run]], bool]:
    return lambda runs: unit_of_cost(runs) in units and any(run.iteration_dollars is not None for run in runs)


def _fills_memory(runs: Sequence[Run]) -> bool:
    """Return whether any run takes half of its GPU's memory, or tokens are trained."""
    return any(run.memory_bytes > 0.5 * (run.gpu_memory_bytes or float("inf")) for run in runs) or _has_tokens(runs)


def _trained(name: str) -> Callable[[Run], float | None]:
    """Return what gives a figure of a run's training; None of one that trained nothing."""

    def value(run: Run) -> float | None:
        found = None if run.learning is None else getattr(run.learning, name)
        return None if found is None else float(found)

    return value


def _train_for(name: str) -> Callable[[Sequence[Run]], bool]:
    """Return what says whether any run has this figure of a training."""
    return lambda runs: any(_trained(name)(run) is not None for run in runs)


MORE_COLUMNS = (
    Column("tokens/s", lambda run: run.tokens_per_s, count, _has_tokens),
    Column("tokens/s/GPU", lambda run: run.tokens_per_s_per_gpu, count,
           lambda runs: _has_tokens(runs) and any(run.num_gpus > 1 for run in runs)),
    Column("MFU", lambda run: run.mfu, percent, _has_tokens),
    Column("HFU", lambda run: run.hfu, percent,
           lambda runs: _has_tokens(runs) and any(run.hfu != run.mfu for run in runs)),
    Column("stale", lambda run: run.staleness.get("mean") or 0.0, versions,
           lambda runs: any((run.staleness.get("mean") or 0.0) >= 0.05 for run in runs)),
    Column("dropped", dropped_share, percent, lambda runs: any(map(dropped_share, runs))),
    Column("to target", _trained("time_to_target_s"), duration, _train_for("target")),
    Column("loss", _trained("final_loss"), count, _train_for("final_loss")),
    Column("accuracy", _trained("final_accuracy"), percent, _train_for("final_accuracy")),
    Column("updates", _trained("updates"), count, _train_for("updates")),
    Column("memory", lambda run: run.memory_bytes or None, size, _fills_memory),
    Column("$/h", lambda run: run.dollars_per_hour, count, _has_price("tokens", "samples")),
    Column("$/M tokens", lambda run: run.dollars_per_million("tokens"), count, _has_price("tokens")),
    Column("$/M samples", lambda run: run.dollars_per_million("samples"), count, _has_price("samples")),
    Column("$ total", lambda run: run.train_dollars, amount,
           lambda runs: any(run.train_dollars is not None for run in runs)),
)  # fmt: skip
"""Columns beside the rates: language models, stale and dropped gradients, trainings, memory if short, dollars."""


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
    runs = runs_in_order(sweep)
    shares = [{part: run.breakdown_s.get(part, 0.0) / run.iteration_s for part in BREAKDOWN} for run in runs]
    parts = [part for part in BREAKDOWN if any(row[part] >= 0.01 for row in shares)]
    return [SHORT.get(part, part) for part in parts], [[percent(row[part]) for part in parts] for row in shares]


SHORT = {"communication_exposed": "comm."}
