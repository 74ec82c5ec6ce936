"""The input stage: samples are read from storage and decoded on the hosts, ahead of the GPUs that train on them."""

from __future__ import annotations

from collections.abc import Callable, Generator
from math import log1p, sqrt
from typing import Any, Literal, Self

import numpy as np
import simpy
from pydantic import Field, model_validator

from clustersim.devices.queueing import SharedRate
from clustersim.errors import InputError, Mistake
from clustersim.seeding import stream
from clustersim.spec import Spec
from clustersim.units import Bandwidth, SampleRate, Size

Process = Generator[simpy.Event, Any, Any]


class Input(Spec):
    """How quickly samples come: read from storage that all hosts share, decoded by each host, copied to its GPUs."""

    decode: SampleRate | None = Field(
        default=None,
        description="what one host reads, decodes and augments, shared by its GPUs, such as `2000 samples/s`; no limit "
        "if not given",
    )
    storage: Bandwidth | None = Field(
        default=None, description="what the storage gives, shared by all hosts; no limit if not given"
    )
    sample_bytes: Size | None = Field(default=None, description="a sample's size in the storage, such as `110 kB`")
    copied_bytes: Size | None = Field(
        default=None,
        description="a sample's size on its way from host memory to the GPU, such as `602 kB`; a batch is copied when "
        "the GPU has computed with the one before; not simulated if not given",
    )
    copied_ahead: bool = Field(
        default=False,
        description="whether a batch is copied while the GPU still computes with the one before, into a second buffer",
    )
    memory: Literal["own-socket", "first-socket"] = Field(
        default="own-socket",
        description="where batches lie that are copied: `own-socket`, in the memory of each GPU's socket; "
        "`first-socket`, all in that of the host's first, as where one process fills them for all GPUs of the host",
    )
    file_samples: int | None = Field(
        default=None,
        ge=1,
        description="samples of a file of the loader, shared by all GPUs: the batch that begins a file is not copied "
        "ahead; all are if not given",
    )
    prefetch: int = Field(
        default=2, ge=0, description="batches that each GPU's loader prepares ahead of the one that is asked for"
    )
    cv: float = Field(
        default=0.0,
        ge=0,
        allow_inf_nan=False,
        description="coefficient of variation of the work to decode a batch, which is lognormal with mean 1",
    )

    @model_validator(mode="after")
    def _limits_something(self) -> Self:
        mistakes = []
        if self.decode is None and self.storage is None and self.copied_bytes is None:
            message = "what limits the input? Give decode, or storage with sample_bytes, or copied_bytes"
            mistakes.append(Mistake(message))
        for key in ("decode", "storage", "sample_bytes", "copied_bytes"):
            if getattr(self, key) == 0:
                why = "leave it out to copy nothing" if key == "copied_bytes" else "or no sample ever comes"
                mistakes.append(Mistake(f"{key} must be above 0, {why}", key, got="0"))
        if (self.storage is None) != (self.sample_bytes is None):
            given, missing = ("sample_bytes", "storage") if self.storage is None else ("storage", "sample_bytes")
            message = f"{given} means something with {missing} only: samples a second are storage / sample_bytes"
            mistakes.append(Mistake(message, given, allowed=f"with {missing}"))
        if self.copied_ahead and self.copied_bytes is None:
            mistakes.append(Mistake("what is copied ahead? Give copied_bytes as well", "copied_ahead", got="true"))
        if self.memory == "first-socket" and self.copied_bytes is None:
            mistakes.append(Mistake("what is copied from there? Give copied_bytes as well", "memory", got=self.memory))
        if self.file_samples is not None and not self.copied_ahead:
            message = "file_samples says which batches are not copied ahead; it means something with copied_ahead: true"
            mistakes.append(Mistake(message, "file_samples", got=str(self.file_samples), allowed="with copied_ahead"))
        if self.cv and self.decode is None:
            mistakes.append(Mistake("cv is that of decoding; give decode as well", "cv", got=f"{self.cv:g}"))
        if mistakes:
            raise InputError(mistakes)
        return self

    def times(self, factor: float) -> Self:
        """Return an input whose hosts and storage are `factor` times as fast."""
        limits = {"decode": self.decode, "storage": self.storage}
        return self.model_copy(update={key: rate * factor for key, rate in limits.items() if rate is not None})

    def samples_per_s(self, hosts: np.ndarray) -> float:
        """Return the highest rate of samples that the input can feed to GPUs on `hosts` [num_ranks], all at one rate.

        min(decode / GPUs of the fullest host x all GPUs, storage / sample_bytes).
        """
        num_gpus, most = len(hosts), int(np.unique(hosts, return_counts=True)[1].max())
        decoded = float("inf") if self.decode is None else self.decode * num_gpus / most
        read = float("inf") if self.storage is None or not self.sample_bytes else self.storage / self.sample_bytes
        return min(decoded, read)


