"""`clustersim program` and `clustersim play`: print or export each rank's operations, and simulate traces."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

if TYPE_CHECKING:
    from clustersim.program.issue import IssueTimes
    from clustersim.simulate.programs import Programs

PROGRAM_SCHEMA = "clustersim.program/1"
_SHOWN_RANKS = 16


def program(
    scenario: Annotated[str, typer.Argument(metavar="SCENARIO", help="A scenario file, or the name of a shipped one.")],
    settings: Annotated[
        list[str] | None,
        typer.Option("--set", metavar="KEY=VALUE", help="Override a key of the scenario, such as 'num_gpus=8'."),
    ] = None,
    rank: Annotated[int, typer.Option(metavar="R", help="The rank whose program is printed.", min=0)] = 0,
    export_chakra: Annotated[
        Path | None,
        typer.Option(metavar="DIR", help="Write the programs of all ranks as Chakra traces, for ASTRA-sim."),
    ] = None,
    json: Annotated[bool, typer.Option("--json", help="Print one JSON document instead of the text.")] = False,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="Show no progress.")] = False,
) -> None:
    """Print the operations of a rank in one iteration.

    Each operation starts when the previous one ends; messages and collectives continue in the background. With
    --export-chakra, a new folder gets one file NAME.RANK.et per rank, and their communicator groups in the format of
    ASTRA-sim. Times are those of GPUs without slowdown.
    """
    from clustersim.cli.forecast import folder_name
    from clustersim.errors import InputError
    from clustersim.simulate.programs import one_point, programs_of
    from clustersim.simulate.setup import Setup

    name, point = one_point(scenario, settings or [])
    setup = Setup(point)
    programs = programs_of(setup)
    num_ranks = programs.grid.num_ranks
    if rank >= num_ranks:
        raise InputError(
            f"rank {rank} does not exist; there are {num_ranks} ranks", got=str(rank), allowed=f"0 to {num_ranks - 1}"
        )
    gpu_names = [setup.topology.node_names[node] for node in setup.topology.gpus[setup.gpus(0)].tolist()]
    if export_chakra is not None:
        _export(programs, export_chakra, folder_name(name), json, quiet)
    elif json:
        from clustersim.results.files import to_json

        typer.echo(to_json(_document(programs, rank, gpu_names[rank]), indent=2))
    else:
        typer.echo("\n".join(_lines(programs, rank, gpu_names[rank])))


def play(
    folder: Annotated[Path, typer.Argument(metavar="DIR", help="A folder of Chakra traces, NAME.RANK.et or .json.")],
    topology: Annotated[str, typer.Option(metavar="NAME|FILE", help="A shipped cluster, or a topology file.")],
    transport: Annotated[
        str, typer.Option(metavar="NAME", help="Such as nccl or mpi (clustersim list transports).")
    ] = "ideal",
    groups: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="ASTRA-sim's communicator groups; default: the JSON file in DIR."),
    ] = None,
    exact: Annotated[bool, typer.Option("--exact", help="Take no shortcut, simulate every event.")] = False,
    json: Annotated[bool, typer.Option("--json", help="Print one JSON document instead of the table.")] = False,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="Show no progress.")] = False,
) -> None:
    """Simulate Chakra execution traces on a cluster: those of `clustersim program`, or of another tool.

    Rank 0 is the first GPU of the cluster. Compute takes the recorded time. Messages and collectives use the cluster's
    links, the latter with the algorithm that the transport's own library would choose.
    """
    from clustersim.cli.progress import progress
    from clustersim.interchange.chakra import read_chakra
    from clustersim.simulate.traces import simulate_traces

    with progress(quiet) as on_progress:
        notes: list[str] = []
        graphs = read_chakra(folder, groups, notes=notes)
        document = simulate_traces(graphs, topology, transport, exact, lambda share: on_progress(share, folder.name))
    for note in notes:
        typer.echo(f"note: {note}", err=True)
    if json:
        from clustersim.results.files import to_json

        typer.echo(to_json(document, indent=2))
    else:
        typer.echo(_table(document))


def _export(programs: Programs, folder: Path, name: str, json: bool, quiet: bool) -> None:
    from clustersim.cli.progress import progress
    from clustersim.interchange.chakra import write_chakra
    from clustersim.results.files import to_json

    grid = programs.grid
    stage_of = [grid.stage(rank) for rank in range(grid.num_ranks)]
    with progress(quiet) as on_progress:
        written = write_chakra(
            folder, name, programs.tasks(), stage_of, programs.node, lambda share: on_progress(share, "traces")
        )
    if json:
        document = {
            "schema": "clustersim.chakra/1",
            "workload": str(written.folder / name),
            "groups": str(written.groups),
            "num_ranks": written.num_ranks,
            "num_nodes": written.num_nodes,
        }
        typer.echo(to_json(document, indent=2))
        return
    typer.echo(f"{written.num_ranks} traces, {written.num_nodes} nodes")
    typer.echo(f"--workload-configuration={written.folder / name}")
    typer.echo(f"--comm-group-configuration={written.groups}")


def _lines(programs: Programs, rank: int, gpu_name: str) -> list[str]:
    """Return a rank's program as text, after its position and groups."""
    from clustersim.program.ops import Program

    stage = programs.grid.stage(rank)
    head = [f"# rank {rank} of {programs.grid.num_ranks} ({gpu_name}): stage {stage} of {programs.grid.pipeline}"]
    for axis, ranks in _groups(programs, rank).items():
        shown = ", ".join(map(str, ranks[:_SHOWN_RANKS])) + (", ..." if len(ranks) > _SHOWN_RANKS else "")
        head.append(f"# {axis}: ranks {shown}")
    for number, bucket in enumerate(programs.plans[stage].iteration.buckets):
        head.append(f"# bucket {number}: {bucket.name}, {bucket.num_bytes:.6g} B")
    return [*head, *Program(stage, tuple(programs.ops(stage))).lines()]


