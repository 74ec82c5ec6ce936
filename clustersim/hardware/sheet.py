"""The data of a device's sheet as plain values, with a source for each."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from clustersim.hardware.gpu_name import split_name


@dataclass(frozen=True)
class Sheet:
    """A device: its short name, its usual name, and the source of every value (`assumed: why` for a guess)."""

    name: str
    title: str
    sources: Mapping[str, str]

    def assumed(self) -> dict[str, str]:
        """Return the values that are guesses, with the reason."""
        return {key: source for key, source in self.sources.items() if source.startswith("assumed")}


@dataclass(frozen=True)
class Gpu(Sheet):
    """A GPU (one die). `flop_per_s` is dense peak by precision: fp32, tf32, fp16, amp-fp16, amp-bf16.

    fp32 and fp16 are the ordinary arithmetic units; amp-fp16, amp-bf16 and tf32 the tensor cores, accumulating in fp32.
    `launch_s` is the minimum time of a kernel. `power_w` is the power limit (thermal design power, or board power), and
    `dollars_per_hour` the on-demand rental price of one GPU. `staged_bytes_per_s` is the rate at which a GPU receives
    data from the others of its host in an all-reduce where they have no peer access except over NVLink, so that all
    data are staged in host memory; `staged_together_bytes_per_s` is the total rate of all GPUs behind one PCIe switch,
    where that is less than the sum of their single rates. None where they have peer access. `l2_bytes_per_s` is the L2
    read rate of all multiprocessors together; None where it is not known. `variability` is the standard deviation over
    the mean of the training time of GPUs of this kind; None where it is not known. `boards` names the sheets of other
    boards that are sold under the same name. `product_share` is the share of its tensor cores' peak that large matrix
    products reach, for a GPU whose kernels no fit covers; None where the architecture's constants say it. `of_sheet` is
    set where rates are multiples of a sheet's (`speeds`): the GPU with the sheet's own.
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
    product_share: float | None = None
    dollars_per_hour: float | None = None
    boards: tuple[str, ...] = ()
    of_sheet: Gpu | None = None

    @property
    def board(self) -> str:
        """The name of the sheet, without a limit of power."""
        return split_name(self.name)[0]


@dataclass(frozen=True)
class LinkSheet(Sheet):
    """A link, one direction. `bytes_per_s` is the rate of large messages; `raw_bytes_per_s` is the signalled rate."""

    bytes_per_s: float
    raw_bytes_per_s: float
    latency_s: float


@dataclass(frozen=True)
class Cpu(Sheet):
    """A host's processor, one socket. Streaming rate to and from memory, reads and writes together: of all its cores
    (`memory_bytes_per_s`, as in STREAM), and of one core (`core_bytes_per_s`). `interconnect` is the link to the host's
    other sockets. `peer_share` is the share of a PCIe slot's rate that a transfer between two GPUs through the
    processor reaches; None for the full rate. `issue_factor` is the time that one of its threads takes to issue
    kernels, relative to an AMD EPYC 7742; 1 where it is not known.
    """

    memory_bytes_per_s: float
    core_bytes_per_s: float
    interconnect: str | None = None
    peer_share: float | None = None
    issue_factor: float = 1.0


@dataclass(frozen=True)
class Transport(Sheet):
    """A message library: cost of a message, share of the link that is payload, and where collectives run.

    `buffers`: `gpu` sends from GPU memory along the route and adds there; `host` first copies to host memory,
    communicates and adds there, and copies back. `adds`: whether adding takes time at all. `overhead_s` is the cost per
    message; `host_overhead_s` replaces it inside a host where the cost differs. `add_s_per_byte` is given where the
    library's own reduction was measured: seconds for each received byte that is added; otherwise adding runs at the
    rate of the memory that holds the sum. `library` is the shipped transport whose choices of algorithm `auto` follows:
    itself, or the one that a user's own sheet was derived from. `channels` is the number of multiprocessors that a
    collective occupies on each of its GPUs; None for the number of channels that the library has on the cluster, which
    depends on its links with NCCL, and is 0 with others. `in_host`: whether messages between host memories of one host
    stay in `memory`, as if None, or use its `adapter`. `connection_bytes_per_s` is the maximum payload rate of one
    connection to a different host; None where a connection is as fast as the links. `receiving_bytes_per_s` is the
    maximum payload rate at which a thread of a process receives, and `sending_bytes_per_s` that at which one sends:
    there are `threads` of each, one if None, and the other processes are divided among them; None where processes are
    as fast as the links. A message of b bytes takes the receiving thread (1 + b / `half_rate_bytes`) times as long;
    None where the rate is independent of size.
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
