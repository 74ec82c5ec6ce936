"""A cache of what is worked out about a cluster; it lasts as long as the cluster's topology does."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from functools import wraps
from typing import Any, ParamSpec, TypeVar
from weakref import WeakKeyDictionary

import numpy as np

from clustersim.topology import Topology

P = ParamSpec("P")
Result = TypeVar("Result")


def cached_by_topology(max_entries: int) -> Callable[[Callable[P, Result]], Callable[P, Result]]:
    """Return a decorator that caches results by the arguments of a function, of which one is a topology.

    The topology is passed by position. Arrays are compared by their bytes. At most `max_entries` results are kept for
    each topology; the oldest are dropped first.
    """

    def decorate(function: Callable[P, Result]) -> Callable[P, Result]:
        known: WeakKeyDictionary[Topology, dict[Hashable, Result]] = WeakKeyDictionary()

        @wraps(function)
        def cached(*args: P.args, **kwargs: P.kwargs) -> Result:
            topology = next(arg for arg in args if isinstance(arg, Topology))
            results, key = known.setdefault(topology, {}), _key(args, kwargs)
            if key not in results:
                results[key] = function(*args, **kwargs)
                if len(results) > max_entries:
                    del results[next(iter(results))]
            return results[key]

        return cached

    return decorate


def _key(args: tuple[Any, ...], kwargs: dict[str, Any]) -> Hashable:
    values = (*args, *sorted(kwargs.items()))
    arguments = (each for each in values if not isinstance(each, Topology))
    return tuple(each.tobytes() if isinstance(each, np.ndarray) else each for each in arguments)
