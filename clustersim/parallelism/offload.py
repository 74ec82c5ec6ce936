"""Offload to host memory: gradients and weights around the optimizer update on the host, and activations.

The host updates a rank's share of the parameters (ZeRO-Offload: Ren et al., USENIX ATC 2021, arXiv:2101.06840, section
4). Gradients are copied out as they are complete. All of them have to be there before the first is applied, since they
may have to be clipped together. Weights come back piece by piece, while the next piece is updated. Activations are
copied out after a layer's forward pass and prefetched one layer ahead of its backward pass (vDNN: Rhu et al., MICRO
2016, arXiv:1602.08124, section III). In each direction at most one copy is in flight when the next one is due: the GPU
waits until then.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from clustersim.program.ops import Call, Copy, HostUpdate, Key, Op, Wait

OPTIMIZER, ACTIVATIONS = "optimizer", "activations"


@dataclass(frozen=True)
class Offload:
    """What is in host memory; `update_bytes` is the host memory traffic of the update of a parameter.

    If `frees` is set, gradients are copied out and freed as they are complete; otherwise all stay until the update.
    """

    optimizer: bool = False
    activations: bool = False
    update_bytes: float = 0.0
    frees: bool = False


NOTHING_AWAY = Offload()


@dataclass(frozen=True)
class _Piece:
    """Gradients that are copied together: parameters of the rank's share and in all, and the collective before."""

    share: float
    whole: float
    after: Key | None


@dataclass
class HostUpdates:
    """Returns the operations that copy gradients to the host, update there, and copy weights back."""

    offload: Offload
    gradient_bytes: float
    weight_bytes: float
    pieces: list[_Piece] = field(default_factory=list)

    def copy_out(self, share: float, whole: float, after: Key | None, is_first: bool = False) -> list[Op]:
        """Return the copy of the gradients of a share of `whole` parameters, after the collective `after`.

        If gradients are freed, the copy before has to be over, unless this is the first of several that follow one
        another.
        """
        number = len(self.pieces)
        ops: list[Op] = []
        if self.offload.frees and number and not is_first:
            ops += [Wait(key) for key in (self.pieces[-1].after, _gradients(number - 1)) if key]
        self.pieces.append(_Piece(share, whole, after))
        return [*ops, Copy(_gradients(number), True, share * self.gradient_bytes, after)]

    def update(self, gathers: str | None) -> list[Op]:
        """Return the update of all gradients that were copied out; weights are then gathered along an axis."""
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
        """Return the peak number of parameters with gradients on the GPU, if these are freed: two pieces."""
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
    """Copies of the stored activations of a micro-batch's pass through a part to the host, and back.

    `kept` [num_layers + 1] are the bytes of the part's input and of each layer; `first` is the index of the part's
    first layer. If the backward pass follows directly, the last stored tensor stays on the GPU.
    """

    def __init__(self, kept: Sequence[float], first: int, micro: int, turns_around: bool):
        self._kept, self._first, self._micro = kept, first, micro
        places = [place for place, num_bytes in enumerate(kept) if num_bytes]
        self._offloaded = places[: len(places) - turns_around]
        self._pending = list(self._offloaded)  # not yet waited for in backward
        self._prefetched: int | None = None

    def copy_out(self, place: int) -> list[Op]:
        """Return the operations once a stored tensor is complete: 0 is the part's input, i + 1 that of layer i."""
        if place not in self._offloaded:
            return []
        at = self._offloaded.index(place)
        before: list[Op] = [Wait(self._key("kept", self._offloaded[at - 1]))] if at else []
        return [*before, Copy(self._key("kept", place), True, self._kept[place])]

    def prefetch(self) -> list[Op]:
        """Return the copy back that begins before it is needed."""
        if not self._pending or self._prefetched == self._pending[-1]:
            return []
        self._prefetched = self._pending[-1]
        key = self._key("fetched", self._prefetched)
        return [Copy(key, False, self._kept[self._prefetched], self._key("kept", self._prefetched))]

    def fetch(self, place: int) -> list[Op]:
        """Return the operations before a computation that needs the tensors stored from a place on.

        The tensor before those is prefetched.
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


def most_kept(kept: Sequence[float], units: Sequence[range], recomputes: Sequence[bool]) -> float:
    """Return the peak bytes of a part's stored activations on the GPU, if all of them are offloaded.

    `kept` [num_layers + 1] is as in `ActivationCopies`, `units` are the layers whose forward passes are repeated
    together where `recomputes` [num_layers] is set. In the forward pass these are the tensor that is being copied and
    the one that is being computed; in the backward pass what a layer needs, and what is prefetched. The last tensor of
    another pass may still be on its way out.

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
        if any(recomputes[layer] for layer in unit):
            steps.insert(0, (unit.start, unit.stop - 1))
        for needed, layer in steps:
            while left and left[-1] >= needed:
                here.add(left.pop())
            here |= set(left[-1:])
            most = max(most, sum(kept[place] for place in here))
            here -= {place for place in here if place > layer and needed == layer}
    return most + last
