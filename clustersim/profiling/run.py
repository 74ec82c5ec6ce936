"""Runs a campaign point by point; each measurement goes to the ledger, each complete point to the profile."""

from __future__ import annotations

import hashlib
import time
from collections.abc import Callable
from contextlib import nullcontext
from functools import partial
from itertools import product
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from clustersim.profiling.campaign import NO_LAYOUT, Campaign, CampaignPoint
from clustersim.profiling.cuda_timer import CudaTimer
from clustersim.profiling.device import Device, keep_memory, open_device, software
from clustersim.profiling.document import TOOL_VERSION, assemble, file_stem, round_key, write_document
from clustersim.profiling.errors import ProfilingError, is_out_of_memory
from clustersim.profiling.layers import HookedLayer, trace_layers
from clustersim.profiling.ledger import Ledger
from clustersim.profiling.measure import measure_layer
from clustersim.profiling.models import build_model
from clustersim.profiling.net import NetGraph
from clustersim.profiling.node import measure_input_copy, measure_node
from clustersim.profiling.optimizers import measure_optimizers
from clustersim.profiling.precision import autocast, use_precision
from clustersim.profiling.timer import Timer
from clustersim.profiling.whole import measure_whole

OnProgress = Callable[[float, str], None]
"""Receives the completed share of the campaign, 0 to 1, and the current measurement."""


NO_MEMORY = "out of memory"


class OutOfTime(Exception):
    """The campaign's time is used up; measurements are kept."""


def run_campaign(
    campaign: Campaign, folder: Path, on_progress: OnProgress, compact: bool = False
) -> tuple[Path, dict[str, Any]]:
    """Measure what the ledger in a folder lacks; return the profile's file and the profile itself.

    The profile is rewritten after each point, so it always has complete points. A point that does not
    fit into memory, and larger batches of it, are listed under `skipped`, as are points for which there was no time.
    """
    device = open_device(campaign.device)
    if not device.is_cuda and "tf32" in campaign.precisions:
        raise ProfilingError("tf32 is a format of CUDA devices; drop it from --precision, or use --device cuda")
    stream = torch.cuda.Stream() if device.is_cuda else None
    with torch.cuda.stream(stream) if stream is not None else nullcontext():
        timer = Timer(campaign.kernel_s) if stream is None else CudaTimer(campaign.kernel_s, stream)
        return _Run(campaign, device, timer, folder, on_progress, compact).run()


