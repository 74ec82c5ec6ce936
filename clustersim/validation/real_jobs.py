"""Each phase of a run file as the simulator is asked for it, and what it answers beside what was measured."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, NamedTuple

from clustersim.errors import ClustersimError
from clustersim.hardware import GPUS
from clustersim.results import Run
from clustersim.results.files import to_json, write_atomically
from clustersim.scenario import load_scenario
from clustersim.simulate import forecast, time_collective
from clustersim.validation.real_cluster import Cluster
from clustersim.validation.real_file import (
    Asynchronous,
    Compute,
    InStep,
    LayerRow,
    Layers,
    Phase,
    RealRun,
    StragglerFact,
    Sweep,
    Training,
)
from clustersim.validation.verdict import Compared

_MS = 1e3
_LAYOUT = "nchw"  # of every profile made here, which has one layout only
_ITERATIONS = 4


class Figure(NamedTuple):
    """One measured number of a phase, in SI."""

    metric: str
    measured: float
    unit: str
    per_unit: float


@dataclass(frozen=True)
class Answered:
    """A phase with its points; `run` is the simulated training, where the phase is one."""

    phase: Phase
    points: tuple[Compared, ...]
    run: Run | None = None


class Refused(ClustersimError):
    """A phase that cannot be simulated; the message says why."""


class Asker:
    """Asks the simulator what a run file has. Layer times and sheets are files in `folder`."""

    def __init__(self, run: RealRun, cluster: Cluster, folder: Path):
        self._run, self._cluster, self._folder = run, cluster, folder
        self.warnings: dict[str, None] = {}  # of all simulated trainings, each once

    def answer(self, phase: Phase) -> Answered:
        """Simulate a phase, or say in a `Refused` why not."""
        if isinstance(phase, Sweep):
            return Answered(phase, tuple(self._sweep(phase)))
        if isinstance(phase, Layers):
            return self._by_layers(phase)
        if isinstance(phase, Compute):
            return self._compute(phase)
        if isinstance(phase, InStep) and phase.kind == "communication":
            return self._communication(phase)
        return self._together(phase)

    def _sweep(self, phase: Sweep) -> Iterator[Compared]:
        """Yield a point for each size: of the calibration, where the link was fitted to them."""
        num_ranks, sizes = len(self._run.facts.ranks), [row.num_bytes for row in phase.rows]
        for row, time_s in zip(phase.rows, self._collectives(sizes), strict=True):
            figure = Figure("time_s", row.time_s, "ms", _MS)
            name = f"all-reduce of {row.num_bytes:.0f} B"
            point = self._point(phase, figure, time_s, self._cluster.is_fitted, num_ranks)
            yield replace(point, label=name, group=name)

    def _collectives(self, sizes: Iterable[float]) -> list[float]:
        document = time_collective(
            "all-reduce", self._topology(), "auto", len(self._run.facts.ranks), list(sizes), self._cluster.transport
        )
        return [float(row["time_s"]) for row in document["rows"]]

    def _by_layers(self, phase: Layers) -> Answered:
        """Forecast a whole iteration of one GPU from its kernels, timed one by one."""
        whole = self._run.phase("compute", phase.model)
        if not isinstance(whole, Compute):
            raise Refused(f"there is no whole compute-only phase of {phase.model} to hold its layers against")
        rows = [_row(row, row.backward_data_s, row.backward_weights_s) for row in phase.layers]
        run = self._train(phase, 1, {"kind": "all-reduce"}, self._profile(phase, "layers", rows, phase.update_s))
        point = self._point(phase, _iteration(whole.iteration_s), run.iteration_s)
        measured = phase.model_copy(update={"spans": whole.spans})
        return Answered(measured, (replace(point, label="layers one by one against an iteration"),), run)

    def _compute(self, phase: Compute) -> Answered:
        """Give the simulator one rank's compute; of a GPU it knows, ask it also what it would have said without."""
        run = self._train(phase, 1, {"kind": "all-reduce"}, self._watched(phase))
        figure = _iteration(phase.iteration_s)
        points = [self._point(phase, figure, run.iteration_s, calibrates=True)]
        if self._cluster.gpu in GPUS:
            guess = self._train(phase, 1, {"kind": "all-reduce"}, None)
            label = f"{phase.model}: an iteration, with nothing of this run given"
            points.append(replace(self._point(phase, figure, guess.iteration_s), label=label))
        return Answered(phase, tuple(points), run)

    def _communication(self, phase: InStep) -> Answered:
        if not phase.buckets:
            raise Refused("the phase does not say which buckets were sent")
        total_s = sum(self._collectives(phase.buckets))
        figure = Figure("time_s", phase.iteration_s, "ms", _MS)
        return Answered(phase, (self._point(phase, figure, total_s, False, len(self._run.facts.ranks)),))

    def _together(self, phase: InStep | Asynchronous) -> Answered:
        """Simulate a training of several ranks with the compute times of the phase that sends nothing."""
        alone = self._run.phase("compute", phase.model)
        if not isinstance(alone, Compute):
            raise Refused(f"there is no whole compute-only phase of {phase.model}, from which compute times come")
        workers = phase.workers or list(range(len(self._run.facts.ranks)))
        servers = {"num": 1, "on": self._cluster.servers_on}
        # the phase that sends nothing copies its gradients into buckets and back all the same
        strategy: dict[str, Any] = {
            "overlap": {"kind": "all-reduce", "overlap": True, "buckets": "pytorch", "copies": "none"},
            "no-overlap": {"kind": "all-reduce", "overlap": False, "buckets": "pytorch", "copies": "none"},
            "server": {"kind": "server", "overlap": False, "buckets": "whole", "servers": servers},
            "async": {"kind": "async", "overlap": False, "buckets": "whole", "servers": servers},
        }[phase.kind]
        over = phase.kind in ("server", "async")
        run = self._train(phase, len(workers), strategy, self._watched(alone), workers, "gloo" if over else None)
        return Answered(phase, tuple(self._of_training(phase, run, len(workers))), run)

    def _of_training(self, phase: InStep | Asynchronous, run: Run, num_workers: int) -> Iterator[Compared]:
        if isinstance(phase, InStep):
            yield self._point(phase, _iteration(phase.iteration_s), run.iteration_s, False, num_workers)
            return
        figure = Figure("update_s", phase.update_s, "ms", _MS)
        yield self._point(phase, figure, run.update_s, False, num_workers)
        if phase.staleness.mean > 0:
            stale = Figure("staleness.mean", phase.staleness.mean, "updates", 1.0)
            yield self._point(phase, stale, float(run.staleness["mean"]), False, num_workers)

    def _train(
        self,
        phase: Training,
        num_gpus: int,
        strategy: Mapping[str, Any],
        profile: Path | None,
        workers: Sequence[int] = (),
        transport: str | None = None,
    ) -> Run:
        """Return the simulated training of a phase."""
        updates = phase.updates.get("time_s", []) if isinstance(phase, Asynchronous) else []
        scenario = {
            "name": phase.name,
            "model": phase.model,
            "num_gpus": num_gpus,
            "batch": {"per_gpu": phase.batch},
            "topology": self._topology() if num_gpus > 1 or len(workers) > 0 else self._one(),
            "transport": transport or self._cluster.transport,
            "strategy": dict(strategy),
            "precision": phase.precision,
            # times that a run measured are of the GPUs that it ran on, slow or quick
            "compute": {"variability": 0} | ({} if profile is None else {"profile": str(profile)}),
            "stragglers": [_slowed(phase.straggler, workers)] if phase.straggler else [],
            "memory_check": False,
            "num_iterations": max(_ITERATIONS, len(updates)),
        }
        points = load_scenario(scenario).points()
        found = forecast(points[0].point, points[0].axes)
        self.warnings.update(dict.fromkeys(found.warnings))
        return found.run

    def _topology(self) -> dict[str, Any]:
        if self._cluster.topology is None:
            raise Refused("the link between ranks is not known, neither by name nor by a whole all-reduce phase")
        return self._cluster.topology

    def _one(self) -> dict[str, Any]:
        """Return one rank alone, whose network nobody uses."""
        return {"kind": "star", "num_hosts": 1, "gpu": self._cluster.gpu, "link": "1 GB/s", "hop": "0 s"}

    def _watched(self, phase: Compute) -> Path:
        """Return the profile of layers as they were watched in training, scaled to the passes that were timed."""
        forward = phase.forward_s / (sum(row.forward_s for row in phase.layers) or phase.forward_s)
        backward = phase.backward_s / (sum(row.backward_s for row in phase.layers) or phase.backward_s)
        rows = [
            {**_row(row, backward * row.backward_s, 0.0), "forward_s": forward * row.forward_s} for row in phase.layers
        ]
        return self._profile(phase, "watched", rows, phase.update_s)

    def _profile(self, phase: Training, kind: str, rows: Sequence[Mapping[str, Any]], update_s: float) -> Path:
        """Write layer times as a profile of the cluster's device."""
        document = {
            "schema": "clustersim.profile/1",
            "device": Path(self._cluster.gpu).stem,
            "model": phase.model,
            "layers": [{**row, "batch": phase.batch, "precision": phase.precision, "layout": _LAYOUT} for row in rows],
            "optimizers": [{"rule": "momentum", "implementation": "foreach", "step_s": update_s}],
        }
        name = f"{phase.model}-{phase.batch}-{kind}.json".replace("/", "-")
        return write_atomically(self._folder / name, to_json(document))

    def _point(
        self, phase: Phase, figure: Figure, simulated: float, calibrates: bool = False, num_gpus: int = 1
    ) -> Compared:
        """Return a figure beside what was simulated; trainings that differ in how ranks meet are ranked."""
        about = {} if isinstance(phase, Sweep) else {"model": phase.model, "batch": phase.batch}
        slowed = None if isinstance(phase, Sweep) or phase.straggler is None else phase.straggler.model_dump()
        return Compared(
            metric=figure.metric,
            num_gpus=num_gpus,
            role="calibration" if calibrates else "prediction",
            simulated=simulated * figure.per_unit,
            measured=figure.measured * figure.per_unit,
            unit=figure.unit,
            error=simulated / figure.measured - 1.0,
            provenance="read",
            where=f"{self._run.path.name}: {phase.name}",
            label=phase.name,
            note="",
            scenario=phase.kind,
            settings={key: str(value) for key, value in about.items()},
            line=0,
            group=json.dumps([about, slowed, num_gpus]),
            way=phase.kind,
        )


def _iteration(seconds: float) -> Figure:
    return Figure("iteration_s", seconds, "ms", _MS)


def _row(row: LayerRow, data_s: float, weights_s: float) -> dict[str, Any]:
    return {
        "name": row.name,
        "op": row.op,
        "fused": row.fused,
        "forward_s": row.forward_s,
        "backward_data_s": data_s,
        "backward_weights_s": weights_s,
    }


def _slowed(straggler: StragglerFact, workers: Sequence[int]) -> dict[str, Any]:
    """Return the straggler by its number among the workers; the server computes nothing that could be slowed."""
    if straggler.rank not in workers:
        raise Refused(f"the straggler is rank {straggler.rank}, which is none of the workers")
    return {"kind": "constant", "factor": straggler.factor, "of": [list(workers).index(straggler.rank)]}
