"""Fits what NCCL's collectives cost in one host with NVLink, and prints the errors of what is played, as Markdown.

    python tools/collectives_residuals.py --tables systems/data [--fit]

The folder is that of aiconfigurator-core 0.12.0 (Apache-2.0), which has `<gpu>/comm/nccl/<version>/nccl_perf.parquet`.
It needs pyarrow, and scipy with `--fit`, which prints new constants for `clustersim/collectives/nccl_time.py`. Fitted
are sizes of even powers of two, from 1 KiB on, of 2-byte elements, of one version for each of A100, H100 and B200. All
else is scored: odd powers of two, other versions, and the H200. `message_size` counts elements.
"""

from __future__ import annotations

import argparse
import math
import sys
from collections.abc import Callable, Iterable, Sequence
from functools import cache
from importlib import import_module
from itertools import groupby
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from clustersim.collectives import nccl_time
from clustersim.collectives.nccl import NcclRanks, NcclRates, nccl_tuning
from clustersim.communicator.algorithm import nccl_rates
from clustersim.simulate.collective import time_collective
from clustersim.topology import load_topology

LEAST_BYTES = 1024
AGREE = 0.1
OPS = {
    "all_reduce": "all-reduce", "all_gather": "all-gather", "reduce_scatter": "reduce-scatter", "alltoall": "all-to-all"
}  # fmt: skip
ELEMENT_BYTES = {"half": 2, "int8": 1}
FIT_DTYPE = "half"


class System(NamedTuple):
    """A folder of the tables, with its host, the GPU's sheet, and the version that is fitted or compared with."""

    folder: str
    host: str
    gpu: str
    version: str
    capability: int
    is_fitted: bool = True


SYSTEMS = (
    System("a100_sxm", "dgx-a100", "a100", "2.27.3", 80),
    System("h100_sxm", "dgx-h100", "h100", "2.29.2", 90),
    System("h200_sxm", "dgx-h100", "h200", "2.29.2", 90, is_fitted=False),
    System("b200_sxm", "dgx-b200", "b200", "2.29.2", 100),
)


class Row(NamedTuple):
    """A measured time: the mean of the rows of one version with the same dtype, ranks and bytes."""

    system: System
    version: str
    op: str
    dtype: str
    num_ranks: int
    num_bytes: float
    time_s: float

    @property
    def is_fitted(self) -> bool:
        own = self.system.is_fitted and self.version == self.system.version and self.dtype == FIT_DTYPE
        return own and int(math.log2(self.num_bytes)) % 2 == 0


def read_rows(tables: Path) -> list[Row]:
    """Return the rows of all systems from 1 KiB on."""
    pq = import_module("pyarrow.parquet")

    rows = []
    for system in SYSTEMS:
        for file in sorted((tables / system.folder / "comm" / "nccl").glob("*/nccl_perf.parquet")):
            times: dict[tuple[str, str, int, float], list[float]] = {}
            for row in pq.read_table(file).to_pylist():
                num_bytes = row["message_size"] * ELEMENT_BYTES[row["nccl_dtype"]]
                key = OPS[row["op_name"]], row["nccl_dtype"], row["num_gpus"], float(num_bytes)
                times.setdefault(key, []).append(row["latency"] * 1e-3)
            found = (Row(system, file.parent.name, *key, float(np.mean(each))) for key, each in times.items())
            rows += [row for row in found if row.num_bytes >= LEAST_BYTES]
    return rows


def cluster_of(system: System) -> dict[str, Any]:
    host = {"template": system.host, "gpu": system.gpu}
    return {"kind": "star", "num_hosts": 1, "link": "infiniband-ndr", "hop": "250 ns", "host": host}


@cache
def rates_of(system: System, num_ranks: int) -> NcclRates:
    return nccl_rates(load_topology(cluster_of(system)), np.arange(num_ranks), "nccl")


@cache
def played_s(system: System, op: str, num_ranks: int, num_bytes: float) -> float:
    found = time_collective(op, cluster_of(system), "auto", num_ranks, [num_bytes], "nccl")
    return float(found["rows"][0]["time_s"])


def error(row: Row) -> float:
    return played_s(row.system, row.op, row.num_ranks, row.num_bytes) / row.time_s - 1


class Part(NamedTuple):
    """Constants that are fitted together: those of one protocol, with where to start."""

    kind: str
    start: tuple[float, ...]
    put: Callable[[nccl_time.Fitted, Sequence[float]], nccl_time.Fitted]


