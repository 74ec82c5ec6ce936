"""Attributes a trace's work to layers, phases and steps."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from statistics import median

from clustersim.interchange.kineto.trace import Event, Trace, TraceWork, is_module, module_name

PHASES = ("forward_s", "backward_data_s", "backward_weights_s")
_BACKWARD = "autograd::engine::evaluate_function: "
_OPTIMIZER = "Optimizer.step"
_KINDS = {
    "convolution": ("conv1d", "conv2d", "conv3d", "convolution", "cudnn_convolution", "mkldnn_convolution"),
    "fully-connected": ("linear", "addmm", "mm"),
    "matmul": ("matmul", "bmm", "baddbmm"),
    "lstm": ("lstm", "_cudnn_rnn"),
    "attention": ("scaled_dot_product_attention",),
    "embedding": ("embedding",),
    "batch-norm": ("batch_norm", "cudnn_batch_norm", "native_batch_norm"),
    "layer-norm": ("layer_norm", "native_layer_norm"),
    "pooling": ("max_pool2d", "avg_pool2d", "adaptive_avg_pool2d", "adaptive_max_pool2d", "mean"),
    "relu": ("relu", "relu_", "threshold", "clamp_min", "clamp_min_"),
    "gelu": ("gelu",),
    "dropout": ("dropout", "dropout_", "native_dropout", "feature_dropout"),
    "softmax": ("softmax", "log_softmax", "_softmax"),
    "concat": ("cat", "concat"),
    "add": ("add", "add_"),
    "loss": ("cross_entropy_loss", "nll_loss_nd", "nll_loss", "mse_loss", "binary_cross_entropy"),
}
KIND_OF = {f"aten::{name}": kind for kind, names in _KINDS.items() for name in names}


@dataclass
class TracedLayer:
    """A layer of a trace: seconds of each phase, step by step."""

    name: str
    op: str
    first: Event  # the operator that determines the kind of layer
    seconds: dict[int, list[float]] = field(default_factory=dict)

    def phase_s(self, phase: int, num_steps: int) -> float:
        """Return the median over steps of one phase."""
        return median(self.seconds.get(step, [0.0] * 3)[phase] for step in range(num_steps))

    def spread_s(self, num_steps: int) -> float:
        """Return the difference between the slowest and the fastest step."""
        totals = [sum(self.seconds.get(step, [0.0])) for step in range(num_steps)]
        return max(totals) - min(totals)


@dataclass
class Attributed:
    """The attributed time of a trace; optimizer and other work are means over the steps."""

    layers: dict[str, TracedLayer]
    num_steps: int
    optimizer_s: float = 0.0
    other_s: float = 0.0


def attribute(trace: Trace) -> Attributed:
    """Return the layers of a trace in the order of their first forward operator."""
    numbers = _Numbers(trace)
    found = Attributed({}, max(len(trace.steps), 1))
    creators: dict[int | None, Event] = {
        op.sequence: op for op in trace.events if op.sequence is not None and _backward_of(op) is None
    }
    for work in trace.work:
        step = numbers.step(work.op)
        if step is None:
            continue
        seconds = work.duration_us / 1e6
        backward = _backward_of(work.op)
        operator = work.op if backward is None else creators.get(backward.sequence)
        named = numbers.layer(operator) if operator is not None else None
        if named is not None:
            name, first = named
            layer = found.layers.setdefault(name, TracedLayer(name, KIND_OF.get(first.name, "other"), first))
            phase = 0 if backward is None or operator is None else _phase(work, backward, operator)
            layer.seconds.setdefault(step, [0.0, 0.0, 0.0])[phase] += seconds
        elif _is_inside(work.op, _OPTIMIZER):
            found.optimizer_s += seconds / found.num_steps
        else:
            found.other_s += seconds / found.num_steps
    found.layers = dict(sorted(found.layers.items(), key=lambda item: item[1].first.start_us))
    return found


class _Numbers:
    """Names calls of modules, and operators between them, such that names are the same in every step."""

    def __init__(self, trace: Trace):
        self.steps = trace.steps
        self.names: dict[Event, tuple[str, Event]] = {}
        counts: dict[tuple[int | None, str], int] = {}
        for event in trace.events:
            name = self._own_name(event)
            if name is None:
                continue
            step = self.step(event)
            count = counts[step, name] = counts.get((step, name), 0) + 1
            first = next(_known_ops(event), event)
            self.names[event] = (name if count == 1 else f"{name}#{count}", first)

    def step(self, event: Event) -> int | None:
        """Return the step in which an event began; 0 for all where the trace has no steps."""
        if not self.steps:
            return 0
        for number, step in enumerate(self.steps):
            if step.start_us <= event.start_us < step.end_us:
                return number
        return None

    def layer(self, op: Event) -> tuple[str, Event] | None:
        """Return the layer of an operator: the innermost named event around it."""
        around: Event | None = op
        while around is not None:
            if around in self.names:
                return self.names[around]
            around = around.parent
        return None

    def _own_name(self, event: Event) -> str | None:
        """Return the name of a module without submodules, or of an operator with a gradient between modules."""
        if is_module(event):
            return None if any(map(is_module, all_children(event))) else module_name(event)
        outermost = event.kind == "op" and (event.parent is None or event.parent.kind == "range")
        if not outermost or event.sequence is None or event.name.startswith(_BACKWARD) or _is_counter(event):
            return None
        around = event.parent
        while around is not None and not is_module(around):
            around = around.parent
        if around is not None and not any(map(is_module, all_children(around))):
            return None
        short = event.name.removeprefix("aten::")
        return short if around is None else f"{module_name(around)}/{short}"


def all_children(event: Event) -> Iterator[Event]:
    """Yield the events inside an event, at any depth, in the order of their start."""
    for child in event.children:
        yield child
        yield from all_children(child)


def _known_ops(event: Event) -> Iterator[Event]:
    if event.name in KIND_OF and event.kind == "op":
        yield event
    for child in all_children(event):
        if child.kind == "op" and child.name in KIND_OF and not _is_counter(child):
            yield child


def _is_counter(op: Event) -> bool:
    """Say whether an operator counts batches, as in batch normalisation, and computes nothing."""
    types = op.args.get("Input type")
    return op.name == "aten::add_" and isinstance(types, list) and bool(types) and types[0] == "long int"


def _backward_of(op: Event) -> Event | None:
    around: Event | None = op
    while around is not None:
        if around.name.startswith(_BACKWARD):
            return around
        around = around.parent
    return None


def _is_inside(op: Event, prefix: str) -> bool:
    around: Event | None = op
    while around is not None:
        if around.name.startswith(prefix):
            return True
        around = around.parent
    return False


def _phase(work: TraceWork, backward: Event, forward: Event) -> int:
    """Return 2 for work on weights, 1 for work on data and where they cannot be distinguished.

    cuDNN's and CUTLASS's kernel names contain `wgrad`; a convolution's mask may request only weights; of a linear
    layer's two GEMMs the one with the size of its weight belongs to the weight, and so does the sum of the bias.
    """
    name = work.kernel.lower()
    if "wgrad" in name or "wgradient" in name:
        return 2
    around: Event | None = work.op
    while around is not None and around is not backward:
        if around.name == "aten::convolution_backward":
            mask = (around.args.get("Concrete Inputs") or [""])[-1]
            return 2 if str(mask).replace(" ", "").startswith("[False,True") else 1
        if around.name == "aten::sum" and "Addmm" in backward.name:
            return 2
        if around.name == "aten::mm" and _is_weights_product(around, forward):
            return 2
        around = around.parent
    return 1


def _is_weights_product(product: Event, forward: Event) -> bool:
    sizes, inputs = product.args.get("Input Dims"), forward.args.get("Input Dims")
    if not isinstance(sizes, list) or not isinstance(inputs, list) or len(sizes) < 2 or len(inputs) < 2:
        return False
    matrices = [size for size in inputs if isinstance(size, list) and len(size) == 2]
    if len(matrices) < 2 or any(len(size) != 2 for size in sizes[:2]):
        return False
    return sorted((sizes[0][0], sizes[1][1])) == sorted(matrices[-1])
