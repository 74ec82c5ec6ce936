"""The model and the data that a user's file makes, for the task `own`."""

from __future__ import annotations

import contextlib
import copy
import hashlib
import sys
from collections.abc import Iterator
from functools import lru_cache
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from clustersim.errors import InputError, Mistake
from clustersim.learning.tasks.own import FUNCTION, KEY, TorchTask
from clustersim.learning.training.flat_model import FlatModel
from clustersim.learning.training.networks import drawn
from clustersim.reading.user_code import error_text, module_of_file, place_of_error, quiet_code

_FAILS = "the model cannot be run on its data"
_TRIED = 2
"""Samples on which the model is tried before it is trained; batch normalization refuses one."""


def own_trainee(path: Path, seed: int) -> OwnModel:
    """Run the function of a file for a seed, and return what it makes; raise InputError if it cannot be trained."""
    with _told(path, "it cannot be run"), quiet_code():
        module = _module(path, hashlib.sha256(path.read_bytes()).hexdigest())
    make: Any = getattr(module, FUNCTION, None)
    if not callable(make):
        shown = ", ".join(name for name, each in vars(module).items() if callable(each) and not name.startswith("_"))
        raise _refused(path, f"there is no function {FUNCTION}(seed) in it (it has {shown or 'no function'})", "none")
    with drawn(seed):
        with _told(path, f"{FUNCTION} fails"), quiet_code():
            made = make(seed)
        _check(path, made)
        return OwnModel(path, made)


class OwnModel(FlatModel):
    """A user's module as a `Trainee`, whose errors say their place."""

    def __init__(self, path: Path, made: TorchTask):
        self._path = path
        loss = made.loss or nn.functional.cross_entropy
        with _told(path, _FAILS):
            # a file may return the same module, or a loss that has one, for all seeds
            module, loss = copy.deepcopy((made.module, loss))
            super().__init__(module, made.inputs, made.targets, made.test_inputs, made.test_targets, loss)
        self._try()

    def gradient(self, weights: Tensor, samples: np.ndarray) -> Tensor:
        with _told(self._path, _FAILS):
            return super().gradient(weights, samples)

    def evaluate(self, weights: Tensor) -> tuple[float, float | None]:
        with _told(self._path, _FAILS):
            return super().evaluate(weights)

    def _try(self) -> None:
        """Raise InputError if the model does not run on its data; what that changes in it is put back."""
        before = {name: value.clone() for name, value in self._module.state_dict().items()}
        gradient = self.gradient(self.initial, np.arange(min(_TRIED, self.num_samples)))
        loss, _ = self.evaluate(self.initial)
        self._module.load_state_dict(before)
        if not (bool(torch.isfinite(gradient).all()) and np.isfinite(loss)):
            raise _refused(self._path, "the loss or the gradient of the first weights is not finite", "nan or inf")


@lru_cache(maxsize=8)
def _module(path: Path, digest: str) -> ModuleType:
    """Return the module of a file, which is run once as long as it stays the same."""
    with drawn(0):
        return module_of_file(path)


def _check(path: Path, made: object) -> None:
    """Raise InputError for what cannot be trained."""
    if not isinstance(made, TorchTask):
        kind = type(made).__name__
        raise _refused(path, f"{FUNCTION} returns a clustersim.learning.TorchTask (got {kind})", kind, "a TorchTask")
    if not isinstance(made.module, nn.Module):
        raise _refused(path, "`module` is a torch.nn.Module", type(made.module).__name__)
    kinds = {(each.dtype, each.device.type) for each in made.module.parameters()}
    if len(kinds) != 1 or not all(dtype.is_floating_point and device == "cpu" for dtype, device in kinds):
        got = ", ".join(sorted(f"{dtype} on {device}" for dtype, device in kinds)) or "no weights"
        raise _refused(path, f"the weights of the module have one float type, on the CPU (got {got})", got)
    for name in ("inputs", "targets", "test_inputs", "test_targets"):
        tensor = getattr(made, name)
        if not isinstance(tensor, Tensor) or tensor.ndim == 0 or not len(tensor) or tensor.device.type != "cpu":
            got = f"shape {list(tensor.shape)} on {tensor.device}" if isinstance(tensor, Tensor) else _kind(tensor)
            raise _refused(path, f"`{name}` is a tensor on the CPU with a row for each sample (got {got})", got)
    for one, other in (("inputs", "targets"), ("test_inputs", "test_targets")):
        lengths = len(getattr(made, one)), len(getattr(made, other))
        if lengths[0] != lengths[1]:
            got = f"{lengths[0]} and {lengths[1]}"
            raise _refused(path, f"`{one}` and `{other}` have a row for each sample (got {got})", got)


def _kind(value: object) -> str:
    return type(value).__name__


def _refused(path: Path, message: str, got: str, allowed: str | None = None) -> InputError:
    return InputError(f"{path}: {message}", key=KEY, got=got, allowed=allowed)


@contextlib.contextmanager
def _told(path: Path, what: str = "") -> Iterator[None]:
    """Raise the errors of the user's code as InputErrors, with the file and the line; `what` fails if it has none."""
    try:
        with contextlib.redirect_stdout(sys.stderr):
            yield
    except InputError:
        raise
    except (Exception, SystemExit) as error:
        place = place_of_error(error)
        if place is None:
            raise _refused(path, f"{what}: {error_text(error)}", _kind(error)) from None
        file = str(path) if Path(place[0]).resolve() == path.resolve() else place[0]
        mistake = Mistake(error_text(error), file=file, line=place[1], named_by=KEY, got=_kind(error))
        raise InputError(mistake) from None
