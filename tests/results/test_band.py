"""The band of a forecast: conformal quantiles in which every source has equal weight."""

from __future__ import annotations

import json
import math
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from clustersim.results.band import CLASSES, HALF, LEVEL, MIN_SOURCES, Band, Bands, Checked, band_of
from clustersim.results.features import FEW_HOSTS, Features, compute_origin, hosts_kind, layout_kind

PLAIN = Features("ampere", "amp-bf16", "megatron", "all-reduce", "copies", "estimated", "one", "products")
OLD = replace(PLAIN, architecture="kepler", precision="fp32", origin="published", work="convolutions")


def checked(source: str, *logarithms: float, features: Features = PLAIN) -> Checked:
    return Checked(
        source, source, "2023", "2026-11-22", "first", features, tuple(math.exp(each) for each in logarithms)
    )


def test_with_one_figure_a_source_the_band_is_an_order_statistic() -> None:
    """Of 19 sources at 0, 1, ..., 18: the ninth of ten in 20 is the 18th score, counted from the median 9."""
    bands = Bands([checked(f"s{number}", 0.1 * number) for number in range(19)])
    spread = 0.1 * 6  # from the tenth value to the 16th, and to the fourth
    scores = sorted(abs(0.1 * number - 0.9) / spread for number in range(19))
    low, high = bands.limits(PLAIN, 0.9)
    assert (low, high) == pytest.approx((0.9 - scores[17] * spread, 0.9 + scores[17] * spread))


def test_figures_of_one_source_share_its_weight() -> None:
    alone = [checked(f"s{number}", 0.01 * number) for number in range(20)]
    repeated = [replace(each, ratios=each.ratios * 50) if each.source == "s19" else each for each in alone]
    for level in (0.5, 0.8, 0.9):
        assert Bands(repeated).limits(PLAIN, level) == pytest.approx(Bands(alone).limits(PLAIN, level))


@given(st.permutations(range(12)))
def test_the_order_of_the_forecasts_does_not_matter(order: list[int]) -> None:
    forecasts = [checked(f"s{number}", 0.03 * number, -0.02 * number) for number in range(12)]
    mixed = [forecasts[place] for place in order]
    assert Bands(mixed).limits(PLAIN, 0.8) == pytest.approx(Bands(forecasts).limits(PLAIN, 0.8))


@pytest.mark.parametrize("level", [0.5, 0.8, 0.9])
def test_a_new_source_is_inside_as_often_as_the_level_says(level: float) -> None:
    """Sources with a bias of their own and skewed figures, in different numbers; in the mean over 400 draws."""
    rng = np.random.default_rng(4)

    def draw(number: int) -> Checked:
        figures = rng.normal(-0.1, 0.15) - rng.exponential(0.1, rng.integers(1, 30))
        return checked(f"s{number}", *figures)

    shares = []
    for _ in range(400):
        *known, new = [draw(number) for number in range(21)]
        low, high = Bands(known).limits(PLAIN, level)
        shares.append(np.mean([low <= math.log(ratio) <= high for ratio in new.ratios]))
    assert level - 0.04 < np.mean(shares) < level + 0.07


def test_a_bias_moves_the_band_and_skewness_makes_its_sides_unequal() -> None:
    logarithms = [-0.3 - 0.02 * number**2 for number in range(20)]
    low, high = Bands([checked(f"s{number}", each) for number, each in enumerate(logarithms)]).limits(PLAIN, 0.5)
    assert high < 0.0
    middle = float(np.median(logarithms))
    assert middle - low > 1.5 * (high - middle)


def test_a_class_needs_ten_sources_and_a_wider_one_stands_in() -> None:
    wide = [checked(f"old{number}", 0.2 * number, features=OLD) for number in range(15)]
    narrow = [checked(f"new{number}", 0.01 * number) for number in range(MIN_SOURCES)]
    found = Bands([*wide, *narrow]).class_of(PLAIN)
    assert (found.names, found.sources) == (CLASSES[0], MIN_SOURCES)
    fewer = Bands([*wide, *narrow[1:]])
    assert (fewer.class_of(PLAIN).names, fewer.class_of(PLAIN).sources) == ((), 15 + MIN_SOURCES - 1)
    mixed = [replace(each, features=replace(PLAIN, precision="fp32")) if not place else each
             for place, each in enumerate(narrow)]  # fmt: skip
    assert Bands([*wide, *mixed]).class_of(PLAIN).names == CLASSES[1]
    full = Bands([*wide, *narrow])
    narrow_band, wide_band = full.limits(PLAIN, 0.8), full.limits(OLD, 0.8)
    assert narrow_band.high - narrow_band.low < 0.7 * (wide_band.high - wide_band.low)


