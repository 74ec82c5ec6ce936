"""Which links were busy: by class, and the busiest one by one."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from clustersim.results.run import LinkClass, LinkLoad


def link_classes(
    names: Sequence[str], kinds: np.ndarray, bytes_per_s: np.ndarray, num_bytes: np.ndarray, seconds: float
) -> tuple[LinkClass, ...]:
    """Return how busy each class of links is in an iteration of `seconds` that carries `num_bytes` [num_links].

    `kinds` [num_links] says by its number in `names` what each link is.
    """
    utilisation = num_bytes / bytes_per_s / seconds
    classes = []
    for number, name in enumerate(names):
        members = kinds == number
        busiest = int(np.argmax(np.where(members, utilisation, -1.0)))
        classes.append(
            LinkClass(
                kind=name,
                num_links=int(members.sum()),
                num_used=int((members & (num_bytes > 0)).sum()),
                num_bytes=float(num_bytes[members].sum()),
                max_utilisation=float(utilisation[busiest]),
                bytes_per_s=float(bytes_per_s[busiest]),
            )
        )
    return tuple(classes)


def busiest_links(
    describe: Callable[[int], tuple[str, str, str]],
    bytes_per_s: np.ndarray,
    num_bytes: np.ndarray,
    seconds: float,
    limit: int = 400,
) -> tuple[LinkLoad, ...]:
    """Return the busiest links, the busiest first; `describe` gives a link's ends and kind."""
    utilisation = num_bytes / bytes_per_s / seconds
    used = np.flatnonzero(num_bytes > 0)
    order = used[np.argsort(-utilisation[used], kind="stable")][:limit]
    loads = []
    for link in order.tolist():
        src, dst, kind = describe(link)
        loads.append(LinkLoad(f"{src} -> {dst}", kind, src, dst, float(num_bytes[link]), float(utilisation[link])))
    return tuple(loads)
