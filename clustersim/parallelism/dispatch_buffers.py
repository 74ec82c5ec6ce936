"""Buffers in GPU memory for tokens on their way to experts, as DeepEP sizes them.

`get_nvl_buffer_size_hint`, `get_rdma_buffer_size_hint` and `LowLatencyLayout` in csrc/legacy/config.hpp
(deepseek-ai/DeepEP, commit dd758ca), with the chunks of its `get_dispatch_config` for 16 to 64 GPUs. A GPU has one
buffer for all layers. Flags and counts are left out. DeepEP assumes eight GPUs of a host; here it is those there are.
"""

from __future__ import annotations

from collections.abc import Sequence

from clustersim.parallelism.pieces import Piece
from clustersim.program.token_route import TokenRoute

_NUM_CHANNELS = 10  # two multiprocessors each
_NVLINK_TOKENS, _NETWORK_TOKENS = 288, 128  # that a channel holds of a GPU of the host, and of another host
_BF16_BYTES = 2
_META_BYTES = 128 * (8 + 4 + 4)  # of up to 128 experts: number and weight, and of up to 128 scales


def buffer_bytes(token_route: TokenRoute, hidden: int, hosts: int, in_host: int, tokens: float) -> float:
    """Return the bytes of a GPU of a group with `in_host` GPUs on each of `hosts` hosts.

    Each GPU has `tokens` tokens of `hidden` elements at a time.

    Two hops: channels x (GPUs of a host x 288 + 2 x hosts x 128) x bytes of a token with its experts. The low-latency
    mode has room for every token at every expert, twice for sending and twice for receiving.

    >>> round(buffer_bytes(TokenRoute(256, 8, 4), 7168, 8, 8, 4096) / 1e6)
    713
    >>> round(buffer_bytes(TokenRoute(256, 8, exchange="low-latency"), 7168, 8, 8, 128) / 1e6)
    1908
    """
    if token_route.exchange == "low-latency":
        message = hidden * _BF16_BYTES + hidden / 128 * 4
        return 4 * token_route.experts * tokens * message
    network = 2 * hosts * _NETWORK_TOKENS if hosts > 1 else 0
    token = hidden * _BF16_BYTES + _META_BYTES
    return float(_NUM_CHANNELS * (in_host * _NVLINK_TOKENS + network) * token)


def stage_buffer_bytes(pieces: Sequence[Piece], hosts: int, in_host: int, micro_batch: int) -> float:
    """Return the bytes for the layers of a stage, 0 if tokens travel in all-to-alls; GPUs as for `buffer_bytes`."""
    largest = 0.0
    for piece in pieces:
        for call in piece.before_forward:
            if call.token_route is not None:
                hidden = piece.layer.shape["inputs"]
                tokens = micro_batch * piece.layer.input_elements / hidden / call.token_route.routed
                largest = max(largest, buffer_bytes(call.token_route, hidden, hosts, in_host, tokens))
    return largest
