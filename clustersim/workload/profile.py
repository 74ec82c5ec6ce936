"""Layer times measured on a real GPU: reads `clustersim.profile/1` and finds a model's layers in it."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from clustersim.errors import InputError, Mistake
from clustersim.hardware.sheet import Gpu
from clustersim.workload.layer import Layer, LayerTime, Model

MAX_BYTES = 100_000_000


class ProfiledLayer(BaseModel):
    """One layer at one batch, precision and layout."""

    model_config = ConfigDict(frozen=True, extra="ignore")

    name: str
    op: str = ""
    batch: int = Field(ge=1)
    precision: str
    layout: str = ""
    forward_s: float = Field(ge=0, allow_inf_nan=False)
    backward_data_s: float = Field(ge=0, allow_inf_nan=False)
    backward_weights_s: float = Field(ge=0, allow_inf_nan=False)


class ProfileFile(BaseModel):
    """A profile as it is written; keys that a forecast does not need are not looked at."""

    model_config = ConfigDict(frozen=True, extra="ignore", populate_by_name=True)

    schema_name: Literal["clustersim.profile/1"] = Field(alias="schema")
    device: str | dict[str, Any]
    layers: tuple[ProfiledLayer, ...] = Field(min_length=1)

    @property
    def device_name(self) -> str:
        return self.device if isinstance(self.device, str) else str(self.device.get("name", ""))


@dataclass(frozen=True)
class Profile:
    """A profile and the file it came from."""

    path: Path
    content: ProfileFile

    def layer_times(self, model: Model, gpu: Gpu, batch: int, precision: str) -> tuple[LayerTime | None, ...]:
        """Return the `measured` times of each layer of a model for a batch, None for a layer nobody profiled.

        Times between two measured batches are interpolated linearly; other batches, another GPU or
        precision, a file with several layouts or without most of the layers that compute are refused.
        """
        self._check_device(gpu)
        rows = [row for row in self.content.layers if row.precision == precision]
        if not rows:
            known = ", ".join(sorted({row.precision for row in self.content.layers}))
            raise self._refused(f"has no times in {precision}; it was measured in {known}", precision, known)
        layouts = sorted({row.layout for row in rows})
        if len(layouts) > 1:
            raise self._refused(
                f"has times in several layouts ({', '.join(layouts)}), and they are never mixed; keep one",
                ", ".join(layouts),
                "one layout",
            )
        by_name: dict[str, list[ProfiledLayer]] = {}
        for row in rows:
            by_name.setdefault(row.name, []).append(row)
        computing = [layer.name for layer in model.layers if layer.flop > 0] or [layer.name for layer in model.layers]
        missing = [name for name in computing if name not in by_name]
        if 2 * len(missing) > len(computing):
            raise self._refused(
                f"lacks {len(missing)} of the {len(computing)} layers of {model.name} that compute, such as "
                f"'{missing[0]}'; it has '{rows[0].name}' and is another model's",
                rows[0].name,
                f"a profile of {model.name}",
            )
        return tuple(self._time(layer, by_name.get(layer.name), batch) for layer in model.layers)

    def _time(self, layer: Layer, rows: Sequence[ProfiledLayer] | None, batch: int) -> LayerTime | None:
        if rows is None:
            return None
        ordered = sorted(rows, key=lambda row: row.batch)
        batches = [row.batch for row in ordered]
        if len(set(batches)) < len(batches):
            raise self._refused(f"has layer '{layer.name}' twice at one batch; keep one", layer.name, "one row a batch")
        if not batches[0] <= batch <= batches[-1]:
            known = ", ".join(map(str, batches))
            raise self._refused(
                f"measured layer '{layer.name}' at batch {known}, and times are not extrapolated to {batch}; "
                "profile that batch, or choose one between",
                str(batch),
                f"{batches[0]} to {batches[-1]}",
            )
        names = ("forward_s", "backward_data_s", "backward_weights_s")
        seconds = [float(np.interp(batch, batches, [getattr(row, name) for row in ordered])) for name in names]
        return LayerTime(layer, seconds[0], seconds[1], seconds[2], "measured")

    def _check_device(self, gpu: Gpu) -> None:
        device = self.content.device_name
        if not set(_words(gpu.name)) <= set(_words(device)):
            raise self._refused(
                f"was measured on '{device}', and the cluster has {gpu.title} ({gpu.name}); "
                f"profile that GPU, or write the sheet's name, '{gpu.name}', as the profile's device if it is one",
                device,
                gpu.name,
            )

    def _refused(self, message: str, got: str, allowed: str) -> InputError:
        return InputError(Mistake(f"the profile {message}", file=str(self.path), got=got, allowed=allowed))


def read_profile(path: str | Path) -> Profile:
    """Return a profile file's content; a file that is none is an InputError."""
    file = Path(path)
    try:
        if file.stat().st_size > MAX_BYTES:
            raise InputError(
                Mistake(f"a profile is under {MAX_BYTES // 10**6} MB; this is some other file", file=str(path))
            )
        text = file.read_text(encoding="utf-8")
    except OSError as error:
        raise InputError(Mistake(f"cannot read this profile: {error.strerror}", file=str(path))) from None
    except UnicodeDecodeError:
        raise InputError(Mistake("a profile is JSON in UTF-8, and this is not", file=str(path))) from None
    try:
        return Profile(file, ProfileFile.model_validate_json(text))
    except ValidationError as error:
        raise InputError(_mistakes(error, str(path))) from None


def _mistakes(error: ValidationError, file: str) -> list[Mistake]:
    def one(found: Mapping[str, Any]) -> Mistake:
        key = ".".join(str(part) for part in found["loc"]) or None
        return Mistake(f"not a clustersim.profile/1: {found['msg']}", key, file, got=str(found["input"])[:60])

    return [one(dict(found)) for found in error.errors()]


def _words(name: str) -> list[str]:
    return re.findall(r"[a-z0-9]+", name.lower())
