"""Pages of the site: each is in the navigation, Python's names are on a page, rooms with physics have one.

This needs no mkdocs; tests/site builds the site.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from importlib import import_module
from typing import Any

import pytest
from ruamel.yaml import YAML

import clustersim
from clustersim.cli import main
from clustersim.scenario.reference import brief, explanation, key_paths
from tests.script import load_script
from tests.test_docs import PAGES, ROOT, blocks

DOCS = ROOT / "docs"
SITE = load_script(ROOT / "tools" / "docs_site.py")


def navigation() -> list[str]:
    """Return the pages that `mkdocs.yml` lists."""
    return list(_pages(YAML(typ="rt").load((ROOT / "mkdocs.yml").read_text(encoding="utf-8"))["nav"]))


def _pages(part: Any) -> Iterator[str]:
    if isinstance(part, str):
        yield part
    else:
        for inner in part.values() if isinstance(part, dict) else part:
            yield from _pages(inner)


def test_every_page_is_in_the_navigation_once() -> None:
    listed = navigation()
    assert sorted(name for name in listed if not name.startswith("project/")) == sorted(
        path.relative_to(DOCS).as_posix() for path in DOCS.rglob("*.md")
    )
    assert len(listed) == len(set(listed))


def test_the_navigation_lists_files_outside_docs_that_the_site_gets() -> None:
    outside = [name.removeprefix("project/") for name in navigation() if name.startswith("project/")]
    assert sorted(outside) == sorted(SITE.LISTED)
    assert all((ROOT / name).is_file() for name in outside)


def test_how_tos_are_listed_on_their_own_page() -> None:
    listed = set(re.findall(r"\]\(([\w-]+\.md)\)", (DOCS / "how-to" / "index.md").read_text(encoding="utf-8")))
    assert listed == {path.name for path in (DOCS / "how-to").glob("*.md")} - {"index.md"}


def test_the_start_page_is_short() -> None:
    assert len(re.findall(r"(?<!!)\[[^\]]*\]\(", (DOCS / "index.md").read_text(encoding="utf-8"))) <= 20


def test_links_are_written_for_the_site() -> None:
    page, text = (
        DOCS / "register.md",
        "[a](../validate/register/README.md#rule) [b](coverage.md) [c](https://x.org/y.md)",
    )
    assert SITE.for_site(text, page) == (
        "[a](project/validate/register/README.md#rule) [b](coverage.md) [c](https://x.org/y.md)"
    )
    assert SITE.for_site("[a](../docs/register.md)", ROOT / "validate" / "README.md") == "[a](../../register.md)"
    assert SITE.for_site("[a](../validate/register)", page) == "[a](project/validate/register/README.md)"
    assert SITE.for_site("[a](../no-such-file.md)", page) == "[a](../no-such-file.md)"


def test_blocks_that_make_files_show_their_name_and_keep_their_text() -> None:
    text = "```yaml file=a.yaml\nx: [y](../README.md)\n```\n```console installed\n$ clustersim run a.yaml\n```\n"
    assert SITE.for_site(text, DOCS / "index.md") == text.replace("yaml file=a.yaml", 'yaml title="a.yaml"').replace(
        " installed", ""
    )


def test_the_site_has_all_that_pages_link_to() -> None:
    outside = SITE.linked_outside()
    assert ROOT / "validate" / "README.md" in outside
    assert ROOT / "validate" / "firecaffe" / "source.md" in outside
    assert not any(path.is_relative_to(DOCS) for path in outside)


def documented() -> set[str]:
    """Return the objects that the two pages on Python show."""
    pages = ("python.md", "python-members.md")
    text = "\n".join((DOCS / "reference" / name).read_text(encoding="utf-8") for name in pages)
    shown = set(re.findall(r"^::: ([\w.]+)$", text, re.MULTILINE))
    members = re.findall(r"^::: ([\w.]+)\n    options: \{members: \[([^\]]*)\]", text, re.MULTILINE)
    return shown | {f"{name}.{member}" for name, listed in members for member in listed.split(", ")}


def resolved(name: str) -> object:
    """Return the object of a dotted name, where rooms and functions may be called the same."""
    path, found = "clustersim", object()
    for part in name.split(".")[1:]:
        path = f"{path}.{part}"
        try:
            found = import_module(path)
        except ModuleNotFoundError:
            found = getattr(found, part)
    return found


def test_every_name_on_the_pages_exists_and_has_a_docstring() -> None:
    for name in documented():
        assert getattr(resolved(name), "__doc__", None), name


def test_the_front_door_is_documented() -> None:
    shown = {name.rpartition(".")[2] for name in documented()}
    assert set(clustersim.__all__) - {"__version__"} <= shown
    assert {"transfer", "play", "from_transfers", "InputError"} <= shown


def test_names_that_pages_import_are_documented() -> None:
    shown = {name.rpartition(".")[2] for name in documented()}
    imports = re.compile(r"^from clustersim[\w.]* import ([\w, ]+)$", re.MULTILINE)
    inner = {"HostChoice", "LinkName"}  # types of fields
    for page in PAGES:
        for language, _, text in blocks(page):
            for names in imports.findall(text) if language == "python" else []:
                assert set(names.split(", ")) - inner <= shown, page


def test_every_room_is_on_the_page_of_physics() -> None:
    text = (DOCS / "physics" / "index.md").read_text(encoding="utf-8")
    named = set(re.findall(r"`(\w+)`", text))
    rooms = {path.parent.name for path in (ROOT / "clustersim").glob("*/__init__.py")}
    assert rooms <= named
    assert {name for name in re.findall(r"\]\(([\w-]+\.md)\)", text)} == {
        path.name for path in (DOCS / "physics").glob("*.md")
    } - {"index.md"}


COMMON = (DOCS / "reference" / "common-keys.md").read_text(encoding="utf-8")
_ROW = r"^\| \[`([\w.]+)`\]\(scenario\.md#[\w-]+\)<br>`(.*?)` \| (.*) \| (.*) \|$"
COMMON_ROWS = re.findall(_ROW, COMMON, re.MULTILINE)


def test_the_common_keys_are_forty() -> None:
    assert len(COMMON_ROWS) == 40
    keys = [key for key, *_ in COMMON_ROWS]
    assert len(set(keys)) == 40
    assert {"model", "num_gpus", "batch.per_gpu", "strategy.kind", "topology.link"} <= set(keys) <= set(key_paths())


@pytest.mark.parametrize(("key", "example", "takes", "meaning"), COMMON_ROWS, ids=lambda text: text[:30])
def test_a_common_key_has_an_example_and_the_words_of_explain(key: str, example: str, takes: str, meaning: str) -> None:
    value = YAML(typ="safe").load(example)
    for part in key.split("."):
        value = value[0][part] if isinstance(value, list) else value[part]
    assert not isinstance(value, dict)
    said = " ".join(explanation(key).split())
    for words in (takes.partition(" (default")[0].removesuffix(" (required)"), meaning):
        assert words.removesuffix(" …").replace("`", "").replace("\\|", "|") in said


def test_keys_that_are_written_most_often_are_common() -> None:
    generate = load_script(DOCS / "generate.py")
    often = ["model: resnet50\nseed: 3\n", "model: vgg16\nseed: 3\nlora: {rank: 4}\n", "- 1\n"]
    found = generate.common_keys([often, ["model: vgg16\nstragglers: [{kind: gamma, cv: 0.1}]\nnum_gpus: 1\n"]])
    assert len(found) == 6
    assert (found["seed"], found["stragglers.cv"]) == ("seed: 3", "stragglers: [{cv: 0.1}]")
    assert found["num_gpus"] == "num_gpus: 1"
    assert found["model"] == "model: vgg16"
    assert found["lora.rank"] == "lora: {rank: 4}"


def test_a_long_meaning_ends_with_a_clause() -> None:
    assert brief("short") == "short"
    assert brief("one; or: another") == "one"
    assert brief("a (b, c), d, e", longest=9) == "a (b, c) …"


def test_how_right_it_is_has_the_figures_of_the_register() -> None:
    text = " ".join((DOCS / "accuracy.md").read_text(encoding="utf-8").split())
    register = (DOCS / "register.md").read_text(encoding="utf-8")
    found = re.search(r"First forecasts, (\d+) sources: (\d+) points, median error ([\d.]+)%", register)
    assert found is not None
    assert f"the median error is {float(found[3]):.0f} %" in text
    assert f"({found[2]} figures of {found[1]} sources" in text
    assert "(images/register.png)" in text


@pytest.mark.parametrize(
    ("section", "command"),
    [
        ("result", "run overlap-10gbe --set num_gpus=2 --set num_iterations=1 --json"),
        ("collective", "collective all-reduce --topology titan --algorithm ring --gpus 2 --bytes 1MB --json"),
        ("topology", "topology show titan --json"),
        ("diff", "diff overlap-10gbe --set num_iterations=1 --a num_gpus=2 --b num_gpus=4 --json"),
    ],
)
def test_every_field_of_a_json_document_is_on_its_page(
    section: str, command: str, capsys: pytest.CaptureFixture[str]
) -> None:
    page = (DOCS / "reference" / "json.md").read_text(encoding="utf-8")
    text = page.partition(f"## `clustersim.{section}/1`")[2].partition("\n## ")[0]
    assert main(command.split()) == 0
    document = json.loads(capsys.readouterr().out)
    assert document.pop("schema") == f"clustersim.{section}/1"
    fields = [*document, *(document.get("runs") or document.get("rows") or document.get("differences") or [{}])[0]]
    assert not [name for name in fields if f"`{name}`" not in text]
