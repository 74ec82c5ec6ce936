"""Plans made of numbers, without a simulation."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from clustersim.errors import Mistake
from clustersim.parallelism import Parallelism
from clustersim.planner import Choice, ClusterComparison, ClusterOption, ClusterPlan, Entry, Plan
from clustersim.results import BREAKDOWN

GPU_BYTES = 80e9


def entry(iteration_s: float, memory_bytes: float, num_gpus: int = 8, reason: str = "", **layout: Any) -> Entry:
    """Return a layout of 64 samples whose GPUs cost $3 an hour; a tenth of its iteration is exposed communication."""
    choice = Choice(num_gpus, 64, Parallelism(**layout))
    parts = dict.fromkeys(BREAKDOWN, 0.0) | {"compute": 0.9 * iteration_s, "communication_exposed": 0.1 * iteration_s}
    return Entry(
        choice=choice,
        iteration_s=iteration_s,
        least_s=0.9 * iteration_s,
        samples_per_s=64 / iteration_s,
        mfu=0.4 / iteration_s,
        memory_bytes=memory_bytes,
        bubble_share=0.0,
        breakdown_s=parts,
        dollars_per_sample=iteration_s / 64 * num_gpus * 3.0 / 3600,
        joules_per_sample=iteration_s / 64 * num_gpus * 700.0,
        reason=reason,
        run_s=None,
    )


def make_plan(num_gpus: int = 8, factor: float = 1.0, **changes: Any) -> Plan:
    """Return a plan of three layouts whose times are `factor` x 1, 1.1 and 1.25 s: the second with half the memory."""
    entries = (
        entry(factor * 1.0, 60e9, num_gpus, data=num_gpus),
        entry(factor * 1.1, 30e9, num_gpus, "zero-3: communication +10.0%", data=num_gpus, sharding="zero-3"),
        entry(factor * 1.25, 40e9, num_gpus, "2 stages: bubble +25.0%", data=num_gpus // 2, pipeline=2),
    )
    plan = Plan(
        name="small",
        objective="samples_per_s",
        gpu="h100",
        num_layouts=10,
        num_simulated=3,
        discarded={"does not fit in memory": 4, "its bound is worse than what was simulated": 3},
        best=entries[:2],
        software="megatron-core",
        transport="nccl",
        fixed={"sequence_parallel": False, "sharding": None},
        tokens_per_sample=1000,
        simulated=entries,
        rule_of_thumb=entries[2],
        gpu_memory_bytes=GPU_BYTES,
        gpu_dollars_per_hour=3.0,
        train_samples=1e9,
        scenario_text="name: small\nmodel: '<b>'\n",
    )
    return replace(plan, **changes)


def make_comparison(*plans: Plan, without: str = "") -> ClusterComparison:
    """Return a comparison of plans, by their GPUs, and of a cluster that has no plan for the reason `without`."""
    clusters = [ClusterPlan(ClusterOption(plan.gpu, plan.best[0].choice.num_gpus), (), plan) for plan in plans]
    if without:
        clusters.append(ClusterPlan(ClusterOption("t4", 4), (), None, (Mistake(without),)))
    return ClusterComparison("small", "samples_per_s", tuple(clusters))
