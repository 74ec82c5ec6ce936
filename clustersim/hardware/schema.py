"""Schema of a sheet file: every value with its source document."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, ClassVar, Generic, Literal, Self, TypeVar, cast, get_args

from pydantic import Field, field_validator, model_validator

from clustersim.errors import InputError
from clustersim.hardware.sheet import Cpu, Gpu, LinkSheet, Sheet, Transport
from clustersim.spec import Spec
from clustersim.units import Bandwidth, Duration, FlopRate, Size

Value = TypeVar("Value")
Device = TypeVar("Device", bound=Sheet)

Architecture = Literal[
    "fermi", "kepler", "maxwell", "pascal", "volta", "turing", "ampere", "ada", "hopper", "blackwell", "other"
]
Precision = Literal["fp64", "fp32", "tf32", "fp16", "bf16", "fp8", "amp-fp16", "amp-bf16", "amp-fp8"]
Library = Literal[
    "cuda-copies",
    "gloo",
    "ideal",
    "mpi",
    "mpi-adapter",
    "mpi-cuda",
    "nccl",
    "nccl-omni-path",
    "nccl-sockets",
    "tcp",
]
Rate = Annotated[Bandwidth, Field(gt=0)]
Speed = Annotated[FlopRate, Field(gt=0)]
Amount = Annotated[Size, Field(gt=0)]
Positive = Annotated[float, Field(gt=0)]


class Sourced(Spec, Generic[Value]):
    """A value and its source: a document, `assumed: why`, or `recalled: what` if not looked up again."""

    value: Value
    source: str = Field(description="document, page, date; or 'assumed: why'; or 'recalled: what'")

    @field_validator("source")
    @classmethod
    def _is_not_empty(cls, source: str) -> str:
        text = " ".join(source.split())
        kind, _, reason = text.partition(":")
        if not text or (kind in ("assumed", "recalled") and not reason.strip()):
            allowed = "a document, or 'assumed: why'"
            raise InputError("a source names a document, or reads 'assumed: why'", got=source, allowed=allowed)
        return text


class SheetFile(Spec, Generic[Device]):
    """Keys common to all sheets, and the conversion to a device."""

    device_type: ClassVar[type[Sheet]]

    name: str = Field(pattern=r"^[a-z0-9]+([-.][a-z0-9]+)*$", description="short name in kebab-case")
    title: str = Field(min_length=1, description="its usual name, in one line")

    def device(self) -> Device:
        """Return the device with plain values, and the source of each under the value's (dotted) key."""
        values: dict[str, Any] = {}
        sources: dict[str, str] = {}
        for key in type(self).model_fields:
            entry = getattr(self, key)
            if isinstance(entry, Sourced):
                values[key], sources[key] = entry.value, entry.source
            elif isinstance(entry, Mapping):
                values[key] = {part: item.value for part, item in entry.items()}
                sources |= {f"{key}.{part}": item.source for part, item in entry.items()}
            elif entry is not None:
                values[key] = entry
        return cast(Device, self.device_type(sources=sources, **values))


class GpuFile(SheetFile[Gpu]):
    """A GPU; rates are dense peaks of the data sheet."""

    device_type = Gpu

    architecture: Sourced[Architecture]
    flop_per_s: dict[Precision, Sourced[Speed]]
    memory_bytes: Sourced[Amount]
    memory_bytes_per_s: Sourced[Rate]
    num_multiprocessors: Sourced[Annotated[int, Field(ge=1)]]
    launch_s: Sourced[Duration]
    pcie: Sourced[str]
    nvlink: Sourced[str] | None = None
    num_nvlinks: Sourced[Annotated[int, Field(ge=1)]] | None = None
    staged_bytes_per_s: Sourced[Rate] | None = None
    staged_together_bytes_per_s: Sourced[Rate] | None = None
    l2_bytes_per_s: Sourced[Rate] | None = None
    variability: Sourced[Annotated[float, Field(ge=0, lt=1)]] | None = None
    power_w: Sourced[Positive] | None = None
    product_share: Sourced[Annotated[float, Field(gt=0, le=1)]] | None = None
    dollars_per_hour: Sourced[Positive] | None = None
    boards: Sourced[tuple[str, ...]] | None = None

    @model_validator(mode="after")
    def _is_consistent(self) -> Self:
        if "fp32" not in self.flop_per_s:
            got = ", ".join(self.flop_per_s)
            raise InputError("flop_per_s needs at least fp32", got=got, allowed="fp32 and others", key="flop_per_s")
        if (self.nvlink is None) != (self.num_nvlinks is None):
            given = "num_nvlinks" if self.nvlink is None else "nvlink"
            message = "nvlink and num_nvlinks are given together or not at all"
            raise InputError(message, got=f"{given} alone", allowed="both or none", key=given)
        if self.staged_together_bytes_per_s is not None and self.staged_bytes_per_s is None:
            message = "staged_together_bytes_per_s (all GPUs of a PCIe switch) needs staged_bytes_per_s (one GPU)"
            key = "staged_together_bytes_per_s"
            raise InputError(message, got=f"{key} alone", allowed="both, or staged_bytes_per_s, or none", key=key)
        return self


