"""`clustersim topology`: describe, draw or export a cluster."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any

import typer

topology = typer.Typer(
    name="topology", help="Describe, draw or export a cluster.", no_args_is_help=True, rich_markup_mode=None
)

_Name = Annotated[
    str, typer.Argument(metavar="NAME|FILE", help="A shipped cluster (clustersim list clusters), or a topology file.")
]


@topology.command()
def show(
    name: _Name,
    route: Annotated[
        tuple[str, str] | None, typer.Option(metavar="A B", help="Show the route between two GPUs or nodes.")
    ] = None,
    json: Annotated[bool, typer.Option("--json", help="Print one JSON document.")] = False,
    report: Annotated[
        Path | None,
        typer.Option("--report", "-o", metavar="FILE", help="Drawing to write; default: runs/NAME/topology.html."),
    ] = None,
    no_report: Annotated[bool, typer.Option("--no-report", help="Draw nothing.")] = False,
) -> None:
    """Draw a cluster; print its size, its bisection bandwidth and diameter, and a route between two of its GPUs.

    With --json nothing is drawn without --report.
    """
    if report is not None and no_report:
        raise typer.BadParameter("--report and --no-report exclude each other")
    from clustersim.cli.forecast import folder_name
    from clustersim.topology import describe, load_topology

    cluster = load_topology(name)
    ends = None if route is None else (_end(route[0]), _end(route[1]))
    document = describe(cluster, ends)
    if report is None and not no_report and not json:
        report = Path("runs") / folder_name(cluster.name) / "topology.html"
    if report is not None:
        from clustersim.report import write_topology

        report = write_topology(cluster, report)
    if json:
        from clustersim.results.files import to_json

        typer.echo(to_json(document, indent=2))
    else:
        typer.echo(f"{cluster.name}\n{description(document)}")
    if report is not None:
        typer.echo(f"drawing: {report}", err=json)


@topology.command()
def export(
    name: _Name,
    output: Annotated[
        Path | None, typer.Option("--output", "-o", metavar="FILE", help="File to write; default: stdout.")
    ] = None,
    format_name: Annotated[
        str,
        typer.Option(
            "--format",
            metavar="NAME",
            help="json: node-link JSON for networkx. nccl-xml: the first host as NCCL's topology (NCCL_TOPO_FILE). "
            "simgrid: a SimGrid platform with our routes, up to 128 GPUs.",
        ),
    ] = "json",
    json: Annotated[bool, typer.Option("--json", help="The same as --format json.")] = False,
) -> None:
    """Write a cluster for networkx and other tools."""
    from clustersim.interchange.topology_exports import EXPORTS
    from clustersim.results.files import write_atomically
    from clustersim.topology import load_topology

    if json and format_name != "json":
        raise typer.BadParameter(f"--json and --format {format_name} exclude each other")
    write = EXPORTS[format_name]
    text = write(load_topology(name))
    if output is None:
        typer.echo(text)
    else:
        typer.echo(f"graph: {write_atomically(output, text)}")


def description(document: Mapping[str, Any]) -> str:
    """Return a `clustersim.topology/1` document as text with units, one fact per line."""
    from clustersim.units import format_rate

    lines = [
        f"hosts      {document['num_hosts']}{_in_domains(document)}",
        f"GPUs       {document['num_gpus']}",
        f"links      {document['num_links']} (directed)",
        f"bisection  {_or_dash(document['bisection_bytes_per_s'], format_rate)} between the halves of rank order",
        f"diameter   {document['diameter_hops']} links between the most distant GPUs",
    ]
    route = document.get("route")
    if route:
        lines += ["route", *(f"  {link}" for link in route["links"]), *_route_summary(route)]
    return "\n".join(lines)


def _in_domains(document: Mapping[str, Any]) -> str:
    """Return in how many NVLink domains of several hosts the hosts are, if in any."""
    number = document["num_nvlink_domains"]
    return "" if number is None else f", in {number} NVLink domain{'s' if number > 1 else ''}"


def _route_summary(route: Mapping[str, Any]) -> list[str]:
    from clustersim.units import format_duration, format_rate

    return [
        f"latency    {format_duration(route['latency_s'])}",
        f"bottleneck {_or_dash(route['bottleneck_bytes_per_s'], format_rate)}, {_or_dash(route['bottleneck'], str)}",
    ]


def _or_dash(value: float | None, write: Any) -> str:
    return "-" if value is None else str(write(value))


def _end(text: str) -> str | int:
    """Return a GPU's number, or a node's name unchanged."""
    return int(text) if text.isdecimal() else text
