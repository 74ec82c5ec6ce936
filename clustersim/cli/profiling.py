"""`clustersim profile` and `clustersim import kineto`: measured times of every layer of a model."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

_MaxSeconds = Annotated[float | None, typer.Option(metavar="S", help="Stop after this time; the next call continues.")]
_Check = Annotated[str | None, typer.Option(metavar="LIST", help="Batches at which only whole iterations are timed.")]
_Rounds = Annotated[int, typer.Option(metavar="N", help="Number of repetitions, for a machine whose speed drifts.")]
_Script = Annotated[
    Path | None,
    typer.Option(metavar="FILE", help="Write the profiler as one file, for a node with only torch, and exit."),
]


def profile(
    model: Annotated[
        str | None, typer.Argument(metavar="MODEL", help="A model of the catalogue (clustersim list models).")
    ] = None,
    device: Annotated[str, typer.Option(metavar="D", help="cuda, cuda:1 or cpu.")] = "cuda",
    batch: Annotated[
        str, typer.Option(metavar="LIST", help="Batches: 1,2,4 or 1..256 (doubling) or 1,2,4,...,256.")
    ] = "1,8,32,128",
    precision: Annotated[str, typer.Option(metavar="LIST", help="Any of fp32, tf32, amp-bf16, amp-fp16.")] = "fp32",
    layout: Annotated[str, typer.Option(metavar="LIST", help="Any of nchw, nhwc: memory layout of images.")] = "nchw",
    output: Annotated[Path, typer.Option("--output", "-o", metavar="DIR", help="Folder of the profiles.")] = Path(
        "profiles"
    ),
    autotune: Annotated[bool, typer.Option(help="cuDNN autotuning; on and off have separate profiles.")] = True,
    kernel_ms: Annotated[float, typer.Option(metavar="MS", help="Measuring time per kernel.")] = 20.0,
    max_seconds: _MaxSeconds = None,
    check: _Check = None,
    rounds: _Rounds = 1,
    compact: Annotated[bool, typer.Option("--compact", help="Write one row for all layers of the same shape.")] = False,
    json: Annotated[bool, typer.Option("--json", help="Print the profile.")] = False,
    write_script: _Script = None,
) -> None:
    """Measure every layer of a model on this device: forward, gradient of the data, gradient of the weights.

    The profile goes to DIR/MODEL-DEVICE.json, for `compute: {profile: FILE}` of a scenario. Each measurement is saved
    at once, so that an interrupted profile continues with the next call.
    """
    if write_script is not None:
        _write_script(write_script, model)
        return
    if model is None:
        raise typer.BadParameter("name a model, or --write-script FILE", param_hint="'MODEL'")
    from clustersim.errors import InputError
    from clustersim.profiling.errors import ProfilingError
    from clustersim.profiling.main import INTERRUPTED, make_campaign, run_profile, summary

    try:
        campaign = make_campaign(
            model, device, batch, precision, layout, autotune, kernel_ms, max_seconds, check, rounds
        )
        path, document = run_profile(campaign, output, compact)
    except ProfilingError as error:
        raise InputError(str(error)) from None
    except KeyboardInterrupt:
        typer.echo(INTERRUPTED.format(folder=output), err=True)
        raise
    if json:
        from clustersim.profiling.document import to_text

        typer.echo(to_text(document), nl=False)
    else:
        typer.echo("\n".join([*summary(document), f"profile: {path}"]))


def _write_script(path: Path, model: str | None) -> None:
    if model is not None:
        raise typer.BadParameter("--write-script measures nothing; omit MODEL", param_hint="'MODEL'")
    from clustersim.errors import InputError
    from clustersim.profiling.pack import write_profiler

    try:
        typer.echo(f"profiler: {write_profiler(path)}")
    except OSError as error:
        raise InputError(f"cannot write {path}: {error.strerror}", got=str(path)) from None


def import_kineto(
    traces: Annotated[
        list[Path],
        typer.Argument(
            metavar="FILE...",
            help="File from export_chrome_trace (.json, .json.gz, .zip), or one for each rank, or their folder.",
        ),
    ],
    output: Annotated[
        Path | None, typer.Option("--output", "-o", metavar="FILE", help="The profile to write; default: stdout.")
    ] = None,
    model: Annotated[
        str | None, typer.Option(metavar="MODEL", help="Name the layers as in this model of the catalogue.")
    ] = None,
    batch: Annotated[
        int | None, typer.Option(metavar="N", help="The batch, if the trace has no shapes.", min=1)
    ] = None,
    precision: Annotated[
        str | None, typer.Option(metavar="P", help="The precision, if the trace has no types or if it is tf32.")
    ] = None,
    layout: Annotated[str | None, typer.Option(metavar="L", help="nchw or nhwc, if the trace has no strides.")] = None,
    device: Annotated[str | None, typer.Option(metavar="NAME", help="The GPU, if the trace does not name it.")] = None,
) -> None:
    """Make a layer profile from a torch.profiler trace (Kineto).

    Profile training steps with record_shapes=True, a schedule, and prof.step() in the loop; without a schedule, steps
    end with those of the optimizer. with_stack=True, or a torch.profiler.record_function around each module, names the
    layers; a mark around a pass or several modules names none. Communication, optimizer steps and recomputation are
    noted and belong to no layer.
    """
    from clustersim.errors import InputError
    from clustersim.interchange.kineto import import_kineto as read
    from clustersim.profiling.document import rounded, to_text, write_document

    imported = read(traces, model, batch, precision, layout, device)
    document = rounded(imported.document)
    for note in imported.notes:
        typer.echo(f"note: {note}", err=True)
    if output is None:
        typer.echo(to_text(document), nl=False)
        return
    try:
        write_document(document, output)
    except OSError as error:
        raise InputError(f"cannot write {output}: {error.strerror}", got=str(output)) from None
    typer.echo(f"profile: {output}")