class LinkFile(SheetFile[LinkSheet]):
    """A link, one direction of it."""

    device_type = LinkSheet

    bytes_per_s: Sourced[Rate]
    raw_bytes_per_s: Sourced[Rate]
    latency_s: Sourced[Duration]

    @model_validator(mode="after")
    def _fits(self) -> Self:
        if self.bytes_per_s.value > self.raw_bytes_per_s.value:
            message = "bytes_per_s (rate of messages) is more than raw_bytes_per_s (signalled rate)"
            raise InputError(message, allowed="no more than raw_bytes_per_s", key="bytes_per_s.value")
        return self


class CpuFile(SheetFile[Cpu]):
    """A host's processor, one socket."""

    device_type = Cpu

    memory_bytes_per_s: Sourced[Rate]
    core_bytes_per_s: Sourced[Rate]
    interconnect: Sourced[str] | None = None
    peer_share: Sourced[Annotated[float, Field(gt=0, le=1)]] | None = None
    issue_factor: Sourced[Positive] | None = None

    @model_validator(mode="after")
    def _fits(self) -> Self:
        if self.core_bytes_per_s.value > self.memory_bytes_per_s.value:
            message = "core_bytes_per_s (one core) is more than memory_bytes_per_s (the socket)"
            raise InputError(message, allowed="no more than memory_bytes_per_s", key="core_bytes_per_s.value")
        return self


class TransportFile(SheetFile[Transport]):
    """A message library; in a user's own sheet `library` is the shipped one that it resembles."""

    device_type = Transport

    library: Library | None = None

    overhead_s: Sourced[Duration]
    efficiency: Sourced[Annotated[float, Field(gt=0, le=1)]]
    buffers: Sourced[Literal["gpu", "host"]]
    adds: Sourced[bool]
    host_overhead_s: Sourced[Duration] | None = None
    add_s_per_byte: Sourced[Annotated[Duration, Field(gt=0)]] | None = None
    channels: Sourced[Annotated[int, Field(ge=0)]] | None = None
    in_host: Sourced[Literal["memory", "adapter"]] | None = None
    connection_bytes_per_s: Sourced[Rate] | None = None
    receiving_bytes_per_s: Sourced[Rate] | None = None
    sending_bytes_per_s: Sourced[Rate] | None = None
    threads: Sourced[Annotated[int, Field(ge=1)]] | None = None
    half_rate_bytes: Sourced[Amount] | None = None

    @model_validator(mode="after")
    def _in_host_fits_buffers(self) -> Self:
        if self.in_host is not None and self.buffers.value == "gpu":
            message = "in_host applies to messages between host memories, and these buffers are in GPUs"
            raise InputError(
                message, got=self.in_host.value, allowed="no in_host, or buffers: host", key="in_host.value"
            )
        return self

    @model_validator(mode="after")
    def _process_rates_are_complete(self) -> Self:
        rates = {"receiving_bytes_per_s": self.receiving_bytes_per_s, "sending_bytes_per_s": self.sending_bytes_per_s}
        given = [key for key, rate in rates.items() if rate is not None]
        if len(given) == 1:
            message = "receiving_bytes_per_s and sending_bytes_per_s of processes are given together or not at all"
            raise InputError(message, got=given[0], allowed="both, or neither", key=given[0])
        if self.threads is not None and not given:
            message = "threads of processes need a rate (receiving_bytes_per_s, sending_bytes_per_s)"
            raise InputError(message, got=str(self.threads.value), allowed="rates, or no threads", key="threads.value")
        if self.half_rate_bytes is not None and not given:
            message = "half_rate_bytes of threads of processes needs a rate (receiving_bytes_per_s)"
            got = f"{self.half_rate_bytes.value:g} bytes"
            raise InputError(message, got=got, allowed="rates, or no half_rate_bytes", key="half_rate_bytes.value")
        if given and (self.buffers.value == "gpu" or self.in_host is not None):
            message = "rates of processes apply to messages between host memories, and in_host changes their route"
            raise InputError(message, allowed="buffers: host, and no in_host", key=f"{given[0]}.value")
        return self

    @model_validator(mode="after")
    def _channels_fit_buffers(self) -> Self:
        if self.channels is not None and self.channels.value and self.buffers.value == "host":
            message = "channels are multiprocessors of GPUs, but the host's processors exchange buffers in host memory"
            raise InputError(message, got=str(self.channels.value), allowed="0", key="channels.value")
        return self

    @model_validator(mode="after")
    def _library_is_known(self) -> Self:
        known = get_args(Library)
        if self.library is None and self.name not in known:
            message = f"'{self.name}' is not a shipped transport; give the library whose algorithm choices it makes"
            raise InputError(message, got=self.name, allowed=", ".join(known), key="library")
        return self
