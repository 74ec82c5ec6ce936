"""Experiments: what runs on which cluster, and the cases that it gives."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from clustersim.execution.window import updates_before
from validate.lab.case import Case, Measured, line_s
from validate.lab.cluster import Cluster
from validate.lab.collectives import Call, time_calls
from validate.lab.flows import run_flows
from validate.lab.layout import Layout
from validate.lab.models import Blank
from validate.lab.ranks import run_ranks
from validate.lab.servers import Log, Mode, between_updates, serve_and_work
from validate.lab.texts import common_keys, layer_line, mode_text, place_text, table_text, workload_text
from validate.lab.training import Net, Training, layer_times, train

OnProgress = Callable[[str], None]

TORCH = (("all-reduce", "torch"), ("broadcast", "torch"), ("all-gather", "torch"), ("reduce-scatter", "torch"))
OURS = tuple(("all-reduce", name) for name in ("server", "tree", "ring", "halving-doubling"))


class Experiment:
    """A measurement on its own cluster, which gives cases."""

    needs_torch = True

    def cases(self, folder: Path, on_progress: OnProgress) -> Iterator[Case]:
        """Run it and yield its cases; `folder` is for the files of rendezvous between ranks."""
        raise AssertionError("a subclass defines the cases")


@dataclass(frozen=True)
class Collectives(Experiment):
    """Collectives of one size: torch's own, and our schedules over torch's send and receive.

    An all-gather moves fewer bytes than the others, so it gets twice the size.
    """

    layout: Layout
    megabits_per_s: float
    num_bytes: int
    what: Sequence[tuple[str, str]] = (*TORCH, *OURS)
    num_warm_up: int = 2
    num_repeats: int = 5

    def cases(self, folder: Path, on_progress: OnProgress) -> Iterator[Case]:
        calls = [Call(op, name, self.num_bytes * (2 if op == "all-gather" else 1)) for op, name in self.what]
        where = place_text(self.layout, self.megabits_per_s)
        on_progress(f"{len(calls)} collectives of {self.num_bytes / 1e6:g} MB on {where}")
        with Cluster(self.layout, self.megabits_per_s) as cluster:
            store = str(folder / "store")
            ranks = run_ranks(cluster, time_calls, store, calls, self.num_warm_up, self.num_repeats)
        for number, call in enumerate(calls):
            repeats = list(zip(*(rank[number] for rank in ranks), strict=True))
            took = [max(end for _, end in each) - max(begin for begin, _ in each) for each in repeats]
            yield self._case(call, where, took)

    def _case(self, call: Call, where: str, took_s: Sequence[float]) -> Case:
        ask = {
            "collective": call.op,
            "algorithm": "auto" if call.algorithm == "torch" else call.algorithm,
            "topology": self.layout.topology(self.megabits_per_s),
            "num_gpus": self.layout.num_hosts,
            "bytes": f"{call.num_bytes} B",
            "transport": "gloo",
        }
        name = f"{call.op} by {call.algorithm}, {call.num_bytes / 1e6:g} MB, {where}"
        line = line_s(self.num_bytes, self.megabits_per_s)
        return Case("collectives", name, ask, {"time_s": Measured.of(took_s)}, line)


@dataclass(frozen=True)
class DataParallel(Experiment):
    """Training with torch's DistributedDataParallel: with overlapped buckets, and with all gradients after backward.

    The times of the layers are measured before, on one rank; they and the link's rate are the simulator's inputs.
    """

    layout: Layout
    megabits_per_s: float
    net: Net
    bucket_bytes: Sequence[int | None]
    num_warm_up: int = 3
    num_iterations: int = 5

    def cases(self, folder: Path, on_progress: OnProgress) -> Iterator[Case]:
        where = place_text(self.layout, self.megabits_per_s)
        on_progress(f"data-parallel training, {len(self.bucket_bytes)} bucket sizes, on {where}")
        trainings = [Training(self.net, size) for size in self.bucket_bytes]
        num_run = self.num_warm_up + self.num_iterations
        with Cluster(self.layout, self.megabits_per_s) as cluster:
            times = run_ranks(cluster, layer_times, self.net, 5, num_ranks=1)[0]
            ranks = run_ranks(cluster, train, str(folder / "store"), trainings, num_run)
        for number, training in enumerate(trainings):
            ends = [max(end) for end in zip(*(rank[number].end_s for rank in ranks), strict=True)]
            took = np.diff(ends[self.num_warm_up - 1 :]).tolist()
            buckets = ranks[0][number].bucket_bytes
            yield self._case(training, times, took, where, buckets)

    def _case(
        self, training: Training, times: dict[str, list[float]], took_s: list[float], where: str, buckets: list[int]
    ) -> Case:
        size = training.bucket_bytes
        strategy = {"kind": "all-reduce", "algorithm": "auto", "overlap": size is not None}
        ask = {
            **common_keys(self.layout, self.megabits_per_s, self.layout.num_hosts, "training"),
            "strategy": {**strategy, "buckets": "whole" if size is None else f"{size} B"},
            "num_iterations": 4,
        }
        how = "no overlap" if size is None else f"{len(buckets)} bucket{'s' * (len(buckets) > 1)}, overlapped"
        name = f"DDP, {how}, {sum(buckets) / 1e6:.3g} MB, {where}"
        layers = [
            # the first layer includes the optimizer's time, which comes before the next forward pass
            layer_line(
                number, training.net.layer_bytes, forward_s + (times["update_s"][0] if number == 0 else 0.0), back_s
            )
            for number, (forward_s, back_s) in enumerate(zip(times["forward_s"], times["backward_s"], strict=True))
        ]
        files = {"net.yaml": workload_text("lab-net", layers)}
        line = line_s(sum(buckets), self.megabits_per_s)
        return Case("training", name, ask, {"iteration_s": Measured.of(took_s)}, line, files)


def draw_times(seed: int, num_workers: int, num_iterations: int, mean_s: float, straggler: float) -> np.ndarray:
    """Return compute times [num_workers, num_iterations] in seconds, rounded to 0.1 ms.

    They are 70 % fixed and the rest exponential, `straggler` times as long for the second worker.
    """
    own = [np.random.default_rng([seed, worker]).exponential(size=num_iterations) for worker in range(num_workers)]
    drawn = mean_s * (0.7 + 0.3 * np.array(own))
    drawn[1] *= straggler
    return np.round(drawn, 4)


def draw_keys(num_workers: int, mean_s: float) -> list[dict[str, Any]]:
    """Return the key `stragglers` of a scenario in which compute times are those of draws.csv."""
    return [
        {
            **{"kind": "trace", "file": "draws.csv", "column": f"worker-{worker}", "of": [worker]},
            **{"order": "in-order", "relative_to": f"{mean_s:g} s"},
        }
        for worker in range(num_workers)
    ]


@dataclass(frozen=True)
class ParameterServer(Experiment):
    """Workers with one straggler, and a server on its own host; real and simulated compute times are equal.

    Compute times are drawn before (`draw_times`). So a synchronous server does the same in every repeat, and for each
    time between two updates the median over repeats is compared: a short disturbance of the machine makes one repeat
    longer.
    """

    num_workers: int
    megabits_per_s: float
    num_bytes: int
    modes: Sequence[tuple[Mode, int]]
    mean_s: float = 0.1
    straggler: float = 4.0
    seed: int = 1
    num_repeats: int = 1

    def cases(self, folder: Path, on_progress: OnProgress) -> Iterator[Case]:
        layout = Layout.star(self.num_workers + 1)
        where = place_text(layout, self.megabits_per_s)
        for number, (mode, num_updates) in enumerate(self.modes):
            on_progress(f"{num_updates} updates by a server, {mode_text(mode)}, on {where}")
            draws = draw_times(self.seed, self.num_workers, self._num_draws(num_updates), self.mean_s, self.straggler)
            before = updates_before(self.num_workers, mode.gradients_per_update(self.num_workers), 0)
            with Cluster(layout, self.megabits_per_s) as cluster:
                stores = [str(folder / f"store-{number}-{repeat}") for repeat in range(self.num_repeats)]
                given = (mode, partial(Blank, self.num_bytes), draws.tolist(), before + num_updates)
                logs = [run_ranks(cluster, serve_and_work, store, *given)[-1].log for store in stores]
            yield self._case(mode, where, layout, draws, logs, before)

    def _num_draws(self, num_updates: int) -> int:
        """Return more iterations of a worker than are needed."""
        return 2 * (num_updates + self.num_workers) + 50

    def _case(
        self,
        mode: Mode,
        where: str,
        layout: Layout,
        draws: np.ndarray,
        logs: Sequence[Log],
        before: int,
    ) -> Case:
        times = np.array([between_updates(log, before) for log in logs])
        counted = [row for log in logs for row in log if row[4] and row[3] > before]
        ask = {
            **common_keys(layout, self.megabits_per_s, self.num_workers, "servers"),
            "strategy": mode.keys,
            "stragglers": draw_keys(self.num_workers, self.mean_s),
            "num_iterations": times.shape[1],
        }
        most = max(max(Counter(row[1] for row in log).values()) for log in logs)
        rows = draws[:, : 2 * most + 20].T  # the simulator may run more iterations
        files = {
            "net.yaml": workload_text("lab-net", [layer_line(0, self.num_bytes, self.mean_s / 2, self.mean_s / 2)]),
            "draws.csv": table_text([f"worker-{worker}" for worker in range(self.num_workers)], rows.tolist()),
        }
        # one figure: the mean time between all counted updates
        means = times.mean(axis=1)
        mean = float(np.median(times, axis=0).mean())
        figures = {"update_s": Measured(mean, float(means.min()), float(means.max()), times.size)}
        staleness = dict(sorted(Counter(written - 1 - read for _, _, read, written, _ in counted).items()))
        group = "asynchronous server" if mode.kind == "async" else "servers"
        name = f"{mode_text(mode)}, {self.num_bytes / 1e6:g} MB, {where}"
        return Case(group, name, ask, figures, line_s(self.num_bytes, self.megabits_per_s), files, staleness)


@dataclass(frozen=True)
class Flows(Experiment):
    """Bulk flows that share links: with `queues` of `pair` max-min fairly, with `fifo` about proportionally.

    A flow's rate is the median over intervals of `count_s`, not the fastest: while one flow stalls, others get its
    share.
    """

    layout: Layout
    megabits_per_s: float
    patterns: Sequence[tuple[str, Sequence[tuple[int, int]]]]
    queues: str = "pair"
    settle_s: float = 1.0
    count_s: float = 2.5
    num_repeats: int = 5

    needs_torch = False

    def cases(self, folder: Path, on_progress: OnProgress) -> Iterator[Case]:
        where = place_text(self.layout, self.megabits_per_s)
        with Cluster(self.layout, self.megabits_per_s, self.queues) as cluster:
            for title, flows in self.patterns:
                on_progress(f"{len(flows)} flows, {title}, on {where}")
                arrived = run_ranks(cluster, run_flows, flows, self.settle_s, self.count_s, self.num_repeats)
                rates = {number: rate for rank in arrived for number, rate in rank.items()}
                yield self._case(title, flows, rates, where)

    def _case(self, title: str, flows: Sequence[tuple[int, int]], rates: dict[int, list[float]], where: str) -> Case:
        sharing = "max-min" if self.queues == "pair" else "proportional"
        ask = {
            "flows": [list(pair) for pair in flows],
            "topology": self.layout.topology(self.megabits_per_s, sharing),
            "transport": "tcp",
        }
        figures = {f"flow {src}>{dst}": Measured.of(rates[number]) for number, (src, dst) in enumerate(flows)}
        group = "link sharing" if self.queues == "pair" else "link sharing, one queue"
        return Case(group, f"{title}, {where}", ask, figures, self.count_s)
