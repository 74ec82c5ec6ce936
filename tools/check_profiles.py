"""Ships measured profiles, and holds forecasts of whole iterations against those that the profiles have.

    python tools/check_profiles.py                                  the table of the shipped profiles, onto its page
    python tools/check_profiles.py FOLDER --gpu SHEET --note TEXT   first ship the profiles of a folder

A profile is made by `clustersim profile MODEL --batch ... --check ... -o FOLDER`. What ships is called after model and
device sheet and has one row for all layers of one shape, without what no forecast reads (times with a warm cache, how
samples were taken); `--note` says what the numbers cannot, such as whose machine it was.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Sequence
from pathlib import Path
from statistics import median

from clustersim.hardware import load_gpu
from clustersim.kernels.profile import SHIPPED, read_profile, shipped_profiles
from clustersim.kernels.whole_iterations import CheckedIteration, checked_iterations
from clustersim.profiling.document import merged, write_document

PAGE = Path(__file__).resolve().parent.parent / "docs" / "how-to" / "profile-a-gpu.md"
START, END = "<!-- whole iterations -->\n", "<!-- end of whole iterations -->\n"
UNUSED = ("warm", "samples", "timing")


def ship(path: Path, gpu: str, note: str) -> Path:
    """Write a profile as it ships: small, and called after its model and the device's sheet."""
    document = json.loads(path.read_text(encoding="utf-8"))
    rows = [{key: value for key, value in row.items() if key not in UNUSED} for row in document["layers"]]
    head = {key: document[key] for key in ("schema", "tool", "model", "device", "software", "flags")}
    tail = {key: document[key] for key in ("whole", "optimizers", "node")}
    target = SHIPPED / f"{document['model']}-{gpu}.json"
    write_document({**head, "note": note, "layers": merged(rows), **tail}, target)
    return target


def checked() -> list[CheckedIteration]:
    """Return the whole iterations of all shipped profiles."""
    rows: list[CheckedIteration] = []
    for name, path in shipped_profiles().items():
        profile = read_profile(path)
        rows += checked_iterations(profile, load_gpu(name.removeprefix(f"{profile.content.model}-")))
    return rows


def table(rows: Sequence[CheckedIteration]) -> str:
    """Return what the page has: the errors in a sentence and one by one."""
    unseen = [abs(row.error) for row in rows if not row.is_profiled]
    seen = [abs(row.error) for row in rows if row.is_profiled]
    lines = [
        f"At {len(unseen)} batches without a profile, forecasts are {_typical(unseen)} off,",
        f"at {len(seen)} profiled ones {_typical(seen)}.",
        "",
        "| model | precision | batch | layers profiled | forecast | measured | spread | error |",
        "|---|---|---|---|---|---|---|---|",
    ]
    for row in rows:
        cells = (
            row.model, row.precision, row.batch, "yes" if row.is_profiled else "no", f"{1e3 * row.forecast_s:.4g} ms",
            f"{1e3 * row.measured_s:.4g} ms", _share(row.spread_s / row.measured_s), f"{100 * row.error:+.1f} %",
        )  # fmt: skip
        lines.append(f"| {' | '.join(map(str, cells))} |")
    return "\n".join(lines) + "\n"


def _typical(errors: Sequence[float]) -> str:
    return f"{_share(median(errors))} (median; at worst {_share(max(errors))})"


def _share(value: float) -> str:
    return f"{100 * value:.1f} %"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path, nargs="?", help="profiles to ship")
    parser.add_argument("--gpu", help="the sheet of the device they were measured on")
    parser.add_argument("--note", default="", help="what to say about the machine")
    arguments = parser.parse_args()
    if arguments.folder is not None:
        if arguments.gpu is None:
            parser.error("name the device's sheet: --gpu")
        for path in sorted(arguments.folder.glob("*.json")):
            print(ship(path, arguments.gpu, arguments.note))
    text = table(checked())
    print(text)
    head, _, rest = PAGE.read_text(encoding="utf-8").partition(START)
    PAGE.write_text(head + START + text + END + rest.partition(END)[2], encoding="utf-8")


if __name__ == "__main__":
    main()
