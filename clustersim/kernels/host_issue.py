"""What a host issues for each layer of a model, by the sheet of the program that trains it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from clustersim.kernels.fused_attention import is_fused
from clustersim.model.layer import HostIssue, Layer, LayerTime
from clustersim.model.precision import PRECISIONS
from clustersim.model.tensors import num_tensors
from clustersim.program.issue import NOT_ISSUED, PassIssue
from clustersim.software import HostProgram, Operators, operators_of

_KINDS = {
    "additive-scores": "multiply",
    "add": "add",
    "batch-norm": "batch-norm",
    "causal-convolution": "causal-convolution",
    "chunked-scan": "chunked-scan",
    "concat": "concat",
    "divide": "divide",
    "dropout": "dropout",
    "embedding": "embedding",
    "gelu": "gelu",
    "group-norm": "group-norm",
    "gru": "lstm",
    "layer-norm": "layer-norm",
    "loss": "loss",
    "lrn": "lrn",
    "lstm": "lstm",
    "multiply": "multiply",
    "pooling": "pooling",
    "relu": "relu",
    "rms-norm": "rms-norm",
    "rnn": "lstm",
    "rotary": "rotary",
    "selective-scan": "selective-scan",
    "silu": "silu",
    "softmax": "softmax",
    "tanh": "tanh",
}
"""Kinds of layers in `operator_counts.yaml` that an operation of the same name, or a similar one, has."""


_ANY = ("", "", True, True)
"""Any kind of layer, in a program that issues a kernel for each pass."""


class LayerIssue(NamedTuple):
    """What the host issues for each pass of a layer."""

    forward: PassIssue
    backward_data: PassIssue
    backward_weights: PassIssue


def with_issue(
    layers: Sequence[LayerTime], program: HostProgram, precision: str, factor: float = 1.0
) -> tuple[LayerTime, ...]:
    """Return layer times with what the host issues for them; it takes `factor` times as long as on the sheet.

    A pass without kernels is not issued: it is part of another layer's.
    """
    mode, known, found = _mode(program, precision), dict[tuple[str, str, bool, bool], LayerIssue](), []
    counts = program.operators != "passes"
    for time in layers:
        forward_s, data_s, weights_s = time.forward_s, time.backward_data_s, time.backward_weights_s
        kind = (time.layer.op, _kind(time.layer), data_s > 0, weights_s > 0) if counts else _ANY
        if kind not in known:
            known[kind] = LayerIssue(*(each.scaled(factor) for each in _issue_of(*kind, program, mode)))
        forward, data, weights = known[kind]
        found.append(
            LayerTime(
                time.layer,
                forward_s,
                data_s,
                weights_s,
                time.provenance,
                forward if forward_s else NOT_ISSUED,
                data if data_s else NOT_ISSUED,
                weights if weights_s else NOT_ISSUED,
            )
        )
    return tuple(found)


def host_of(layers: Sequence[LayerTime], program: HostProgram, factor: float = 1.0) -> HostIssue:
    """Return what the host takes for all else in an iteration: collectives, messages, and the update of all tensors."""
    tensors = sum(num_tensors(time.layer) for time in layers)
    update_s = program.update_s + tensors * program.update_tensor_s
    update = PassIssue(update_s, program.update_kernels or max(1, tensors))
    exchange_s, message_s, unit_s = (factor * each for each in (program.exchange_s, program.message_s, program.unit_s))
    return HostIssue(exchange_s, message_s, unit_s, update.scaled(factor), program.awaits_messages)


def _mode(program: HostProgram, precision: str) -> str:
    """Return the mode of `operator_counts.yaml`: fp32, bf16 or autocast."""
    if PRECISIONS[precision].activation_bytes >= 4:
        return "fp32"
    return "autocast" if program.autocast else "bf16"


def _kind(layer: Layer) -> str:
    """Return the kind of a layer in `operator_counts.yaml`, empty if it is not there."""
    if layer.op == "matmul":
        if is_fused(layer):
            return "attention.fused" if layer.output_elements else "nothing"
        is_scores = layer.shape.get("inputs", 0) <= layer.shape.get("outputs", 0)
        return "matmul.scores" if is_scores else "matmul.context"
    if layer.op == "fully-connected":
        bias = "" if num_tensors(layer) > 1 else ".no-bias"
        rows = layer.shape.get("rows", 1)
        return f"fully-connected{bias}" if rows > 1 else "fully-connected.two-dimensions"
    if layer.op == "convolution":
        return "convolution.no-bias" if num_tensors(layer) < 2 else "convolution"
    return _KINDS.get(layer.op, "")


def _issue_of(op: str, kind: str, has_data: bool, has_weights: bool, program: HostProgram, mode: str) -> LayerIssue:
    """Return what is issued for a layer, with kernels for gradients of its input (`has_data`) and of its weights."""
    if program.operators == "passes":
        return LayerIssue(
            PassIssue(program.kernel_s, 1),
            PassIssue(program.backward_kernel_s, 1),
            PassIssue(program.backward_kernel_s, 1),
        )
    if kind == "nothing":
        return LayerIssue(NOT_ISSUED, NOT_ISSUED, NOT_ISSUED)
    forward, backward = operators_of(kind, mode) if kind else (Operators(1, 1, 2), Operators(2, 2, 4))
    extra_s = program.convolution_s if op == "convolution" else 0.0
    forward_s = forward.kernels * program.kernel_s + forward.host_only * program.view_s + extra_s
    backward_s = backward.kernels * program.backward_kernel_s
    first = PassIssue(forward_s, max(1, forward.launches))
    launches = max(1, backward.launches)
    if has_data and has_weights and launches > 1:
        of_weights = launches // 2
        share = of_weights / launches
        data = PassIssue(backward_s * (1 - share), launches - of_weights)
        return LayerIssue(first, data, PassIssue(backward_s * share, of_weights))
    whole = PassIssue(backward_s, launches)
    return LayerIssue(first, whole if has_data else NOT_ISSUED, NOT_ISSUED if has_data else whole)
