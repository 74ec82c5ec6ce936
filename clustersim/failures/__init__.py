"""Failures: when GPUs and hosts fail, and the cost of checkpoints, lost work and restarts in a long training.

Two levels. A few iterations are simulated in detail, which gives the time of one; days of training are then a
renewal process of failures over iterations of that time. So this package needs no clock and no links: the time to
write a checkpoint is an argument.
"""

from __future__ import annotations

from clustersim.failures.interval import best_interval, daly_s, expected_s, is_hopeless, young_s
from clustersim.failures.lifetimes import Failure, failure_times, job_mtbf_s, least_failures
from clustersim.failures.recovery import MOST_FAILURES, Downtime, Recovery, never_ends, recover
from clustersim.failures.spec import DEFAULT_LENGTH_S, Checkpoint, Failures, Lifetime

__all__ = [
    "DEFAULT_LENGTH_S",
    "MOST_FAILURES",
    "Checkpoint",
    "Downtime",
    "Failure",
    "Failures",
    "Lifetime",
    "Recovery",
    "best_interval",
    "daly_s",
    "expected_s",
    "failure_times",
    "is_hopeless",
    "job_mtbf_s",
    "least_failures",
    "never_ends",
    "recover",
    "young_s",
]
