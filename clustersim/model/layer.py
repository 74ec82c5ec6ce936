"""A model as a list of layers: what each computes, stores and passes on, per sample."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Literal, NamedTuple

from clustersim.hardware import Gpu
from clustersim.model.casts import TORCHAO, Casts
from clustersim.program.issue import NOT_ISSUED, PassIssue


@dataclass(frozen=True)
class Layer:
    """One layer. FLOP and elements are per sample; a multiply-add is 2 FLOP.

    `shape` has the input of the kernel model. A convolution: channels, height, width (of the input), filters, kernel_h,
    kernel_w, stride_h, stride_w, pad_h, pad_w, groups, out_height, out_width; a pooling the same without filters and
    groups. A GEMM: rows per sample, inputs, outputs, and count: the number of independent GEMMs (query, key and value;
    the heads of an attention, batched) or, in an lstm, of GEMMs in sequence. Halves of a fused attention whose kernel
    is not FlashAttention-2 give it: `flash: 1`, 3, or 9 for cuDNN's, and a softmax whose scores have no mask has
    `unmasked: 1`. A norm of each head's features has `heads`, and a matrix that tensor parallelism does not split
    `whole: 1`. A layer of a workload file may have no shape.

    `flop_backward_data` is 0 for a layer whose input needs no gradient, `flop_backward_weights` for a
    product of two activations. `output_elements` is what the layer writes, `input_elements` what it reads, and
    `kept_bytes` the bytes that it keeps for the backward pass at any precision, such as masks and positions,
    where they differ from the default of such layers.

    `branch` names the path of a layer where a network branches: consecutive layers with a branch name
    lie between a split and its join, and those of one name are one path. `weights_of` names a
    layer above whose weights it also uses, such as the second tower of a Siamese network: it has none of its own.

    `frozen_bytes` are those of its weights as stored, if these are not trained: they are no `num_parameters`. `adapts`
    names the product beside which an adapter computes, the next layer that is not part of an adapter.
    """

    name: str
    op: str  # convolution, fully-connected, matmul, lstm, embedding, pooling, relu, gelu, softmax, batch-norm, ...
    flop: float
    flop_backward_data: float
    flop_backward_weights: float
    num_parameters: int
    input_elements: float
    output_elements: float
    shape: Mapping[str, int] = field(default_factory=dict)
    kept_bytes: float | None = None
    branch: str = ""
    weights_of: str = ""
    frozen_bytes: float | None = None
    adapts: str = ""

    @property
    def is_frozen(self) -> bool:
        """Whether its weights, if it has any, are not trained."""
        return self.frozen_bytes is not None

    @property
    def has_weights(self) -> bool:
        """Whether it has weights of its own, trained or frozen."""
        return self.num_parameters > 0 or bool(self.frozen_bytes)


@dataclass(frozen=True)
class Model:
    """A model of the catalogue or of a workload file, layers in forward order.

    `weight_share` is the size of its stored weights relative to 32-bit floats, where they are stored in a shorter
    format: 16 bits, clustered, pruned. `tokens` are those that a sample of text has, by which tokens per second and
    dollars per token count: the words that the model looks up, those of encoder and decoder both; None where a sample
    is not text alone (an image, an image with its caption, speech), or a file does not say.
    """

    name: str
    title: str
    layers: tuple[Layer, ...]
    sample: str = "image"  # what one sample is: image, sequence, ...
    source: str = ""
    weight_share: float = 1.0
    tokens: int | None = None

    @property
    def weight_bytes(self) -> float:
        """Bytes of one copy of the weights, as stored."""
        return 4.0 * self.weight_share * self.num_parameters

    @property
    def num_parameters(self) -> int:
        return sum(layer.num_parameters for layer in self.layers)

    @property
    def frozen_bytes(self) -> float:
        """Bytes of frozen weights, as stored."""
        return sum(layer.frozen_bytes or 0.0 for layer in self.layers)

    @property
    def is_frozen(self) -> bool:
        """Whether some of its weights are frozen."""
        return any(layer.is_frozen for layer in self.layers)

    @property
    def flop(self) -> float:
        """Forward FLOP of one sample."""
        return sum(layer.flop for layer in self.layers)

    @property
    def flop_backward(self) -> float:
        """Backward FLOP of one sample, to data and to weights."""
        return sum(layer.flop_backward_data + layer.flop_backward_weights for layer in self.layers)


@dataclass(slots=True, unsafe_hash=True)
class LayerTime:
    """One layer's seconds for a whole batch on one GPU, their source, and what the host issues for each pass.

    Treat as immutable. This is not enforced, since frozen instances take three times as long to create, and each point
    of a sweep has thousands.
    """

    layer: Layer
    forward_s: float
    backward_data_s: float
    backward_weights_s: float
    provenance: str  # measured, published, estimated, anchored
    forward_issue: PassIssue = NOT_ISSUED
    backward_data_issue: PassIssue = NOT_ISSUED
    backward_weights_issue: PassIssue = NOT_ISSUED

    @property
    def backward_s(self) -> float:
        return self.backward_data_s + self.backward_weights_s

    @property
    def backward_issue(self) -> PassIssue:
        """What the host issues for the whole backward pass."""
        return self.backward_data_issue + self.backward_weights_issue

    def scaled(self, factor: float, provenance: str | None = None) -> LayerTime:
        """Return the times of kernels multiplied by a factor; what the host issues stays as it is."""
        return LayerTime(
            self.layer,
            self.forward_s * factor,
            self.backward_data_s * factor,
            self.backward_weights_s * factor,
            provenance or self.provenance,
            self.forward_issue,
            self.backward_data_issue,
            self.backward_weights_issue,
        )

    def issued_in(self, factor: float) -> LayerTime:
        """Return the same kernels, issued by a host that takes `factor` times as long."""
        return replace(
            self,
            forward_issue=self.forward_issue.scaled(factor),
            backward_data_issue=self.backward_data_issue.scaled(factor),
            backward_weights_issue=self.backward_weights_issue.scaled(factor),
        )


class HostIssue(NamedTuple):
    """What a host takes to issue the rest of an iteration: seconds a collective, a message, and a unit of shards.

    `update` are the kernels of the optimizer's update of the whole model. With `awaits_messages` the host waits for its
    GPU after each message.
    """

    exchange_s: float = 0.0
    message_s: float = 0.0
    unit_s: float = 0.0
    update: PassIssue = NOT_ISSUED
    awaits_messages: bool = False

    def scaled(self, factor: float) -> HostIssue:
        """Return a host that takes `factor` times as long."""
        exchange_s, message_s, unit_s = (factor * each for each in (self.exchange_s, self.message_s, self.unit_s))
        return HostIssue(exchange_s, message_s, unit_s, self.update.scaled(factor), self.awaits_messages)


NO_HOST = HostIssue()
"""No host is simulated: times contain it, or are ideal."""


class Anchoring(NamedTuple):
    """What measured runs say: a factor on kernels and on the host that issues them, and a fixed time of iterations."""

    factor: float = 1.0
    fixed_s: float = 0.0


@dataclass(frozen=True)
class Workload:
    """One iteration's work on one GPU: layer times at this batch, gradients to exchange, memory.

    `layout` is the memory layout of images that its estimates assume, `nchw` or `nhwc`. Where kernels are not `queued`
    but `blocking`, layers include the time in which the process issues each of their kernels and waits for it
    (`blocking_launches`), for which a host takes `issue_factor` times as long as on the sheet `host_sheet`. `casts` are
    those to FP8, and `casts_back` says that gradients of 16 bits are cast for fp32 weights by separate kernels.
    `kernels` is the source of the times of single kernels in estimates, the law or measured tables.

    Each iteration begins with `fixed_s` seconds of compute that belong to no layer. `kernel_factor` is the factor that
    layers and the update have already, for kernels whose times do not follow from those of layers.
    """

    model: Model
    batch: int
    precision: str
    layers: tuple[LayerTime, ...]
    optimizer_s: float
    gradient_bytes_per_parameter: float
    memory_bytes: Mapping[str, float]  # weights, gradients, optimizer, activations, ...
    gpu: Gpu
    assumptions: tuple[str, ...] = ()
    layout: Literal["nchw", "nhwc"] = "nchw"
    launch: Literal["queued", "blocking", "graphs"] = "queued"
    casts: Casts = TORCHAO
    casts_back: bool = True
    host: HostIssue = NO_HOST
    issue_factor: float = 1.0
    host_sheet: str = "compiled"
    kernels: Literal["law", "measured"] = "law"
    fixed_s: float = 0.0
    kernel_factor: float = 1.0

    @property
    def forward_s(self) -> float:
        return sum(layer.forward_s for layer in self.layers)

    @property
    def backward_s(self) -> float:
        return sum(layer.backward_s for layer in self.layers)

    @property
    def compute_s(self) -> float:
        return self.forward_s + self.backward_s + self.optimizer_s

    @property
    def gradient_bytes(self) -> float:
        return self.model.num_parameters * self.gradient_bytes_per_parameter

    def provenance(self) -> dict[str, float]:
        """Return the shares of the compute time that were measured, published and estimated, or anchored."""
        seconds = {"measured": 0.0, "published": 0.0, "estimated": 0.0}
        for layer in self.layers:
            own_s = layer.forward_s + layer.backward_s
            seconds[layer.provenance] = seconds.get(layer.provenance, 0.0) + own_s
        total = sum(seconds.values())
        return {name: value / total if total else 0.0 for name, value in seconds.items()}
