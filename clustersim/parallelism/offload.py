"""What goes to the host's memory and comes back: gradients and weights around the host's update, and activations.

The host updates a rank's share of the parameters (ZeRO-Offload: Ren et al., USENIX ATC 2021, arXiv:2101.06840, section
4): gradients are copied out as they are complete, all of them have to be there before the first is applied, since they
may have to be clipped together, and weights come back one piece after the other while the next is updated. What layers
keep for backward is copied out behind their pass forward and fetched one layer ahead of their pass backward (vDNN: Rhu
et al., MICRO 2016, arXiv:1602.08124, section III). Of both directions one copy at most is under way when the next is
due: the GPU waits until then.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from clustersim.program.ops import Call, Copy, HostUpdate, Key, Op, Wait

OPTIMIZER, ACTIVATIONS = "optimizer", "activations"


@dataclass(frozen=True)
class Offload:
    """What lies in the host's memory; `update_bytes` are what the host moves there to update a parameter.

    Where `frees` is set, gradients leave the GPU as they are complete; else all of them stay until the update.
    """

    optimizer: bool = False
    activations: bool = False
    update_bytes: float = 0.0
    frees: bool = False


NOTHING_AWAY = Offload()


@dataclass(frozen=True)
class _Piece:
    """Gradients that are copied together: the rank's share of them in parameters, those of all copies, and what for."""

    share: float
    whole: float
    after: Key | None


@dataclass
class HostUpdates:
    """Writes down how gradients go to the host, which updates, and how weights come back."""

    offload: Offload
    gradient_bytes: float
    weight_bytes: float
    pieces: list[_Piece] = field(default_factory=list)

    def copy_out(self, share: float, whole: float, after: Key | None, is_first: bool = False) -> list[Op]:
        """Return how the gradients of a share of `whole` parameters leave, once the collective `after` is done.

        Unless this is the first of several that follow one another, the one before has left when gradients are freed.
        """
        number = len(self.pieces)
        ops: list[Op] = []
        if self.offload.frees and number and not is_first:
            ops += [Wait(key) for key in (self.pieces[-1].after, _gradients(number - 1)) if key]
        self.pieces.append(_Piece(share, whole, after))
        return [*ops, Copy(_gradients(number), True, share * self.gradient_bytes, after)]

    def update(self, gathers: str | None) -> list[Op]:
        """Return the update of all that has left, which waits for it; weights are then gathered along an axis."""
        numbers = range(len(self.pieces))
        ops: list[Op] = [Wait(piece.after) for piece in self.pieces if piece.after]
        ops += [Wait(_gradients(number)) for number in numbers]
        for number, piece in enumerate(self.pieces):
            ahead = _update(number - 1) if number else None
            ops.append(HostUpdate(_update(number), piece.share * self.offload.update_bytes, ahead))
            ops.append(Copy(_weights(number), False, piece.share * self.weight_bytes, _update(number)))
        for number, piece in enumerate(self.pieces):
            ops.append(Wait(_weights(number)))
            if gathers:
                ops.append(Call(Key("weights", 0, number), "all-gather", gathers, piece.whole * self.weight_bytes))
        return ops + ([Wait(Key("weights", 0, number)) for number in numbers] if gathers else [])

    def most_parameters(self, is_shared_out: bool) -> float | None:
        """Return how many parameters have gradients on the GPU at once, where these are freed: those of two pieces."""
        if not self.offload.frees:
            return None
        sizes = [piece.share if is_shared_out else piece.whole for piece in self.pieces]
        return max((sum(sizes[number : number + 2]) for number in range(len(sizes))), default=0.0)


def _gradients(number: int) -> Key:
    return Key("gradients", 0, number)


def _update(number: int) -> Key:
    return Key("update on the host", 0, number)


def _weights(number: int) -> Key:
    return Key("updated weights", 0, number)


class ActivationCopies:
    """Copies of what a pass of a micro-batch through a part keeps for its pass backward, and back.

    `kept` [num_layers + 1] are the bytes of what comes into the part and of what each layer leaves; `first` is the
    number of the part's first layer. Where the pass turns around at once, the last that is kept stays.
    """

    def __init__(self, kept: Sequence[float], first: int, micro: int, turns_around: bool):
        self._kept, self._first, self._micro = kept, first, micro
        places = [place for place, num_bytes in enumerate(kept) if num_bytes]
        self._offloaded = places[: len(places) - turns_around]
        self._pending = list(self._offloaded)  # those that are not awaited in backward yet
        self._prefetched: int | None = None

    def copy_out(self, place: int) -> list[Op]:
        """Return what is done when what is kept at a place is there: 0 of the part's input, i + 1 of layer i."""
        if place not in self._offloaded:
            return []
        at = self._offloaded.index(place)
        before: list[Op] = [Wait(self._key("kept", self._offloaded[at - 1]))] if at else []
        return [*before, Copy(self._key("kept", place), True, self._kept[place])]

    def prefetch(self) -> list[Op]:
        """Return what begins to come back before anything of it is needed."""
        if not self._pending or self._prefetched == self._pending[-1]:
            return []
        self._prefetched = self._pending[-1]
        key = self._key("fetched", self._prefetched)
        return [Copy(key, False, self._kept[self._prefetched], self._key("kept", self._prefetched))]

    def fetch(self, place: int) -> list[Op]:
        """Return what is done before something is computed that needs what was kept from a place on.

        What is kept before that begins to come back meanwhile.
        """
        if not self._pending:
            return []
        copies, waits = list[Op](), list[Op]()
        while self._pending and self._pending[-1] >= place:
            copies += self.prefetch()
            waits.append(Wait(self._key("fetched", self._pending.pop())))
        return [*copies, *self.prefetch(), *waits]

    def _key(self, what: str, place: int) -> Key:
        return Key(what, self._micro, self._first + place)


def most_kept(kept: Sequence[float], units: Sequence[range], again: Sequence[bool]) -> float:
    """Return the most bytes of what a part keeps that are on the GPU at once, where all of it goes to the host.

    `kept` [num_layers + 1] are as `ActivationCopies` has them, `units` the layers whose forward passes are repeated together
    where `again` [num_layers] says so. Forward that is what is being copied and what is being made; backward what a
    layer needs, and what is fetched meanwhile. Of another pass, the last that it kept may still be on its way out.

    >>> most_kept([1.0, 5.0, 2.0, 4.0], [range(0, 3)], [False] * 3)
    15.0
    """
    left = [place for place, num_bytes in enumerate(kept) if num_bytes]
    if not left:
        return 0.0
    last = kept[left[-1]]
    most = max(sum(kept[place] for place in left[at : at + 2]) for at in range(len(left)))
    here = set(left[-1:])
    for unit in reversed(units):
        steps = [(layer, layer) for layer in reversed(unit)]
        if any(again[layer] for layer in unit):
            steps.insert(0, (unit.start, unit.stop - 1))
        for needed, layer in steps:
            while left and left[-1] >= needed:
                here.add(left.pop())
            here |= set(left[-1:])
            most = max(most, sum(kept[place] for place in here))
            here -= {place for place in here if place > layer and needed == layer}
    return most + last
