"""What `clustersim plan` prints and writes: tables, the answer, JSON, CSV and the scenario of the best layout."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

if TYPE_CHECKING:
    from rich.table import Table

    from clustersim.planner import ClusterComparison, ClusterPlan, Entry, Plan

_PIPED_WIDTH = 180  # columns of the table if there is no terminal
_TABLE_WIDTH = 110  # minimum columns of the table without broken words


def print_json(found: Plan | ClusterComparison) -> None:
    """Print the plan as one JSON document, with the answer in sentences."""
    from clustersim.plan_report import answer
    from clustersim.report.text_table import plain
    from clustersim.results.files import to_json

    document = {**found.to_dict(), "answer": [plain(sentence) for sentence in answer(found)]}
    typer.echo(to_json(document, indent=2))


def print_plan(found: Plan | ClusterComparison) -> None:
    """Print the table of the layouts, or of the clusters, and the lines below it."""
    from clustersim.planner import Plan

    if isinstance(found, Plan):
        _print_layouts(found)
    else:
        _print_clusters(found)


def _print_answer(found: Plan | ClusterComparison, columns: int) -> None:
    from clustersim.plan_report import answer
    from clustersim.report.text_table import wrapped

    for sentence in answer(found):
        typer.echo("\n".join(wrapped(sentence, columns)))


def _print_clusters(found: ClusterComparison) -> None:
    from rich.console import Console

    from clustersim.plan_report.tables import CLUSTER_WORDS, cluster_rows
    from clustersim.report.text_table import Row, TextTable

    console = Console()
    width = console.width if console.is_terminal else _PIPED_WIDTH
    headings, body = cluster_rows(found)
    rows = tuple(Row(tuple(cells)) for cells in body)
    table = TextTable(found.name, tuple(headings), rows, len(CLUSTER_WORDS), left=frozenset(CLUSTER_WORDS))
    for part in table.parts(width):
        if isinstance(part, str):
            typer.echo(part)
        else:
            Console(width=width).print(part)
    _print_answer(found, width)


def _print_layouts(found: Plan) -> None:
    from rich.console import Console

    console = Console()
    if not console.is_terminal:
        console = Console(width=_PIPED_WIDTH)
    if console.width < _TABLE_WIDTH:
        typer.echo("\n".join(lines(found, console.width)))
    else:
        console.print(_table(found))
    _print_answer(found, console.width)
    if found.software:
        typer.echo(f"software: {found.software}")
    for text in (_as_run(found), _fixed(found)):
        if text:
            typer.echo(text)
    others = ". Discarded:" if found.discarded else ""
    typer.echo(f"{found.num_layouts:,} layouts, {found.num_simulated} simulated{others}")
    for why, num in sorted(found.discarded.items(), key=lambda item: -item[1]):
        typer.echo(f"  {num:,}: {why}")
    if found.anchor is not None:
        typer.echo("\n".join(found.anchor.sentences()))
        for warning in found.anchor.warnings:
            typer.echo(f"warning: {warning}", err=True)


def _as_run(found: Plan) -> str:
    """Return how the two columns of iteration times differ; empty if there is only one."""
    shares = [entry.run_s / entry.iteration_s - 1 for entry in found.best if entry.run_s is not None]
    without = f" without {', '.join(found.left_out)}," if found.left_out else ""
    if not shares:
        return f"iteration:{without} as `run` has it" if found.left_out else ""
    least, most = min(shares), max(shares)
    text = f"{most:+.1%}" if f"{least:.1%}" == f"{most:.1%}" else f"{least:+.1%} to {most:+.1%}"
    return f"iteration: planned{without} from few iterations; as run: what `clustersim run` gives for the row ({text})"


def _fixed(found: Plan) -> str:
    """Return which keys the scenario fixes, and how they are freed; empty if there are none."""
    if not found.fixed:
        return ""
    keys = ", ".join(f"{key} {_plain(value)}" for key, value in found.fixed.items())
    return f"fixed by the scenario: {keys} (--set 'parallelism={{}}' frees what parallelism fixes)"


def _plain(value: object) -> str:
    return "none" if value is None else str(value).lower() if isinstance(value, bool) else str(value)


def _table(found: Plan) -> Table:
    from rich.table import Table

    from clustersim.plan_report.words import layout_name

    table = Table(title=_title(found))
    for name in ("layout", *_columns(found), "why it is slower"):
        table.add_column(name, justify="left" if name in ("layout", "why it is slower") else "right", overflow="fold")
    for entry in found.best:
        table.add_row(layout_name(found, entry), *_figures(found, entry), entry.reason or "(best)")
    return table


def lines(found: Plan, width: int) -> list[str]:
    """Return the plan as lines for a terminal too narrow for the table: layout, figures, and why it is slower."""
    from textwrap import wrap

    from clustersim.plan_report.words import layout_name

    found_lines = [_title(found), ""]
    for number, entry in enumerate(found.best, start=1):
        figures = ", ".join(map(" ".join, zip(_columns(found), _figures(found, entry), strict=True)))
        slower = f"slower: {entry.reason}" if entry.reason else "(best)"
        found_lines += wrap(f"{number}. {layout_name(found, entry)}", width, subsequent_indent="   ")
        for text in (figures, slower):
            found_lines += wrap(text, width, initial_indent="   ", subsequent_indent="   ")
    return found_lines


def _title(found: Plan) -> str:
    from clustersim.plan_report.words import are_several

    name = f"{found.name} (ideal network)" if found.transport == "ideal" else found.name
    return name if are_several(found) else f"{name} on {found.best[0].choice.num_gpus} {found.gpu}"


def _columns(found: Plan) -> tuple[str, ...]:
    as_run = ("as run",) if any(entry.run_s is not None for entry in found.best) else ()
    return ("iteration", *as_run, "samples/s", "MFU", "memory", "bubble", *_prices(found))


def _figures(found: Plan, entry: Entry) -> list[str]:
    from clustersim.units import format_duration, format_size

    return [
        format_duration(entry.iteration_s),
        *([_run_time(entry)] if "as run" in _columns(found) else []),
        f"{entry.samples_per_s:.4g}",
        f"{entry.mfu:.1%}",
        format_size(entry.memory_bytes),
        f"{entry.bubble_share:.1%}",
        *_price(found, entry),
    ]


def _run_time(entry: Entry) -> str:
    from clustersim.units import format_duration

    return "" if entry.run_s is None else format_duration(entry.run_s)


def _prices(found: Plan) -> list[str]:
    """Return the columns of the objective, in the units of `clustersim run`."""
    if found.objective == "cost":
        return ["$/M tokens" if found.tokens_per_sample else "$/M samples"]
    return ["J / sample, at most"] if found.objective == "energy" else []


def _price(found: Plan, entry: Entry) -> list[str]:
    if found.objective == "cost" and entry.dollars_per_sample is not None:
        return [f"{1e6 * entry.dollars_per_sample / (found.tokens_per_sample or 1):.3g}"]
    if found.objective == "energy" and entry.joules_per_sample is not None:
        return [f"{entry.joules_per_sample:.4g}"]
    return []


def write_csv(found: Plan | ClusterComparison, path: Path) -> Path:
    """Write one row per layout: the best ones, and that of the rule of thumb where it is not among them."""
    from clustersim.interchange.csv_file import write_rows
    from clustersim.planner import Plan

    of_clusters = () if isinstance(found, Plan) else found.clusters
    rows = list(_rows(found)) if isinstance(found, Plan) else [row for each in of_clusters for row in _rows_of(each)]
    return write_rows(rows, path)


def _rows_of(each: ClusterPlan) -> Iterator[dict[str, Any]]:
    """Yield the rows of a cluster; one with the reason where it has no plan."""
    if each.plan is None:
        yield {"cluster": each.label, "layout": "", "num_gpus": each.option.num_gpus, "reason": each.reason}
        return
    for row in _rows(each.plan):
        yield {"cluster": each.label, **row}


def _rows(found: Plan) -> Iterator[dict[str, Any]]:
    from clustersim.planner import totals

    rule = found.rule_of_thumb
    is_shown = rule is None or any(entry.choice == rule.choice for entry in found.best)
    for entry in [*found.best, *([] if rule is None or is_shown else [rule])]:
        values = entry.to_dict()
        breakdown, layout, strategy = values.pop("breakdown_s"), values.pop("parallelism"), values.pop("strategy")
        total = totals(found, entry).to_dict()
        total = {name: value for name, value in total.items() if name not in values}
        yield {
            "layout": entry.choice.text(),
            **layout,
            **strategy,
            **{name: value for name, value in values.items() if name != "reason"},
            **total,
            **breakdown,
            "rule_of_thumb": rule is not None and entry.choice == rule.choice,
            "reason": values["reason"],
        }


def write_best(found: Plan | ClusterComparison, path: Path) -> list[Path]:
    """Write the scenario of the best layout, or of that of each cluster, and return the files."""
    from clustersim.planner import Plan, path_for
    from clustersim.results.files import write_atomically

    if isinstance(found, Plan):
        return [write_atomically(path, found.scenario_text)]
    return [
        write_atomically(path_for(path, each.option), each.plan.scenario_text)
        for each in found.planned
        if each.plan is not None
    ]
