"""The SimGrid programs beside this file: found out whether they can be built, built once, and run."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import subprocess
import tempfile
from functools import cache
from pathlib import Path
from typing import NamedTuple

from ..child import run_child

HERE = Path(__file__).resolve().parent
BUILT = HERE.parents[2] / "build" / "simgrid"

SETTINGS = (
    "network/model:CM02",
    "network/bandwidth-factor:1",
    "network/latency-factor:1",
    "network/weight-S:0",
    "network/TCP-gamma:0",
    "network/crosstraffic:0",
    "surf/precision:1e-12",
)
"""Flows as fluid, corrections for TCP off, a flow's weight 1 / latency, and a clock that does not round to 1e-9 s."""


class PeerRun(NamedTuple):
    """What a program found, and what it cost. `run_cpu_s` is the simulation without reading its inputs."""

    end_s: list[float]
    run_cpu_s: float
    cpu_s: float
    max_rss_bytes: int


@cache
def version() -> str | None:
    """Return the version of SimGrid that programs can be built with; None where there is none."""
    if shutil.which("g++") is None:
        return None
    source = "#include <simgrid/version.h>\nSIMGRID_VERSION_MAJOR.SIMGRID_VERSION_MINOR"
    command = ["g++", "-E", "-P", "-x", "c++", "-"]
    done = subprocess.run(command, input=source, capture_output=True, text=True, check=False)
    return done.stdout.split("\n")[-2].replace(" ", "") if done.returncode == 0 else None


def why_missing() -> str | None:
    """Return why no program can be built here, or None."""
    if version() is None:
        return "SimGrid is not installed: apt-get install libsimgrid-dev g++"
    return None


@cache
def program(name: str) -> Path:
    """Return the program built from `name`.cpp; it is built when its source has changed."""
    sources = [HERE / f"{name}.cpp", HERE / "clock.hpp"]
    mark = hashlib.sha256(b"".join(source.read_bytes() for source in sources) + str(version()).encode()).hexdigest()
    path = BUILT / f"{name}-{mark[:12]}"
    if not path.exists():
        BUILT.mkdir(parents=True, exist_ok=True)
        fresh = path.with_name(f"{path.name}.{os.getpid()}")
        run_child(["g++", "-O2", "-std=c++17", str(sources[0]), "-lsimgrid", "-o", str(fresh)])
        fresh.replace(path)
    return path


def run_program(name: str, inputs: list[str], solver: str = "Full") -> PeerRun:
    """Run a program on its inputs. The solver is `Full` (max-min at every instant) or `Lazy` (SimGrid's default)."""
    settings = [f"--cfg={setting}" for setting in (*SETTINGS, f"network/optim:{solver}")]
    with tempfile.TemporaryDirectory() as folder:
        out = Path(folder) / "end_s"
        child = run_child([str(program(name)), *inputs, str(out), *settings, "--log=root.thres:warning"])
        end_s = [float(line) for line in out.read_text().split()]
    return PeerRun(end_s, json.loads(child.stdout)["run_cpu_s"], child.cpu_s, child.max_rss_bytes)
