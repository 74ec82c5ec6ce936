"""Writes the errors of kernels, collectives and the host on measurements that were not fitted, as Markdown.

    python tools/residuals.py --tables systems/data --host single_host_half.csv

`systems/data` is that of aiconfigurator-core 0.12.0, the other file VIA-Research/vTrain's (commit f8dda847). It needs
pyarrow. The text becomes a part of docs/validation.md (`make validation`).
"""

from __future__ import annotations

import argparse
import subprocess
import sys
from pathlib import Path

from ruamel.yaml import YAML

from clustersim.validation.markdown import RESIDUALS_FILE

TOOLS = Path(__file__).resolve().parent
ERRORS_FILE = TOOLS.parent / "clustersim" / "kernels" / "kernel_errors.yaml"
CLASSES = ("all", "small", "under 10 us", "large")
KERNELS = """\
### Products

Errors of the law of dense products in 16 bits, as factors less 1: median and nine in ten. Half of the shapes of two
libraries were fitted; nothing was fitted to any row of this table. *Small* are products with at most 1,024 columns and
an inner dimension of at most 4,096.
"""
COLLECTIVES = """\
### Collectives of NCCL in one host

Times of collectives that are played, on tables of 2, 4 and 8 GPUs from 1 KiB to 512 MiB, where two measurements of the
same thing differ by less than 10 %. One version of A100, H100 and B200 was fitted at even powers of two; the rest is
scored.
"""
HOST = """\
### The host

Iterations of Megatron-LM on 2 to 8 A100 of one host: one factor on the host's times is fitted to the odd rows and
scored on the even ones, and again fitted to rows of 2,048 features and scored on those of 1,024. The factor is relative
to `software/sheets/megatron.yaml`.
"""


def products() -> str:
    """Return the table of products, from the stored errors of the constants."""
    scored = YAML(typ="safe", pure=True).load(ERRORS_FILE.read_text(encoding="utf-8"))["tables"]["scored"]
    names = dict.fromkeys(name.rsplit(", ", 1)[0] for name in scored)
    rows = ["| table | " + " | ".join(CLASSES) + " |", "|---|" + "---|" * len(CLASSES)]
    for name in names:
        cells = [scored.get(f"{name}, {each}") for each in CLASSES]
        if cells[0]:
            texts = (f"{cell['median']:.1%}, {cell['p90']:.0%}" if cell else "" for cell in cells)
            rows.append(f"| {name} | " + " | ".join(texts) + " |")
    return "\n".join(rows)


def printed_by(tool: str, *arguments: str) -> str:
    """Return what another tool prints."""
    done = subprocess.run(
        [sys.executable, str(TOOLS / tool), *arguments], check=True, capture_output=True, text=True, cwd=TOOLS.parent
    )
    return done.stdout.strip()


def main() -> None:
    """Write the file."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tables", type=Path, required=True, help="systems/data of aiconfigurator-core")
    parser.add_argument("--host", type=Path, required=True, help="single_host_half.csv of vTrain")
    given = parser.parse_args()
    collectives = printed_by("collectives_residuals.py", "--tables", str(given.tables)).split("\n\n| GPU |")[0]
    parts = (KERNELS, products(), COLLECTIVES, collectives, HOST, printed_by("fit_host.py", str(given.host)))
    head = "## Kernels, collectives, host", "Written by `python tools/residuals.py`."
    text = "\n\n".join(part.strip() for part in (*head, *parts))
    RESIDUALS_FILE.write_text(text + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
