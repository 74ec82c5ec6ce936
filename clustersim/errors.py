"""Errors for users, with the place, the value and what is allowed.

`InputError` is a `ValueError`: a pydantic validator may raise it, and the scenario loader gets it back with `got`
and `allowed` as separate fields.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from difflib import get_close_matches

from clustersim.common_words import LISTED, hint_for_name

_MANY = 12
_FEW = 5


@dataclass(frozen=True)
class Mistake:
    """One mistake in an input file; `line` and `column` count from 1.

    `named_by` is the key of the scenario that names the file, if the file is not the scenario. A training that does not
    fit has the bytes that it needs and those that there are, and the least change with which it fits, if known.
    """

    message: str
    key: str | None = None
    file: str | None = None
    line: int | None = None
    column: int | None = None
    got: str | None = None
    allowed: str | None = None
    source_line: str | None = None
    named_by: str | None = None
    needed_bytes: float | None = None
    available_bytes: float | None = None
    remedy: str | None = None

    def __str__(self) -> str:
        place = ":".join(str(part) for part in (self.file, self.line, self.column) if part is not None)
        text = ": ".join(part for part in (place, self.key, self.message) if part)
        if self.source_line is None or self.column is None:
            return text
        return f"{text}\n    {self.source_line}\n    {' ' * (self.column - 1)}^"


class ClustersimError(Exception):
    """Base class of clustersim's errors; `exit_status` is that of the command line."""

    exit_status = 1


class SimulationError(ClustersimError):
    """The input is valid, and the simulation could not be finished."""


class ExecutorError(ClustersimError):
    """The workers that simulate points cannot go on."""


class TooLongError(SimulationError):
    """The simulation takes longer than it may."""


class InputError(ClustersimError, ValueError):
    """A scenario or another input file is wrong. `mistakes` has all mistakes that were found."""

    exit_status = 3

    def __init__(
        self,
        mistakes: str | Mistake | Iterable[Mistake],
        *,
        got: str | None = None,
        allowed: str | None = None,
        key: str | None = None,
    ):
        if isinstance(mistakes, str):
            mistakes = Mistake(mistakes, key, got=got, allowed=allowed)
        self.mistakes: tuple[Mistake, ...] = (mistakes,) if isinstance(mistakes, Mistake) else tuple(mistakes)
        super().__init__("\n".join(str(mistake) for mistake in self.mistakes))


class NotInstalledError(InputError):
    """The input needs packages that are not installed."""


class ToleranceError(ClustersimError):
    """The result is outside the requested tolerance."""

    exit_status = 4


def in_order(mistakes: Iterable[Mistake]) -> list[Mistake]:
    """Return each mistake once, in the order of the lines of its file; files in order of appearance.

    >>> [each.line for each in in_order([Mistake("b", line=2), Mistake("a", line=1), Mistake("b", line=2)])]
    [1, 2]
    """
    kept = list(dict.fromkeys(mistakes))
    files = list(dict.fromkeys(mistake.file for mistake in kept))
    return sorted(kept, key=lambda each: (files.index(each.file), each.line or 0, each.column or 0))


def unknown_name(kind: str, name: object, known: Iterable[str]) -> InputError:
    """Return the error for an unknown name, with the nearest known one.

    >>> print(unknown_name("all-reduce algorithm", "rng", ["doubling", "ring"]))
    no all-reduce algorithm is called 'rng'; did you mean 'ring'? (known: doubling, ring)
    """
    names = sorted(known)
    hint = hint_after(hint_for_name(kind, str(name)), nearest(str(name), names))
    message = f"no {kind} is called '{name}'{hint} ({known_names(kind, str(name), names)})"
    return InputError(message, got=str(name), allowed=", ".join(names))


def known_names(kind: str, name: str, known: Sequence[str]) -> str:
    """Return the known names; of many that `clustersim list` has, the nearest and the command.

    >>> known_names("model", "resnet", ["resnet18", "resnet50", *(f"vgg{depth}" for depth in range(11, 30))])
    'nearest: resnet50, resnet18; all: `clustersim list models`'
    """
    if kind not in LISTED or len(known) <= _MANY:
        return f"known: {', '.join(known)}"
    near = nearest_names(name, known)[:_FEW]
    return "; ".join([*([f"nearest: {', '.join(near)}"] if near else []), f"all: `clustersim list {LISTED[kind]}`"])


def hint_after(meaning: str | None, near: str | None) -> str:
    """Return the end of a message about an unknown word: what it is called here, else the nearest known word.

    >>> hint_after(None, "ring"), hint_after("that is a100", "a100-40gb"), hint_after(None, None)
    ("; did you mean 'ring'?", '; that is a100', '')
    """
    return f"; {meaning}" if meaning else f"; did you mean '{near}'?" if near else ""


def nearest(name: str, known: Sequence[str]) -> str | None:
    """Return the nearest known name: another spelling, one with a typo, one with common parts, or a similar one.

    >>> nearest("bf16", ["amp-bf16", "fp16"]), nearest("v100-sxm2-16gb", ["v100", "v100-32gb"])
    ('amp-bf16', 'v100')
    >>> nearest("googlenet-axu", ["googlenet", "googlenet-aux"]), nearest("NCCL", ["gloo", "nccl"])
    ('googlenet-aux', 'nccl')
    >>> nearest("meta-llama/Llama_3.1_8B", ["llama-2-7b", "llama-3.1-8b"])
    'llama-3.1-8b'
    """
    return next(iter(nearest_names(name, known)), None)


def nearest_names(name: str, known: Sequence[str]) -> list[str]:
    """Return known names that resemble a name, the nearest first."""
    name = name.lower().rpartition("/")[2] or name.lower()
    word, parts = squashed(name), _parts(name)
    same = [each for each in known if parts <= _parts(each) or parts >= _parts(each)]
    begun = [each for each in known if word and squashed(each).startswith(word)]
    return list(
        dict.fromkeys(
            [
                *(each for each in known if word and squashed(each) == word),
                *get_close_matches(name, known, n=_FEW, cutoff=0.85),
                *get_close_matches(name, same, n=_FEW, cutoff=0.0),
                *get_close_matches(name, begun, n=_FEW, cutoff=0.0),
                *get_close_matches(name, known, n=_FEW),
            ]
        )
    )


def squashed(name: str) -> str:
    """Return a name in small letters, without what separates its parts.

    >>> squashed("RTX_4090") == squashed("rtx-4090")
    True
    """
    return re.sub(r"[\s_-]+", "", name.lower())


def _parts(name: str) -> set[str]:
    return set(re.split(r"[\s_-]+", name))
