"""A small valid scenario, and fixtures to load variations of it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from clustersim.errors import InputError, Mistake
from clustersim.scenario import Scenario, load_scenario

SMALL = """\
name: small
model: alexnet
num_gpus: 4
batch: {per_gpu: 8}
topology: {kind: star, num_hosts: 8, link: 10 Gbit/s, hop: 1 us, host: {gpu: k80}}
software: plain
strategy: {kind: all-reduce, algorithm: ring}
"""

Load = Callable[..., Scenario]
Mistakes = Callable[..., list[Mistake]]
CheckMistake = Callable[[str, str | None, int, str], None]


@pytest.fixture
def small() -> str:
    return SMALL


@pytest.fixture
def varied() -> Callable[[str], str]:
    """Return the small scenario's text with lines added, which replace lines of the same keys."""

    def text(added: str) -> str:
        again = {line.partition(":")[0] for line in added.splitlines() if line[:1].isalpha()}
        kept = [line for line in SMALL.splitlines() if line.partition(":")[0] not in again]
        return "\n".join([*kept, added])

    return text


@pytest.fixture
def load(tmp_path: Path, varied: Callable[[str], str]) -> Load:
    """Load a variation of the small scenario."""

    def loaded(added: str = "", overrides: tuple[str, ...] = ()) -> Scenario:
        path = tmp_path / "small.yaml"
        path.write_text(varied(added), encoding="utf-8")
        return load_scenario(path, overrides)

    return loaded


@pytest.fixture
def mistakes(load: Load) -> Mistakes:
    """Return the mistakes that a variation of the small scenario has."""

    def found(added: str = "", overrides: tuple[str, ...] = ()) -> list[Mistake]:
        with pytest.raises(InputError) as caught:
            load(added, overrides)
        return list(caught.value.mistakes)

    return found


@pytest.fixture
def check_mistake(mistakes: Mistakes) -> CheckMistake:
    """Check that a variation of the small scenario has one mistake, with this key, column and text."""

    def check(added: str, key: str | None, column: int, words: str) -> None:
        (mistake,) = mistakes(added)
        assert words in mistake.message
        assert (mistake.key, mistake.column) == (key, column)
        assert mistake.source_line is not None
        assert mistake.source_line in added.splitlines()

    return check
