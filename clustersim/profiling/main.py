"""The profiler's own command line, for a node that has only torch: `python profile_kernels.pyz MODEL`."""

from __future__ import annotations

import argparse
import json
import math
import sys
import time
from collections.abc import Sequence
from dataclasses import replace
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from clustersim.profiling.campaign import LAYOUTS, PRECISIONS, Campaign, parse_batches, parse_names
from clustersim.profiling.errors import ProfilingError

INTERRUPTED = "interrupted; measurements are kept in {folder}: call again to resume"
_PROGRESS_EVERY_S = 5.0


def run_profile(campaign: Campaign, folder: Path, compact: bool = False) -> tuple[Path, dict[str, Any]]:
    """Run a campaign; return the profile's file and the profile. Without torch, or without any point, it is refused."""
    if find_spec("torch") is None:
        raise ProfilingError("the profiler measures with torch, which is not installed here: pip install torch")
    from clustersim.profiling.models import MODELS, canonical, model_writer

    campaign = replace(campaign, model=canonical(campaign.model))
    if model_writer(campaign.model) is None:
        parse_names("model", campaign.model, [*sorted(MODELS), "gpt-LAYERSxFEATURESxHEADS-seqTOKENS"])
    from clustersim.profiling.run import run_campaign

    progress = Progress()
    try:
        path, document = run_campaign(campaign, folder, progress.show, compact)
    except OSError as error:
        raise ProfilingError(f"cannot write to {folder}: {error.strerror}") from None
    finally:
        progress.clear()
    if not document["whole"]:
        reasons = "; ".join(f"{row['precision']} batch {row['batch']}: {row['reason']}" for row in document["skipped"])
        raise ProfilingError(f"no point could be measured ({reasons}); measurements are kept in {folder}")
    return path, document


def make_campaign(
    model: str,
    device: str,
    batch: str,
    precision: str,
    layout: str,
    autotune: bool = True,
    kernel_ms: float = 20.0,
    max_seconds: float | None = None,
    check: str | None = None,
    rounds: int = 1,
) -> Campaign:
    """Return the campaign of a command line; an invalid option is a `ProfilingError`."""
    for option, value in (("--kernel-ms", kernel_ms), ("--max-seconds", max_seconds)):
        if value is not None and not (value > 0 and math.isfinite(value)):
            raise ProfilingError(f"{option} is a time above 0 (got {value:g})")
    if rounds < 1:
        raise ProfilingError(f"--rounds is a number from 1 (got {rounds})")
    return Campaign(
        model=model,
        device=device,
        batches=parse_batches(batch),
        precisions=parse_names("precision", precision, PRECISIONS),
        layouts=parse_names("layout", layout, LAYOUTS),
        autotune=autotune,
        kernel_s=kernel_ms / 1e3,
        max_s=math.inf if max_seconds is None else max_seconds,
        checks=() if check is None else parse_batches(check, "--check"),
        rounds=rounds,
    )


class Progress:
    """Prints progress on stderr: every change on a terminal, every few seconds in a log."""

    def __init__(self) -> None:
        self.last_s = -math.inf

    def show(self, share: float, what: str) -> None:
        if sys.stderr.isatty():
            print(f"\r\x1b[K{share:4.0%} {what}"[:200], end="", file=sys.stderr, flush=True)
        elif time.monotonic() - self.last_s > _PROGRESS_EVERY_S:
            self.last_s = time.monotonic()
            print(f"profiled {share:.0%} ({what})", file=sys.stderr, flush=True)

    def clear(self) -> None:
        if sys.stderr.isatty():
            print("\r\x1b[K", end="", file=sys.stderr, flush=True)


def summary(document: dict[str, Any]) -> list[str]:
    """Return the results of a campaign, one line per point: the whole iteration and the sum of its layers."""
    lines = [f"{document['model']} on {document['device']['name']}"]
    for row in document["whole"]:
        lines.append(
            f"  {_point(row)}: {row['iteration_s'] * 1e3:.4g} ms an iteration "
            f"({row['batch'] / row['iteration_s']:.4g} samples/s){_sum_of_layers(row)}"
        )
    skipped = [f"  {_point(row)}: {row['reason']}" for row in document["skipped"]]
    return lines + (["not measured:", *skipped, "call again to resume"] if skipped else [])


def _point(row: dict[str, Any]) -> str:
    layout = "" if row["layout"] == "none" else f" {row['layout']}"
    return f"{row['precision']}{layout} batch {row['batch']}"


def _sum_of_layers(row: dict[str, Any]) -> str:
    layers = row["sum_of_layers"]
    if layers is None:
        return ""
    difference = (layers["forward_s"] + layers["backward_s"]) / (row["forward_s"] + row["backward_s"]) - 1
    return f"; layers add up to {difference:+.1%} of its passes"


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the profiler and return its exit status: 0 done, 2 usage, 3 nothing could be measured, 130 interrupted."""
    options = _parser().parse_args(arguments)
    try:
        campaign = make_campaign(
            options.model, options.device, options.batch, options.precision, options.layout,
            options.autotune, options.kernel_ms, options.max_seconds, options.check, options.rounds,
        )  # fmt: skip
        path, document = run_profile(campaign, options.output, options.compact)
    except ProfilingError as error:
        print(error, file=sys.stderr)
        return 3
    except KeyboardInterrupt:
        print(INTERRUPTED.format(folder=options.output), file=sys.stderr)
        return 130
    print(json.dumps(document) if options.json else "\n".join([*summary(document), f"profile: {path}"]))
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="profile_kernels", description="Measure the time of every layer of a model on this device."
    )
    parser.add_argument("model", metavar="MODEL", help="a model of clustersim's catalogue, such as resnet50")
    parser.add_argument("--device", default="cuda", help="cuda, cuda:1 or cpu; %(default)s if absent")
    parser.add_argument("--batch", default="1,8,32,128", metavar="LIST", help="such as 1,2,4,...,256; %(default)s")
    parser.add_argument("--precision", default="fp32", metavar="LIST", help=f"of {', '.join(PRECISIONS)}; %(default)s")
    parser.add_argument("--layout", default="nchw", metavar="LIST", help=f"of {', '.join(LAYOUTS)}; %(default)s")
    parser.add_argument("--output", "-o", type=Path, default=Path("profiles"), metavar="DIR", help="%(default)s")
    parser.add_argument("--no-autotune", dest="autotune", action="store_false", help="cuDNN tries no algorithms")
    parser.add_argument("--kernel-ms", type=float, default=20.0, help="time given to each kernel; %(default)s ms")
    parser.add_argument("--max-seconds", type=float, help="stop after this time; the next call resumes")
    parser.add_argument("--check", metavar="LIST", help="batches at which only whole iterations are timed")
    parser.add_argument("--rounds", type=int, default=1, help="repetitions of everything, if the machine drifts")
    parser.add_argument("--compact", action="store_true", help="one row for all layers of one shape")
    parser.add_argument("--json", action="store_true", help="print the profile")
    return parser
