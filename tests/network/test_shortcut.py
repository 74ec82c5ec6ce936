"""What is worked out for collectives that are alone is what playing every message gives, whoever interrupts."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from hypothesis import given, settings

from . import random_work
from .random_work import Work, assert_same, duration_s

pytestmark = pytest.mark.usefixtures("side", "eagerness")


@pytest.fixture(scope="module")
def eagerness() -> Iterator[None]:
    """Let the shortcut be tried at every chance, however small the collective is."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("clustersim.network.shortcut._FEWEST_MESSAGES", 0)
        patch.setattr("clustersim.network.shortcut._MOST_PASSED", 0)
        patch.setattr("clustersim.network.shortcut._MOST_REFUSED", 1 << 30)
        yield


@given(work=random_work.works())
@settings(max_examples=80, deadline=None)
def test_whoever_interrupts_the_shortcut_changes_nothing(work: Work):
    span_s = duration_s(work)
    exact = random_work.play(work, span_s, exact=True)
    assert_same(exact, random_work.play(work, span_s))
