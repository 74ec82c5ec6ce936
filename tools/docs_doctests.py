"""An extension of mkdocstrings (`mkdocs.yml`): a doctest in a docstring is shown as code on the site."""

from __future__ import annotations

import re
from typing import Any

import griffe

_DOCTEST = re.compile(r"^>>> .*\n?(?:.+\n?)*", re.MULTILINE)


class Doctests(griffe.Extension):
    """Fences the lines from `>>>` to the next empty line."""

    def on_object(self, *, obj: griffe.Object, **_: Any) -> None:
        """Change the docstring of an object that has doctests."""
        if obj.docstring and ">>> " in obj.docstring.value:
            obj.docstring.value = _DOCTEST.sub(
                lambda match: f"```pycon\n{match[0].rstrip()}\n```\n", obj.docstring.value
            )