def test_the_spread_of_a_class_is_pooled_with_that_of_all_forecasts() -> None:
    """A class of 30 sources counts three times what all forecasts count."""
    narrow = [checked(f"new{number}", 0.01 * number) for number in range(3 * MIN_SOURCES)]
    wide = [checked(f"old{number}", 0.2 * number, features=OLD) for number in range(9)]
    alone, found = Bands(narrow).everything.spread, Bands([*wide, *narrow])
    pooled = found.class_of(PLAIN).spread
    assert tuple(pooled) == pytest.approx(
        tuple(0.75 * own + 0.25 * every for own, every in zip(alone, found.everything.spread, strict=True))
    )
    assert Bands(narrow).limits(PLAIN, 0.8) == pytest.approx(Bands(narrow, ((),)).limits(PLAIN, 0.8))


def test_too_few_sources_give_no_band() -> None:
    forecasts = [checked(f"s{number}", 0.1 * number) for number in range(8)]
    assert Bands(forecasts).limits(PLAIN, 0.9).high == math.inf
    assert band_of(Bands(forecasts), PLAIN, 100.0) is None
    assert band_of(Bands([]), PLAIN, 100.0) is None


def test_what_is_unlike_all_checked_forecasts_has_the_band_of_all_and_says_so() -> None:
    forecasts = [checked(f"s{number}", 0.01 * number) for number in range(12)]
    forecasts += [checked(f"old{number}", 0.5 * number, features=OLD) for number in range(4)]
    bands = Bands(forecasts)
    unlike = replace(PLAIN, architecture="ada", layout="stages")
    found, like = band_of(bands, unlike, 100.0), band_of(bands, PLAIN, 100.0)
    assert found is not None
    assert like is not None
    assert found.unchecked == ("architecture ada", "layout stages")
    assert (found.class_name, found.sources) == ("all", 16)
    assert (like.unchecked, like.sources) == ((), 12)
    assert found.samples_per_s[1] > like.samples_per_s[1]


def test_guesses_widen_a_narrow_class_to_the_band_of_all() -> None:
    forecasts = [checked(f"s{number}", 0.01 * number) for number in range(12)]
    forecasts += [checked(f"old{number}", 0.3 * number - 1.0, features=OLD) for number in range(9)]
    bands = Bands(forecasts)
    sure, guessed = (band_of(bands, PLAIN, 100.0, assumed=assumed) for assumed in ((), ("bytes_per_s of a link",)))
    assert sure is not None
    assert guessed is not None
    widest = bands.widest(LEVEL)
    assert guessed.samples_per_s[0] == pytest.approx(min(sure.samples_per_s[0], 100 * math.exp(widest.low)))
    assert guessed.samples_per_s[1] == pytest.approx(max(sure.samples_per_s[1], 100 * math.exp(widest.high)))
    assert guessed.samples_per_s[1] - guessed.samples_per_s[0] > sure.samples_per_s[1] - sure.samples_per_s[0]
    assert (sure.assumed, guessed.assumed) == ((), ("bytes_per_s of a link",))


def test_a_band_is_not_narrower_than_the_residuals_under_it() -> None:
    bands = Bands([checked(f"s{number}", 1e-4 * number) for number in range(12)])
    found = band_of(bands, PLAIN, 100.0, floors=(0.2, 0.05))
    assert found is not None
    middle = bands.class_of(PLAIN).spread.median
    assert found.samples_per_s == pytest.approx((100 * math.exp(middle - 0.2), 100 * math.exp(middle + 0.2)))
    assert found.half == pytest.approx((100 * math.exp(middle - 0.05), 100 * math.exp(middle + 0.05)))


def test_a_band_says_the_same_again_in_json() -> None:
    band = Band(LEVEL, (80.0, 120.0), (95.0, 105.0), "recent", 11, ("layout stages",), ("bytes_per_s of a link",))
    document = json.loads(json.dumps(band.to_dict()))
    assert (document["level"], document["class"], document["sources"]) == (0.9, "recent", 11)
    assert Band.from_dict(document) == band
    assert HALF < LEVEL


def test_the_bands_of_levels_lie_in_one_another() -> None:
    rng = np.random.default_rng(1)
    bands = Bands([checked(f"s{number}", *rng.normal(0, 0.2, 5)) for number in range(20)])
    half, most = bands.limits(PLAIN, HALF), bands.limits(PLAIN, LEVEL)
    assert most.low < half.low < half.high < most.high


def test_layouts_origins_and_hosts_have_kinds() -> None:
    grid = {"kind": "grid", "tensor": 1, "context": 1, "expert": 1, "data": 8, "pipeline": 1}
    assert layout_kind({**grid, "expert": 4}) == "split"
    assert layout_kind({**grid, "pipeline": 2}, "zero-1") == "stages"
    assert layout_kind(grid, "zero-3") == "sharded"
    assert layout_kind(grid) == layout_kind({}) == "copies"
    assert compute_origin({"measured": 0.9, "published": 0.1}) == "measured"
    assert compute_origin({"published": 0.5, "estimated": 0.5}) == "published"
    assert [hosts_kind(number) for number in (1, 2, FEW_HOSTS, FEW_HOSTS + 1)] == ["one", "few", "few", "many"]
