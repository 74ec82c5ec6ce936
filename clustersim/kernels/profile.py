"""Measured layer times of a real device: reads `clustersim.profile/1` and finds a model's layers in it.

Profiles shipped with clustersim are in `clustersim/profiles`, named after model and device sheet.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from math import log
from pathlib import Path
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from clustersim.errors import InputError, Mistake, unknown_name
from clustersim.hardware import GPUS, load_gpu
from clustersim.hardware.sheet import Gpu
from clustersim.kernels.batch_interpolation import BatchInterpolation
from clustersim.model.layer import Layer, LayerTime, Model
from clustersim.program.issue import NOT_ISSUED, PassIssue
from clustersim.reading import explain, from_python, looks_like_path

SHIPPED = Path(__file__).resolve().parent.parent / "profiles"
MAX_BYTES = 100_000_000
PHASES = ("forward_s", "backward_data_s", "backward_weights_s")


class HostSeconds(BaseModel):
    """Time of the host thread to launch a layer, where that is not part of the layer's time."""

    model_config = ConfigDict(frozen=True, extra="ignore")

    forward: float = Field(ge=0, allow_inf_nan=False)
    backward: float = Field(ge=0, allow_inf_nan=False)


class ProfiledLayer(BaseModel):
    """One layer at one batch, precision and layout.

    `also` names layers of the same shape, with the same time; `fused` names layers that this one's kernel includes.
    """

    model_config = ConfigDict(frozen=True, extra="ignore")

    name: str
    op: str = ""
    batch: int = Field(ge=1)
    precision: str
    layout: str = ""
    forward_s: float = Field(ge=0, allow_inf_nan=False)
    backward_data_s: float = Field(ge=0, allow_inf_nan=False)
    backward_weights_s: float = Field(ge=0, allow_inf_nan=False)
    host_s: HostSeconds | None = None
    also: tuple[str, ...] = ()
    fused: tuple[str, ...] = ()

    def rows(self) -> Iterator[ProfiledLayer]:
        """Yield a row for every layer that this one stands for; layers fused into its kernel take no time."""
        for name in (self.name, *self.also):
            yield self.model_copy(update={"name": name})
        nothing = {**dict.fromkeys(PHASES, 0.0), "host_s": self.host_s and HostSeconds(forward=0.0, backward=0.0)}
        for name in self.fused:
            yield self.model_copy(update={"name": name, **nothing})


class OptimizerStep(BaseModel):
    """Seconds of one update of all weights."""

    model_config = ConfigDict(frozen=True, extra="ignore")

    rule: str
    implementation: str = ""
    step_s: float = Field(ge=0, allow_inf_nan=False)


class ProfileFile(BaseModel):
    """A profile as written in its file; keys that a forecast does not need are ignored."""

    model_config = ConfigDict(frozen=True, extra="ignore", populate_by_name=True)

    schema_name: Literal["clustersim.profile/1"] = Field(alias="schema")
    device: str | dict[str, Any]
    model: str = ""
    layers: tuple[ProfiledLayer, ...] = Field(min_length=1)
    optimizers: tuple[OptimizerStep, ...] | None = None

    @property
    def device_name(self) -> str:
        return self.device if isinstance(self.device, str) else str(self.device.get("name", ""))

    @property
    def parallel(self) -> tuple[object, str]:
        """The number of a GPU's multiprocessors or a processor's threads (None if not given), and the word for it."""
        device = {} if isinstance(self.device, str) else self.device
        word = "threads" if "num_threads" in device else "multiprocessors"
        return device.get(f"num_{word}"), word


