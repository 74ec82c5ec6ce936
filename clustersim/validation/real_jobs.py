"""Simulates each phase of a run file, and compares the result with the measurement."""

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
from clustersim.validation.real_cluster import RunCluster
from clustersim.validation.real_file import (
    AllReducePhase,
    AsynchronousPhase,
    ComputePhase,
    LayerRow,
    LayersPhase,
    Phase,
    RealRun,
    StragglerFact,
    SynchronousPhase,
    TrainingPhase,
)
from clustersim.validation.verdict import Compared

_MS = 1e3
_LAYOUT = "nchw"  # the only layout of the profiles made here
_ITERATIONS = 4


class MeasuredFigure(NamedTuple):
    """One measured number of a phase, in SI."""

    metric: str
    measured: float
    unit: str
    per_unit: float


@dataclass(frozen=True)
class PhaseResult:
    """A phase with its points; `run` is the simulated training, if the phase is one."""

    phase: Phase
    points: tuple[Compared, ...]
    run: Run | None = None


class PhaseError(ClustersimError):
    """A phase that cannot be simulated; the message has the reason."""


class PhaseSimulator:
    """Simulates the phases of a run file. Layer times and sheets are files in `folder`."""

    def __init__(self, run: RealRun, cluster: RunCluster, folder: Path):
        self._run, self._cluster, self._folder = run, cluster, folder
        self.warnings: dict[str, None] = {}  # of all simulated trainings, without duplicates

    def answer(self, phase: Phase) -> PhaseResult:
        """Simulate a phase, or raise a `PhaseError` with the reason."""
        if isinstance(phase, AllReducePhase):
            return PhaseResult(phase, tuple(self._sweep(phase)))
        if isinstance(phase, LayersPhase):
            return self._by_layers(phase)
        if isinstance(phase, ComputePhase):
            return self._compute(phase)
        if isinstance(phase, SynchronousPhase) and phase.kind == "communication":
            return self._communication(phase)
        return self._training(phase)

    def _sweep(self, phase: AllReducePhase) -> Iterator[Compared]:
        """Yield a point for each size; they calibrate if the link was fitted to them."""
        num_ranks, sizes = len(self._run.facts.ranks), [row.num_bytes for row in phase.rows]
        for row, time_s in zip(phase.rows, self._collectives(sizes), strict=True):
            figure = MeasuredFigure("time_s", row.time_s, "ms", _MS)
            name = f"all-reduce of {row.num_bytes:.0f} B"
            point = self._point(phase, figure, time_s, self._cluster.is_fitted, num_ranks)
            yield replace(point, label=name, group=name)

    def _collectives(self, sizes: Iterable[float]) -> list[float]:
        document = time_collective(
            "all-reduce", self._topology(), "auto", len(self._run.facts.ranks), list(sizes), self._cluster.transport
        )
        return [float(row["time_s"]) for row in document["rows"]]

    def _by_layers(self, phase: LayersPhase) -> PhaseResult:
        """Forecast a whole iteration of one GPU from its kernels, which were timed separately."""
        whole = self._run.phase("compute", phase.model)
        if not isinstance(whole, ComputePhase):
            raise PhaseError(f"there is no complete compute-only phase of {phase.model} to compare its layers with")
        rows = [_row(row, row.backward_data_s, row.backward_weights_s) for row in phase.layers]
        run = self._train(phase, 1, {"kind": "all-reduce"}, self._profile(phase, "layers", rows, phase.update_s))
        point = self._point(phase, _iteration(whole.iteration_s), run.iteration_s)
        measured = phase.model_copy(update={"spans": whole.spans})
        return PhaseResult(measured, (replace(point, label="layers one by one against an iteration"),), run)

    def _compute(self, phase: ComputePhase) -> PhaseResult:
        """Simulate one rank with the run's compute times; for a GPU with a sheet, also without them."""
        run = self._train(phase, 1, {"kind": "all-reduce"}, self._timed_layers(phase))
        figure = _iteration(phase.iteration_s)
        points = [self._point(phase, figure, run.iteration_s, calibrates=True)]
        if self._cluster.gpu in GPUS:
            estimate = self._train(phase, 1, {"kind": "all-reduce"}, None)
            label = f"{phase.model}: an iteration, without measurements of this run"
            points.append(replace(self._point(phase, figure, estimate.iteration_s), label=label))
        return PhaseResult(phase, tuple(points), run)

    def _communication(self, phase: SynchronousPhase) -> PhaseResult:
        if not phase.buckets:
            raise PhaseError("the phase has no buckets")
        total_s = sum(self._collectives(phase.buckets))
        figure = MeasuredFigure("time_s", phase.iteration_s, "ms", _MS)
        return PhaseResult(phase, (self._point(phase, figure, total_s, False, len(self._run.facts.ranks)),))

    def _training(self, phase: SynchronousPhase | AsynchronousPhase) -> PhaseResult:
        """Simulate a training of several ranks with the compute times of the compute-only phase."""
        alone = self._run.phase("compute", phase.model)
        if not isinstance(alone, ComputePhase):
            raise PhaseError(f"there is no complete compute-only phase of {phase.model}, which gives the compute times")
        workers = phase.workers or list(range(len(self._run.facts.ranks)))
        servers = {"num": 1, "on": self._cluster.servers_on}
        strategy: dict[str, Any] = {
            "overlap": {"kind": "all-reduce", "overlap": True, "buckets": "pytorch"},
            "no-overlap": {"kind": "all-reduce", "overlap": False, "buckets": "pytorch"},
            "server": {"kind": "server", "overlap": False, "buckets": "whole", "servers": servers},
            "async": {"kind": "async", "overlap": False, "buckets": "whole", "servers": servers},
        }[phase.kind]
        over = phase.kind in ("server", "async")
        run = self._train(phase, len(workers), strategy, self._timed_layers(alone), workers, "gloo" if over else None)
        return PhaseResult(phase, tuple(self._of_training(phase, run, len(workers))), run)

    def _of_training(
        self, phase: SynchronousPhase | AsynchronousPhase, run: Run, num_workers: int
    ) -> Iterator[Compared]:
        if isinstance(phase, SynchronousPhase):
            yield self._point(phase, _iteration(phase.iteration_s), run.iteration_s, False, num_workers)
            return
        figure = MeasuredFigure("update_s", phase.update_s, "ms", _MS)
        yield self._point(phase, figure, run.update_s, False, num_workers)
        if phase.staleness.mean > 0:
            stale = MeasuredFigure("staleness.mean", phase.staleness.mean, "updates", 1.0)
            yield self._point(phase, stale, float(run.staleness["mean"]), False, num_workers)

    def _train(
        self,
        phase: TrainingPhase,
        num_gpus: int,
        strategy: Mapping[str, Any],
        profile: Path | None,
        workers: Sequence[int] = (),
        transport: str | None = None,
    ) -> Run:
        """Return the simulated training of a phase."""
        updates = phase.updates.get("time_s", []) if isinstance(phase, AsynchronousPhase) else []
        # the compute-only phase also copies its gradients into buckets and back
        copied = {"bucket_copies": "none"} if phase.kind in ("overlap", "no-overlap") else {}
        scenario = {
            "name": phase.name,
            "model": phase.model,
            "num_gpus": num_gpus,
            "batch": {"per_gpu": phase.batch},
            "topology": self._topology() if num_gpus > 1 or len(workers) > 0 else self._single_rank(),
            "software": {"name": "plain", **copied},
            "transport": transport or self._cluster.transport,
            "strategy": dict(strategy),
            "precision": phase.precision,
            # measured times already include the differences between GPUs
            "compute": {"variability": 0, "kernels": "law"} | ({} if profile is None else {"profile": str(profile)}),
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
            raise PhaseError("the link between ranks is known neither by name nor from a complete all-reduce phase")
        return self._cluster.topology

    def _single_rank(self) -> dict[str, Any]:
        """Return a topology of one rank, whose network is not used."""
        return {"kind": "star", "num_hosts": 1, "gpu": self._cluster.gpu, "link": "1 GB/s", "hop": "0 s"}

    def _timed_layers(self, phase: ComputePhase) -> Path:
        """Return the profile of layers as timed in training, scaled to the times of the passes."""
        forward = phase.forward_s / (sum(row.forward_s for row in phase.layers) or phase.forward_s)
        backward = phase.backward_s / (sum(row.backward_s for row in phase.layers) or phase.backward_s)
        rows = [
            {**_row(row, backward * row.backward_s, 0.0), "forward_s": forward * row.forward_s} for row in phase.layers
        ]
        return self._profile(phase, "watched", rows, phase.update_s)

    def _profile(self, phase: TrainingPhase, kind: str, rows: Sequence[Mapping[str, Any]], update_s: float) -> Path:
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
        self, phase: Phase, figure: MeasuredFigure, simulated: float, calibrates: bool = False, num_gpus: int = 1
    ) -> Compared:
        """Return a figure with its simulated value; trainings that differ only in the method are ranked."""
        about = {} if isinstance(phase, AllReducePhase) else {"model": phase.model, "batch": phase.batch}
        slowed = None if isinstance(phase, AllReducePhase) or phase.straggler is None else phase.straggler.model_dump()
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
            method=phase.kind,
        )


def _iteration(seconds: float) -> MeasuredFigure:
    return MeasuredFigure("iteration_s", seconds, "ms", _MS)


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
    """Return the straggler with its number among the workers; a server cannot be a straggler."""
    if straggler.rank not in workers:
        raise PhaseError(f"the straggler is rank {straggler.rank}, which is not a worker")
    return {"kind": "constant", "factor": straggler.factor, "of": [list(workers).index(straggler.rank)]}
