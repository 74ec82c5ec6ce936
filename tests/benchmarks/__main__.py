"""How fast the network is, beside SimGrid where that is installed: `make bench`, or `python -m tests.benchmarks`."""

from __future__ import annotations

import argparse
import re
import sys
from collections.abc import Sequence
from pathlib import Path

from .machine import ROOT, calibrate, describe_commit, describe_machine, describe_versions, imports
from .page import page, tables, write_whole
from .rounds import measure
from .simgrid.programs import why_missing
from .table import WORKS, Work

PAGE = ROOT / "docs" / "benchmarks.md"


def chosen(pattern: str | None, quick: bool) -> dict[str, Work]:
    """Return the works whose name or title the pattern is found in; all without one. `quick` takes small forms.

    Those whose extra is not installed are left out.
    """
    every = small_works() if quick else WORKS
    works = {name: work for name, work in every.items() if work.is_possible}
    if pattern is None:
        return works
    found = {name: work for name, work in works.items() if re.search(pattern, f"{name} {work.spec}")}
    if not found:
        sys.exit(f"no work is called '{pattern}'; there are {', '.join(works)}")
    return found


def small_works() -> dict[str, Work]:
    """Return the small forms of the works, each once."""
    found: dict[str, Work] = {}
    for name, work in WORKS.items():
        if work.small().spec not in {other.spec for other in found.values()}:
            found[name] = work.small()
    return found


def about(rounds: int) -> list[tuple[str, str]]:
    """Return what the page says about how it was made."""
    facts = [
        ("machine", describe_machine()),
        ("calibration", f"a million additions in a Python loop take {calibrate():.3f} s"),
        ("imports", f"numpy and SimPy alone take {imports('numpy, simpy'):.2f} s, numba {imports('numba'):.2f} s"),
        ("versions", describe_versions()),
        ("commit", describe_commit()),
        ("rounds", str(rounds)),
    ]
    left_out = [name for name, work in WORKS.items() if not work.is_possible]
    facts += [("left out", f"{', '.join(left_out)}, which need an extra")] if left_out else []
    return facts + ([("SimGrid", missing)] if (missing := why_missing()) else [])


def main(arguments: Sequence[str] | None = None) -> None:
    """Measure, and print tables or write the page."""
    parser = argparse.ArgumentParser(prog="python -m tests.benchmarks", description=__doc__)
    parser.add_argument("--quick", action="store_true", help="small forms of the works, one round")
    parser.add_argument("--only", metavar="PATTERN", help="only works whose name or title this is found in")
    parser.add_argument("--rounds", type=int, help="how often each work is measured (default: 5, or 1 with --quick)")
    parser.add_argument("--output", type=Path, help=f"page to write (default: {PAGE.relative_to(ROOT)} for a full run)")
    given = parser.parse_args(arguments)
    rounds = given.rounds or (1 if given.quick else 5)
    output = given.output or (None if given.quick or given.only else PAGE)
    facts = about(rounds)
    rows = [
        measure(name, work, rounds, given.quick, say=lambda text: print(text, file=sys.stderr, flush=True))
        for name, work in chosen(given.only, given.quick).items()
    ]
    if output:
        write_whole(output, page(rows, facts))
    else:
        print("\n".join(f"- {name}: {text}" for name, text in facts), tables(rows), sep="\n\n")


if __name__ == "__main__":
    main()