@dataclass(frozen=True)
class Profile:
    """A profile and the file it came from."""

    path: Path
    content: ProfileFile

    @property
    def title(self) -> str:
        """What was measured: model, device, precisions and batches.

        >>> read_profile("alexnet-xeon-2-50ghz").title
        'alexnet on Intel(R) Xeon(R) Processor @ 2.50GHz: fp32, batch 1, 2, 4, 8, 16'
        """
        precisions = ", ".join(sorted({row.precision for row in self.content.layers}))
        batches = ", ".join(map(str, sorted({row.batch for row in self.content.layers})))
        return f"{self.content.model} on {self.content.device_name}: {precisions}, batch {batches}"

    def layer_times(
        self, model: Model, gpu: Gpu, batch: int, precision: str, layout: str | None = None
    ) -> tuple[LayerTime | None, ...]:
        """Return the times of each layer of a model for a batch, None for a layer without a measurement.

        At and between measured batches they are `measured`, outside them `estimated` (`batch_interpolation` has the
        rules). A layer also waits until the host has launched it, where the file has launch times of every layer
        Refused: another GPU or precision, several layouts where none is selected, and a file without
        most of the layers that compute.
        """
        self._check_device(gpu)
        by_name = self._rows(model, precision, layout)
        curve = BatchInterpolation(model, gpu, precision, batch)
        found = [(index, layer) for index, layer in enumerate(model.layers) if layer.name in by_name]
        times = [self._time(index, layer, by_name[layer.name], curve) for index, layer in found]
        nearest = [min(by_name[layer.name], key=lambda row: abs(log(row.batch / batch))) for _, layer in found]
        launches = [(row.host_s.forward, row.host_s.backward) for row in nearest if row.host_s]
        if len(launches) == len(times):
            times = [_with_issue(time, *each) for time, each in zip(times, launches, strict=True)]
        known = {layer.name: time for (_, layer), time in zip(found, times, strict=True)}
        return tuple(known.get(layer.name) for layer in model.layers)

    def optimizer_s(self, model: Model, rule: str) -> float | None:
        """Return the measured seconds of an optimizer's step over this model, in torch's default implementation
        (`foreach`); None where that was not measured.
        """
        steps = self.content.optimizers if self.content.model == model.name else None
        found = [step for step in steps or () if step.rule == rule and step.implementation in ("foreach", "")]
        return found[0].step_s if found else None

    def _rows(self, model: Model, precision: str, layout: str | None) -> dict[str, list[ProfiledLayer]]:
        """Return the rows that apply, by layer."""
        rows = [row for row in self.content.layers if row.precision == precision]
        if not rows:
            known = ", ".join(sorted({row.precision for row in self.content.layers}))
            raise self._refused(f"has no times in {precision}; it was measured in {known}", precision, known)
        rows = [row for each in self._of_one_layout(rows, layout) for row in each.rows()]
        by_name: dict[str, list[ProfiledLayer]] = {}
        for row in rows:
            by_name.setdefault(row.name, []).append(row)
        computing = [layer.name for layer in model.layers if layer.flop > 0] or [layer.name for layer in model.layers]
        missing = [name for name in computing if name not in by_name]
        if 2 * len(missing) > len(computing):
            raise self._refused(
                f"lacks {len(missing)} of the {len(computing)} layers of {model.name} that compute, such as "
                f"'{missing[0]}'. It has '{rows[0].name}', so it belongs to another model",
                rows[0].name,
                f"a profile of {model.name}",
            )
        return by_name

    def _of_one_layout(self, rows: Sequence[ProfiledLayer], layout: str | None) -> list[ProfiledLayer]:
        known = sorted({row.layout for row in rows})
        names = ", ".join(known)
        if layout is None and len(known) > 1:
            raise self._refused(
                f"has times in several layouts ({names}), which are never mixed; select one with software.image_layout",
                names,
                "one layout",
            )
        if layout is not None and layout not in known:
            raise self._refused(f"has no times in layout {layout}; it was measured in {names}", layout, names)
        return [row for row in rows if layout is None or row.layout == layout]

    def _time(self, index: int, layer: Layer, rows: Sequence[ProfiledLayer], curve: BatchInterpolation) -> LayerTime:
        ordered = sorted(rows, key=lambda row: row.batch)
        batches = [row.batch for row in ordered]
        if len(set(batches)) < len(batches):
            raise self._refused(f"has layer '{layer.name}' twice at one batch; keep one", layer.name, "one row a batch")
        seconds = [
            curve.seconds(index, phase, batches, [getattr(row, name) for row in ordered])
            for phase, name in enumerate(PHASES)
        ]
        inside = batches[0] <= curve.batch <= batches[-1]
        return LayerTime(layer, seconds[0], seconds[1], seconds[2], "measured" if inside else "estimated")

    def _check_device(self, gpu: Gpu) -> None:
        device = self.content.device_name
        cores, word = self.content.parallel
        wrong = ""
        if not set(_words(gpu.name)) <= set(_words(device)):
            wrong = f"was measured on '{device}', and the cluster has {gpu.title} ({gpu.name})"
        elif cores is not None and cores != gpu.num_multiprocessors:
            wrong = f"was measured on {cores} {word}, and {gpu.title} ({gpu.name}) has {gpu.num_multiprocessors}"
        else:
            nearer = [name for name in GPUS if set(_words(gpu.name)) < set(_words(name)) <= set(_words(device))]
            if any(not _same_speed(load_gpu(name), gpu) for name in nearer):
                wrong = (
                    f"was measured on '{device}', which is {nearer[0]}, and the cluster has {gpu.title} ({gpu.name})"
                )
        if wrong:
            advice = f"profile that GPU, or write the sheet's name, '{gpu.name}', as the profile's device if it is one"
            raise self._refused(f"{wrong}; {advice}", device, gpu.name)

    def _refused(self, message: str, got: str, allowed: str) -> InputError:
        return InputError(Mistake(f"the profile {message}", file=str(self.path), got=got, allowed=allowed))


