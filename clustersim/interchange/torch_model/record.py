"""Watches a module run on the meta device and writes down what each call does.

Two modes of torch stack: one sees the functions that are one kernel on a GPU and many calls on the meta device
(`functions`), the other every operator below them (`operators`). Storages are followed, so that it is known of
each tensor whether it holds data, or something made of parameters alone.
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
    """What a module did, call by call, in `works`."""

    def __init__(self, module: nn.Module):
        self.works: list[Work] = []
        self._stack: list[tuple[str, bool]] = [("", False)]
        self._kept: list[Tensor] = []  # so that no storage's number is used twice
        self._data: set[int] = set()
        self._parameters: dict[int, frozenset[str]] = {}
        self._paused = 0
        for name, parameter in module.named_parameters():
            self._parameters[_storage(parameter)] = frozenset([name])

    def has_data(self, tensor: Tensor) -> bool:
        """Return whether a tensor depends on the inputs."""
        return _storage(tensor) in self._data

    def is_weight(self, tensor: Tensor) -> bool:
        """Return whether a tensor is made of parameters, and not of data."""
        return bool(self._parameters.get(_storage(tensor))) and not self.has_data(tensor)

    def mark_data(self, tensors: Sequence[Tensor]) -> None:
        """Say that these are the inputs."""
        self._kept += tensors
        self._data |= {_storage(tensor) for tensor in tensors}

    @contextmanager
    def watching(self, module: nn.Module) -> Iterator[None]:
        """Record what is called until this is left."""
        hooks = []
        for path, member in module.named_modules():
            if isinstance(member, torch.jit.ScriptModule):  # which takes no hooks: what it does is its parent's
                continue
            place = (path, next(member.children(), None) is None)
            enter = partial(self._enter, place)
            hooks.append(member.register_forward_pre_hook(enter))
            hooks.append(member.register_forward_hook(self._leave, always_call=True))
        try:
            with ExitStack() as modes:
                modes.enter_context(patch.object(checkpoint.CheckpointFunction, "apply", _at_once))
                modes.enter_context(patch.object(transformer, "_detect_is_causal_mask", _as_said))
                modes.enter_context(torch.jit.optimized_execution(False))  # scripts run as they are, every time
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
        """Mark what was written: data where data was read, else something made of these parameters."""
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
    """Shows a recorder every operator."""

    def __init__(self, recorder: Recorder):
        super().__init__()
        self.recorder = recorder

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        return self.recorder.operator(func, args, kwargs or {})


class _Functions(TorchFunctionMode):
    """Shows a recorder the functions that are recorded as a whole, those inside torch's own functions too."""

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
        """Have torch's functions in Python call ours: no mode sees what they call of one another."""
        mine = {name: found for name, found in vars(functional).items() if _is_listed(found)}
        try:
            for name, found in mine.items():
                setattr(functional, name, lambda *args, _of=found, **kwargs: self.recorder.function(_of, args, kwargs))
            yield
        finally:
            for name, found in mine.items():
                setattr(functional, name, found)


def _at_once(function: Callable[..., Any], preserve_rng_state: bool, *args: Any) -> Any:
    """Run what a checkpoint would run without gradients now, and once more backward, as if it were none."""
    return function(*args)


def _as_said(mask: Tensor | None, is_causal: bool | None = None, size: int | None = None) -> bool:
    """Return whether a mask is said to be causal; torch would look at its numbers, to choose another kernel."""
    return bool(is_causal)


def _is_listed(found: Any) -> bool:
    return callable(found) and getattr(found, "__hash__", None) is not None and found in FUNCTIONS


def _storage(tensor: Any) -> int:
    return int(tensor.untyped_storage()._cdata)


def _tensors(tree: Any) -> list[Tensor]:
    return [leaf for leaf in tree_leaves(tree) if isinstance(leaf, Tensor)]
