"""What a device's data sheet says, as plain values with a source for each."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True)
class Sheet:
    """A device: its short name, what people call it, and where every value comes from (`assumed: why` for a guess)."""

    name: str
    title: str
    sources: Mapping[str, str]

    def assumed(self) -> dict[str, str]:
        """Return the values that are guesses, with the reason."""
        return {key: source for key, source in self.sources.items() if source.startswith("assumed")}


@dataclass(frozen=True)
class Gpu(Sheet):
    """A GPU (one die). `flop_per_s` is dense peak by precision: fp32, tf32, fp16, amp-fp16, amp-bf16.

    fp32 and fp16 are the ordinary arithmetic units; amp-fp16, amp-bf16 and tf32 the tensor cores, adding
    in fp32. `launch_s` is what one kernel costs at least, however little it does. `power_w` is the most that it is made
    to take (thermal design power, or board power), and `dollars_per_hour` what one is rented for on demand.
    `staged_bytes_per_s` is what a GPU gets from the others of its host in an all-reduce where they cannot reach each
    other's memory but over NVLink, so that all goes through the host's; `staged_together_bytes_per_s` what all GPUs
    behind one PCIe switch get of others in sum, where that is less than each gets by itself. None where they can.
    `l2_bytes_per_s` is what all multiprocessors together read of the second-level cache; None where it is not known.
    `variability` is the standard deviation over the mean of what GPUs of this kind take for the same training; None
    where nothing is known.
    """

    architecture: str
    flop_per_s: Mapping[str, float]
    memory_bytes: float
    memory_bytes_per_s: float
    num_multiprocessors: int
    launch_s: float
    pcie: str
    nvlink: str | None = None
    num_nvlinks: int = 0
    staged_bytes_per_s: float | None = None
    staged_together_bytes_per_s: float | None = None
    l2_bytes_per_s: float | None = None
    variability: float | None = None
    power_w: float | None = None
    dollars_per_hour: float | None = None


@dataclass(frozen=True)
class Link(Sheet):
    """A link, one direction. `bytes_per_s` is what large messages reach; `raw_bytes_per_s` is the signalled rate."""

    bytes_per_s: float
    raw_bytes_per_s: float
    latency_s: float


@dataclass(frozen=True)
class Cpu(Sheet):
    """A host's processor, one socket. What streams to and from memory, reads and writes together: all its cores
    (`memory_bytes_per_s`, as STREAM counts), and one core alone (`core_bytes_per_s`). `interconnect` is the link
    to the host's other sockets. `peer_share` is the share of a PCIe slot's rate that what one GPU sends another through
    the processor reaches; None where it is all of it.
    """

    memory_bytes_per_s: float
    core_bytes_per_s: float
    interconnect: str | None = None
    peer_share: float | None = None


@dataclass(frozen=True)
class Transport(Sheet):
    """A message library: cost of a message, share of the link that is payload, and where collectives run.

    `buffers`: `gpu` sends from GPU memory along the route and adds there; `host` first copies to host
    memory, communicates and adds there, and copies back. `adds`: whether adding takes time at all.
    `overhead_s` is paid once a message; `host_overhead_s` instead of it where a message stays inside a host
    and costs something else. `add_s_per_byte` is given where the library's own adding was measured: seconds
    for each received byte that is added; otherwise adding goes as fast as the memory that holds the sum.
    `library` is the shipped transport whose choices of algorithm `auto` follows: itself, or what a user's own
    sheet was made from. `channels` is how many multiprocessors a collective holds on each of its GPUs; None for as
    many as the library has channels on the cluster, which with NCCL depends on its links, and is none with others.
    `in_host`: whether messages between host memories of one host stay in `memory`, as if None, or go by its `adapter`.
    `connection_bytes_per_s` is the payload that one sends another of a different host at most, over the one connection
    that they have; None where a connection is as fast as the links. `receiving_bytes_per_s` is the payload that a
    thread of a process takes in at most, and `sending_bytes_per_s` what one sends: there are `threads` of each, one if
    None, and each has its own share of the other processes; None where processes are as fast as the links. Of one
    message of b bytes the thread takes in (1 + b / `half_rate_bytes`) times as long; None where all come at one rate.
    """

    overhead_s: float
    efficiency: float
    buffers: str
    adds: bool
    host_overhead_s: float | None = None
    add_s_per_byte: float | None = None
    channels: int | None = None
    in_host: str | None = None
    connection_bytes_per_s: float | None = None
    receiving_bytes_per_s: float | None = None
    sending_bytes_per_s: float | None = None
    threads: int | None = None
    half_rate_bytes: float | None = None
    library: str = ""

    def __post_init__(self) -> None:
        object.__setattr__(self, "library", self.library or self.name)
