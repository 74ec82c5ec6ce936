"""What the layers of a traced module are called: like the modules that run them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from clustersim.interchange.torch_model.work import Work


def layer_names(works: Sequence[Work]) -> list[str]:
    """Return a name for each call, all different.

    A module that does one sort of thing gives its own name (`layer1.0.conv1`), else the call's label stands
    behind it (`layer1.0.add`); a second call of the same name gets a number (`layer1.0.relu.2`).
    """
    labels: dict[str, set[str]] = {}
    for work in works:
        labels.setdefault(work.path, set()).add(work.label)
    plain = [
        work.path if work.path and work.is_leaf and len(labels[work.path]) == 1 else f"{work.path}.{work.label}"
        for work in works
    ]
    taken = set(plain)
    counts: Counter[str] = Counter()
    names = []
    for name in (name.removeprefix(".") for name in plain):
        counts[name] += 1
        numbered = name
        while counts[name] > 1 and (numbered := f"{name}.{counts[name]}") in taken:
            counts[name] += 1
        taken.add(numbered)
        names.append(numbered)
    return names
