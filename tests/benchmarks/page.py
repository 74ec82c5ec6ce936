"""The page of measurements."""

from __future__ import annotations

import statistics
from collections.abc import Iterable, Sequence
from pathlib import Path

from .rounds import Ratio, Row

INTRODUCTION = """\
# Benchmarks

How fast the network plays, beside SimGrid, a C++ simulator with the same model of flows. Made by

```console
$ make bench
```

Without SimGrid (on Debian: `apt-get install libsimgrid-dev g++`) our columns stand alone. `make bench
BENCH="--only jitter --rounds 3"` measures some of the rows and `BENCH=--quick` small forms of all; both print what they
find and leave this page alone.
"""

MEANINGS = """\
## What is compared

All times are CPU seconds of one core. Every measurement is a process of its own; ours and SimGrid's take turns, and a
ratio is theirs over ours in the same round: the median, and in brackets the smallest and the largest. Where SimGrid ran
once ("1 run"), it is that run over our median.

*In-run* is, for us, from the call of `Network.play`, `transfers` or `sweep` to the end of `env.run`, in a process that
has played the same work once before; for SimGrid it is the time around `Engine::run`, without reading the platform. So
what both read and build beforehand is left out.

*Whole* is a process from its start to its exit that plays once. Of ours, *imports* is Python, numpy, SimPy and what
clustersim itself loads, *set-up* is building cluster and schedule, and *loading* is what the first play takes longer
than the second: numba and its compiled kernels, where the work is large enough for them. Memory is the most that this
process held.

*Lazy* is SimGrid's default solver, *Full* its exact one. Both run CM02 with every correction off
(`tests/benchmarks/simgrid/programs.py`), over the same links and the same routes. *Differs by* is the largest relative
difference between one of our completion times and SimGrid's. Lazy is not max-min fair in 3.32, so its ends may differ
where flows share links; a ring whose ranks are shuffled is chaotic, and one rank's time says little after 32 steps.
`tests/network/test_peer.py` holds our times to Full's.

Rings are all-reduces of 100 MB over links of 7 GB/s and 1 us. Nobody waits for a barrier: a rank goes on when its own
messages have ended. *Jitter* is a pause of each rank before each step, lognormal, 5 % of a step in the mean. A ring
that is *shuffled* runs over a torus on which every route takes 2 us, so that messages share links with equal weight in
both. Flows go between random hosts under 32 leaves and 32 spines; *Poisson* starts one every 20 us. An iteration of
*training* computes for 90 ms and reduces ten buckets of 10.2 MB meanwhile, each in a ring of all over a star of 1 us
end to end. A *curve* is a whole sweep over sizes: one V100 a host, a ring over EDR InfiniBand, PyTorch's buckets; with
jitter every rank's compute varies in each of ten iterations. *Updates* are those of a server's model: one V100 a host,
FDR InfiniBand, PyTorch's buckets, compute that varies by 10 %. A model is *really trained* by torch, on one thread,
with 16 samples a gradient and a hundred evaluations; the simulation is not in its time.

## What the ratios are not

- Not a statement about small work. Python starts slowly, and SimGrid has done a ring of 128 before numpy is loaded.
- Not a comparison with SimGrid's other models (packet level, MPI with its measured corrections), which we do not have.
- Rings on a star or along a torus do not share links, so those rows measure the clock; the shuffled ring and the flows
  measure the sharing of links.
- Rows *by the short cut* do not play every message, which SimGrid does, so no ratio is given.
- Other simulators were timed once, on another machine (AMD EPYC, two cores), and are no columns here: ASTRA-sim
  (analytical, congestion-aware) took 76 CPU seconds and 5.4 GB for the ring of 4,096 and 6.2 s for the iteration of
  training, LogGOPSim 2.1 to 2.3 million messages a second on rings without shared links.
"""


IN_RUN = ["work", "target", "ours, s", "messages/s", "Lazy, s", "Lazy / ours", "Full, s", "Full / ours", "differs by"]
WHOLE = ["work", "target", "ours, s", "imports, s", "set-up, s", "loading, s", "Lazy, s", "Lazy / ours"]
WHOLE += ["ours, MiB", "Lazy, MiB"]


def page(rows: Sequence[Row], about: Iterable[tuple[str, str]]) -> str:
    """Return the whole page."""
    facts = "\n".join(f"- {name}: {text}" for name, text in about)
    return f"{INTRODUCTION}\n{facts}\n\n{tables(rows)}\n{MEANINGS}"


def tables(rows: Sequence[Row]) -> str:
    """Return the tables of times in the run, and of whole processes."""
    in_run, whole = _table(IN_RUN, map(_in_run, rows)), _table(WHOLE, map(_whole, rows))
    return f"## In-run\n\n{in_run}\n\n## Whole process and peak memory\n\n{whole}\n"


def write_whole(path: Path, text: str) -> None:
    """Write a file whole or not at all."""
    fresh = path.with_suffix(".new")
    fresh.write_text(text, encoding="utf-8")
    fresh.replace(path)


def _in_run(row: Row) -> list[str]:
    ours = row.ours
    cells = [str(row.work.spec), row.work.target, _seconds(ours.run_s), _rate(ours.num_messages, ours.run_s)]
    for solver in ("Lazy", "Full"):
        peer = row.peers.get(solver)
        cells += [_seconds(peer.run_s), str(Ratio(peer.run_s, ours.run_s))] if peer else ["", ""]
    differences = [f"{solver} {peer.difference:.0e}" for solver, peer in row.peers.items()]
    return [*cells, ", ".join(differences)]


def _whole(row: Row) -> list[str]:
    ours, lazy = row.ours, row.peers.get("Lazy")
    loading_s = [cold - warm for cold, warm in zip(ours.cold_run_s, ours.run_s, strict=True)]
    cells = [str(row.work.spec), row.work.whole_target, _seconds(ours.whole_s)]
    cells += [f"{statistics.median(part):.2f}" for part in (ours.imports_s, ours.setup_s, loading_s)]
    cells += [_seconds(lazy.whole_s), str(Ratio(lazy.whole_s, ours.whole_s))] if lazy else ["", ""]
    return [*cells, _mebibytes(ours.memory_bytes), _mebibytes(lazy.memory_bytes) if lazy else ""]


def _table(head: list[str], rows: Iterable[list[str]]) -> str:
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join("| " + " | ".join(cells) + " |" for cells in lines)


def _seconds(times_s: list[float]) -> str:
    return f"{statistics.median(times_s):.3g}"


def _rate(num_messages: int, times_s: list[float]) -> str:
    if not num_messages:
        return ""
    per_s = num_messages / statistics.median(times_s)
    return f"{per_s / 1e6:.3g} M" if per_s >= 1e5 else f"{per_s / 1e3:.3g} k"


def _mebibytes(num_bytes: list[int]) -> str:
    return f"{statistics.median(num_bytes) / 2**20:.0f}"
