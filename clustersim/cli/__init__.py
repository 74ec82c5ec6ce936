"""Command line: maps arguments to library calls, and errors to exit statuses. It computes nothing.

Packages are imported inside the commands, so that `clustersim --help` starts fast. Exit status: 0 success, 1 the
simulation failed, 2 usage error, 3 error in the scenario or another input file, 4 above the requested tolerance, 130
interrupted, 143 terminated (`plan`, `sweep`).
"""

from __future__ import annotations

import sys
from typing import Annotated

import typer

from clustersim import __version__
from clustersim.cli.calibration import calibrate
from clustersim.cli.clusters import topology
from clustersim.cli.collectives import collective
from clustersim.cli.comparing import diff
from clustersim.cli.explaining_why import why
from clustersim.cli.failure import INTERRUPTED, report_failure, report_interrupt, report_unwritten
from clustersim.cli.files import copy, schema
from clustersim.cli.forecast import report, run
from clustersim.cli.importing import importing
from clustersim.cli.listing import list_names
from clustersim.cli.planning import plan
from clustersim.cli.profiling import import_kineto, profile
from clustersim.cli.programs import play, program
from clustersim.cli.registering import register
from clustersim.cli.serving import serve
from clustersim.cli.software import migrate, software
from clustersim.cli.starting import explain, init
from clustersim.cli.streams import flush_output, usable_streams
from clustersim.cli.sweeping import export, merge, status, sweep
from clustersim.cli.validation import validate

__all__ = ["app", "main"]

app = typer.Typer(
    name="clustersim",
    help="Forecast the training speed of a deep-learning model on a GPU cluster, and what limits it.",
    epilog="Start with: clustersim run llama-h100",
    no_args_is_help=True,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
)
app.command()(run)
app.command()(sweep)
app.command()(status)
app.command()(merge)
app.command()(export)
app.command()(diff)
app.command()(plan)
app.command()(why)
app.command()(serve)
app.command()(collective)
app.command()(program)
app.command()(play)
app.add_typer(topology)
app.command()(profile)
app.command()(validate)
app.add_typer(register)
app.command()(calibrate)
app.command()(report)
importing.command("kineto")(import_kineto)
app.add_typer(importing)
app.command("list")(list_names)
app.add_typer(software)
app.command()(copy)
app.command()(migrate)
app.command()(schema)
app.command()(explain)
app.command()(init)


def _print_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"clustersim {__version__}")
        raise typer.Exit


@app.callback()
def _options(
    version: Annotated[
        bool, typer.Option("--version", callback=_print_version, is_eager=True, help="Print the version and exit.")
    ] = False,
) -> None:
    """Options before the command."""


def main(arguments: list[str] | None = None) -> int:
    """Run one command line and return its exit status; `arguments` default to those of the process.

    Errors are printed on stderr, and with `--json` also as one `clustersim.error/1` document on stdout.
    """
    arguments = sys.argv[1:] if arguments is None else arguments
    with usable_streams():
        status = _status_of(arguments)
        unwritten = flush_output()
        return status if unwritten is None else report_unwritten(unwritten, status)


def _status_of(arguments: list[str]) -> int:
    """Run one command line on usable streams, and return its exit status."""
    as_json = "--json" in arguments
    try:
        status = app(arguments, prog_name="clustersim", standalone_mode=False)
    except typer.Abort:  # Ctrl-C or the end of the input at a question
        return report_interrupt(as_json)
    except OSError as error:
        return report_unwritten(error, 1) if error.filename is None else report_failure(error, as_json)
    except Exception as error:
        return report_failure(error, as_json)
    except SystemExit as exit:  # from typer: closed pipe, or shell completion
        return exit.code if isinstance(exit.code, int) else 0
    if status == INTERRUPTED:
        return report_interrupt(as_json)
    return status if isinstance(status, int) else 0
