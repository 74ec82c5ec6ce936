"""Buffers in GPU memory for tokens on their way to experts, as DeepEP sizes them.

`get_nvl_buffer_size_hint`, `get_rdma_buffer_size_hint` and `LowLatencyLayout` in csrc/legacy/config.hpp
(deepseek-ai/DeepEP, commit dd758ca), with the chunks of its `get_dispatch_config` for 16 to 64 GPUs. Hosts have eight
GPUs there. A GPU has one buffer for all layers. Flags and counts are left out.
"""

from __future__ import annotations

from collections.abc import Sequence

from clustersim.parallelism.pieces import Piece
from clustersim.program.routing import Routing

_NUM_CHANNELS = 10  # two multiprocessors each
_NVLINK_TOKENS, _NETWORK_TOKENS = 288, 128  # that a channel holds of a GPU of the host, and of another host
_GPUS_PER_HOST = 8
_BF16_BYTES = 2
_META_BYTES = 128 * (8 + 4 + 4)  # of up to 128 experts: number and weight, and of up to 128 scales


def buffer_bytes(routing: Routing, hidden: int, num_gpus: int, tokens: float) -> float:
    """Return the bytes of a GPU of a group of `num_gpus`, each with `tokens` tokens of `hidden` elements at a time.

    Two hops: channels x (GPUs of a host x 288 + 2 x hosts x 128) x bytes of a token with its experts. The low-latency
    mode has room for every token at every expert, twice for sending and twice for receiving.

    >>> round(buffer_bytes(Routing(256, 8, 4), 7168, 64, 4096) / 1e6)
    713
    >>> round(buffer_bytes(Routing(256, 8, exchange="low-latency"), 7168, 64, 128) / 1e6)
    1908
    """
    if routing.exchange == "low-latency":
        message = hidden * _BF16_BYTES + hidden / 128 * 4
        return 4 * routing.experts * tokens * message
    in_host, hosts = min(num_gpus, _GPUS_PER_HOST), max(1, num_gpus // _GPUS_PER_HOST)
    network = 2 * hosts * _NETWORK_TOKENS if hosts > 1 else 0
    token = hidden * _BF16_BYTES + _META_BYTES
    return float(_NUM_CHANNELS * (in_host * _NVLINK_TOKENS + network) * token)


def stage_buffer_bytes(pieces: Sequence[Piece], num_gpus: int, micro_batch: int) -> float:
    """Return the bytes for the layers of a stage, 0 if tokens travel in all-to-alls."""
    largest = 0.0
    for piece in pieces:
        for call in piece.before_forward:
            if call.routing is not None:
                hidden = piece.layer.shape["inputs"]
                tokens = micro_batch * piece.layer.input_elements / hidden / call.routing.routed
                largest = max(largest, buffer_bytes(call.routing, hidden, num_gpus, tokens))
    return largest