def shipped_profiles() -> dict[str, Path]:
    """Return the files of the profiles that ship with clustersim by name, in alphabetical order."""
    return {path.stem: path for path in sorted(SHIPPED.glob("*.json"))}


def read_profile(path: str | Path) -> Profile:
    """Return a profile by the name of a shipped one, or by its file, which is read again when it has changed.

    A file that is not a profile is an InputError.
    """
    file = Path(path)
    if isinstance(path, str) and not looks_like_path(path) and not file.exists():
        shipped = shipped_profiles()
        if path not in shipped:
            raise unknown_name("profile", path, shipped)
        file = shipped[path]
    try:
        stat = file.stat()
    except OSError as error:
        raise InputError(Mistake(f"cannot read this profile: {error.strerror}", file=str(path))) from None
    return _read(file, stat.st_mtime_ns, stat.st_size)


@lru_cache(maxsize=16)
def _read(file: Path, mtime_ns: int, size: int) -> Profile:
    if size > MAX_BYTES:
        raise InputError(
            Mistake(f"a profile is under {MAX_BYTES // 10**6} MB; this is another kind of file", file=str(file))
        )
    try:
        text = file.read_text(encoding="utf-8")
    except OSError as error:
        raise InputError(Mistake(f"cannot read this profile: {error.strerror}", file=str(file))) from None
    except UnicodeDecodeError:
        raise InputError(Mistake("a profile is JSON in UTF-8; this file is not", file=str(file))) from None
    return Profile(file, _content(text, str(file)))


def _content(text: str, file: str) -> ProfileFile:
    """Return the content of a profile; all mistakes of an invalid file are reported together."""
    try:
        document = json.loads(text)
    except (ValueError, RecursionError):
        message = "not a clustersim.profile/1: not a complete JSON document; profile again, or copy the file again"
        raise InputError(Mistake(message, file=file)) from None
    try:
        return ProfileFile.model_validate_json(text)
    except ValidationError as error:
        found = explain(error, from_python(document), ProfileFile)
        start = "not a clustersim.profile/1: "
        raise InputError(
            [replace(one.mistake, message=start + one.mistake.message, file=file) for one in found]
        ) from None


def _words(name: str) -> list[str]:
    return re.findall(r"[a-z0-9]+", name.lower())


def _same_speed(sheet: Gpu, other: Gpu) -> bool:
    """Say whether two sheets differ only in memory size."""
    facts = [(gpu.flop_per_s, gpu.memory_bytes_per_s, gpu.num_multiprocessors) for gpu in (sheet, other)]
    return facts[0] == facts[1]


def _with_issue(time: LayerTime, forward_s: float, backward_s: float) -> LayerTime:
    """Return the times of a layer with those of the host to issue it; backward is issued with its first product."""
    backward = PassIssue(backward_s, 1)
    of_data = time.backward_data_s > 0 or not time.backward_weights_s
    issue = (backward, NOT_ISSUED) if of_data else (NOT_ISSUED, backward)
    return replace(
        time, forward_issue=PassIssue(forward_s, 1), backward_data_issue=issue[0], backward_weights_issue=issue[1]
    )
