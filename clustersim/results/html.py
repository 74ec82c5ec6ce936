"""HTML of a run and of a sweep for notebooks: a small table, without external scripts or styles."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape
from typing import TYPE_CHECKING

from clustersim.units import format_duration

if TYPE_CHECKING:
    from clustersim.results.run import Run, Sweep

_STYLE = "text-align:right;padding:2px 10px"


def run_html(run: Run) -> str:
    """Return one run as a table of two columns with the parts of the iteration; several jobs are a second table."""
    if run.error is not None:
        why = {"GPUs": f"{run.num_gpus}", "error": run.error.kind, "message": run.error.message}
        return f"<table>{''.join(_row('td', [name, value]) for name, value in why.items())}</table>"
    rows = {
        "GPUs": f"{run.num_gpus}" + (" (ideal network)" if run.has_ideal_network else ""),
        "iteration": format_duration(run.iteration_s),
        "samples/s": f"{run.samples_per_s:,.1f}",
        f"speedup over {run.speedup_basis}": _speedup(run),
        "efficiency": f"{run.efficiency:.1%}",
        "time to train": _time_to_train(run),
    }
    parts = {part.replace("_", " "): seconds for part, seconds in run.breakdown_s.items() if seconds > 0}
    rows |= {f"of which {part}": f"{format_duration(s)} ({s / run.iteration_s:.1%})" for part, s in parts.items()}
    rows |= _learning(run)
    body = "".join(_row("td", [name, value]) for name, value in rows.items() if value)
    return f"<table>{body}</table>{_jobs([run], [])}"


def _learning(run: Run) -> dict[str, str]:
    """Return rows of what was really trained; none of a run that trained nothing."""
    found = run.learning
    if found is None:
        return {}
    rows = {"trained": found.task}
    if found.target is not None:
        reached = f"by {found.num_reached} of {found.seeds} seeds" if found.num_reached else "never"
        time_s = found.time_to_target_s
        rows[f"{found.target_metric} {found.target:g}"] = (
            reached if time_s is None else f"after {format_duration(time_s)}"
        )
    rows["loss at the end"] = f"{found.final_loss:.3g}"
    rows["accuracy at the end"] = "" if found.final_accuracy is None else f"{found.final_accuracy:.3f}"
    return rows


def sweep_html(sweep: Sweep) -> str:
    """Return a sweep as a table with one row per run and one column per varying axis.

    Where runs have different baselines, a column gives each baseline in samples per second. Where several jobs share
    the cluster, a second table has one row per job of each run. Points without a forecast have a table of their own.
    """
    keys = [key for key in dict.fromkeys(key for run in sweep.runs for key in run.axes) if key != "num_gpus"]
    keys = [key for key in keys if len({repr(run.axes.get(key)) for run in sweep.runs}) > 1]
    based = len({run.speedup_basis for run in sweep.ran if run.speedup is not None}) > 1
    base = ["baseline, samples/s"] if based else []
    head = ["GPUs", *_headings(keys), "iteration", "samples/s", *base, "speedup", "efficiency", "time to train"]
    body = [
        [
            f"{run.num_gpus}",
            *(str(run.axes.get(key)) for key in keys),
            format_duration(run.iteration_s),
            f"{run.samples_per_s:,.1f}",
            *(_baseline(run) for _ in base),
            _speedup(run),
            f"{run.efficiency:.1%}",
            _time_to_train(run),
        ]
        for run in sweep.ran
    ]
    ideal = " (ideal network)" if any(run.has_ideal_network for run in sweep.ran) else ""
    ran = _table(f"{sweep.name}{ideal}", head, body) if body else ""
    return ran + _jobs(sweep.ran, keys) + _failed(sweep.failed, keys)


def _failed(runs: Sequence[Run], keys: list[str]) -> str:
    """Return the table of the points without a forecast, with the reason of each; empty if there are none."""
    body = [
        [f"{run.num_gpus}", *(str(run.axes.get(key)) for key in keys), run.error.kind, run.error.remedy or ""]
        for run in runs
        if run.error is not None
    ]
    head = ["GPUs", *_headings(keys), "error", "change that fits"]
    return _table("points without a forecast", head, body) if body else ""


def _jobs(runs: Sequence[Run], keys: list[str]) -> str:
    """Return the table of the iteration of each job with the others and alone; empty where no run has several jobs."""
    sizes = ["GPUs"] if len({run.num_gpus for run in runs}) > 1 else []
    names = [*sizes, *_headings(keys)]
    head = [*names, "job", "model", "GPUs of the job", "start", "iteration", "alone", "slowdown", "samples/s"]
    body = [
        [
            *(f"{run.num_gpus}" for _ in sizes),
            *(str(run.axes.get(key)) for key in keys),
            job.name,
            job.model,
            f"{job.num_gpus}",
            format_duration(job.start_s),
            format_duration(job.iteration_s),
            format_duration(job.alone_iteration_s),
            f"{job.slowdown:.2f}×",
            f"{job.samples_per_s:,.1f}",
        ]
        for run in runs
        for job in run.jobs
    ]
    return _table("jobs: iteration with the others, and alone", head, body) if body else ""


def _headings(keys: Sequence[str]) -> list[str]:
    """Return the column headings of axes, as those of the terminal's table.

    >>> _headings(["stragglers.0.cv", "batch.per_gpu"])
    ['cv', 'per gpu']
    """
    return [key.rpartition(".")[2].replace("_", " ") for key in keys]


def _table(caption: str, head: list[str], body: list[list[str]]) -> str:
    rows = "".join(_row("td", cells) for cells in body)
    return f"<table><caption>{escape(caption)}</caption><thead>{_row('th', head)}</thead><tbody>{rows}</tbody></table>"


def _speedup(run: Run) -> str:
    return "" if run.speedup is None else f"{run.speedup:.2f}×"


def _baseline(run: Run) -> str:
    if run.speedup is None:
        return ""
    several = run.speedup_baseline is not None and run.speedup_baseline.num_gpus > 1
    gpus = f" on {run.speedup_baseline.short}" if run.speedup_baseline is not None and several else ""
    return f"{run.samples_per_s / run.speedup:,.1f}{gpus}"


def _time_to_train(run: Run) -> str:
    return "" if run.time_to_train_s is None else format_duration(run.time_to_train_s)


def _row(tag: str, cells: list[str]) -> str:
    inside = (f'<{tag} style="{_STYLE}">{escape(cell)}</{tag}>' for cell in cells)
    return f"<tr>{''.join(inside)}</tr>"
