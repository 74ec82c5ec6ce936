"""`clustersim sweep`, `status`, `merge` and `export`: many points, kept in a ledger."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from clustersim.cli.failing_points import POINT_TIMEOUT, STRICT, WHERE
from clustersim.cli.failure import report_interrupt
from clustersim.cli.learning import NO_LEARN
from clustersim.cli.stopping import Stopping, stoppable

if TYPE_CHECKING:
    from clustersim.errors import ClustersimError
    from clustersim.results import Sweep
    from clustersim.scenario import Scenario
    from clustersim.sweep.ledger import PointCounts, SweepInLedger, SweepLedger, SweepShard

STATUS_SCHEMA = "clustersim.status/1"

_MOST_IN_TABLE = 100
_MOST_WARNINGS = 20
MOST_IN_REPORT = 1000
"""Runs of a report at most: a page of more takes minutes to make and is slow in a browser."""


def sweep(
    scenario: Annotated[
        str, typer.Argument(metavar="SCENARIO", help="A scenario file, or the name of a shipped one (clustersim list).")
    ],
    ledger: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help="Keep each point in this file, such as runs.db, and simulate none that is in it. Default: no file.",
        ),
    ] = None,
    shard: Annotated[
        str | None,
        typer.Option(
            metavar="I/N",
            help="Simulate the points whose number modulo N is I, for a job of an array; jobs count from 0 or 1.",
        ),
    ] = None,
    workers: Annotated[int, typer.Option(metavar="N", help="Number of workers; 0: one per core.", min=0)] = 0,
    on: Annotated[
        str,
        typer.Option(
            metavar="WHERE",
            help="processes, in-process, dask, slurm, mpi, or the address of a Dask scheduler: tcp://HOST:PORT.",
        ),
    ] = "processes",
    on_option: Annotated[
        list[str] | None,
        typer.Option(metavar="KEY=VALUE", help="An argument of SLURM jobs, such as queue=batch or walltime=01:00:00."),
    ] = None,
    settings: Annotated[
        list[str] | None,
        typer.Option("--set", metavar="KEY=VALUE", help="Set a key of the scenario, such as 'batch.per_gpu=32'."),
    ] = None,
    exact: Annotated[bool, typer.Option("--exact", help="Take no shortcut, simulate every event.")] = False,
    where: Annotated[list[str] | None, WHERE] = None,
    no_learn: Annotated[bool, NO_LEARN] = False,
    strict: Annotated[bool, STRICT] = False,
    point_timeout: Annotated[float | None, POINT_TIMEOUT] = None,
    retry: Annotated[
        bool, typer.Option("--retry", help="Simulate again the points that were stuck or took too long.")
    ] = False,
    json: Annotated[bool, typer.Option("--json", help="Print the document of `run --json`, point by point.")] = False,
    csv: Annotated[Path | None, typer.Option(metavar="FILE", help="Write a CSV file, one row per point.")] = None,
    parquet: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Write a Parquet file, one row per point (extra parquet).")
    ] = None,
    allow_outside: Annotated[
        bool, typer.Option("--allow-outside", help="Let the scenario extend files outside its folder and repository.")
    ] = False,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="Show no progress.")] = False,
) -> None:
    """Simulate many points: keep each as it is done, go on where an earlier command stopped.

    A point that cannot be simulated is a row with its error, and the others go on. The same command on the same
    ledger simulates what is left. Exit status: 0 if a point has a forecast or is left to other shards; if none has, 3
    where all were refused or do not fit, else 1, with the reasons.
    """
    from clustersim.cli.progress import progress
    from clustersim.scenario import load_scenario
    from clustersim.sweep.executor_by_name import open_executor
    from clustersim.sweep.ledger import SweepLedger, fill

    part = _shard(shard, ledger)
    _check_outputs(csv, parquet)
    executor = open_executor(on, workers, _pairs(on_option or []))
    with ExitStack() as opening:
        stop = opening.enter_context(stoppable(json))
        loaded = load_scenario(scenario, settings or [], (), allow_outside, strict, where or [])
        opened = opening.enter_context(SweepLedger.open(ledger))
        opening.enter_context(_kept(opened, stop, json))
        with progress(quiet) as on_progress:
            found = fill(
                opened,
                loaded,
                executor,
                exact=exact,
                shard=part,
                retry=retry,
                strict=strict,
                point_timeout_s=point_timeout,
                progress=on_progress,
                learns=not no_learn,
            )
        _output(found, json, csv, parquet)
        if part is not None:
            typer.echo(f"shard {part}: {count_words(found.counts(part.rest, part.num_shards))}", err=json)
        error = _none_ran(loaded, found)
    if error is not None and json:  # the document has the reasons
        raise typer.Exit(error.exit_status)
    if error is not None:
        raise error


def merge(
    output: Annotated[Path, typer.Argument(metavar="OUTPUT", help="The ledger to write; one that exists is added to.")],
    sources: Annotated[list[Path], typer.Argument(metavar="LEDGER...", help="Ledgers of shards, in any order.")],
) -> None:
    """Merge ledgers into one: those of the shards of a sweep, or of several sweeps."""
    from clustersim.sweep.ledger import merge as merge_ledgers

    with merge_ledgers(output, sources) as merged:
        for each in merged.sweeps():
            typer.echo(f"{each.name}: {count_words(each.counts())}")
    typer.echo(f"ledger: {output}")


def status(
    ledger: Annotated[Path, typer.Argument(metavar="LEDGER", help="A file that `clustersim sweep` keeps.")],
    json: Annotated[bool, typer.Option("--json", help="Print one JSON document instead of lines.")] = False,
) -> None:
    """Say how far the sweeps of a ledger are, also while they run."""
    from clustersim.results.files import to_json
    from clustersim.sweep.ledger import SweepLedger

    with SweepLedger.read(ledger) as opened:
        document: dict[str, Any] = {
            "schema": STATUS_SCHEMA,
            "ledger": str(ledger),
            "version": opened.version,
            "sweeps": [_status_document(each) for each in opened.sweeps()],
        }
    if json:
        typer.echo(to_json(document, indent=2))
        return
    typer.echo(f"{ledger}: of clustersim {document['version']}")
    for each in document["sweeps"]:
        typer.echo("\n".join(_status_lines(each)))


def export(
    ledger: Annotated[Path, typer.Argument(metavar="LEDGER", help="A file that `clustersim sweep` keeps.")],
    name: Annotated[
        str | None,
        typer.Option("--sweep", metavar="NAME", help="The sweep of a ledger with several; default: the last one."),
    ] = None,
    json: Annotated[bool, typer.Option("--json", help="Print the document of `run --json`.")] = False,
    csv: Annotated[Path | None, typer.Option(metavar="FILE", help="Write a CSV file, one row per point.")] = None,
    parquet: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Write a Parquet file, one row per point (extra parquet).")
    ] = None,
) -> None:
    """Write the points of a ledger as a table; nothing is simulated."""
    from clustersim.sweep.ledger import SweepLedger

    with SweepLedger.read(ledger) as opened:
        _output(opened.last(name), json, csv, parquet)


def sweep_of_ledger(ledger: Path, name: str | None) -> Sweep:
    """Return a sweep of a ledger for a report; InputError for one of too many points."""
    from clustersim.errors import InputError
    from clustersim.sweep.ledger import SweepLedger

    with SweepLedger.read(ledger) as opened:
        found = opened.last(name)
        if found.num_points > MOST_IN_REPORT:
            message = (
                f"{found.name} has {found.num_points:,} points, and a report at most {MOST_IN_REPORT:,}; "
                f"write a table: clustersim export {ledger} --csv FILE"
            )
            raise InputError(message, got=f"{found.num_points} points", allowed=f"at most {MOST_IN_REPORT} points")
        return found.sweep()


def count_words(counts: PointCounts) -> str:
    """Return the counts of a sweep as words.

    >>> from clustersim.sweep.ledger import PointCounts
    >>> count_words(PointCounts(7, {"refused": 1}, 2))
    '10 points: 7 done, 1 failed (refused 1), 2 left'
    """
    num_failed = sum(counts.failed.values())
    kinds = ", ".join(f"{kind} {num:,}" for kind, num in counts.failed.items())
    failed = f", {num_failed:,} failed ({kinds})" if num_failed else ""
    return f"{counts.num_points:,} points: {counts.done:,} done{failed}, {counts.left:,} left"


def _pairs(texts: list[str]) -> dict[str, str]:
    """Return the options of an executor by name."""
    wrong = [text for text in texts if "=" not in text]
    if wrong:
        raise typer.BadParameter(f"'{wrong[0]}' is not KEY=VALUE", param_hint="'--on-option'")
    return dict(text.split("=", 1) for text in texts)


def _shard(text: str | None, ledger: Path | None) -> SweepShard | None:
    from clustersim.errors import InputError
    from clustersim.sweep.ledger import SweepShard

    if text is None:
        return None
    if ledger is None:
        raise typer.BadParameter("--shard needs --ledger FILE, which `clustersim merge` takes")
    try:
        return SweepShard.parse(text)
    except InputError as error:
        raise typer.BadParameter(str(error), param_hint="'--shard'") from None


@contextmanager
def _kept(ledger: SweepLedger, stop: Stopping, as_json: bool) -> Iterator[None]:
    """Say how to go on where a sweep is stopped or fails."""
    from clustersim.errors import ClustersimError, InputError

    try:
        yield
    except KeyboardInterrupt:
        raise SystemExit(report_interrupt(as_json, stop.status, f"stopped: {_how_to_go_on(ledger)}")) from None
    except InputError:
        raise
    except ClustersimError:
        typer.echo(_how_to_go_on(ledger), err=True)
        raise


def _how_to_go_on(ledger: SweepLedger) -> str:
    from clustersim.errors import ClustersimError

    if ledger.path is None:
        return "nothing is kept; with --ledger FILE the same command goes on later"
    try:
        counts = count_words(ledger.last().counts())
    except ClustersimError:
        return f"the same command goes on from {ledger.path}"
    return f"the same command goes on from {ledger.path} ({counts})"


def _check_outputs(csv: Path | None, parquet: Path | None) -> None:
    """Raise InputError if a table cannot be written, before any point is simulated."""
    from clustersim.results.files import check_writable

    if parquet is not None:
        from clustersim.interchange import check_parquet

        check_parquet()
    for path in (csv, parquet):
        if path is not None:
            check_writable(path)


def _none_ran(loaded: Scenario, found: SweepInLedger) -> ClustersimError | None:
    """Return the error of a sweep all of whose points failed; None for any other."""
    from clustersim.sweep.ledger import SweepShard
    from clustersim.sweep.none_ran import error_of_points

    counts = found.counts()
    is_failed = counts.failed and not counts.done and not counts.left
    return error_of_points(loaded, found.failures(SweepShard()), counts.failed) if is_failed else None


def _output(found: SweepInLedger, json: bool, csv: Path | None, parquet: Path | None) -> None:
    """Write the tables, and print the result."""
    from clustersim.interchange import write_csv, write_parquet

    written = {}
    if csv is not None:
        written["csv"] = write_csv(found, csv)
    if parquet is not None:
        written["parquet"] = write_parquet(found, parquet)
    counts = found.counts()
    if json:
        _print_json(found)
        if counts.left:
            typer.echo(f"incomplete: {count_words(counts)}", err=True)
        return
    _print(found, counts)
    for kind, path in written.items():
        typer.echo(f"{kind}: {path}")


def _print_json(found: SweepInLedger) -> None:
    from clustersim.results.files import json_pieces

    for piece in json_pieces(_document(found)):
        typer.echo(piece, nl=False)
    typer.echo()


def _document(found: SweepInLedger) -> Iterator[tuple[str, Any]]:
    """Yield the items of the document of `run --json`; the runs are read as they are taken."""
    from dataclasses import replace

    from clustersim.cli.forecast import MOST_ANSWERED, answer_of
    from clustersim.sweep.sentences import Sentences

    said, runs = Sentences(), []

    def documents() -> Iterator[dict[str, Any]]:
        for made in found.forecasts():
            said.add(made)
            if found.num_points <= MOST_ANSWERED:
                runs.append(made.run)
            yield made.run.to_dict(detail=False)

    for key in found.empty().to_dict():
        yield key, documents() if key == "runs" else found.empty(said).to_dict()[key]
    yield "answer", answer_of(replace(found.empty(said), runs=tuple(runs)))


def _print(found: SweepInLedger, counts: PointCounts) -> None:
    """Print how many points there are; once none is left, the table of few points and the answer of many."""
    from clustersim.cli.forecast import MOST_ANSWERED, print_answer, print_table

    if counts.done and not counts.left and found.num_points <= MOST_ANSWERED:
        result = found.sweep()
        if len(result.runs) <= _MOST_IN_TABLE:
            print_table(result)
        else:
            print_answer(result)
            _print_warnings(result)
    typer.echo(f"{found.name}: {count_words(counts)}")


def _print_warnings(result: Sweep) -> None:
    for warning in result.warnings[:_MOST_WARNINGS]:
        typer.echo(f"warning: {warning}", err=True)
    if (more := len(result.warnings) - _MOST_WARNINGS) > 0:
        typer.echo(f"{more} more warnings: in --json", err=True)


def _status_document(each: SweepInLedger) -> dict[str, Any]:
    counts = each.counts()
    num_done = counts.num_points - counts.left
    per_point_s = counts.simulated_s / num_done if num_done else None
    return {
        "name": each.name,
        "exact": each.exact,
        "num_points": counts.num_points,
        "done": counts.done,
        "failed": dict(counts.failed),
        "left": counts.left,
        "seconds_per_point": per_point_s,
        "left_worker_s": None if per_point_s is None else per_point_s * counts.left,
        "shards_left": {str(num): shards for num, shards in each.missing_shards().items()},
    }


def _status_lines(each: dict[str, Any]) -> Iterator[str]:
    from clustersim.sweep.ledger import PointCounts
    from clustersim.units import format_duration

    yield f"{each['name']}: {count_words(PointCounts(each['done'], each['failed'], each['left']))}"
    if each["seconds_per_point"] is not None:
        left = f"; about {format_duration(each['left_worker_s'])} left for one worker" if each["left"] else ""
        yield f"  {format_duration(each['seconds_per_point'])} a point{left}"
    for shards in each["shards_left"].values():
        if shards:
            yield f"  shards with points left: {', '.join(shards)}"
