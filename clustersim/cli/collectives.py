"""`clustersim collective`: time of a collective, in the format of nccl-tests."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any

import typer


def collective(
    op: Annotated[
        str, typer.Argument(metavar="OP", help="Such as all-reduce or broadcast (clustersim list collectives).")
    ],
    topology: Annotated[str, typer.Option(metavar="NAME|FILE", help="A shipped cluster, or a topology file.")],
    gpus: Annotated[int, typer.Option(metavar="N", help="Number of GPUs, placed host after host.", min=1)],
    sizes: Annotated[str, typer.Option("--bytes", metavar="SIZE[..SIZE]", help="One size, or doubling: '8B..1GiB'.")],
    algorithm: Annotated[
        str,
        typer.Option(
            metavar="NAME",
            help="Such as ring or tree; auto is the choice of the transport's own library, "
            "nccl-1, nccl-2.4, open-mpi-4.0 and open-mpi-4.1 the choice of these libraries.",
        ),
    ] = "auto",
    transport: Annotated[
        str, typer.Option(metavar="NAME", help="Such as nccl or mpi (clustersim list transports).")
    ] = "ideal",
    exact: Annotated[
        bool, typer.Option("--exact", help="Take no shortcut, such as extrapolating repeated steps.")
    ] = False,
    json: Annotated[bool, typer.Option("--json", help="Print one JSON document instead of the table.")] = False,
) -> None:
    """Time a collective on an otherwise idle cluster.

    Sizes, times and bandwidths are defined as in nccl-tests: algbw is size / time; busbw is algbw times the share of
    the size that the busiest GPU sends, and is comparable with the rate of a link.
    """
    num_bytes = parse_sizes(sizes)
    from clustersim.cli.progress import progress
    from clustersim.simulate import time_collective

    with progress() as on_progress:
        document = time_collective(
            op, topology, algorithm, gpus, num_bytes, transport, exact, lambda share: on_progress(share, op)
        )
    if json:
        from clustersim.results.files import to_json

        typer.echo(to_json(document, indent=2))
    else:
        typer.echo(f"# {op} ({algorithm}) of {gpus} GPUs on {topology}, transport {transport}")
        rows = document["rows"]
        typer.echo(nccl_tests_table(rows, with_algorithm=any(row["algorithm"] != algorithm for row in rows)))


def parse_sizes(text: str) -> list[float]:
    """Return the sizes of `--bytes` in bytes, doubling from the first up to at most the last.

    A number without a unit is in bytes.

    >>> parse_sizes("8B..20B"), parse_sizes("1MiB"), parse_sizes("4096")
    ([8.0, 16.0], [1048576.0], [4096.0])
    """
    from clustersim.errors import InputError
    from clustersim.units import parse

    first_text, dots, last_text = (f"{part}B" if part.strip().isdecimal() else part for part in text.partition(".."))
    try:
        first = parse(first_text, "size")
        last = parse(last_text, "size") if dots else first
    except InputError as error:
        raise typer.BadParameter(str(error), param_hint="'--bytes'") from None
    if dots and not 0 < first <= last:
        raise typer.BadParameter(
            f"'{text}' must be two sizes above zero, the smaller one first, such as 8B..1GiB",
            param_hint="'--bytes'",
        )
    sizes = [first]
    while dots and sizes[-1] * 2 <= last:
        sizes.append(sizes[-1] * 2)
    return sizes


def nccl_tests_table(rows: list[Mapping[str, Any]], with_algorithm: bool = False) -> str:
    """Return rows of a `clustersim.collective/1` document in the units of nccl-tests: us and GB/s (1e9 bytes)."""
    lines = ["#          size          time     algbw     busbw", "#           (B)          (us)    (GB/s)    (GB/s)"]
    for row in rows:
        rates = [_gigabytes(row["algbw_bytes_per_s"]), _gigabytes(row["busbw_bytes_per_s"])]
        name = f"  {row['algorithm']}" if with_algorithm else ""
        lines.append(f"{row['num_bytes']:>15.10g} {row['time_s'] * 1e6:>13.2f} {rates[0]:>9} {rates[1]:>9}{name}")
    return "\n".join(lines)


def _gigabytes(bytes_per_s: float | None) -> str:
    return "-" if bytes_per_s is None else f"{bytes_per_s / 1e9:.3f}"
