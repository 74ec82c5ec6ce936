"""Text becomes a tree with places; YAML that a scenario does not allow is reported with its line."""

from __future__ import annotations

from typing import Any

import pytest

from clustersim.errors import InputError, Mistake
from clustersim.reading.tree import LIMITS, Limits
from clustersim.reading.yaml_reader import read_yaml


def broken(text: str) -> Mistake:
    with pytest.raises(InputError) as caught:
        read_yaml(text, "f.yaml")
    return caught.value.mistakes[0]


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("a: 1", {"a": 1}),
        ("a: [1, 2.5, x, true, null, '3']", {"a": [1, 2.5, "x", True, None, "3"]}),
        ("a: no", {"a": "no"}),  # YAML 1.2: a word
        ("a: 1e-6", {"a": 1e-6}),
        ("a: 012", {"a": 12}),
        ("a: 0x10", {"a": 16}),
        ("a: 1_281_167", {"a": 1281167}),
        ("a: 2024-01-01", {"a": "2024-01-01"}),
        ("1: x", {"1": "x"}),
        ("a: &x {b: 1}\nc: *x", {"a": {"b": 1}, "c": {"b": 1}}),
        ("a: &x {b: 1, d: 2}\nc: {<<: *x, d: 3}", {"a": {"b": 1, "d": 2}, "c": {"d": 3, "b": 1}}),
        ("a: !!str 5", {"a": "5"}),
        ("a: |\n  x\n  y\n", {"a": "x\ny\n"}),
        ("", None),
        ("# nothing", None),
    ],
)
def test_plain_values_are_those_of_yaml_1_2(text: str, value: Any) -> None:
    root, mistakes = read_yaml(text, "f.yaml")
    assert root.plain() == value
    assert mistakes == []


def test_every_node_has_its_place() -> None:
    root, _ = read_yaml("a: 1\nb:\n  - {c: x}\n", "f.yaml")
    inner = root.at(("b", 0, "c"))
    assert inner is not None
    assert inner.key_place is not None
    assert (inner.place.file, inner.place.line, inner.place.column) == ("f.yaml", 3, 9)
    assert (inner.key_place.line, inner.key_place.column) == (3, 6)
    assert inner.place.source_line == "  - {c: x}"


@pytest.mark.parametrize(
    ("text", "line", "column", "words"),
    [
        ("a:\n\t- b", 2, 1, "a tab; YAML is indented with spaces"),
        ("a: 1\n  b: 2", 2, 4, "a ':' that does not belong here"),
        ("a: [1, 2\nb: 3", 1, 4, "a '[' that is never closed"),
        ("a: {b: 1\n", 1, 4, "a '{' that is never closed"),
        ('a: "x\n\nb: 1', 1, 4, "a quote that is never closed"),
        ("a: |\n  x\n y", 3, 2, "another indentation than the ones above"),
        ("a: 1\nb\nc: 2", 2, 1, "this line is not a 'key: value'"),
        ("a: @x", 1, 4, "a character that cannot start a value"),
        ("a: 1\nb: \x07", 2, 4, "a control character"),
        ('a: "\\xZZ"', 1, 7, "this is not YAML: expected escape sequence"),
        ('a: 1\nb: "\\U0001F600 \\UFFFFFFFF"', 2, 16, "this escape is not a valid character"),
        ("a: *x", 1, 4, "'*x' has no '&x' before it"),
        ("a: &x [*x]", 1, 8, "'*x' has no '&x' before it"),
        ("? [a]\n: b", 1, 3, "a key must be plain text"),
        ("---\na: 1\n---\nb: 1", 4, 1, "a second document"),
        ("[" * 60, 1, 42, "nested more than 40 levels deep"),
    ],
)
def test_broken_syntax_is_reported_in_plain_words_at_its_line(text: str, line: int, column: int, words: str) -> None:
    mistake = broken(text)
    assert words in mistake.message
    assert (mistake.file, mistake.line, mistake.column) == ("f.yaml", line, column)


def test_mistakes_that_do_not_stop_reading_are_collected() -> None:
    text = (
        "a: 1\na: 2\nb: .inf\nc: !!set {x}\nd: 1e999\ne: 99999999999999999999\nf: {<<: 3}\ng: !!int x\nh: !!float y\n"
    )
    _, mistakes = read_yaml(text, "f.yaml")
    assert [(mistake.line, mistake.message.split(";")[0]) for mistake in mistakes] == [
        (2, "the key is given twice (first in line 1)"),
        (3, "a number must be finite (got .inf)"),
        (4, "a tag ('tag:yaml.org,2002:set')"),
        (5, "a number must be finite (got 1e999)"),
        (6, "a whole number must be at most 9223372036854775807 (got 99999999999999999999)"),
        (7, "'<<' merges maps only"),
        (8, "expected a whole number (got x)"),
        (9, "expected a number (got y)"),
    ]


def test_an_alias_bomb_is_refused_before_it_is_expanded() -> None:
    levels = [f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 10)}]" for n in range(1, 12)]
    mistake = broken("\n".join(["a0: &a0 [x, x]", *levels]))
    assert f"{LIMITS.num_values:,} values, including those that an alias (*name) repeats" in mistake.message


def test_reading_stops_at_too_many_values() -> None:
    with pytest.raises(InputError, match="too many values; a file may have at most about 50"):
        read_yaml(f"a: [{'1, ' * 200}]", "f.yaml", limits=Limits(num_events=100))


def test_a_source_line_too_long_to_read_is_left_out() -> None:
    _, mistakes = read_yaml(f"a: [{'x, ' * 100}.nan]", "f.yaml")
    assert mistakes[0].column == 305
    assert mistakes[0].source_line is None


def test_the_caret_stands_under_the_mistake() -> None:
    _, mistakes = read_yaml("a: 1\nlong-key: [1, .nan]", "f.yaml")
    shown = str(mistakes[0]).splitlines()
    assert shown[0].startswith("f.yaml:2:15: ")
    assert shown[1][shown[2].index("^") :].startswith(".nan")


def test_a_repeated_text_gives_the_same_tree_and_its_own_mistakes() -> None:
    text = "a: !tag 1\nb: [1, 2]"
    tree, mistakes = read_yaml(text, "f.yaml")
    kept = list(mistakes)
    mistakes.clear()
    assert read_yaml(text, "f.yaml") == (tree, kept)
    assert len(kept) == 1
    assert read_yaml(text, "g.yaml")[0].place.file == "g.yaml"
    assert read_yaml(text, "f.yaml", typed=False)[0].plain() == {"a": "1", "b": ["1", "2"]}
