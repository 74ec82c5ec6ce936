"""Derives the layers of one sample from two recorded runs, on batches of 2 and of 3."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import zip_longest

import torch
from torch import Tensor, nn

from clustersim.errors import InputError
from clustersim.interchange.imported import Imported
from clustersim.interchange.torch_model.inputs import InputSpec
from clustersim.interchange.torch_model.names import layer_names
from clustersim.interchange.torch_model.passes import Forward, backward, forward, settle
from clustersim.interchange.torch_model.work import NUM_IMAGES, Work
from clustersim.model import Layer, Model
from clustersim.reading.user_code import quiet_code

_BATCH = 2
"""The smaller batch; batch normalisation refuses to train on 1."""


def traced(module: nn.Module, inputs: Sequence[InputSpec], target: str, name: str) -> Imported:
    """Return a module on the meta device as a workload; `target` is the user's name for it."""
    with quiet_code():
        settle(module, [_tensor(spec, _BATCH) for spec in inputs], target)
    trained = {path: parameter.numel() for path, parameter in module.named_parameters() if parameter.requires_grad}
    if not trained:
        reason = "no parameters" if next(module.parameters(), None) is None else "no parameter that needs a gradient"
        raise InputError(f"{target} has {reason}: there is nothing to train", got=type(module).__name__)
    with quiet_code():
        runs = [forward(module, [_tensor(spec, _BATCH + more) for spec in inputs], target) for more in (0, 1)]
        ready, notes = backward(module, runs[0], target)
    shared = [(first, _per_sample(first, second)) for first, second in _pairs(runs, target)]
    owners = _owners([first for first, _ in shared], trained if ready is None else ready)
    kept = [
        (work, tuple(path for path in first.parameters if owners.get(path) is first))
        for first, work in shared
        if work.flop or work.input_elements or work.output_elements or any(owner is first for owner in owners.values())
    ]
    names = layer_names([work for work, _ in kept])
    layers = [
        _layer(layer_name, work, sum(trained[path] for path in mine))
        for layer_name, (work, mine) in zip(names, kept, strict=True)
    ]
    if ready is not None:
        layers = _in_order(layers, [max((ready.index(path) for path in mine), default=-1) for _, mine in kept])
    notes += _left_out(module, trained, owners)
    shapes = " ".join(f"--input {spec}" for spec in inputs)
    source = f"{target} {shapes}, traced by torch {torch.__version__}"
    model = Model(name, name, tuple(layers), inputs[0].sample, source, tokens=inputs[0].tokens)
    return Imported(model, tuple(notes))


def _tensor(spec: InputSpec, batch: int) -> Tensor:
    return torch.empty(spec.batched(batch), dtype=getattr(torch, spec.dtype), device="meta")


def _pairs(runs: Sequence[Forward], target: str) -> list[tuple[Work, Work]]:
    """Return each call on the smaller batch with the same call on the larger one."""
    pairs = []
    for first, second in zip_longest(runs[0].works, runs[1].works):
        if first is None or second is None or (first.path, first.label) != (second.path, second.label):
            place = (first or second).path or "its forward"
            raise InputError(
                f"{target} does different work for {_BATCH + 1} samples than for {_BATCH} (in {place}); "
                "only a model whose calls do not depend on the batch can be traced",
                got=place,
            )
        pairs.append((first, second))
    return pairs


def _per_sample(first: Work, second: Work) -> Work:
    """Return the work that one more sample adds."""
    op, shape = _shape(first.op, first.shape, second.shape)
    return replace(
        first,
        op=op,
        input_elements=second.input_elements - first.input_elements,
        output_elements=second.output_elements - first.output_elements,
        flop=second.flop - first.flop,
        flop_backward_data=second.flop_backward_data - first.flop_backward_data,
        flop_backward_weights=second.flop_backward_weights - first.flop_backward_weights,
        shape=shape,
    )


def _shape(op: str, first: Mapping[str, int], second: Mapping[str, int]) -> tuple[str, Mapping[str, int]]:
    """Return the name of the operation for one sample, and the shape of that sample's share.

    The batch may be in the rows of a GEMM, its outputs (which are rows then) or its count. A shape in which
    several keys grow, or none known to the kernel model, is dropped.
    """
    growing = [key for key in first if first[key] != second[key]]
    if len(growing) != 1 or growing == ["inputs"]:
        return op, {}
    more = second[growing[0]] - first[growing[0]]
    shape = dict(first)
    if growing == [NUM_IMAGES]:
        del shape[NUM_IMAGES]
        return op, shape | {"height": more * shape["height"], "out_height": more * shape["out_height"]}
    if growing == ["outputs"]:
        return "fully-connected", shape | {"rows": more, "outputs": shape["rows"]}
    if growing == ["rows"]:
        return "fully-connected" if op == "matmul" else op, shape | {"rows": more}
    return op, shape | {growing[0]: more}


def _owners(works: Sequence[Work], trained: Mapping[str, int] | Sequence[str]) -> dict[str, Work]:
    """Return the first call that reads each parameter whose gradient is sent."""
    owners: dict[str, Work] = {}
    for work in works:
        for path in work.parameters:
            if path in trained:
                owners.setdefault(path, work)
    return owners


def _layer(name: str, work: Work, num_parameters: int) -> Layer:
    return Layer(
        name,
        work.op,
        work.flop,
        work.flop_backward_data,
        work.flop_backward_weights,
        num_parameters,
        work.input_elements,
        work.output_elements,
        work.shape,
        kept_bytes=work.kept_bytes,
    )


def _in_order(layers: Sequence[Layer], ready: Sequence[int]) -> list[Layer]:
    """Return the layers ordered such that their gradients become ready last layer first.

    `ready` is the index of a layer's last gradient among all, -1 for a layer without. Layers with parameters
    are permuted among themselves; the others keep their position.
    """
    places = [index for index, place in enumerate(ready) if place >= 0]
    ordered = list(layers)
    for place, index in zip(places, sorted(places, key=lambda index: -ready[index]), strict=True):
        ordered[place] = layers[index]
    return ordered


def _left_out(module: nn.Module, trained: Mapping[str, int], owners: Mapping[str, Work]) -> list[str]:
    """Return a sentence for each kind of parameters that are in no layer."""
    unused = [path for path in trained if path not in owners]
    frozen = [path for path, parameter in module.named_parameters() if not parameter.requires_grad]
    return [
        f"{len(paths)} parameters {what} and are left out, such as {paths[0]}"
        for paths, what in ((unused, "get no gradient on these inputs"), (frozen, "are frozen (requires_grad=False)"))
        if paths
    ]
