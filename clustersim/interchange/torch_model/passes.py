"""Runs a module forward and backward on the meta device, with plain error messages if it cannot."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn
from torch.nn.parameter import UninitializedParameter
from torch.utils._pytree import tree_leaves

from clustersim.errors import InputError
from clustersim.interchange.torch_model.record import Recorder
from clustersim.interchange.torch_model.work import Work
from clustersim.reading.user_code import describe_error

_SIGNS = ("meta tensor", "meta backend", "'meta'", "device meta", "register_meta", "data-dependent")
"""Texts of errors of torch about values that the meta device has not."""


class Forward(NamedTuple):
    """The recorded work of a forward pass, and its losses, or the tensors from which they would be computed."""

    works: list[Work]
    ends: list[Tensor]


def settle(module: nn.Module, inputs: Sequence[Tensor], target: str) -> None:
    """Initialize lazy modules by a run that is not recorded."""
    if not any(isinstance(parameter, UninitializedParameter) for parameter in module.parameters()):
        return
    try:
        with torch.device("meta"):
            module(*inputs)
    except (Exception, SystemExit) as error:
        raise _refused(error, f"{target} cannot be run on {_shown(inputs)}", target) from None


def forward(module: nn.Module, inputs: Sequence[Tensor], target: str) -> Forward:
    """Return the work of a forward pass; a loss is added for every output if the module computes none."""
    recorder = Recorder(module)
    recorder.mark_data(inputs)
    try:
        with recorder.watching(module):
            outputs = module(*inputs)
    except (Exception, SystemExit) as error:
        raise _refused(error, f"{target} cannot be run on {_shown(inputs)}", target) from None
    ends = [leaf for leaf in _leaves(outputs) if leaf.is_floating_point() and leaf.requires_grad]
    if not ends:
        raise InputError(f"the outputs of {target} do not depend on its parameters: there is no gradient", got=target)
    losses = [end for end in ends if end.dim() == 0]
    if losses:
        return Forward(recorder.works, losses)
    added = [Work("", False, "loss", "loss", end.numel(), end.numel()) for end in ends]
    return Forward([*recorder.works, *added], ends)


def backward(module: nn.Module, run: Forward, target: str) -> tuple[list[str] | None, list[str]]:
    """Return the parameters in the order in which their gradients become ready, and notes for the user.

    The order is None where torch has a backward operator that does not run on the meta device.
    """
    ready: list[str] = []
    hooks = [
        parameter.register_post_accumulate_grad_hook(lambda _, path=path: ready.append(path))
        for path, parameter in module.named_parameters()
        if parameter.requires_grad
    ]
    try:
        with torch.device("meta"):
            torch.stack([end.sum() for end in run.ends]).sum().backward()
    except (Exception, SystemExit) as error:
        if not (_needs_values(error) or isinstance(error, NotImplementedError)):
            raise InputError(f"the backward pass of {target} fails: {describe_error(error)}", got=target) from None
        message = f"the backward pass cannot be traced ({describe_error(error)})"
        return None, [f"{message}; gradients are assumed in reverse order"]
    finally:
        for hook in hooks:
            hook.remove()
        module.zero_grad(set_to_none=True)
    return ready, []


def _refused(error: BaseException, what: str, target: str) -> InputError:
    if _needs_values(error):
        reason = "it reads the values of a tensor, but only shapes are traced"
        message = f"{what}: {reason}: {describe_error(error)}"
        return InputError(message, got=target, allowed="a forward that depends only on shapes")
    return InputError(f"{what}: {describe_error(error)}", got=target)


def _shown(inputs: Sequence[Tensor]) -> str:
    return " and ".join(f"[{', '.join(map(str, each.shape))}]" for each in inputs)


def _leaves(outputs: Any) -> list[Tensor]:
    """Return the tensors in a module's result: lists, dicts, and objects with attributes."""
    found = []
    for leaf in tree_leaves(outputs):
        if isinstance(leaf, Tensor):
            found.append(leaf)
        elif hasattr(leaf, "__dict__") and not isinstance(leaf, type | nn.Module):
            found += [value for value in vars(leaf).values() if isinstance(value, Tensor)]
    return found


def _needs_values(error: BaseException) -> bool:
    """Return whether an error is caused by reading a tensor's values, which do not exist on the meta device."""
    said = str(error).lower()
    return any(sign in said for sign in _SIGNS)
