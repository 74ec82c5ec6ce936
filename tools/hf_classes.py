"""Writes `clustersim/interchange/hf_config/classes.json`: the keys of each family's config class and their defaults.

    python tools/hf_classes.py            # needs transformers, in the version of constraints.txt

For each `model_type` that `import hf` knows, and those of its parts: the fields that its class adds to or changes in
`PreTrainedConfig`, the other names that it takes for them (`attribute_map`), the class's name, and whether its model's
attention may be torch's `scaled_dot_product_attention` (`sdpa`), which then is the default. A key set to its class's
default changes nothing, whether it is understood or not.
"""

from __future__ import annotations

import json
import sys
from dataclasses import MISSING, fields
from pathlib import Path
from typing import Any

from clustersim.interchange.hf_config import FAMILIES
from clustersim.interchange.hf_config.classes import PARTS

CLASSES = Path(__file__).parents[1] / "clustersim" / "interchange" / "hf_config" / "classes.json"


def written() -> dict[str, Any]:
    """Return the document."""
    import transformers
    from transformers.models.auto.configuration_auto import CONFIG_MAPPING

    names = sorted({*FAMILIES, *PARTS})
    base = _defaults(transformers.PreTrainedConfig)
    classes = {}
    for name in names:
        kind = CONFIG_MAPPING[name]
        own = {key: value for key, value in _defaults(kind).items() if base.get(key, MISSING) != value}
        other: dict[str, str] = {}
        for first, second in kind.attribute_map.items():
            if first in own or second in own:  # either may be the field
                other |= {first: second} if second in own else {second: first}
        model = transformers.AutoModel._model_mapping.get(kind, None)  # a part may have no model of its own
        fused = bool(getattr(model, "_supports_sdpa", False))
        classes[name] = {"class": kind.__name__, "defaults": own, "aliases": other, "sdpa": fused}
    source = f"fields of the config classes of transformers {transformers.__version__}, by tools/hf_classes.py"
    return {"source": source, "base": base, "classes": classes}


def _defaults(kind: Any) -> dict[str, Any]:
    """Return the fields of a config class with their defaults, as JSON has them."""
    found = {}
    for field in fields(kind):
        value = None if field.default is MISSING else field.default
        found[field.name] = list(value) if isinstance(value, tuple) else value
        json.dumps(found[field.name])
    return found


def text() -> str:
    """Return the file."""
    return json.dumps(written(), indent=1, sort_keys=True) + "\n"


if __name__ == "__main__":
    CLASSES.write_text(text())
    sys.stdout.write(f"{CLASSES}\n")
