"""Sets the rate of a link: a token bucket at the sending end, with a queue for each pair of hosts or for all.

A queue for each pair shares a link max-min fairly, as `sharing: max-min`; one queue for all pairs shares it about as
`sharing: proportional`. A bucket holds one large packet of the kernel, so that one timer sends 5 to 20 frames.
"""

from __future__ import annotations

from collections.abc import Sequence

QUEUE_PACKETS = 2000
"""Never full: with these few flows, TCP's buffers limit a queue."""

HEADROOM_BYTES = 600
"""Headers of the packet in a bucket."""


def packet_bytes(megabits_per_s: float) -> int:
    """Return the largest packet that the kernel passes to a link of this rate, about half a millisecond long."""
    if megabits_per_s <= 120:
        return 7600
    return 15000 if megabits_per_s <= 300 else 30000


def shaped(device: str, megabits_per_s: float, pairs: Sequence[tuple[str, str]], queues: str) -> list[str]:
    """Return the lines for `tc -batch` that set the rate of a device; `queues` is `pair` or `fifo`.

    `pairs` are the (source, destination) addresses whose messages leave through the device.
    """
    bits_per_s = int(megabits_per_s * 1e6)
    bucket = packet_bytes(megabits_per_s) + HEADROOM_BYTES
    tokens = f"burst {bucket} cburst {bucket}"
    lines = [
        f"qdisc replace dev {device} root handle 1: htb default 2",
        f"class add dev {device} parent 1: classid 1:1 htb rate {bits_per_s}bit ceil {bits_per_s}bit {tokens}",
    ]
    served: list[tuple[str, str] | None] = [None, *(pairs if queues == "pair" else ())]
    least = bits_per_s // (2 * len(served))  # guaranteed rate of each; their sum must stay below the rate
    for number, pair in enumerate(served, start=2):
        rate = f"rate {min(least, bits_per_s // 200)}bit ceil {bits_per_s}bit {tokens} quantum {bucket}"
        lines.append(f"class add dev {device} parent 1:1 classid 1:{number:x} htb {rate}")
        lines.append(f"qdisc add dev {device} parent 1:{number:x} pfifo limit {QUEUE_PACKETS}")
        if pair is not None:
            match = f"match ip src {pair[0]}/32 match ip dst {pair[1]}/32"
            lines.append(f"filter add dev {device} parent 1: protocol ip u32 {match} flowid 1:{number:x}")
    return lines
