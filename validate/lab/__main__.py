"""`make lab`, or `python -m validate.lab`: run a campaign and print simulated against measured figures."""

from __future__ import annotations

import argparse
import os
import signal
import sys
import time
import warnings
from collections.abc import Iterator, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory

from clustersim.errors import InputError
from validate.lab.campaign import CAMPAIGNS
from validate.lab.case import Case
from validate.lab.document import campaign_document, read_campaign, write_campaign
from validate.lab.experiments import Experiment
from validate.lab.load import Load, loaded, share
from validate.lab.sandbox import enter, is_inside, unavailable_reason
from validate.lab.score import compare, judge, report

NOT_HERE = 5
"""Exit status if the lab cannot run on this machine."""

FAILED = 1
"""Exit status if an experiment could not be finished."""

OUTSIDE = 4
"""Exit status if the error of a group is above its limit, as in all of clustersim."""


def main(arguments: Sequence[str]) -> int:
    """Run a campaign, or read one, and print the comparison; return the exit status."""
    given = _parser().parse_args(arguments)
    if given.measured is not None:
        _, cases = read_campaign(given.measured)
        return show(cases)
    reason = None if is_inside() else unavailable_reason()
    if reason is not None:
        print(f"THE LAB CANNOT RUN HERE: {reason}", file=sys.stderr)
        return NOT_HERE
    if not is_inside():
        enter(arguments)
    name = "quick" if given.quick else "learning" if given.learning else "full"
    chosen = [each for each in CAMPAIGNS[name] if given.only is None or type(each).__name__ == given.only]
    return run_and_show(name, chosen, given.output / f"lab-{name}.json")


def run_and_show(name: str, experiments: Sequence[Experiment], path: Path) -> int:
    """Run a campaign, write its measurements to a file, and print the comparison; return the exit status.

    A failed experiment is reported, and all others are compared.
    """
    began_s, before = time.monotonic(), Load.now()
    cases: list[Case] = []
    failures = list(run(experiments, cases))
    took_s, after = time.monotonic() - began_s, Load.now()
    busy, other = share(before, after), loaded(before, after, os.cpu_count() or 1)
    write_campaign(campaign_document(name, cases, took_s, busy, other), path)
    status = show(cases) if cases else FAILED
    print(f"\n{len(cases)} cases in {took_s:.0f} s, processors {busy:.0%} busy; written to {path}")
    if other is not None:
        print(f"THE MACHINE WAS LOADED, which may explain slow figures above: {other}", file=sys.stderr)
    for failure in failures:
        print(f"FAILED: {failure}", file=sys.stderr)
    return FAILED if failures else status


def run(experiments: Sequence[Experiment], cases: list[Case]) -> Iterator[str]:
    """Run experiments one after the other and add their cases; yield the errors of failed ones."""
    if any(each.needs_torch for each in experiments):
        load_torch()
    for number, experiment in enumerate(experiments, start=1):

        def on_progress(text: str, number: int = number) -> None:
            print(f"[{number}/{len(experiments)}] {text}", file=sys.stderr, flush=True)

        with TemporaryDirectory() as folder:
            try:
                cases.extend(experiment.cases(Path(folder), on_progress))
            except (RuntimeError, OSError) as error:
                yield f"{number}/{len(experiments)} {type(experiment).__name__}: {error}"


def load_torch() -> None:
    """Import torch once, before the ranks are forked."""
    warnings.filterwarnings("ignore", category=FutureWarning, module="torch")
    import torch
    import torch._dynamo
    import torch.distributed
    import torch.nn.parallel

    torch.set_num_threads(1)


def show(cases: Sequence[Case]) -> int:
    """Print the tables; return the exit status."""
    rows = compare(cases)
    print(report(rows))
    return OUTSIDE if any(each.missed for each in judge(rows)) else 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m validate.lab", description=__doc__)
    parser.add_argument("--quick", action="store_true", help="a campaign of about one minute instead of five")
    parser.add_argument("--learning", action="store_true", help="real trainings of a task, for ten minutes")
    kinds = sorted({type(each).__name__ for campaign in CAMPAIGNS.values() for each in campaign})
    parser.add_argument("--only", choices=kinds, help="experiments of one kind only")
    parser.add_argument("--output", type=Path, default=Path("runs"), help="folder for the measurements (default: runs)")
    parser.add_argument("--measured", type=Path, help="compare an existing campaign file, and run nothing")
    return parser


if __name__ == "__main__":
    signal.signal(signal.SIGTERM, lambda number, frame: sys.exit(128 + number))
    try:
        sys.exit(main(sys.argv[1:]))
    except KeyboardInterrupt:
        sys.exit(128 + signal.SIGINT)
    except InputError as error:
        print(error, file=sys.stderr)
        sys.exit(error.exit_status)
