"""`clustersim import`: workload and topology files from files of other tools."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

if TYPE_CHECKING:
    from clustersim.interchange.imported import Imported


importing = typer.Typer(
    name="import",
    help="Make workloads, profiles and topologies from files of other tools.",
    no_args_is_help=True,
    rich_markup_mode=None,
)

_Output = Annotated[
    Path | None,
    typer.Option("--output", "-o", metavar="FILE", help="The workload file to write (.yaml); default: stdout."),
]
_Name = Annotated[str | None, typer.Option(metavar="NAME", help="Name of the model in forecasts.")]


@importing.command("torch")
def torch_model(
    target: Annotated[
        str,
        typer.Argument(metavar="MODULE:NAME", help="What builds the model: my_module:build, or my/file.py:build."),
    ],
    inputs: Annotated[
        list[str],
        typer.Option(
            "--input",
            metavar="SHAPE[:DTYPE]",
            help="Shape of one sample's input, such as 3,224,224 or 128:int64; one option per input. N: "
            "the batch is not first.",
        ),
    ],
    output: _Output = None,
    name: _Name = None,
) -> None:
    """Trace any torch module into a workload.

    This runs the code of MODULE with your rights. The model runs on tensors without data, so neither weights nor a GPU
    are needed. NAME is a function or class without
    arguments, or a module. A scenario may use the file as its model.
    """
    from clustersim.interchange.torch_model import import_torch, parse_input

    specs = [parse_input(text) for text in inputs]
    if sys.stderr.isatty():
        typer.echo(f"tracing {target}; torch takes some seconds to load", err=True)
    _write(import_torch(target, specs, name or _stem(output)), output)


@importing.command("hf")
def hf_config(
    config: Annotated[Path, typer.Argument(metavar="CONFIG", help="A Hugging Face config.json.")],
    tokens: Annotated[
        int | None,
        typer.Option(metavar="N", min=1, help="Tokens of one sample; default: as many as fit, up to 1024."),
    ] = None,
    image_size: Annotated[
        int | None,
        typer.Option(metavar="PIXELS", min=1, help="Height and width of a sample's image; default: the config's."),
    ] = None,
    attention: Annotated[
        Literal["eager", "sdpa"] | None,
        typer.Option(help="One fused kernel (sdpa), the default, or kernel by kernel (eager)."),
    ] = None,
    output: _Output = None,
    name: _Name = None,
) -> None:
    """Make a workload from a Hugging Face config.json.

    Neither weights nor a network are needed. The error for an unknown model_type lists the known ones.
    """
    from clustersim.interchange.hf_config import import_hf

    _write(import_hf(config, tokens, name or _stem(output), image_size, attention), output)


@importing.command("onnx")
def onnx_model(
    model: Annotated[Path, typer.Argument(metavar="MODEL", help="An ONNX file; its weights are not read.")],
    sizes: Annotated[
        list[str] | None,
        typer.Option(
            "--dim",
            metavar="NAME=SIZE",
            help="Size of an open dimension of the file; not needed for the batch.",
        ),
    ] = None,
    batch: Annotated[
        int | None,
        typer.Option(
            metavar="N", min=1, help="Batch of the file, in samples; default: the first dimension of its first input."
        ),
    ] = None,
    output: _Output = None,
    name: _Name = None,
) -> None:
    """Make a workload from an ONNX file.

    Export the file in training mode; otherwise layers used only in training are missing.
    """
    from clustersim.interchange.onnx_model import import_onnx, parse_sizes

    _write(import_onnx(model, parse_sizes(sizes or []), name or _stem(output), batch), output)


@importing.command("topology")
def topology_files(
    files: Annotated[
        list[Path],
        typer.Argument(metavar="FILE...", help="A description of a host, of a network, or one of each; in any order."),
    ],
    gpu: Annotated[
        str | None,
        typer.Option(metavar="SHEET", help="The GPU (clustersim list gpus); default: the one that the file names."),
    ] = None,
    hosts: Annotated[
        int | None, typer.Option(metavar="N", min=1, help="Hosts of a host file, on one switch; default: one alone.")
    ] = None,
    link: Annotated[
        str | None,
        typer.Option(metavar="LINK", help="Link of cables whose rate no file has (clustersim list links), or a rate."),
    ] = None,
    format_name: Annotated[
        str | None, typer.Option("--format", metavar="NAME", help="The format of the file, if it is not recognised.")
    ] = None,
    output: Annotated[
        Path | None,
        typer.Option("--output", "-o", metavar="FILE", help="The topology file to write (.yaml); default: stdout."),
    ] = None,
) -> None:
    """Make a topology file from what tools say of a host or a network.

    Hosts: nvidia-smi topo -m, NCCL's topology, lstopo's XML, rocm-smi --showtopo. Networks: ibnetdiscover, SLURM's
    topology.conf, InfraGraph, ASTRA-sim's network file, SimGrid's platform. Everything that the topology does not
    represent is a note.
    """
    from clustersim.interchange.topology_files import import_topology, topology_text
    from clustersim.results.files import write_atomically

    found = import_topology(files, gpu, hosts, link, format_name)
    if output is None:
        typer.echo(topology_text(found), nl=False)
    else:
        _check_yaml(output)
        typer.echo(f"topology: {write_atomically(output, topology_text(found))}")
    typer.echo(found.summary(), err=output is None)
    for note in found.notes:
        typer.echo(f"note: {note}", err=True)


def _check_yaml(output: Path) -> None:
    if output.suffix not in (".yaml", ".yml"):
        from clustersim.errors import InputError

        raise InputError(
            f"a topology file ends in .yaml (got '{output}')", got=str(output), allowed="a name that ends in .yaml"
        )


def _stem(output: Path | None) -> str | None:
    return output.stem if output is not None else None


def _write(imported: Imported, output: Path | None) -> None:
    """Write a workload file, or its text to stdout; notes go to stderr."""
    from clustersim.model.write_workload import workload_text, write_workload_file

    if output is None:
        typer.echo(workload_text(imported.model), nl=False)
    else:
        typer.echo(f"workload: {write_workload_file(imported.model, output)}")
    typer.echo(imported.summary(), err=output is None)
    same = imported.catalogue_match()
    note = f"the catalogue's {same} has the same parameters and FLOP, and published rates if there are any"
    for text in (*imported.notes, *([note] if same else [])):
        typer.echo(f"note: {text}", err=True)
