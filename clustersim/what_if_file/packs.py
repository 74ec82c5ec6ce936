"""Points of the page compressed in packs; a file that would be too large loses timelines, the longest first."""

from __future__ import annotations

from collections.abc import Sequence

from clustersim.report.packed import packed
from clustersim.results.files import to_json
from clustersim.what_if_file.points import Document

PER_PACK = 8
"""Points that are compressed together, and unpacked together when one of them is shown."""

MOST_CHARACTERS = 3_000_000
"""Of all packs, so that the file stays below 4 MB with plotly.js."""

_STEPS = 8
"""Times at most that timelines are left out and the size is looked at again."""

_NO_TIMELINE = "The timeline of this point is not in the file, which would be too large; the command below draws it."


def packs_of(documents: Sequence[Document]) -> list[str]:
    """Return the documents as compressed texts of `PER_PACK` each."""
    return [packed(list(documents[start : start + PER_PACK])) for start in range(0, len(documents), PER_PACK)]


def fitting_packs(documents: Sequence[Document], most: int = MOST_CHARACTERS) -> list[str]:
    """Return the packs, without as many timelines as must be left out for `most` characters."""
    lengths = [len(to_json(document["figures"].get("timeline"))) for document in documents]
    longest = sorted(range(len(documents)), key=lambda number: -lengths[number])
    kept = list(documents)
    packs = packs_of(kept)
    for step in range(1, _STEPS + 1):
        if sum(map(len, packs)) <= most:
            break
        for number in longest[: -(-len(kept) * step // _STEPS)]:
            kept[number] = _without_timeline(documents[number])
        packs = packs_of(kept)
    return packs


def _without_timeline(document: Document) -> Document:
    if "timeline" not in document["figures"]:
        return document
    figures = {name: figure for name, figure in document["figures"].items() if name != "timeline"}
    return {**document, "figures": figures, "no_timeline": _NO_TIMELINE}
