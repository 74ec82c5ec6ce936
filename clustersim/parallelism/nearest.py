"""Degrees whose product does not fit num_gpus, and the nearest that do."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from math import isqrt, prod

from clustersim.errors import Mistake


def divisors(number: int) -> list[int]:
    """Return the divisors of a number in ascending order.

    >>> divisors(12)
    [1, 2, 3, 4, 6, 12]
    """
    small = [size for size in range(1, isqrt(number) + 1) if number % size == 0]
    return sorted({*small, *(number // size for size in small)})


def nearest_degrees(given: Mapping[str, int], num_gpus: int, exact: bool) -> dict[str, int]:
    """Return the degrees nearest to `given` whose product divides num_gpus, or equals it if `exact`.

    The nearest are those that differ in the fewest degrees, and among these by the least in total.

    >>> nearest_degrees({"pipeline": 4, "tensor": 5}, 8, exact=False)
    {'pipeline': 4, 'tensor': 2}
    """

    def distance(sizes: tuple[int, ...]) -> tuple[int, int, tuple[int, ...]]:
        apart = [abs(size - wanted) for size, wanted in zip(sizes, given.values(), strict=True)]
        return sum(map(bool, apart)), sum(apart), sizes

    sizes = min(_factors(num_gpus, len(given), exact), key=distance)
    return dict(zip(given, sizes, strict=True))


def _factors(number: int, how_many: int, exact: bool) -> Iterator[tuple[int, ...]]:
    """Yield all tuples of `how_many` factors whose product is a number, or divides it."""
    if how_many == 0:
        if number == 1 or not exact:
            yield ()
        return
    for first in range(1, number + 1) if how_many > 1 or not exact else (number,):
        if number % first == 0:
            yield from ((first, *rest) for rest in _factors(number // first, how_many - 1, exact))


def product_mistake(given: Mapping[str, int], num_gpus: int, exact: bool) -> Mistake:
    """Return the mistake of degrees that do not fit num_gpus, at the degree that has to change.

    Without `exact` one degree is left out, and takes the remaining GPUs.
    """
    near = nearest_degrees(given, num_gpus, exact)
    changed = {axis: size for axis, size in near.items() if size != given[axis]}
    written = ", ".join(f"{axis}: {size}" for axis, size in changed.items())
    named, product = " x ".join(f"{axis} {size}" for axis, size in given.items()), prod(given.values())
    hint = f"the nearest that does is {written}"
    if list(given) == ["data"]:
        replicas = "replica of the model does" if product == 1 else "replicas of the model do"
        message = f"{product} {replicas} not match {num_gpus} GPU{'s' * (num_gpus > 1)}; {hint}"
        if exact:
            message += ", as without this key"
    elif exact:
        message = f"{named} is {product} and not {num_gpus}; the product must be num_gpus; {hint}"
    else:
        what = f"{named} is {product}, which does" if len(given) > 1 else f"{named} does"
        message = f"{what} not divide {num_gpus} GPU{'s' * (num_gpus > 1)}; {hint}"
    key = next(iter(changed))
    return Mistake(message, key=key, got=str(given[key]), allowed=written if len(changed) > 1 else str(changed[key]))
