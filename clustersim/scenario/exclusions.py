"""Mistakes about settings that do not go together, one for each that is given."""

from __future__ import annotations

from collections.abc import Mapping

from clustersim.errors import Mistake


def exclusions(about: Mistake, others: Mapping[str, bool]) -> list[Mistake]:
    """Return a mistake like `about` for each other setting that is given; its name stands for `OTHER` in the message.

    >>> about = Mistake("lora does not go with OTHER", key="lora")
    >>> [each.message for each in exclusions(about, {"compute.profile": True, "stages": False})]
    ['lora does not go with compute.profile']
    """
    return [
        Mistake(about.message.replace("OTHER", other), about.key, got=about.got, allowed=about.allowed)
        for other, is_given in others.items()
        if is_given
    ]