def _groups(programs: Programs, rank: int) -> dict[str, tuple[int, ...]]:
    """Return the groups of a rank's collectives by axis, without groups of one rank."""
    groups = {axis: programs.group(rank, axis) for axis in ("tensor", "replicas")}
    return {axis: ranks for axis, ranks in groups.items() if len(ranks) > 1}


_KINDS = {"HostUpdate": "host-update"}
"""JSON names of operations whose class name has several words."""


def _issue(times: IssueTimes) -> dict[str, Any]:
    """Return when a host has issued the kernels of an operation, as JSON."""
    return {"host_s": times.host_s, "work_s": times.work_s.tolist(), "issued_s": times.issued_s.tolist()}


def _document(programs: Programs, rank: int, gpu_name: str) -> dict[str, Any]:
    from dataclasses import asdict

    from clustersim.program.ops import Compute

    stage = programs.grid.stage(rank)
    ops = []
    for op in programs.ops(stage):
        row = asdict(op)
        row |= {name: row[name]._asdict() for name in ("key", "after") if row.get(name)}
        if "issue" in row:
            row["issue"] = _issue(op.issue) if isinstance(op, Compute) and len(op.issue) else None
        ops.append({"kind": _KINDS.get(type(op).__name__, type(op).__name__.lower()), **row})
    return {
        "schema": PROGRAM_SCHEMA,
        "rank": rank,
        "gpu": gpu_name,
        "stage": stage,
        "grid": asdict(programs.grid),
        "groups": {axis: list(ranks) for axis, ranks in _groups(programs, rank).items()},
        "buckets": [asdict(bucket) for bucket in programs.plans[stage].iteration.buckets],
        "ops": ops,
    }


def _table(document: Mapping[str, Any]) -> str:
    """Return a `clustersim.play/1` document as a table in milliseconds."""
    lines = [
        f"# {document['num_ranks']} ranks, {document['num_nodes']} nodes on {document['topology']}, "
        f"transport {document['transport']}: {document['end_s'] * 1e3:.6g} ms",
        "#  rank          end      compute      exposed      waiting",
        "#               (ms)         (ms)         (ms)         (ms)",
    ]
    for row in document["ranks"]:
        times = (row[key] * 1e3 for key in ("end_s", "compute_s", "exposed_s", "waiting_s"))
        lines.append(f"{row['rank']:>7}" + "".join(f"{time:>13.6g}" for time in times))
    return "\n".join(lines)
