"""Flows for real: bulk TCP connections that run side by side, and what each delivers."""

from __future__ import annotations

import socket
import struct
import threading
import time
from collections.abc import Sequence
from itertools import pairwise

from validate.lab.ranks import Place

_PORT = 7700
_CHUNK = bytes(65536)


def run_flows(
    place: Place, flows: Sequence[tuple[int, int]], settle_s: float, count_s: float, num_repeats: int
) -> dict[int, list[float]]:
    """Send as fast as TCP does along all flows (source, destination) at once; return what arrived here.

    By number of the flow, the payload bytes a second over each of `num_repeats` spells [num_repeats] that make up
    `count_s`, once they have run for `settle_s`.
    """
    listener = socket.create_server((place.addresses[place.rank], _PORT), backlog=len(flows) + 1)
    place.meet()
    stop = threading.Event()
    outgoing = [number for number, (src, _) in enumerate(flows) if src == place.rank]
    incoming = sum(dst == place.rank for _, dst in flows)
    senders = [
        threading.Thread(target=_send, args=(place.addresses[flows[number][1]], number, stop)) for number in outgoing
    ]
    for sender in senders:
        sender.start()
    received: dict[int, int] = {}
    receivers = [threading.Thread(target=_receive, args=(listener.accept()[0], received)) for _ in range(incoming)]
    for receiver in receivers:
        receiver.start()
    place.meet()
    time.sleep(settle_s)
    counts = [(time.monotonic(), dict(received))]
    for _ in range(num_repeats):
        time.sleep(count_s / num_repeats)
        counts.append((time.monotonic(), dict(received)))
    place.meet()
    stop.set()
    for thread in (*senders, *receivers):
        thread.join()
    listener.close()
    return {
        number: [
            (after[number] - before.get(number, 0)) / (ended_s - began_s)
            for (began_s, before), (ended_s, after) in pairwise(counts)
        ]
        for number in counts[-1][1]
    }


def _send(address: str, number: int, stop: threading.Event) -> None:
    with socket.create_connection((address, _PORT)) as connection:
        connection.sendall(struct.pack("!I", number))
        while not stop.is_set():
            connection.sendall(_CHUNK)


def _receive(connection: socket.socket, received: dict[int, int]) -> None:
    with connection:
        number = struct.unpack("!I", connection.recv(4, socket.MSG_WAITALL))[0]
        received[number] = 0
        while data := connection.recv(1 << 18):
            received[number] += len(data)
