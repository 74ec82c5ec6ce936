"""`clustersim import`: models from other tools' files, as workload files."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from clustersim.interchange.imported import Imported

importing = typer.Typer(
    name="import",
    help="Make workloads and profiles of what other tools have.",
    no_args_is_help=True,
    rich_markup_mode=None,
)

_Output = Annotated[
    Path | None,
    typer.Option("--output", "-o", metavar="FILE", help="The workload file to write (.yaml); stdout if absent."),
]
_Name = Annotated[str | None, typer.Option(metavar="NAME", help="What the model is called in forecasts.")]


@importing.command("torch")
def torch_model(
    target: Annotated[
        str,
        typer.Argument(metavar="MODULE:NAME", help="Where the model is built: my_module:build, or my/file.py:build."),
    ],
    inputs: Annotated[
        list[str],
        typer.Option(
            "--input",
            metavar="SHAPE[:DTYPE]",
            help="One sample's input, such as 3,224,224 or 128:int64; once for each. N: the batch is not first.",
        ),
    ],
    output: _Output = None,
    name: _Name = None,
) -> None:
    """Trace any torch module into a workload.

    It runs on tensors without numbers, so no weights and no GPU are needed. NAME is a function or class that takes
    no arguments, or a module. A scenario takes the file as its model.
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
        typer.Option(metavar="N", min=1, help="Tokens of one sample; as many as fit, up to 1024, if absent."),
    ] = None,
    output: _Output = None,
    name: _Name = None,
) -> None:
    """Make a workload of a Hugging Face config.json.

    No weights and no network are needed. A model_type that is not known is told with those that are.
    """
    from clustersim.interchange.hf_config import import_hf

    _write(import_hf(config, tokens, name or _stem(output)), output)


@importing.command("onnx")
def onnx_model(
    model: Annotated[Path, typer.Argument(metavar="MODEL", help="An ONNX file; its weights are not read.")],
    sizes: Annotated[
        list[str] | None,
        typer.Option(
            "--dim", metavar="NAME=SIZE", help="How long a dimension is that the file leaves open; the batch need not."
        ),
    ] = None,
    batch: Annotated[
        int | None,
        typer.Option(
            metavar="N", min=1, help="Samples that the file works on; the first dimension of its first input if absent."
        ),
    ] = None,
    output: _Output = None,
    name: _Name = None,
) -> None:
    """Make a workload of an ONNX file.

    Export it in training mode, or what only training has is missing.
    """
    from clustersim.interchange.onnx_model import import_onnx, parse_sizes

    _write(import_onnx(model, parse_sizes(sizes or []), name or _stem(output), batch), output)


def _stem(output: Path | None) -> str | None:
    return output.stem if output is not None else None


def _write(imported: Imported, output: Path | None) -> None:
    """Write a workload file; what a user should know goes to stderr, the text alone to stdout."""
    from clustersim.model.write_workload import workload_text, write_workload_file

    if output is None:
        typer.echo(workload_text(imported.model), nl=False)
    else:
        typer.echo(f"workload: {write_workload_file(imported.model, output)}")
    typer.echo(imported.summary(), err=output is None)
    twin = imported.catalogue_match()
    same = f"the catalogue's {twin} has the same parameters and FLOP, and published rates where there are any"
    for note in (*imported.notes, *([same] if twin else [])):
        typer.echo(f"note: {note}", err=True)
