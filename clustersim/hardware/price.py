"""What an hour of a GPU costs: the price that a scenario gives, or that of the GPU's sheet."""

from __future__ import annotations

from collections.abc import Mapping

from clustersim.errors import InputError
from clustersim.hardware.gpu_name import split_name


def price_of(name: str, of_sheet: float | None, prices: Mapping[str, float]) -> float | None:
    """Return the dollars per hour of a GPU; None where neither `prices` nor its sheet has one.

    `prices` is by the names of sheets; `h100 at 500 W` costs what `h100` does unless it has a price of its own.

    >>> price_of("h100 at 500 W", 3.99, {"h100": 2.5}), price_of("p100", None, {"h100": 2.5})
    (2.5, None)
    """
    board, _ = split_name(name)
    return prices.get(name, prices.get(board, of_sheet))


def price_setting(text: str) -> str:
    """Return `GPU=DOLLARS` as a setting of a scenario; raise InputError for another text.

    >>> price_setting("h100=2.5")
    'prices.h100=2.5'
    """
    name, equals, dollars = text.rpartition("=")
    try:
        price: float | None = float(dollars)
    except ValueError:
        price = None
    if not equals or not name.strip() or price is None or not 0 < price < float("inf"):
        why = "" if not equals else ": a number without a unit" if price is None else ": a price above zero"
        message = f"expected GPU=DOLLARS, the price of one GPU for an hour, such as h100=2.5 (got '{text[:60]}'){why}"
        raise InputError(message, got=text[:60], allowed="GPU=DOLLARS, above zero", key="--price")
    if "." in name:
        message = f"the price of a sheet by its file ({name.strip()[:60]}) is given under `prices` in the scenario"
        raise InputError(message, got=text[:60], allowed="the short name of a GPU", key="--price")
    return f"prices.{name.strip()}={price!r}"
