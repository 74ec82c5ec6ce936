"""Tables of members by kebab-case name, which packages outside clustersim may extend."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from clustersim.errors import InputError, unknown_name

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint

Member = TypeVar("Member")

_NAME = re.compile(r"[a-z0-9][a-z0-9.]*(-[a-z0-9.]+)*")


class Registry(Mapping[str, Member], Generic[Member]):
    """A table of members by name. Members are added by `register`, or by the entry points of an installed package.

    `group` is the group of entry points whose objects are members; with a `part`, each object is a mapping, and its
    value of that key is the member, if it has one. `check(name, member)` raises InputError for what cannot be one.

    >>> Registry("greeting", {"hello": 1})["helo"]
    Traceback (most recent call last):
    clustersim.errors.InputError: no greeting is called 'helo'; did you mean 'hello'? (known: hello)
    """

    def __init__(
        self,
        kind: str,
        members: Mapping[str, Member],
        group: str | None = None,
        part: str | None = None,
        check: Callable[[str, Any], None] | None = None,
    ):
        self.kind = kind
        self._members = dict(members)
        self._group, self._part, self._check = group, part, check
        self._is_complete = group is None  # whether the entry points of installed packages have been read
        self._listeners: list[Callable[[], None]] = []

    def register(self, name: str, member: Member) -> None:
        """Add a member under a new kebab-case name; raise InputError for a name that is taken or a wrong member.

        >>> greetings = Registry("greeting", {"hello": 1})
        >>> greetings.register("good-day", 2)
        >>> greetings["good-day"], list(greetings)
        (2, ['hello', 'good-day'])
        """
        self._add(name, member)
        for listener in self._listeners:
            listener()

    def on_register(self, listener: Callable[[], None]) -> None:
        """Call `listener` after each later `register`."""
        self._listeners.append(listener)

    def _add(self, name: str, member: Member) -> None:
        if not (isinstance(name, str) and _NAME.fullmatch(name)):
            message = f"a {self.kind} has a kebab-case name, such as 'my-member' (got {name!r})"
            raise InputError(message, got=repr(name), allowed="a kebab-case name")
        if name in self._all():
            raise InputError(f"there is a {self.kind} called '{name}' already", got=name, allowed="another name")
        if self._check is not None:
            self._check(name, member)
        self._members[name] = member

    def _all(self) -> dict[str, Member]:
        """Return the members, those of installed packages included."""
        if not self._is_complete:
            self._is_complete = True
            for point in _entry_points(str(self._group)):
                found = _loaded(point)
                if self._part is None:
                    self._add_from(point, found)
                elif isinstance(found, Mapping) and self._part in found:
                    self._add_from(point, found[self._part])
        return self._members

    def _add_from(self, point: EntryPoint, member: Any) -> None:
        try:
            self._add(point.name, member)
        except InputError as error:
            raise InputError(f"{error}: it comes from {_origin(point)}", got=point.name) from None

    def __getitem__(self, name: str) -> Member:
        try:
            return self._all()[name]
        except (KeyError, TypeError):  # a list or a map, which a file may hold, is no name either
            raise unknown_name(self.kind, name, self._members) from None

    def __contains__(self, name: object) -> bool:
        return isinstance(name, str) and name in self._all()

    def __iter__(self) -> Iterator[str]:
        return iter(self._all())

    def __len__(self) -> int:
        return len(self._all())


def _entry_points(group: str) -> list[EntryPoint]:
    """Return the entry points of a group that installed packages have, in the order of their names."""
    from importlib.metadata import entry_points  # takes some hundredths of a second

    return sorted(entry_points(group=group), key=lambda point: point.name)


def _loaded(point: EntryPoint) -> Any:
    try:
        return point.load()
    except Exception as error:  # whatever a package outside does when it is imported
        message = f"{_origin(point)} cannot be loaded ({type(error).__name__}: {error}); mend or uninstall it"
        raise InputError(message, got=point.value) from error


def _origin(point: EntryPoint) -> str:
    package = point.dist.name if point.dist is not None else "a package"
    return f"the entry point {point.group}: {point.name} = {point.value} of {package}"
