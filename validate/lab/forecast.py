"""Simulates the cases of the lab through the public functions of clustersim."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import simpy

from clustersim.hardware import load_transport
from clustersim.network import Network
from clustersim.scenario import load_scenario
from clustersim.simulate import simulate, time_collective
from clustersim.topology import load_topology
from clustersim.units import parse
from validate.lab.case import Case

_ENDLESS = 1e15
"""Bytes of a flow that does not end by itself."""

_COUNTED_S = 1000.0
"""The time after which flows are cancelled; long compared with the cost of a message."""


@dataclass(frozen=True)
class Forecast:
    """The simulated figures by metric, in SI, and the count of each value of staleness."""

    figures: Mapping[str, float]
    staleness: Mapping[int, int] = field(default_factory=dict)


def forecast(case: Case) -> Forecast:
    """Return the simulated figures of a case."""
    if "collective" in case.ask:
        return _collective(case.ask)
    if "flows" in case.ask:
        return _flows(case.ask)
    return _training(case)


def _collective(ask: Mapping[str, Any]) -> Forecast:
    document = time_collective(
        ask["collective"],
        ask["topology"],
        ask["algorithm"],
        ask["num_gpus"],
        [parse(ask["bytes"], "size")],
        ask["transport"],
    )
    return Forecast({"time_s": document["rows"][0]["time_s"]})


def _flows(ask: Mapping[str, Any]) -> Forecast:
    """Return the rate of every flow, with all flows at the same time."""
    transport = load_transport(ask["transport"])
    topology = load_topology(ask["topology"])
    env = simpy.Environment()
    network = Network(env, topology, topology.sharing, overhead_s=transport.overhead_s, efficiency=transport.efficiency)
    sent = [network.transfer(src, dst, _ENDLESS) for src, dst in ask["flows"]]
    env.run(_COUNTED_S)
    for each in sent:
        network.cancel(each)
    figures = {}
    for (src, dst), each in zip(ask["flows"], sent, strict=True):
        times = env.run(each)
        assert times is not None
        figures[f"flow {src}>{dst}"] = times.num_bytes / _COUNTED_S
    return Forecast(figures)


def _training(case: Case) -> Forecast:
    with TemporaryDirectory() as folder:
        for name, text in case.files.items():
            Path(folder, name).write_text(text, encoding="utf-8")
        path = Path(folder, "scenario.yaml")
        path.write_text(json.dumps(case.ask), encoding="utf-8")
        run = simulate(load_scenario(path)).to_dict(detail=False)
    staleness = run.get("staleness") or {"histogram": []}
    return Forecast({metric: _figure(run, metric) for metric in case.figures}, dict(staleness["histogram"]))


def _figure(document: Mapping[str, Any], name: str) -> float:
    """Return a figure of a document; a dot leads into an inner one."""
    found: Any = document
    for key in name.split("."):
        found = found[key]
    return math.nan if found is None else float(found)
