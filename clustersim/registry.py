"""Registry: a table from kebab-case names to the members of a package."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Generic, TypeVar

from clustersim.errors import unknown_name

Member = TypeVar("Member")


class Registry(Mapping[str, Member], Generic[Member]):
    """A read-only table from names to members; an unknown name raises an error with the nearest one.

    >>> Registry("greeting", {"hello": 1})["helo"]
    Traceback (most recent call last):
    clustersim.errors.InputError: no greeting is called 'helo'; did you mean 'hello'? (known: hello)
    """

    def __init__(self, kind: str, members: Mapping[str, Member]):
        self.kind = kind
        self._members = dict(members)

    def __getitem__(self, name: str) -> Member:
        try:
            return self._members[name]
        except (KeyError, TypeError):  # a file may hold a list or a map here, which is not a name either
            raise unknown_name(self.kind, name, self._members) from None

    def __contains__(self, name: object) -> bool:
        return isinstance(name, str) and name in self._members

    def __iter__(self) -> Iterator[str]:
        return iter(self._members)

    def __len__(self) -> int:
        return len(self._members)
