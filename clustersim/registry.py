"""The table of a room: kebab-case names to members."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Generic, TypeVar

from clustersim.errors import unknown_name

Member = TypeVar("Member")


class Registry(Mapping[str, Member], Generic[Member]):
    """A read-only table that knows what its members are called.

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
        except (KeyError, TypeError):  # a list or a map, which a file may hold, is no name either
            raise unknown_name(self.kind, name, self._members) from None

    def __contains__(self, name: object) -> bool:
        return isinstance(name, str) and name in self._members

    def __iter__(self) -> Iterator[str]:
        return iter(self._members)

    def __len__(self) -> int:
        return len(self._members)
