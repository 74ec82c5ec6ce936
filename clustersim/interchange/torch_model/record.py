"""Runs a module on the meta device and records the work of each call.

Two torch modes are stacked: one sees the functions that are one kernel on a GPU and many calls on the meta device
(`functions`), the other every operator below them (`operators`). Storages are tracked, so that for each tensor it is
known whether it depends on data, or only on parameters.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from functools import partial
from typing import Any
from unittest.mock import patch

import torch
from torch import Tensor, nn
from torch.nn import functional
from torch.nn.modules import transformer
from torch.overrides import TorchFunctionMode
from torch.utils import checkpoint
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

from clustersim.interchange.torch_model.functions import FUNCTIONS
from clustersim.interchange.torch_model.operators import kernel_of, makes_constants, passes_through
from clustersim.interchange.torch_model.work import Kernel, Work


class Recorder:
    """The recorded work of a module, call by call, in `works`."""

    def __init__(self, module: nn.Module):
        self.works: list[Work] = []
        self._stack: list[tuple[str, bool]] = [("", False)]
        self._kept: list[Tensor] = []  # so that no storage address is reused
        self._data: set[int] = set()
        self._parameters: dict[int, frozenset[str]] = {}
        self._paused = 0
        for name, parameter in module.named_parameters():
            self._parameters[_storage(parameter)] = frozenset([name])

    def has_data(self, tensor: Tensor) -> bool:
        """Return whether a tensor depends on the inputs."""
        return _storage(tensor) in self._data

    def is_weight(self, tensor: Tensor) -> bool:
        """Return whether a tensor is computed from parameters, and not from data."""
        return bool(self._parameters.get(_storage(tensor))) and not self.has_data(tensor)

    def mark_data(self, tensors: Sequence[Tensor]) -> None:
        """Mark these tensors as inputs."""
        self._kept += tensors
        self._data |= {_storage(tensor) for tensor in tensors}

    @contextmanager
    def watching(self, module: nn.Module) -> Iterator[None]:
        """Record all calls inside this context."""
        hooks = []
        for path, member in module.named_modules():
            if isinstance(member, torch.jit.ScriptModule):  # cannot have hooks: its work counts as its parent's
                continue
            place = (path, next(member.children(), None) is None)
            enter = partial(self._enter, place)
            hooks.append(member.register_forward_pre_hook(enter))
            hooks.append(member.register_forward_hook(self._leave, always_call=True))
        try:
            with ExitStack() as modes:
                modes.enter_context(patch.object(checkpoint.CheckpointFunction, "apply", _without_checkpoint))
                modes.enter_context(patch.object(transformer, "_detect_is_causal_mask", _is_declared_causal))
                modes.enter_context(torch.jit.optimized_execution(False))  # scripts always run unoptimized
                modes.enter_context(torch.device("meta"))
                modes.enter_context(_Operators(self))
                modes.enter_context(_Functions(self))
                yield
        finally:
            for hook in hooks:
                hook.remove()

    def _enter(self, place: tuple[str, bool], *_: Any) -> None:
        self._stack.append(place)

    def _leave(self, *_: Any) -> None:
        self._stack.pop()

    def operator(self, func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Run an operator and record it, unless a function that contains it is recorded as a whole."""
        outputs = func(*args, **kwargs)
        before, after = _tensors((args, kwargs)), _tensors(outputs)
        data = any(self.has_data(tensor) for tensor in before) and not makes_constants(func)
        parameters = self._names(before)
        kernels = [] if self._paused or passes_through(func) else kernel_of(self, func, args, kwargs, outputs)
        self._follow(after, data, parameters)
        if data or parameters:
            self._write(kernels, parameters)
        return outputs

    def function(self, func: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Run a function that is recorded as a whole."""
        self._paused += 1
        try:
            outputs = func(*args, **kwargs)
        finally:
            self._paused -= 1
        before = _tensors((args, kwargs))
        data = any(self.has_data(tensor) for tensor in before)
        parameters = self._names(before)
        if not self._paused:
            self._write(FUNCTIONS[func](self, args, kwargs, outputs), parameters)
        self._follow(_tensors(outputs), data, parameters)
        return outputs

    def _names(self, tensors: Sequence[Any]) -> frozenset[str]:
        return frozenset().union(*(self._parameters.get(_storage(tensor), frozenset()) for tensor in tensors))

    def _follow(self, tensors: Sequence[Tensor], data: bool, parameters: frozenset[str]) -> None:
        """Mark outputs: as data where data was read, otherwise as computed from these parameters."""
        self._kept += tensors
        for tensor in tensors:
            storage = _storage(tensor)
            if data:
                self._data.add(storage)
            elif parameters:
                self._parameters[storage] = self._parameters.get(storage, frozenset()) | parameters

    def _write(self, kernels: Sequence[Kernel], parameters: frozenset[str]) -> None:
        path, is_leaf = self._stack[-1]
        backward = int(torch.is_grad_enabled())
        for kernel in kernels:
            names = parameters if kernel.tensors is None else self._names(kernel.tensors)
            self.works.append(
                Work(
                    path,
                    is_leaf,
                    kernel.label or kernel.op.replace("-", "_"),
                    kernel.op,
                    kernel.input_elements,
                    kernel.output_elements,
                    kernel.flop,
                    backward * kernel.data_gradients * kernel.flop,
                    backward * kernel.weight_gradients * kernel.flop,
                    tuple(sorted(names)),
                    kernel.shape,
                    kernel.kept_bytes,
                )
            )


class _Operators(TorchDispatchMode):
    """Passes every operator to a recorder."""

    def __init__(self, recorder: Recorder):
        super().__init__()
        self.recorder = recorder

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        return self.recorder.operator(func, args, kwargs or {})


class _Functions(TorchFunctionMode):
    """Passes functions that are recorded as a whole to a recorder, even if called inside torch's functions."""

    def __init__(self, recorder: Recorder):
        super().__init__()
        self.recorder = recorder

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if func in FUNCTIONS:
            return self.recorder.function(func, args, kwargs or {})
        if getattr(func, "__module__", None) != functional.__name__:
            return func(*args, **(kwargs or {}))
        with self._inside():
            return func(*args, **(kwargs or {}))

    @contextmanager
    def _inside(self) -> Iterator[None]:
        """Redirect calls inside torch's Python functions to the recorder: modes do not see these calls."""
        mine = {name: found for name, found in vars(functional).items() if _is_listed(found)}
        try:
            for name, found in mine.items():
                setattr(functional, name, lambda *args, _of=found, **kwargs: self.recorder.function(_of, args, kwargs))
            yield
        finally:
            for name, found in mine.items():
                setattr(functional, name, found)


def _without_checkpoint(function: Callable[..., Any], preserve_rng_state: bool, *args: Any) -> Any:
    """Run a checkpointed function once, with gradients, instead of recomputing it in the backward pass."""
    return function(*args)


def _is_declared_causal(mask: Tensor | None, is_causal: bool | None = None, size: int | None = None) -> bool:
    """Return whether a mask is declared causal; torch would read its values, to choose another kernel."""
    return bool(is_causal)


def _is_listed(found: Any) -> bool:
    return callable(found) and getattr(found, "__hash__", None) is not None and found in FUNCTIONS


def _storage(tensor: Any) -> int:
    return int(tensor.untyped_storage()._cdata)


def _tensors(tree: Any) -> list[Tensor]:
    return [leaf for leaf in tree_leaves(tree) if isinstance(leaf, Tensor)]