PARTS = (
    Part("ring LL", (5, 0.8), lambda own, new: own._replace(ll=(new[0], new[1]))),
    Part("ring LL128", (14, 1), lambda own, new: own._replace(ll128=(new[0], new[1]))),
    Part(
        "ring Simple", (20, 4, 800, 800), lambda own, new: own._replace(simple=(new[0], new[1]), copy=(new[2], new[3]))
    ),
    Part("nvls Simple", (5, 2), lambda own, new: own._replace(nvls=(new[0], new[1]))),
    Part("direct LL", (7, 0.3), lambda own, new: own._replace(p2p_ll=(new[0], new[1]))),
    Part("direct Simple", (15, 800), lambda own, new: own._replace(p2p_simple=new[0], p2p_copy=new[1])),
)


def kind_of(row: Row) -> str:
    """Return the algorithm and the protocol that NCCL chooses."""
    if row.op == "all-to-all":
        return f"direct {nccl_time.p2p_protocol(row.num_bytes / row.num_ranks)}"
    rates = rates_of(row.system, row.num_ranks)
    return " ".join(nccl_tuning(row.op, row.num_bytes, NcclRanks(row.num_ranks, 1), rates))


def closed_form_s(row: Row) -> float:
    return nccl_time.one_host_seconds(row.op, row.num_bytes, row.num_ranks, rates_of(row.system, row.num_ranks))


def slope_pairs(rows: Sequence[Row]) -> list[tuple[int, int]]:
    """Return the numbers of the rows of 256 and of 64 MiB, whose differences give the rate of large sizes."""
    number = {(row.op, row.num_ranks, row.num_bytes): number for number, row in enumerate(rows)}
    large = [key for key in number if key[2] == 2.0**28 and (*key[:2], 2.0**26) in number]
    return [(number[key], number[*key[:2], 2.0**26]) for key in large]


def fit(rows: Iterable[Row]) -> None:
    """Fit the constants of each system to its rows and to the slopes above 64 MiB, and use them from now on."""
    from scipy.optimize import least_squares

    by_system = groupby(sorted(rows, key=lambda row: SYSTEMS.index(row.system)), key=lambda row: row.system)
    for system, group in by_system:
        own = list(group)
        for part in PARTS:
            of_part = [row for row in own if kind_of(row) == part.kind]
            if len(of_part) <= len(part.start):
                print(f"{system.gpu}: {len(of_part)} rows of {part.kind}, not fitted")
                continue
            before = nccl_time.FITTED[system.capability]

            pairs = slope_pairs(of_part)

            def residuals(
                new: np.ndarray,
                part: Part = part,
                before: nccl_time.Fitted = before,
                of_part: list[Row] = of_part,
                pairs: list[tuple[int, int]] = pairs,
            ) -> list[float]:
                nccl_time.FITTED[of_part[0].system.capability] = part.put(before, new.tolist())
                ours = [closed_form_s(row) for row in of_part]
                times = [(mine, row.time_s) for mine, row in zip(ours, of_part, strict=True)]
                slopes = [(ours[a] - ours[b], of_part[a].time_s - of_part[b].time_s) for a, b in pairs]
                return [math.log(mine / measured) for mine, measured in times + slopes]

            upper = [1.0 if value == 1 else np.inf for value in part.start]
            start = [0.9 if value == 1 else value for value in part.start]
            found = least_squares(residuals, start, bounds=([1e-3] * len(start), upper), loss="soft_l1", f_scale=0.1)
            new = [float(f"{value:.3g}") for value in found.x]
            nccl_time.FITTED[system.capability] = part.put(before, new)
        print(system.gpu, nccl_time.FITTED[system.capability])


def summary(errors: Sequence[float]) -> str:
    """Return the number of rows, median |error|, nine in ten and the bias, as cells of a table."""
    if not errors:
        return "0 | | |"
    sizes = np.abs(errors)
    nine = np.quantile(sizes, 0.9)
    return f"{len(sizes)} | {np.median(sizes):.1%} | {nine:.1%} | {np.median(errors):+.1%}"


def size_class(num_bytes: float) -> str:
    return "to 64 KiB" if num_bytes <= 2**16 else "to 4 MiB" if num_bytes <= 2**22 else "above 4 MiB"


GROUPS: dict[str, Callable[[Row], Any]] = {
    "GPU": lambda row: row.system.gpu,
    "collective": lambda row: row.op,
    "ranks": lambda row: row.num_ranks,
    "size": lambda row: size_class(row.num_bytes),
    "NCCL": lambda row: f"{row.system.gpu} {row.version}",
}