class _Run:
    """A campaign in progress."""

    def __init__(
        self, campaign: Campaign, device: Device, timer: Timer, folder: Path, on_progress: OnProgress, compact: bool
    ):
        self.campaign, self.device, self.timer = campaign, device, timer
        self.on_progress, self.compact = on_progress, compact
        self.end = time.monotonic() + campaign.max_s
        self.flags = {
            "cudnn_benchmark": campaign.autotune if device.is_cuda else None,
            "cudnn_deterministic": False,
            "num_threads": torch.get_num_threads(),
            "keeps_memory": device.is_cuda or keep_memory(),
        }
        self.identity = {
            "model": campaign.model,
            "device": device.record,
            "software": software(),
            "flags": self.flags,
            "kernel_s": campaign.kernel_s,
            "tool": TOOL_VERSION,
        }
        stem = file_stem(campaign.model, device.record["name"], campaign.autotune or not device.is_cuda)
        self.path = folder / f"{stem}.json"
        self.ledger = Ledger(folder / f"{stem}.ledger.jsonl", self.identity)
        self.round = 1
        self.graphs: dict[str, NetGraph] = {}  # the last layout's
        self.skipped: list[dict[str, Any]] = []
        self.full: set[tuple[str, str]] = set()  # precisions and layouts at which a batch did not fit

    def run(self) -> tuple[Path, dict[str, Any]]:
        """Measure what the ledger lacks; return the profile's path and document, written after each point.

        When time runs out, the remaining points are listed as skipped, with the reason.
        """
        points = self._points()
        try:
            for number, (index, point) in enumerate(product(range(self.campaign.rounds), points)):
                self.round = index + 1
                self._measure_facts(points[0].layout)
                self._try(point, number / (self.campaign.rounds * len(points)))
        except OutOfTime:
            self._skip_rest(points)
        return self._write()

    def _points(self) -> list[CampaignPoint]:
        has_images = build_model(self.campaign.model).has_images
        points = [point if has_images else point._replace(layout=NO_LAYOUT) for point in self.campaign.points()]
        return list(dict.fromkeys(points))

    def _measure_facts(self, layout: str) -> None:
        """Measure everything independent of the batch: the node, and the optimizers' steps."""
        self._once("node", lambda: measure_node(self.device, self.timer))
        try:
            self._once(
                "optimizers", lambda: list(measure_optimizers(self._graph(layout), self.timer, self.device.cache_bytes))
            )
        except (RuntimeError, MemoryError) as error:
            if not is_out_of_memory(error):
                raise
            message = f"the weights of {self.campaign.model} and an optimizer's state do not fit on this device"
            raise ProfilingError(message) from None

    def _try(self, point: CampaignPoint, share: float) -> None:
        """Measure a point, unless it is complete or a smaller batch of it did not fit."""
        if self._is_known(point):
            return
        if (point.precision, point.layout) in self.full:
            self._skip(point, NO_MEMORY)
            return
        try:
            self._measure(point, share)
        except (RuntimeError, ValueError, MemoryError) as error:
            if is_out_of_memory(error):
                self.full.add((point.precision, point.layout))
            self._skip(point, NO_MEMORY if is_out_of_memory(error) else f"torch refuses: {_first_line(error)}")
        if self.device.is_cuda:
            torch.cuda.empty_cache()
        self._write()

    def _measure(self, point: CampaignPoint, share: float) -> None:
        use_precision(point.precision, self.campaign.autotune)
        graph = self._graph(point.layout)
        batch = graph.batch(point.batch, self.device.torch, point.layout)
        is_check = point.batch not in self.campaign.batches
        traced = () if is_check else trace_layers(graph, batch, point.precision)
        distinct = {_short(layer.key): layer for layer in traced}
        if traced and not self.device.is_cuda:
            _touch_memory(graph, batch, point.precision)
        for number, (key, layer) in enumerate(distinct.items()):
            self.on_progress(share, f"{point}: {layer.layer.name} ({number + 1} of {len(distinct)} kinds of layers)")
            self._once(f"{point}: layer {key}", partial(self._layer, layer, point))
        self.on_progress(share, f"{point}: whole iterations")
        self._once(f"{point}: copy", lambda: measure_input_copy(batch[0], self.device, self.timer))
        whole = self._whole(graph, batch, point)
        keys = [(layer, f"{point}: layer {_short(layer.key)}") for layer in traced]
        layers = [
            {"name": layer.layer.name, "op": layer.layer.op, "fused": list(layer.layer.fused), "key": key}
            for layer, key in keys
        ]
        kind = "whole only" if is_check else "whole"
        self.ledger.record(self._key(f"{point}: {kind}"), {"point": point._asdict(), "layers": layers, "whole": whole})

    def _is_known(self, point: CampaignPoint) -> bool:
        kinds = ("whole",) if point.batch in self.campaign.batches else ("whole", "whole only")
        return any(self._key(f"{point}: {kind}") in self.ledger for kind in kinds)

    def _key(self, key: str) -> str:
        """Return a measurement's key in this round."""
        return round_key(key, self.round)

    def _layer(self, layer: HookedLayer, point: CampaignPoint) -> dict[str, Any]:
        times = measure_layer(
            layer, point.precision, self.device.torch, self.timer, self.device.cache_bytes, self.round == 1
        )
        return {"shape": layer.shape(), **times}

    def _whole(self, graph: NetGraph, batch: tuple[Tensor, Tensor], point: CampaignPoint) -> dict[str, Any]:
        self._check_time()
        row = measure_whole(graph, batch, point.precision, self.device, self.campaign.kernel_s)
        return {**row, "input_copy": self.ledger[self._key(f"{point}: copy")], "date": time.strftime("%Y-%m-%d")}

    def _graph(self, layout: str) -> NetGraph:
        """Return the model with its weights, and without gradients."""
        if layout not in self.graphs:
            self.graphs.clear()
            torch.manual_seed(0)
            self.graphs[layout] = build_model(self.campaign.model).materialise(self.device.torch, layout)
        self.graphs[layout].zero_grad(set_to_none=True)
        return self.graphs[layout]

    def _once(self, key: str, measure: Callable[[], Any]) -> None:
        key = self._key(key)
        if key not in self.ledger:
            self._check_time()
            self.ledger.record(key, measure())

    def _check_time(self) -> None:
        if time.monotonic() > self.end:
            raise OutOfTime

    def _skip(self, point: CampaignPoint, reason: str) -> None:
        row = {**point._asdict(), "reason": reason}
        if row not in self.skipped:
            self.skipped.append(row)

    def _skip_rest(self, points: list[CampaignPoint]) -> None:
        known = [tuple(row[key] for key in CampaignPoint._fields) for row in self.skipped]
        for point in points:
            if not self._is_known(point) and tuple(point) not in known:
                self._skip(point, "out of time")

    def _write(self) -> tuple[Path, dict[str, Any]]:
        document = assemble(self.identity, self.ledger.values, self.skipped, self.compact)
        if document["whole"]:
            write_document(document, self.path)
        return self.path, document


def _touch_memory(graph: NetGraph, batch: tuple[Tensor, Tensor], precision: str) -> None:
    """Train once, so that the memory of layers was used before: a system supplies new pages slowly to a processor."""
    with autocast(precision, batch[0].device):
        loss = graph(*batch)
    loss.backward()
    graph.zero_grad(set_to_none=True)


def _short(key: str) -> str:
    return hashlib.sha256(key.encode()).hexdigest()[:16]


def _first_line(error: BaseException) -> str:
    return (str(error).splitlines() or [type(error).__name__])[0]
