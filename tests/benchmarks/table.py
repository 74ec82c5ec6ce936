"""The works that are timed, as plain data: what is played, how small it can be, and what it is asked to reach.

Nothing large is imported here, so that whoever measures others stays small itself (see `child.py`).
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from importlib.util import find_spec
from typing import Literal

EVERY_ROUND = 1_000_000


@dataclass(frozen=True)
class Ring:
    """A ring all-reduce of 100 MB on a star or a torus of 7 GB/s links with 1 us each.

    `jitter`: every rank pauses before every step, lognormally (sigma 0.5), 5 % of a step in the mean.
    `shuffled`: ranks lie on the torus in random order, so that messages meet; every route then takes the
    same 2 us (`equal_delay_torus`). `exact`: no short cut. `num_steps`: fewer than the whole ring.
    """

    dims: tuple[int, ...]
    jitter: bool = False
    shuffled: bool = False
    exact: bool = True
    num_steps: int | None = None

    def __str__(self) -> str:
        torus = "x".join(map(str, self.dims)) + " torus"
        where = f"{self.dims[0]:,} ranks, star" if len(self.dims) == 1 else torus
        parts = ["ring", f"ranks shuffled over the {torus}" if self.shuffled else where]
        parts += ["jitter"] * self.jitter + ([f"{self.num_steps} steps"] if self.num_steps else [])
        return ", ".join(parts + ["by the short cut"] * (not self.exact))

    def small(self) -> Ring:
        return replace(self, dims=(4, 2, 2) if len(self.dims) > 1 else (16,), num_steps=self.num_steps and 8)


@dataclass(frozen=True)
class Training:
    """An iteration of data-parallel training: forward for 30 ms, then ten times 6 ms of backward and a bucket.

    Buckets of 10.2 MB are reduced by a ring over a star of 1 us end to end, one after the other, while
    backward goes on.
    """

    num_ranks: int
    exact: bool = True

    def __str__(self) -> str:
        return f"training, 10 buckets, {self.num_ranks:,} GPUs{'' if self.exact else ', by the short cut'}"

    def small(self) -> Training:
        return replace(self, num_ranks=16)


@dataclass(frozen=True)
class Flows:
    """Messages between random pairs of hosts under leaves of 32 hosts and as many spines as a leaf has hosts.

    `poisson` starts one every 20 us in the mean, `equal` and `mixed` start all at once; `equal` are of 10 MB,
    the others of 1 to 100 MB. `each`: a SimPy process sends and awaits each, instead of one call for all.
    """

    arrival: Literal["poisson", "equal", "mixed"]
    num_flows: int = 10_000
    num_leaves: int = 32
    each: bool = False

    def __str__(self) -> str:
        how = {"poisson": "Poisson", "equal": "equal, at once", "mixed": "mixed, at once"}[self.arrival]
        return f"{self.num_flows:,} flows, {how}{', a process each' if self.each else ''}"

    def small(self) -> Flows:
        return replace(self, num_flows=200, num_leaves=2)


@dataclass(frozen=True)
class Curve:
    """The scaling curve of ResNet-50, data parallel, at these numbers of GPUs, each so many times.

    `cv`: compute times of each rank and iteration vary lognormally, by so much of their mean; 0: nothing varies.
    """

    num_gpus: tuple[int, ...]
    cv: float = 0.0
    replicates: int = 1

    def __str__(self) -> str:
        name = f"scaling curve of ResNet-50, 1 to {self.num_gpus[-1]:,} GPUs"
        return f"{name}, {self.cv:.0%} jitter, {self.replicates} times" if self.cv else name

    def small(self) -> Curve:
        return replace(self, num_gpus=self.num_gpus[:4], replicates=min(2, self.replicates))


@dataclass(frozen=True)
class Updates:
    """ResNet-50 trained by asynchronous workers until so many updates have been counted.

    One V100 a host, the server on a host of its own. Compute times vary lognormally, by 10 % of their mean; a gradient
    travels in PyTorch's five buckets.
    """

    num_workers: int
    num_updates: int

    def __str__(self) -> str:
        return f"{self.num_updates:,} updates by {self.num_workers:,} asynchronous workers"

    def small(self) -> Updates:
        return replace(self, num_workers=4, num_updates=40)


@dataclass(frozen=True)
class Learning:
    """A perceptron that is really trained on digits, in a random order of asynchronous workers, 16 samples a gradient.

    It is evaluated a hundred times on 360 digits.
    """

    num_workers: int
    num_updates: int

    def __str__(self) -> str:
        return f"{self.num_updates:,} updates of a perceptron by {self.num_workers} workers, really trained"

    def small(self) -> Learning:
        return replace(self, num_updates=40)


Spec = Ring | Training | Flows | Curve | Updates | Learning


@dataclass(frozen=True)
class Work:
    """A row: what is played, its targets in words, and in how many of the rounds SimGrid plays along.

    `needs` are the modules of an extra that it needs.
    """

    spec: Spec
    target: str = ""
    whole_target: str = ""
    lazy_rounds: int = EVERY_ROUND
    full_rounds: int = EVERY_ROUND
    needs: tuple[str, ...] = ()

    @property
    def is_possible(self) -> bool:
        """Whether all that it needs is installed."""
        return all(find_spec(name) for name in self.needs)

    def small(self) -> Work:
        return replace(self, spec=self.spec.small(), target="", whole_target="")


def alone(spec: Spec, target: str = "", whole_target: str = "", needs: tuple[str, ...] = ()) -> Work:
    """Return a row that SimGrid has no part in."""
    return Work(spec, target, whole_target, lazy_rounds=0, full_rounds=0, needs=needs)


WORKS = {
    "ring-512": Work(Ring((512,)), "25x Lazy, 15 M messages/s", full_rounds=1),
    "ring-1024": Work(Ring((1024,)), "25x Lazy, 15 M messages/s", lazy_rounds=3, full_rounds=1),
    "ring-512-jitter": Work(Ring((512,), jitter=True), "10x Lazy, 100x Full, 3 M messages/s", full_rounds=1),
    "ring-1024-jitter": Work(
        Ring((1024,), jitter=True), "10x Lazy, 3 M messages/s", "5x Lazy", lazy_rounds=3, full_rounds=0
    ),
    "torus-512": Work(Ring((8, 8, 8)), "10x Lazy", full_rounds=1),
    "torus-512-jitter": Work(Ring((8, 8, 8), jitter=True), "10x Lazy", full_rounds=1),
    "shuffled-512": Work(
        Ring((8, 8, 8), jitter=True, shuffled=True, num_steps=64),
        "10x Lazy, 25x Full, 0.2 M messages/s",
        full_rounds=1,
    ),
    "ring-4096": alone(Ring((4096,)), "2.5 s", "250 MB"),
    "ring-4096-short": alone(Ring((4096,), exact=False), "0.1 s"),
    "flows-poisson": Work(Flows("poisson"), "50x Full", lazy_rounds=1, full_rounds=3),
    "flows-equal": Work(Flows("equal"), "40x Full", lazy_rounds=1, full_rounds=1),
    "flows-mixed": Work(Flows("mixed"), "15x Full", lazy_rounds=1, full_rounds=1),
    "flows-poisson-each": Work(Flows("poisson", each=True), "15x Full", lazy_rounds=1, full_rounds=3),
    "training-512": Work(Training(512), "0.31 s", lazy_rounds=1, full_rounds=0),
    "training-512-short": alone(Training(512, exact=False), "0.31 s"),
    "curve-1024": alone(Curve(tuple(2**power for power in range(11))), "2 s"),
    "curve-1024-jitter": alone(Curve(tuple(2**power for power in range(11)), 0.05, 20), "60 s"),
    "updates-64": alone(Updates(64, 10_000), "", "5 s"),
    "learning-10000": alone(Learning(8, 10_000), "10 s", needs=("torch", "sklearn")),
}
