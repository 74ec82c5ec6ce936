"""The complete part of a document that was cut off at any place."""

from __future__ import annotations

import json
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from clustersim.validation.real_json import read_whole_part

_VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3),
    max_leaves=8,
)


@given(document=st.dictionaries(st.text(max_size=3), _VALUES, max_size=5), share=st.floats(0, 1))
def test_the_readable_part_of_a_document_is_its_beginning(document: dict[str, Any], share: float) -> None:
    text = json.dumps(document)
    salvaged = read_whole_part(text[: int(share * len(text))])
    assert (salvaged.lost == "") == (share == 1.0)
    assert list(salvaged.document) == list(document)[: len(salvaged.document)]
    *whole, last = salvaged.document or [None]
    assert all(salvaged.document[key] == document[key] for key in whole)
    if last is not None and salvaged.document[last] != document[last]:
        found, meant = salvaged.document[last], document[last]
        assert isinstance(found, list) or isinstance(meant, int)  # a number that was cut off reads as a shorter one
        assert not isinstance(found, list) or all(
            a == b or isinstance(b, int) for a, b in zip(found, meant, strict=False)
        )


def test_a_document_nested_without_end_is_refused_and_not_followed() -> None:
    assert read_whole_part('{"a": 1, "b": ' + "[" * 100_000).document == {"a": 1, "b": []}
