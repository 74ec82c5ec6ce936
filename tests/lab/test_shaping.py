"""The commands for `tc`: a rate for the link, and a queue for every pair of hosts."""

from __future__ import annotations

import re

import pytest

from validate.lab.shaping import packet_bytes, shaped

PAIRS = [("10.77.0.1", f"10.77.0.{number}") for number in range(2, 30)]


def rates(lines: list[str]) -> list[int]:
    return [int(found[1]) for line in lines if (found := re.search(r"parent 1:1 .*? rate (\d+)bit", line))]


@pytest.mark.parametrize("megabits_per_s", [50, 160, 500])
@pytest.mark.parametrize("num_pairs", [1, 7, 28])
def test_the_guaranteed_rates_stay_below_the_rate_of_the_link(megabits_per_s: float, num_pairs: int) -> None:
    sure = rates(shaped("eth0", megabits_per_s, PAIRS[:num_pairs], "pair"))
    assert len(sure) == num_pairs + 1
    assert sum(sure) < megabits_per_s * 1e6


def test_every_pair_has_a_queue_of_its_own() -> None:
    lines = shaped("eth0", 80, PAIRS, "pair")
    queues = [line.split("flowid ")[1] for line in lines if line.startswith("filter")]
    assert len(set(queues)) == len(PAIRS)
    assert not any(re.search(rf"classid {queue} ", line) for queue in queues for line in lines[:1])


def test_with_one_queue_all_pairs_share_it() -> None:
    lines = shaped("eth0", 80, PAIRS, "fifo")
    assert len(rates(lines)) == 1
    assert not any(line.startswith("filter") for line in lines)


@pytest.mark.parametrize("megabits_per_s", [50, 120, 121, 300, 500, 1000])
def test_a_packet_is_at_most_a_millisecond_of_the_line(megabits_per_s: float) -> None:
    assert packet_bytes(megabits_per_s) * 8 / (megabits_per_s * 1e6) < 1.3e-3
