"""Finds the target of `my_module:build` and builds it on the meta device: weights take no memory."""

from __future__ import annotations

import contextlib
import importlib
import inspect
from collections.abc import Callable
from difflib import get_close_matches
from pathlib import Path
from types import ModuleType
from typing import Any

import torch
from torch import nn

from clustersim.errors import InputError
from clustersim.reading.user_code import describe_error, module_of_file, on_path, quiet_code

_SHOWN_NAMES = 12


def built(target: str) -> nn.Module:
    """Return the module of a target, in training mode and on the meta device.

    A target is a module or a file, a colon, and a function or class without required arguments, or an `nn.Module`.
    A model that cannot be built on the meta device is built on the CPU and moved there.
    """
    place, colon, attribute = target.rpartition(":")
    if not (colon and place and attribute):
        allowed = "MODULE:NAME or FILE.py:NAME"
        raise InputError(
            f"expected a module and the model's builder, such as my_module:build (got '{target}')",
            got=target,
            allowed=allowed,
        )
    with quiet_code():
        found = _attribute(_module(place), place, attribute)
        made = found if isinstance(found, nn.Module) else _called(found, target)
    if not isinstance(made, nn.Module):
        raise InputError(
            f"{target} returns {_what(made)}, not an nn.Module", got=type(made).__name__, allowed="an nn.Module"
        )
    return made.to("meta").train()


def _module(place: str) -> ModuleType:
    path = Path(place)
    try:
        if path.suffix == ".py":
            return _module_of_file(path)
        with on_path(Path.cwd()):
            return importlib.import_module(place)
    except ModuleNotFoundError as error:
        if error.name and (place == error.name or place.startswith(f"{error.name}.")):
            raise InputError(f"there is no module '{place}' here or among the installed packages", got=place) from None
        raise _broken(place, error) from None
    except InputError:
        raise
    except (Exception, SystemExit) as error:
        raise _broken(place, error) from None


def _broken(place: str, error: BaseException) -> InputError:
    return InputError(f"{place} cannot be imported: {describe_error(error)}", got=place)


def _module_of_file(path: Path) -> ModuleType:
    if not path.is_file():
        raise InputError(f"there is no file '{path}'", got=str(path))
    return module_of_file(path)


def _attribute(module: ModuleType, place: str, attribute: str) -> Any:
    found: Any = module
    for name in attribute.split("."):
        if not hasattr(found, name):
            known = [each for each in vars(found) if not each.startswith("_")] if hasattr(found, "__dict__") else []
            near = get_close_matches(name, known, n=1)
            hint = f"; did you mean '{near[0]}'?" if near else ""
            shown = ", ".join(known[:_SHOWN_NAMES]) or "nothing"
            raise InputError(f"{place} has no '{attribute}'{hint} (it has {shown})", got=attribute, allowed=shown)
        found = getattr(found, name)
    return found


def _called(make: Any, target: str) -> Any:
    """Return the result of a builder: on the meta device if possible, otherwise on the CPU."""
    if not callable(make):
        raise InputError(
            f"{target} is {_what(make)}; name an nn.Module, or a function that returns one",
            got=type(make).__name__,
            allowed="a function that takes no arguments, or an nn.Module",
        )
    try:
        inspect.signature(make).bind()
    except TypeError as error:
        raise InputError(
            f"{target} cannot be called without arguments ({error}); write a function that takes none",
            got=target,
            allowed="a function that takes no arguments",
        ) from None
    except ValueError:  # a callable without a signature
        pass
    builder: Callable[[], Any] = make
    with contextlib.suppress(Exception, SystemExit), torch.device("meta"):
        return builder()
    try:  # it needs values while it builds, or has an error; on the CPU only the latter fails
        return builder()
    except (Exception, SystemExit) as error:
        raise InputError(f"{target} fails: {describe_error(error)}", got=target) from None


def _what(found: Any) -> str:
    kind = type(found).__name__
    return f"a{'n' if kind[0] in 'aeiouAEIOU' else ''} {kind}" if found is not None else "nothing"
