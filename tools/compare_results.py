"""Compares the numbers of all shipped scenarios and of `validate` between two checkouts.

    python tools/compare_results.py record FOLDER          # with the checkout that this Python imports
    python tools/compare_results.py compare OLD NEW        # exit 1 where numbers differ by more than 1e-9

`record` also notes the CPU seconds and the peak memory of each command in `FOLDER/cost.json`.
Texts (`shortcuts`, `warnings`, `assumptions`, ...) are not compared: only numbers, and whether they are there.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import resource
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

REL_TOLERANCE = 1e-9
ABS_TOLERANCE = 1e-15  # seconds: a difference of two equal times is rounding
TEXTS = {"shortcuts", "warnings", "assumptions", "version"}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = parser.add_subparsers(dest="command", required=True)
    recording = commands.add_parser("record", help="run everything and write one JSON file a command")
    recording.add_argument("folder", type=Path)
    recording.add_argument("--only", default="", help="commands whose name contains this text")
    comparing = commands.add_parser("compare", help="compare two folders that were recorded")
    comparing.add_argument("old", type=Path)
    comparing.add_argument("new", type=Path)
    arguments = parser.parse_args()
    if arguments.command == "record":
        return record(arguments.folder, arguments.only)
    return compare(arguments.old, arguments.new)


def commands() -> dict[str, list[str]]:
    """Return the arguments of each command by the name of its file."""
    from clustersim.data import shipped_files

    runs = {name: ["run", name, "--json"] for name in sorted(shipped_files("scenarios")) if name != "plan-gpt"}
    plan = {"plan-gpt": ["plan", "plan-gpt", "--json"]}
    return {**runs, **plan, "validate": ["validate", "--json"]}


def record(folder: Path, only: str) -> int:
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / "cost.json"
    costs = json.loads(path.read_text()) if path.exists() else {}
    for name, arguments in commands().items():
        if only not in name:
            continue
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        command = [sys.executable, "-m", "clustersim", *arguments]
        done = subprocess.run(command, capture_output=True, text=True, cwd=folder, env={**os.environ, "COLUMNS": "200"})
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        costs[name] = {
            "cpu_s": after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime,
            "exit_status": done.returncode,
        }
        print(f"{name}: {costs[name]['cpu_s']:.1f} CPU s, exit status {done.returncode}", flush=True)
        if done.returncode:
            print(done.stderr, file=sys.stderr)
        (folder / f"{name}.json").write_text(done.stdout)
        path.write_text(json.dumps(costs, indent=1))
    return 0


def compare(old: Path, new: Path) -> int:
    num_numbers, worst, num_wrong = 0, 0.0, 0
    names = {path.name for folder in (old, new) for path in folder.glob("*.json")} - {"cost.json"}
    for name in sorted(names):
        first, second = (_numbers(folder / name) for folder in (old, new))
        wrong = [f"only in {old}: {key}" for key in first.keys() - second.keys()]
        wrong += [f"only in {new}: {key}" for key in second.keys() - first.keys()]
        for key in first.keys() & second.keys():
            one, other = first[key], second[key]
            num_numbers += 1
            error = abs(one - other) / max(abs(one), abs(other)) if one != other else 0.0
            if not math.isclose(one, other, rel_tol=REL_TOLERANCE, abs_tol=ABS_TOLERANCE):
                wrong.append(f"{key}: {one!r} became {other!r} ({error:.1e})")
            elif abs(one - other) > ABS_TOLERANCE:
                worst = max(worst, error)
        num_wrong += len(wrong)
        for line in sorted(wrong)[:10]:
            print(f"{name}: {line}")
        if len(wrong) > 10:
            print(f"{name}: and {len(wrong) - 10} more")
    print(f"{num_numbers} numbers in {len(names)} files: {num_wrong} differ; the others by {worst:.1e} at most")
    return 1 if num_wrong else 0


def _numbers(path: Path) -> dict[str, float]:
    """Return every number of a JSON document by its place in it."""
    if not path.exists():
        return {}
    return dict(_walk(json.loads(path.read_text()), ""))


def _walk(value: Any, where: str) -> Iterator[tuple[str, float]]:
    if isinstance(value, dict):
        for key, each in value.items():
            if key not in TEXTS:
                yield from _walk(each, f"{where}.{key}")
    elif isinstance(value, list):
        for number, each in enumerate(value):
            yield from _walk(each, f"{where}[{number}]")
    elif isinstance(value, bool | int | float):
        yield where, float(value)


if __name__ == "__main__":
    sys.exit(main())