class InputStage:
    """The loaders of a job on the clock, one for each rank; `hosts` [num_ranks] says which ranks share a decoder.

    A batch is read, then decoded; meanwhile the next one may be read. `prefetch` batches are on their way or ready
    before the first request, and each request starts one more. So with reading, decoding and training of r, d and t
    seconds a batch, the cycle of a lone worker takes max(r, d, t, (r + d + t) / (prefetch + 1)) seconds, as in a ring
    of three servers with prefetch + 1 customers.

    `copied_bytes` of a batch are then copied to the GPU, while it computes with the batch before if they are
    `copied_ahead`. If they lie `in_first_socket`, they are copied from the memory of the host's first socket.
    """

    def __init__(self, env: simpy.Environment, spec: Input, hosts: np.ndarray, batch: float, seed: int):
        self.prefetch = spec.prefetch
        self.copied_bytes = batch * (spec.copied_bytes or 0.0)
        self.copied_ahead, self.in_first_socket = spec.copied_ahead, spec.memory == "first-socket"
        self._batch_samples, self._file_samples = batch * len(hosts), spec.file_samples
        self._num_taken = [0] * len(hosts)
        storage = None if spec.storage is None else SharedRate(env, spec.storage)
        decoders = {host: SharedRate(env, spec.decode) for host in dict.fromkeys(hosts.tolist()) if spec.decode}
        self._loaders = [
            _Loader(env, storage, decoders.get(host), spec, batch, stream(seed, "input", rank))
            for rank, host in enumerate(hosts.tolist())
        ]

    def fetch(self, rank: int) -> Process:
        """Request the next batch of a rank, and wait until it is ready in host memory."""
        self._num_taken[rank] += 1
        yield from self._loaders[rank].fetch()

    def copies_ahead(self, rank: int) -> bool:
        """Say whether the next batch of a rank is copied while it computes with the last one that it requested.

        Batch k of n samples begins a file of f samples where samples k n and (k - 1) n lie in different files.
        """
        if not self.copied_ahead or self._file_samples is None:
            return self.copied_ahead
        begins = self._num_taken[rank] * self._batch_samples
        return begins // self._file_samples == (begins - self._batch_samples) // self._file_samples


class _Loader:
    """Prepares batches for one rank: `_wanted` may be read, `_read` wait to be decoded, `_ready` wait to be fetched."""

    def __init__(
        self,
        env: simpy.Environment,
        storage: SharedRate | None,
        decoder: SharedRate | None,
        spec: Input,
        batch: float,
        rng: np.random.Generator,
    ):
        self._samples, self._bytes = float(batch), batch * (spec.sample_bytes or 0.0)
        self._sigma = sqrt(log1p(spec.cv**2))
        self._rng = rng
        self._wanted = simpy.Container(env, init=spec.prefetch)
        self._read = self._wanted if storage is None else simpy.Container(env)
        self._ready = self._read if decoder is None else simpy.Container(env)
        if storage is not None:
            env.process(self._run_stage(self._wanted, lambda: storage.serve(self._bytes), self._read))
        if decoder is not None:
            env.process(self._run_stage(self._read, lambda: decoder.serve(self._samples * self._factor()), self._ready))

    def fetch(self) -> Process:
        """Take the next batch; one more may be read from now on."""
        yield self._wanted.put(1)
        yield self._ready.get(1)

    def _run_stage(self, source: simpy.Container, work: Callable[[], simpy.Event], target: simpy.Container) -> Process:
        """Take batches one by one from a source, do the work, and pass them to a target."""
        while True:
            yield source.get(1)
            yield work()
            yield target.put(1)

    def _factor(self) -> float:
        """Draw the work of a batch, relative to the mean batch."""
        return float(self._rng.lognormal(-(self._sigma**2) / 2, self._sigma)) if self._sigma else 1.0
