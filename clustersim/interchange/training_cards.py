"""The network cards of a host that can carry training: the nearest of each GPU, and of these the quickest."""

from __future__ import annotations

from dataclasses import replace

from clustersim.interchange.host_shape import OTHER_SOCKET, HostShape
from clustersim.units import format_rate


def with_training_cards(shape: HostShape) -> tuple[HostShape, tuple[str, ...]]:
    """Return a host without the cards that NCCL would not use, and a note on those.

    A GPU uses its nearest cards. Where no card is on the socket of any GPU, all are used; else a card that is on
    another socket than all GPUs is one for management, or for storage. All channels of NCCL have one speed: of the
    speeds of these cards, the one that makes most of them together. Slower cards are left out.
    """
    near = _nearest(shape)
    rates = {card.name: card.bytes_per_s for card in shape.nics if card.name in near and card.bytes_per_s is not None}
    speed = min(rates.values(), key=lambda least: (-_together(least, list(rates.values())), least), default=None)
    slower = [name for name, rate in rates.items() if speed is not None and rate < speed]
    far = [card.name for card in shape.nics if card.name not in near]
    notes = []
    if far:
        notes.append(f"{_named(far)} nearer to no GPU than other cards: for management or storage, left out")
    if slower and speed is not None:
        notes.append(f"{_named(slower)} slower than the others, which have {format_rate(speed)} or more: left out")
    return _without(shape, {*far, *slower}), tuple(notes)


def _together(speed: float, rates: list[float]) -> float:
    """Return what cards make together if all that are quick enough have this speed."""
    return speed * sum(rate >= speed for rate in rates)


def _nearest(shape: HostShape) -> set[str]:
    """Return the cards that are among the nearest ones of a GPU on the same socket; all cards if there are none."""
    found: set[str] = set()
    for gpu in shape.gpus:
        far = {card.name: _rank(shape.distance(gpu, card.name)) for card in shape.nics}
        least = min(far.values(), default=OTHER_SOCKET)
        if least < OTHER_SOCKET:
            found |= {name for name, distance in far.items() if distance == least}
    return found or {card.name for card in shape.nics}


def _rank(distance: int | None) -> int:
    return OTHER_SOCKET if distance is None else distance


def _named(cards: list[str]) -> str:
    shown = ", ".join(cards[:4]) + (f" and {len(cards) - 4} more" if len(cards) > 4 else "")
    return f"the card{'s' if len(cards) > 1 else ''} {shown} {'are' if len(cards) > 1 else 'is'}"


def _without(shape: HostShape, cards: set[str]) -> HostShape:
    if not cards:
        return shape
    devices = tuple(device for device in shape.devices if device.name not in cards)
    joints = tuple(joint for joint in shape.joints if joint.a not in cards and joint.b not in cards)
    return replace(shape, devices=devices, joints=joints)
