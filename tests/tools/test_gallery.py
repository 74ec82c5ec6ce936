"""The gallery has every figure of a report, in small pictures; the picture in the README says what the cases say."""

from __future__ import annotations

import re
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest

from clustersim.report.figures import FIGURES
from clustersim.scenario import load_scenario

ROOT = Path(__file__).resolve().parents[2]
MAX_MEAN_BYTES = 75_000


def tool(name: str) -> Any:
    """Return a script of tools/, which imports others of that folder by their names."""
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(ROOT / "tools")
        return import_module(name)


def test_every_figure_is_in_the_gallery() -> None:
    assert [each.figure for each in tool("gallery").GALLERY] == list(FIGURES)


def test_the_page_is_what_the_script_writes_and_names_every_picture() -> None:
    script = tool("gallery")
    titles = script._written_titles()
    assert set(titles) == set(FIGURES)
    assert (ROOT / "docs" / "gallery.md").read_text(encoding="utf-8") == script.gallery_page(titles)


def test_pictures_are_small() -> None:
    pictures = list((ROOT / "docs" / "images" / "gallery").glob("*.png"))
    assert {picture.stem for picture in pictures} == set(FIGURES)
    assert sum(picture.stat().st_size for picture in pictures) < MAX_MEAN_BYTES * len(FIGURES)


@pytest.mark.parametrize("picture", tool("gallery").GALLERY, ids=lambda picture: picture.figure)
def test_the_scenario_of_a_picture_is_shipped(picture: Any) -> None:
    assert load_scenario(picture.scenario, overrides=list(picture.settings)).points()


def test_the_picture_of_llama_says_what_the_cases_say() -> None:
    script = tool("llama_picture")
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    (alt,) = re.findall(r"!\[([^\]]*)\]\(docs/images/llama-h100\.png\)", text)
    assert alt == script.title(script.points())
