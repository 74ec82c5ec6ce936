"""The share of its GPUs that a collective occupies while it runs: a multiprocessor for each of its channels."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from clustersim.collectives.nccl import NVLS_CHANNELS
from clustersim.collectives.nccl_1 import NCCL_1_CHANNELS, OF_NCCL_1
from clustersim.collectives.nccl_channels import compute_capability
from clustersim.communicator.algorithm import NCCL, num_channels
from clustersim.hardware import load_gpu
from clustersim.hardware.sheet import Transport
from clustersim.program.token_route import TokenRoute
from clustersim.topology import Topology

SM_COLLECTIVES = ("all-reduce", "all-gather", "reduce-scatter", "broadcast", "broadcasts", "reduce")
"""Collectives that run on all channels, and so occupy multiprocessors; messages between two GPUs do not."""

TWO_HOP_SMS = 20
"""Multiprocessors that forward tokens between network cards and NVLink: "only 20 SMs are sufficient to fully utilize
the bandwidths of IB and NVLink" of an H800 (DeepSeek-V3, arXiv:2412.19437, section 3.2.2)."""


def uses_sms(transport: Transport) -> bool:
    """Say whether collectives of a transport occupy multiprocessors at all.

    >>> from clustersim.hardware import load_transport
    >>> uses_sms(load_transport("nccl")), uses_sms(load_transport("mpi"))
    (True, False)
    """
    return transport.library in NCCL if transport.channels is None else transport.channels > 0


def sm_share(
    topology: Topology, gpus: np.ndarray, transport: Transport, algorithm: str, chosen_by: str = "auto"
) -> np.ndarray:
    """Return the share of its multiprocessors that a collective occupies on each GPU [num_ranks], 0 to 1.

    `chosen_by` is the algorithm that the scenario names, and `algorithm` the one that it leads to.

    There are as many channels as the transport says, or else as many as NCCL uses on these links. The latter leave a
    GPU at least one multiprocessor to compute. On a GPU without a sheet the share is 0.
    """
    if not uses_sms(transport) or len(gpus) < 2:
        return np.zeros(len(gpus))
    sheets = [topology.gpu_sheets[gpu] for gpu in gpus.tolist()]
    available = {name: load_gpu(name).num_multiprocessors for name in dict.fromkeys(sheets) if name is not None}
    if transport.channels is not None:
        occupied = dict.fromkeys(available, transport.channels)
    else:
        num = _nvls_channels(available) if algorithm == "nvls" else num_channels(topology, gpus, transport.library)
        num = NCCL_1_CHANNELS if chosen_by in OF_NCCL_1 else num
        occupied = {name: min(num, most - 1) for name, most in available.items()}
    return np.array([0.0 if name is None else occupied[name] / available[name] for name in sheets])


def token_route_sm_share(topology: Topology, gpus: np.ndarray, token_route: TokenRoute) -> np.ndarray:
    """Return the share of its multiprocessors that an exchange of tokens with experts occupies on each GPU [num_ranks].

    None in the low-latency mode, whose messages network cards send by themselves.
    """
    if token_route.exchange == "low-latency" or len(gpus) < 2:
        return np.zeros(len(gpus))
    sheets = [topology.gpu_sheets[gpu] for gpu in gpus.tolist()]
    return np.array([0.0 if name is None else TWO_HOP_SMS / load_gpu(name).num_multiprocessors for name in sheets])


def _nvls_channels(sheets: Iterable[str]) -> int:
    capability = compute_capability(*(load_gpu(name).architecture for name in sheets))
    return NVLS_CHANNELS[max(least for least in NVLS_CHANNELS if least <= capability)]
