"""`clustersim plan`: the best layouts of a model on a number of GPUs, or on several clusters side by side."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from clustersim.cli.failing_points import seconds_of
from clustersim.cli.learning import note_untrained
from clustersim.cli.stopping import stoppable

if TYPE_CHECKING:
    from clustersim.planner import ClusterComparison, Plan


def plan(
    scenario: Annotated[
        str, typer.Argument(metavar="SCENARIO", help="A scenario file, or the name of a shipped one (clustersim list).")
    ],
    gpus: Annotated[
        str | None,
        typer.Option(
            metavar="N[,N]...", help="Number of GPUs; several are compared. Needed unless each --cluster has its own."
        ),
    ] = None,
    cluster: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NAME[:GPUS][@DOLLARS]",
            help="Plan for this cluster too, side by side: a GPU, host, shipped cluster, topology file, or 'scenario'; "
            "the price of a GPU for an hour; after a space settings for it alone: 'b200:384@4.5 precision=amp-fp8'.",
        ),
    ] = None,
    objective: Annotated[
        str, typer.Option(metavar="NAME", help="What to optimize: samples_per_s, or the cost or energy of a sample.")
    ] = "samples_per_s",
    top: Annotated[int, typer.Option(metavar="N", help="Number of layouts to show.", min=1)] = 10,
    batch: Annotated[
        str | None,
        typer.Option(metavar="N[,N]...", help="Global batch sizes to try; default: the scenario's."),
    ] = None,
    also: Annotated[
        str | None,
        typer.Option(
            metavar="KEY[,KEY]...",
            help="Also compare these: sharding_over, offload, recompute, dualpipe, expert_exchange; 'all': every one.",
        ),
    ] = None,
    across_hosts: Annotated[
        bool, typer.Option("--across-hosts", help="Allow GPUs of several hosts to split a layer.")
    ] = False,
    settings: Annotated[
        list[str] | None,
        typer.Option("--set", metavar="KEY=VALUE", help="Override a key; 'parallelism.tensor=8' fixes a degree."),
    ] = None,
    price: Annotated[
        list[str] | None,
        typer.Option(metavar="GPU=DOLLARS", help="Price of one GPU for an hour, instead of its sheet's: 'h100=2.5'."),
    ] = None,
    tokens: Annotated[
        float | None,
        typer.Option(metavar="N", help="Tokens to train on, such as 1e12: for days and dollars of the training."),
    ] = None,
    time_limit: Annotated[
        float | None,
        typer.Option(
            metavar="TIME",
            help="End after this time, with the best so far: seconds, or such as 2m or 1h.",
            parser=seconds_of,
            show_default=False,
        ),
    ] = None,
    json: Annotated[bool, typer.Option("--json", help="Print one JSON document instead of the table.")] = False,
    csv: Annotated[Path | None, typer.Option(metavar="FILE", help="Write a CSV file, one row per layout.")] = None,
    report: Annotated[Path | None, typer.Option(metavar="FILE", help="The page to write.")] = None,
    no_report: Annotated[bool, typer.Option("--no-report", help="Write no page.")] = False,
    open_: Annotated[bool, typer.Option("--open", help="Open the page in the browser.")] = False,
    save: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE", help="Write the best layout as a scenario; of several clusters one file each, by its name."
        ),
    ] = None,
    workers: Annotated[int, typer.Option(metavar="N", help="Number of processes; 0: one per core.", min=0)] = 0,
    resume: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Save simulated layouts in this file; do not simulate those in it again."),
    ] = None,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="Show no progress.")] = False,
) -> None:
    """Find the best layouts of a scenario's model: degrees, micro-batches, schedule, sharding, recomputation.

    Every layout gets a bound in closed form. Those with the best bounds are simulated, until no other layout can be
    among the best, or until the time limit. Values that the scenario gives under `parallelism`, and its algorithm and
    buckets, do not change. With --cluster the best layouts of several clusters stand side by side. The page goes to
    runs/NAME/plan.html. With --json: one document on stdout, and only the requested files.
    """
    outputs = _Outputs(json, csv, report, no_report, open_, save)
    outputs.check()
    if gpus is None and not cluster:
        raise typer.BadParameter("name the number of GPUs by --gpus, or clusters by --cluster")
    arguments: dict[str, Any] = {
        "objective": objective,
        "top": top,
        "batches": () if batch is None else _numbers(batch, "--batch"),
        "overrides": _overrides(settings, price, tokens),
        "across_hosts": across_hosts,
        "also": [] if also is None else [part.strip() for part in also.split(",")],
        "workers": workers,
        "resume": resume,
        "time_limit_s": time_limit,
    }
    note_untrained("a plan", [scenario], settings or [])
    sizes = [] if gpus is None else _numbers(gpus, "--gpus")
    found, status = _found(scenario, cluster or [], sizes, arguments, json, quiet)
    outputs.write(found)
    if status:
        _print_stopped(found, resume)
        raise SystemExit(status)


def _found(
    scenario: str, clusters: Sequence[str], sizes: list[int], arguments: dict[str, Any], json: bool, quiet: bool
) -> tuple[Plan | ClusterComparison, int]:
    """Return the plan, or the plans of the clusters, and the exit status of an interruption; 0 without one."""
    from clustersim.cli.progress import progress, with_limit
    from clustersim.planner import compare_clusters
    from clustersim.planner import plan as find

    with stoppable(json) as stop, progress(quiet) as on_progress:
        tell = with_limit(on_progress, arguments["time_limit_s"])
        if clusters:
            compared = compare_clusters(scenario, clusters, sizes, progress=tell, **arguments)
            return compared, stop.status if compared.is_interrupted else 0
        found = find(scenario, sizes, progress=tell, **arguments)
        return found, stop.status if found.ended == "interrupted" else 0


def _overrides(settings: list[str] | None, price: list[str] | None, tokens: float | None) -> list[str]:
    """Return what the options set, as texts of --set."""
    from clustersim.hardware.price import price_setting

    length = [] if tokens is None else [f"train_tokens={tokens!r}"]
    return [*(settings or []), *map(price_setting, price or []), *length]


@dataclass(frozen=True)
class _Outputs:
    """What is printed and written."""

    json: bool
    csv: Path | None
    report: Path | None
    no_report: bool
    open: bool
    save: Path | None

    def check(self) -> None:
        """Raise BadParameter for options that exclude each other."""
        if self.report is not None and self.no_report:
            raise typer.BadParameter("--report and --no-report exclude each other")
        if self.open and (self.no_report or (self.json and self.report is None)):
            how = "leave --no-report out" if self.no_report else "add --report FILE"
            raise typer.BadParameter(f"--open needs a page: {how}")

    def write(self, found: Plan | ClusterComparison) -> None:
        """Write the files and print the result; what is printed comes also where a file cannot be written."""
        from clustersim.cli.plan_output import print_json, print_plan

        written: list[tuple[str, Path]] = []
        try:
            self._write_files(found, written)
        finally:
            if self.json:
                print_json(found)
            else:
                print_plan(found)
                for kind, path in written:
                    typer.echo(f"{kind}: {path}")
        if self.open:
            from clustersim.cli.opening import open_page

            open_page(next(path for kind, path in written if kind == "report"))

    def _write_files(self, found: Plan | ClusterComparison, written: list[tuple[str, Path]]) -> None:
        """Write each file and note it in `written`."""
        from clustersim.cli.forecast import folder_name
        from clustersim.cli.plan_output import write_best, write_csv

        report = self.report
        if report is None and not self.no_report and not self.json:
            report = Path("runs") / folder_name(found.name) / "plan.html"
        if self.csv is not None:
            written.append(("csv", write_csv(found, self.csv)))
        if self.save is not None:
            for path in write_best(found, self.save):
                written.append(("scenario", path))
        if report is not None:
            from clustersim.plan_report import write_plan_report

            written.append(("report", write_plan_report(found, report)))


def _print_stopped(found: Plan | ClusterComparison, resume: Path | None) -> None:
    """Say how far an interrupted search came, and how to go on."""
    from clustersim.planner import STOPPED, Plan

    if isinstance(found, Plan):
        most = found.num_simulated + found.discarded.get(STOPPED, 0)
        typer.echo(f"stopped after {found.num_simulated} of {most} layouts: the best of them are shown", err=True)
    else:
        done, total = len(found.planned), len(found.clusters)
        typer.echo(f"stopped after {done} of {total} clusters: the best layouts so far are shown", err=True)
    if resume is None:
        typer.echo(
            "to go on later, start with --resume FILE: it keeps each simulated layout (none is kept now)",
            err=True,
        )
    else:
        typer.echo(f"the same command continues from {resume}", err=True)


def _numbers(text: str, option: str) -> list[int]:
    """Return the numbers of an option.

    >>> _numbers("32,64", "--gpus")
    [32, 64]
    """
    parts = [part.strip() for part in text.split(",")]
    if not all(part.isdecimal() and int(part) > 0 for part in parts):
        raise typer.BadParameter(
            f"'{text}' is not a number such as 64 or a list such as 32,64", param_hint=f"'{option}'"
        )
    return [int(part) for part in parts]