def print_table(rows: Sequence[Row], agreed: set[Row]) -> None:
    """Print errors of the fitted rows, and of those not fitted where two measurements agree."""
    fitted = [row for row in rows if row.is_fitted]
    print("| | fitted: n | median | nine in ten | bias | scored: n | median | nine in ten | bias |")
    print("| --- | --- | --- | --- | --- | --- | --- | --- | --- |")

    def line(name: str, has: Callable[[Row], bool]) -> None:
        parts = [[error(row) for row in part if has(row)] for part in (fitted, [*agreed])]
        print(f"| {name} | {summary(parts[0])} | {summary(parts[1])} |")

    line("all", lambda row: True)
    for group, of in GROUPS.items():
        for value in dict.fromkeys(of(row) for row in rows if row.dtype == FIT_DTYPE):
            line(f"{group}: {value}", lambda row, of=of, value=value: of(row) == value)  # type: ignore[misc]


def others(rows: Sequence[Row]) -> dict[Row, list[float]]:
    """Return for each row of 2-byte elements that is not fitted the other measurements of the same thing.

    These are other versions; where there is one version only, 1-byte elements.
    """
    found: dict[tuple[Any, ...], list[Row]] = {}
    for row in rows:
        found.setdefault((row.system, row.op, row.num_ranks, row.num_bytes), []).append(row)
    result = {}
    for same in found.values():
        for row in same:
            if row.dtype == FIT_DTYPE and not row.is_fitted:
                versions = [each.time_s for each in same if each.dtype == FIT_DTYPE and each.version != row.version]
                result[row] = versions or [each.time_s for each in same if each.dtype != FIT_DTYPE]
    return result


def print_apart(rows: Sequence[Row], twice: dict[Row, list[float]]) -> None:
    """Print where forecasts lie for rows whose measurements differ by more, and the errors of 1-byte elements."""
    apart = [row for row, times in twice.items() if not agrees(row, times)]
    where = []
    for row in apart:
        played, times = played_s(row.system, row.op, row.num_ranks, row.num_bytes), [row.time_s, *twice[row]]
        where.append(max(0.0, played / max(times) - 1, min(times) / played - 1))
    inside = sum(1 for far in where if far == 0)
    near = sum(1 for far in where if far <= AGREE)
    print(f"\n{len(apart)} rows with measurements that differ by more than {AGREE:.0%}: the forecast lies between them")
    print(f"for {inside}, and within {AGREE:.0%} of that for {near}.")
    other = [error(row) for row in rows if row.dtype != FIT_DTYPE]
    print(f"1-byte elements, none fitted: {summary(other).replace('|', ',')}.")


def agrees(row: Row, times: Sequence[float]) -> bool:
    together = [row.time_s, *times]
    return max(together) / min(together) - 1 < AGREE


def print_asymptotes() -> None:
    """Print the rate of the largest sizes: the slope from 256 to 512 MiB, and that from 4 to 8 GiB as played."""
    print("\n| GPU | collective | ranks | measured slope | played | played at 8 GiB |")
    print("| --- | --- | --- | --- | --- | --- |")
    for (system, op, num_ranks), slope in sorted(SLOPES.items(), key=str):
        play = [played_s(system, op, num_ranks, 2.0**power) for power in (28, 29, 32, 33)]
        ours, far = 2**28 / (play[1] - play[0]) / 1e9, 2**32 / (play[3] - play[2]) / 1e9
        print(f"| {system.gpu} | {op} | {num_ranks} | {slope:.0f} GB/s | {ours:.0f} GB/s | {far:.0f} GB/s |")


SLOPES: dict[tuple[System, str, int], float] = {}


def note_slopes(rows: Sequence[Row]) -> None:
    own = {
        (row.system, row.op, row.num_ranks, row.num_bytes): row.time_s
        for row in rows
        if row.dtype == FIT_DTYPE and row.version == row.system.version
    }
    for (system, op, num_ranks, num_bytes), time_s in own.items():
        if num_bytes == 2**28:
            SLOPES[system, op, num_ranks] = 2**28 / (own[system, op, num_ranks, 2.0**29] - time_s) / 1e9


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tables", type=Path, required=True, help="systems/data of aiconfigurator-core")
    parser.add_argument("--fit", action="store_true", help="fit new constants first and print them")
    options = parser.parse_args()
    rows = read_rows(options.tables)
    if not rows:
        print(f"{options.tables}: no <gpu>/comm/nccl/<version>/nccl_perf.parquet there", file=sys.stderr)
        return 3
    if options.fit:
        fit(row for row in rows if row.is_fitted)
    twice = others(rows)
    print_table(rows, {row for row, times in twice.items() if agrees(row, times)})
    print_apart(rows, twice)
    note_slopes(rows)
    print_asymptotes()
    return 0


if __name__ == "__main__":
    sys.exit(main())
