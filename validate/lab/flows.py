"""Real flows: bulk TCP connections at the same time, and the rate of each."""

from __future__ import annotations

import socket
import struct
import threading
import time
from collections.abc import Sequence
from itertools import pairwise

from validate.lab.ranks import RankContext

_PORT = 7700
_CHUNK = bytes(65536)


def run_flows(
    context: RankContext, flows: Sequence[tuple[int, int]], settle_s: float, count_s: float, num_repeats: int
) -> dict[int, list[float]]:
    """Send along all flows (source, destination) at TCP's full speed; return the rates of the flows to this rank.

    By flow number, the payload bytes per second in each of `num_repeats` intervals [num_repeats], which together are
    `count_s` long and start after `settle_s`.
    """
    listener = socket.create_server((context.addresses[context.rank], _PORT), backlog=len(flows) + 1)
    context.barrier()
    stop = threading.Event()
    outgoing = [number for number, (src, _) in enumerate(flows) if src == context.rank]
    incoming = sum(dst == context.rank for _, dst in flows)
    senders = [
        threading.Thread(target=_send, args=(context.addresses[flows[number][1]], number, stop)) for number in outgoing
    ]
    for sender in senders:
        sender.start()
    received: dict[int, int] = {}
    receivers = [threading.Thread(target=_receive, args=(listener.accept()[0], received)) for _ in range(incoming)]
    for receiver in receivers:
        receiver.start()
    context.barrier()
    time.sleep(settle_s)
    counts = [(time.monotonic(), dict(received))]
    for _ in range(num_repeats):
        time.sleep(count_s / num_repeats)
        counts.append((time.monotonic(), dict(received)))
    context.barrier()
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
