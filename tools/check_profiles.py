"""Profiles models on this machine's processor, and compares whole iterations at batches nobody profiled with forecasts.

    python tools/check_profiles.py FOLDER

Profiles go to FOLDER, where an interrupted campaign goes on. The result goes to `docs/data/cpu-iterations.json` and as
a table into `docs/how-to/profile-a-gpu.md`; `--keep` only prints it. Layers are profiled at `--profiled` batches, whole
iterations timed at `--unseen` ones, in processes of their own and one after the other: where others compute on the
machine, the two have different neighbours. The result has the load before and after, and the errors at profiled
batches, which nothing but neighbours and what a sum of layers misses explains.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import time
from pathlib import Path
from statistics import median
from typing import Any

from clustersim.hardware.sheet import Gpu
from clustersim.results.files import write_atomically
from clustersim.workload import ComputeSpec, OptimizerSpec, build_workload, load_model

DOCS = Path(__file__).resolve().parent.parent / "docs"
RESULT, PAGE = DOCS / "data" / "cpu-iterations.json", DOCS / "how-to" / "profile-a-gpu.md"
START, END = "<!-- cpu-iterations -->\n", "<!-- end of cpu-iterations -->\n"
BUSY = "import time; time.perf_counter = time.process_time; from clustersim.cli import main; main()"
MODELS = ("alexnet", "nin", "squeezenet-1.0", "googlenet", "resnet18", "vgg11")


def profile(model: str, folder: Path, batches: str, more: tuple[str, ...], is_busy: bool) -> dict[str, Any]:
    """Run the profiler as a user would, and return what it wrote.

    On a busy machine it has one thread and counts the processor's seconds, which others take less part in.
    """
    command = [sys.executable, "-c", BUSY] if is_busy else [sys.executable, "-m", "clustersim"]
    command += ["profile", model, "--device", "cpu", "--batch", batches, "--json", "-o", str(folder), *more]
    variables = {**os.environ, **({"OMP_NUM_THREADS": "1"} if is_busy else {})}
    done = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True, env=variables)
    document: dict[str, Any] = json.loads(done.stdout)
    return document


def processor(document: dict[str, Any]) -> Gpu:
    """Return the profile's processor as a device with a multiprocessor for each thread, 80 GFLOP/s each (assumed).

    Only the way between two measured batches is looked up with these rates.
    """
    device = document["device"]
    words = "".join(char if char.isalnum() else " " for char in device["name"].lower()).split()
    threads = int(device["num_threads"])
    rates = {"fp32": threads * 80e9}
    return Gpu(max(words, key=len), device["name"], {}, "other", rates, device["memory_bytes"], 10e9, threads, 1e-6, "")


def compared(model: str, path: Path, document: dict[str, Any], unseen: set[int]) -> list[dict[str, Any]]:
    """Return a row for each batch: forecast and measured seconds of an iteration, and whether its layers were seen."""
    gpu, rows = processor(document), []
    for whole in sorted(document["whole"], key=lambda row: int(row["batch"])):
        batch = int(whole["batch"])
        compute = ComputeSpec(profile=str(path))
        forecast_s = build_workload(load_model(model), gpu, batch, "fp32", OptimizerSpec(), compute).compute_s
        measured_s = whole["iteration_s"]
        row = {"model": model, "batch": batch, "profiled": batch not in unseen, "forecast_s": round(forecast_s, 5)}
        spread, error = round(whole["spread_s"] / measured_s, 3), round(forecast_s / measured_s - 1, 3)
        rows.append(row | {"measured_s": measured_s, "spread": spread, "error": error})
    return rows


def table(result: dict[str, Any]) -> str:
    """Return the result as the page has it."""
    errors = [abs(row["error"]) for row in result["rows"] if not row["profiled"]]
    seen = [abs(row["error"]) for row in result["rows"] if row["profiled"]]
    load, off, worst, known = result["load"], 100 * median(errors), 100 * max(errors), 100 * median(seen)
    lines = [
        f"On {result['processor']} (threads: {result['threads']}, torch {result['torch']}, {result['date']}), whose",
        f"load was {load[0]} before and {load[1]} after: {off:.0f} % in the median at batches that nobody profiled",
        f"(worst {worst:.0f} %), {known:.0f} % at profiled ones. The spread is that of measured iterations",
        "(interquartile range).",
        "",
        "| model | batch | layers profiled | forecast | measured | spread | error |",
        "|---|---|---|---|---|---|---|",
    ]
    for row in result["rows"]:
        cells = (
            row["model"], row["batch"], "yes" if row["profiled"] else "no", f"{1e3 * row['forecast_s']:.0f} ms",
            f"{1e3 * row['measured_s']:.0f} ms", f"{100 * row['spread']:.0f} %", f"{100 * row['error']:+.0f} %",
        )  # fmt: skip
        lines.append(f"| {' | '.join(map(str, cells))} |")
    return "\n".join(lines) + "\n"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--models", default=",".join(MODELS))
    parser.add_argument("--profiled", default="1,4")
    parser.add_argument("--unseen", default="2,3")
    parser.add_argument("--kernel-ms", default="20")
    parser.add_argument("--busy", action="store_true", help="one thread, and its own seconds instead of the clock's")
    parser.add_argument("--keep", action="store_true", help="print the table and leave the page alone")
    arguments = parser.parse_args()
    folder, unseen = arguments.folder, {int(batch) for batch in arguments.unseen.split(",")}
    before, rows = os.getloadavg()[0], []
    for model in arguments.models.split(","):
        options = ("--kernel-ms", arguments.kernel_ms)
        profile(model, folder, arguments.profiled, options, arguments.busy)
        document = profile(model, folder, arguments.unseen, ("--whole-only", *options), arguments.busy)
        (path,) = folder.glob(f"{model}-*.json")
        rows += compared(model, path, document, unseen)
    result = {
        "processor": document["device"]["name"], "threads": document["device"]["num_threads"],
        "busy": arguments.busy, "torch": document["software"]["torch"], "date": time.strftime("%Y-%m-%d"),
        "load": [round(before, 1), round(os.getloadavg()[0], 1)], "rows": rows,
    }  # fmt: skip
    print(table(result))
    if not arguments.keep:
        write_atomically(RESULT, json.dumps(result, indent=1) + "\n")
        text = PAGE.read_text(encoding="utf-8")
        head, _, rest = text.partition(START)
        PAGE.write_text(head + START + table(result) + END + rest.partition(END)[2], encoding="utf-8")


if __name__ == "__main__":
    main()
