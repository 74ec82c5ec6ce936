"""Laws of a comparison: parts sum to the difference and causes to their part, and the other way round it is negated."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from clustersim.difference import BASES, Difference, diff
from clustersim.results import BREAKDOWN, Sweep
from tests.difference.pairs import compared, only, small

PAIRS = {
    "gpus": ((), ("num_gpus=8",)),
    "batch": ((), ("batch.per_gpu=16", "num_gpus=8")),
    "link": ((), ("topology.link=5 Gbit/s",)),
    "one gpu": (("num_gpus=1",), ()),
    "slow rank": ((), ("stragglers=[{kind: constant, factor: 2, of: [1]}]",)),
    "jitter": ((), ("stragglers=[{kind: lognormal, sigma: 0.3, per: iteration}]", "num_iterations=8")),
    "strategy": ((), ("strategy={kind: server, servers: {num: 2}}",)),
    "overlap": ((), ("strategy.overlap=true",)),
    "model": ((), ("model=resnet50",)),
    "layout": ((), ("parallelism={tensor: 2}", "transport=nccl")),
    "pipeline": ((), ("parallelism={pipeline: 2, micro_batches: 4}",)),
    "sharding": ((), ("parallelism={sharding: zero-3}",)),
}


@pytest.fixture(params=PAIRS)
def pair(request: pytest.FixtureRequest) -> tuple[tuple[str, ...], tuple[str, ...]]:
    return PAIRS[request.param]


@pytest.mark.parametrize("per", [None, "iteration", "sample", "gpu-sample"])
def test_parts_sum_to_the_difference_and_causes_to_their_part(
    pair: tuple[tuple[str, ...], tuple[str, ...]], per: str | None
) -> None:
    point = compared(*pair, per=per).main
    whole_s = max(point.seconds)
    assert sum(part.change_s for part in point.parts) == pytest.approx(point.change_s, abs=1e-12 * whole_s)
    for number, name in enumerate(("a_s", "b_s")):
        assert sum(getattr(part, name) for part in point.parts) == pytest.approx(point.seconds[number], rel=1e-12)
    for part in point.parts:
        for name in ("a_s", "b_s", "change_s"):
            if part.causes:
                total = sum(getattr(cause, name) for cause in part.causes)
                assert total == pytest.approx(getattr(part, name), abs=1e-11 * whole_s)


def test_the_other_way_round_every_change_is_negated(pair: tuple[tuple[str, ...], tuple[str, ...]]) -> None:
    there, back = compared(*pair).main, compared(*pair[::-1]).main
    assert back.basis == there.basis
    assert back.change_s == pytest.approx(-there.change_s, abs=1e-15)
    for one, two in zip(there.parts, back.parts, strict=True):
        assert two.change_s == pytest.approx(-one.change_s, abs=1e-15)
        assert {(c.name, c.number): -c.change_s for c in one.causes} == pytest.approx(
            {(c.name, c.number): c.change_s for c in two.causes}, abs=1e-15
        )
    assert {(c.key, str(c.a), str(c.b)) for c in there.settings} == {(c.key, str(c.b), str(c.a)) for c in back.settings}
    busy = {links.busy_s: (links.by_rate_s, links.by_bytes_s) for links in there.links}
    for links in back.links:
        by_rate_s, by_bytes_s = busy[links.busy_s[::-1]]
        assert (links.by_rate_s, links.by_bytes_s) == pytest.approx((-by_rate_s, -by_bytes_s), abs=1e-15)


def test_bytes_and_rate_sum_to_the_change_of_links(pair: tuple[tuple[str, ...], tuple[str, ...]]) -> None:
    for links in compared(*pair).main.links:
        assert links.by_bytes_s + links.by_rate_s == pytest.approx(links.busy_s[1] - links.busy_s[0], abs=1e-15)


def test_two_equal_forecasts_have_no_difference() -> None:
    found = diff(small(), small())
    assert found.main.is_equal
    assert found.main.change_s == 0.0
    assert all(part.change_s == 0.0 for part in found.main.parts)
    assert not found.main.settings
    assert not found.main.facts
    (sentence,) = found.answer
    assert sentence.startswith("There is no difference: an iteration takes ")


def made_of(seconds: list[float]) -> Sweep:
    """Return a sweep of one run with these seconds of each part."""
    run = only(small())
    iteration_s = sum(seconds)
    samples = run.samples_per_s * run.iteration_s
    parts = dict(zip(BREAKDOWN, seconds, strict=True))
    made = replace(run, breakdown_s=parts, iteration_s=iteration_s, samples_per_s=samples / iteration_s)
    return replace(small(), runs=(made,))


some_seconds = st.lists(st.floats(1e-6, 10.0), min_size=len(BREAKDOWN), max_size=len(BREAKDOWN))


@given(a=some_seconds, b=some_seconds, per=st.sampled_from([name for name in BASES if name != "token"]))
def test_any_two_runs_are_compared_exactly(a: list[float], b: list[float], per: str) -> None:
    found: Difference = diff(made_of(a), made_of(b), per=per)
    point = found.main
    whole_s = max(point.seconds)
    assert sum(part.change_s for part in point.parts) == pytest.approx(point.change_s, abs=1e-12 * whole_s)
    for part in point.parts:
        if part.causes:
            assert sum(cause.change_s for cause in part.causes) == pytest.approx(part.change_s, abs=1e-12 * whole_s)
    assert all(text.endswith(".") for text in found.answer)
