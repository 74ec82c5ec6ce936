"""Names of the layers of a traced module, from the modules that run them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from clustersim.interchange.torch_model.work import Work


def layer_names(works: Sequence[Work]) -> list[str]:
    """Return a unique name for each call.

    A module with one kind of call gives its own name (`layer1.0.conv1`), otherwise the call's label is
    appended (`layer1.0.add`); a second call of the same name gets a number (`layer1.0.relu.2`).
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
