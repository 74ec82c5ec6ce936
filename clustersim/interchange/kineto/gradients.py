"""Tells the gradients of weights from those of data."""

from __future__ import annotations

from clustersim.interchange.kineto.trace import Event


def phase_of(kernel: str, op: Event, backward: Event, forward: Event) -> int:
    """Return 2 for work on weights, 1 for work on data and where they cannot be distinguished.

    cuDNN's and CUTLASS's kernel names contain `wgrad`; a convolution's mask may request only weights; of a linear
    layer's two GEMMs the one with the size of its weight belongs to the weight, and so does the sum of the bias.
    """
    name = kernel.lower()
    if "wgrad" in name or "wgradient" in name:
        return 2
    around: Event | None = op
    while around is not None and around is not backward:
        if around.name == "aten::convolution_backward":
            inputs = around.args.get("Concrete Inputs")
            mask = str(inputs[-1]) if isinstance(inputs, list) and inputs else ""
            return 2 if mask.replace(" ", "").startswith("[False,True") else 1
        if around.name == "aten::sum" and "Addmm" in backward.name:
            return 2
        if around.name == "aten::mm" and _is_weights_product(around, forward):
            return 2
        around = around.parent
    return 1


def _is_weights_product(product: Event, forward: Event) -> bool:
    sizes = [size for size in product.sizes or [] if len(size) == 2]
    matrices = [size for size in forward.sizes or [] if len(size) == 2]
    if len(sizes) < 2 or len(matrices) < 2:
        return False
    return sorted((sizes[0][0], sizes[1][1])) == sorted(matrices[-1])
