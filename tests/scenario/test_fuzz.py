"""Whatever happens to a scenario's text, nothing but a clear error or a valid scenario ever comes out."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from clustersim.data import shipped_files
from clustersim.errors import InputError
from clustersim.scenario import Scenario, load_scenario

SHIPPED = {name: path.read_text(encoding="utf-8") for name, path in shipped_files("scenarios").items()}
RUBBISH = [
    *(
        "\t",
        " ",
        "  ",
        "\n",
        ":",
        "-",
        "[",
        "]",
        "{",
        "}",
        ",",
        "#",
        "'",
        '"',
        "&a ",
        "*a",
        "!!set ",
        "!x ",
        "|",
        ">",
        "%",
        "@",
        "? ",
    ),
    *(
        "null",
        "~",
        "true",
        "no",
        "-1",
        "0",
        "1e999",
        ".inf",
        ".nan",
        "9" * 40,
        "0x",
        "1:30",
        "2024-01-01",
        "é",
        "\x00",
        "\x07",
        "\ufeff",
        "\u2028",
    ),
    *(
        "3 Gb/s",
        "10 Gbit/s",
        "600 ns",
        "-5 s",
        "1e400 s",
        "25 MiB",
        "{kind: x}",
        "{kind: [a, b]}",
        "[[]]",
        "[{}]",
        "<<: *a",
        "---",
        "...",
    ),
    *(
        "kind",
        "extends: firecaffe-googlenet",
        "extends: [x]",
        "$schema",
        "titan",
        "star",
        "ring",
        "all",
        "topology.kind",
        "\\",
        "=",
        "a.b",
    ),
]
PIECE = st.sampled_from(RUBBISH) | st.text(max_size=8) | st.floats().map(str) | st.integers().map(str)


@st.composite
def mutated(draw: st.DrawFn) -> str:
    """Return the text of a shipped scenario after random changes."""
    lines = draw(st.sampled_from(sorted(SHIPPED.values()))).splitlines()
    for _ in range(draw(st.integers(1, 4))):
        accident = draw(st.sampled_from(ACCIDENTS))
        if lines:
            lines = accident(draw, lines, draw(st.integers(0, len(lines) - 1)))
    return "\n".join(lines) + draw(st.sampled_from(["\n", "", "\n\n"]))


def _delete(draw: st.DrawFn, lines: list[str], at: int) -> list[str]:
    return lines[:at] + lines[at + 1 :]


def _repeat(draw: st.DrawFn, lines: list[str], at: int) -> list[str]:
    return [*lines[: at + 1], lines[at], *lines[at + 1 :]]


def _indent(draw: st.DrawFn, lines: list[str], at: int) -> list[str]:
    return [*lines[:at], draw(st.sampled_from([" ", "  ", "\t", "- "])) + lines[at], *lines[at + 1 :]]


def _swap(draw: st.DrawFn, lines: list[str], at: int) -> list[str]:
    other = draw(st.integers(0, len(lines) - 1))
    key, _, _ = lines[at].partition(":")
    _, _, value = lines[other].partition(":")
    return [*lines[:at], f"{key}:{value}", *lines[at + 1 :]]


def _inject(draw: st.DrawFn, lines: list[str], at: int) -> list[str]:
    where = draw(st.integers(0, len(lines[at])))
    return [*lines[:at], lines[at][:where] + draw(PIECE) + lines[at][where:], *lines[at + 1 :]]


def _replace(draw: st.DrawFn, lines: list[str], at: int) -> list[str]:
    key, colon, _ = lines[at].partition(":")
    return [*lines[:at], f"{key}{colon} {draw(PIECE)}", *lines[at + 1 :]]


def _cut(draw: st.DrawFn, lines: list[str], at: int) -> list[str]:
    return [*lines[:at], lines[at][: draw(st.integers(0, len(lines[at])))]]


ACCIDENTS: list[Callable[[st.DrawFn, list[str], int], list[str]]] = [
    _delete,
    _repeat,
    _indent,
    _swap,
    _inject,
    _replace,
    _cut,
]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("fuzz")


def check_outcome(path: Path, overrides: list[str]) -> None:
    """Load a scenario and check that it is valid or clearly refused."""
    try:
        scenario = load_scenario(path, overrides)
    except InputError as error:
        mistakes = error.mistakes
    else:
        assert isinstance(scenario, Scenario)
        assert scenario.points()
        return
    assert mistakes
    for mistake in mistakes:
        assert mistake.message.strip()
        assert mistake.file is not None
        assert str(mistake).startswith(mistake.file)
        about_a_value = mistake.file != "--set" and "the file is empty" not in mistake.message
        assert (mistake.line is not None and mistake.line >= 1) or not about_a_value


@settings(
    max_examples=120, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow]
)
@given(text=mutated())
def test_a_mutated_scenario_is_valid_or_clearly_refused(folder: Path, text: str) -> None:
    path = folder / "mutated.yaml"
    path.write_bytes(text.encode("utf-8", "surrogatepass"))
    check_outcome(path, [])


@settings(max_examples=60, deadline=None)
@given(data=st.binary(max_size=200))
def test_random_bytes_are_clearly_refused(folder: Path, data: bytes) -> None:
    path = folder / "bytes.yaml"
    path.write_bytes(data)
    with pytest.raises(InputError) as caught:
        load_scenario(path)
    assert all(mistake.message for mistake in caught.value.mistakes)


KEYS = [
    "num_gpus",
    "batch.per_gpu",
    "topology",
    "topology.kind",
    "topology.host.gpu",
    "strategy.kind",
    "stragglers.0.cv",
    "seed",
    "x.y",
    "",
]


@settings(max_examples=60, deadline=None)
@given(
    overrides=st.lists(
        st.tuples(st.sampled_from(KEYS) | st.text(max_size=5), st.sampled_from(["=", "==", "", " = "]), PIECE).map(
            "".join
        ),
        min_size=1,
        max_size=3,
    )
)
def test_random_overrides_are_clearly_refused_or_valid(folder: Path, overrides: list[str]) -> None:
    path = folder / "plain.yaml"
    if not path.exists():
        path.write_text(SHIPPED["stragglers"], encoding="utf-8")
    check_outcome(path, overrides)
