"""Messages per CPU second: `python -m tests.benchmarks.bench_network`. Clusters are built before the time is taken."""

from __future__ import annotations

import time
from collections.abc import Callable

from clustersim.network import Network
from clustersim.topology import Topology, load_topology

from .work import play_flows, play_ring, star, torus

CALIBRATION_LOOPS = 1_000_000


def calibrate() -> float:
    """Return the CPU seconds of a million additions in a loop, to compare machines by."""
    start = time.process_time()
    total = 0
    for number in range(CALIBRATION_LOOPS):
        total += number
    return time.process_time() - start


def measure(name: str, make: Callable[[], Topology], play: Callable[[Topology], Network]) -> None:
    """Print a row of the table: what was played, messages, CPU seconds, microseconds a message, solves."""
    cluster = make()
    play_ring(cluster, 2)  # what is imported and built on first use
    start = time.process_time()
    counts = play(cluster).counts
    seconds = time.process_time() - start
    print(f"| {name} | {counts.flows} | {seconds:.2f} | {seconds / counts.flows * 1e6:.1f} | {counts.solves} |")


def main() -> None:
    print(f"a million additions: {calibrate():.3f} s\n")
    print("| work | messages | CPU s | us a message | solves |\n|---|---|---|---|---|")
    for jitter in (False, True):
        also = ", jitter" if jitter else ""
        for num_ranks in (128, 512):
            measure(
                f"ring {num_ranks}, star{also}", lambda n=num_ranks: star(n), lambda c, j=jitter: _ring(c, jitter=j)
            )
        measure(f"ring 8x4x4 torus{also}", lambda: torus(8, 4, 4), lambda c, j=jitter: _ring(c, jitter=j))
        measure(
            f"ring 8x4x4 torus, ranks shuffled{also}", lambda: torus(8, 4, 4), lambda c, j=jitter: _ring(c, j, True)
        )
    for num_ranks in (512, 4096):
        measure(
            f"ring {num_ranks}, star, steps multiplied",
            lambda n=num_ranks: star(n),
            lambda c: play_ring(c, c.num_gpus, exact=False),
        )
    tree = {"kind": "fat-tree", "k": 16, "link": "7 GB/s", "hop": "1 us"}
    for name, num, gap_s, most in [
        ("10,000, Poisson", 10_000, 2e-5, 1e8),
        ("10,000 equal at once", 10_000, 0.0, 1e6),
        ("3,000 mixed at once", 3_000, 0.0, 1e8),
    ]:
        measure(
            f"flows over 1,024 hosts: {name}",
            lambda: load_topology(tree),
            lambda c, num=num, gap=gap_s, size=most: play_flows(c, num, gap, size),
        )


def _ring(cluster: Topology, jitter: bool = False, shuffled: bool = False) -> Network:
    return play_ring(cluster, cluster.num_gpus, jitter, shuffled)


if __name__ == "__main__":
    main()
