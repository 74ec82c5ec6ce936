"""What of its GPUs a collective holds while it runs there: a multiprocessor for each of its channels."""

from __future__ import annotations

import numpy as np

from clustersim.collectives.nccl import NVLS_CHANNELS
from clustersim.collectives.nccl_1 import NCCL_1_CHANNELS, OF_NCCL_1
from clustersim.communicator.algorithm import NCCL, num_channels
from clustersim.hardware import load_gpu
from clustersim.hardware.sheet import Transport
from clustersim.topology import Topology

HOLDING = ("all-reduce", "all-gather", "reduce-scatter", "broadcast", "broadcasts", "reduce")
"""Collectives that run on all channels; what is sent from one GPU to another does not."""


def uses_sms(transport: Transport) -> bool:
    """Say whether collectives of a transport hold multiprocessors at all.

    >>> from clustersim.hardware import load_transport
    >>> uses_sms(load_transport("nccl")), uses_sms(load_transport("mpi"))
    (True, False)
    """
    return transport.library in NCCL if transport.channels is None else transport.channels > 0


def sm_share(
    topology: Topology, gpus: np.ndarray, transport: Transport, algorithm: str, chosen_by: str = "auto"
) -> np.ndarray:
    """Return which share of its multiprocessors a collective among GPUs holds on each of them [num_ranks].

    `chosen_by` is what the scenario calls its algorithm, and `algorithm` what that has come to.

    The transport's own number of channels, or else NCCL's on these links, which leave a GPU one multiprocessor to
    compute on at least; none of a GPU without a sheet.
    """
    if not uses_sms(transport) or len(gpus) < 2:
        return np.zeros(len(gpus))
    sheets = [topology.gpu_sheets[gpu] for gpu in gpus.tolist()]
    have = {name: load_gpu(name).num_multiprocessors for name in dict.fromkeys(sheets) if name is not None}
    if transport.channels is not None:
        held = dict.fromkeys(have, transport.channels)
    else:
        num = NVLS_CHANNELS if algorithm == "nvls" else num_channels(topology, gpus, transport.library)
        num = NCCL_1_CHANNELS if chosen_by in OF_NCCL_1 else num
        held = {name: min(num, most - 1) for name, most in have.items()}
    return np.array([0.0 if name is None else held[name] / have[name] for name in sheets])
