"""A cause that is known is named: of each change of the scenario, the part, the layer, the link or the rank."""

from __future__ import annotations

from dataclasses import replace

import pytest

from clustersim.difference import PointDifference, diff
from clustersim.results import Run
from tests.difference.pairs import compared, only, part, small


def largest(point: PointDifference) -> str:
    return max(point.parts, key=lambda each: abs(each.change_s)).part


def longer(name: str, seconds: float) -> Run:
    """Return the small run with so many more seconds of a part."""
    run = only(small())
    iteration_s = run.iteration_s + seconds
    return replace(
        run,
        iteration_s=iteration_s,
        samples_per_s=run.samples_per_s * run.iteration_s / iteration_s,
        breakdown_s={**run.breakdown_s, name: run.breakdown_s[name] + seconds},
    )


def test_half_the_rate_of_a_link_is_communication_on_its_class() -> None:
    found = compared(("topology.link=10 Gbit/s",), ("topology.link=5 Gbit/s",))
    point = found.main
    assert largest(point) == "communication_exposed"
    first = point.links[0]
    assert first.kind == "access"
    assert first.busy_s[1] == pytest.approx(2 * first.busy_s[0], rel=1e-9)
    assert first.by_rate_s == pytest.approx(first.change_s, rel=1e-9)
    assert all(abs(links.change_s) < 1e-9 for links in point.links[1:])
    text = " ".join(found.answer)
    assert "The busiest of the access links is busy for" in text
    assert "at 625 MB/s instead of 1.25 GB/s" in text
    assert "topology.link (10 Gbit/s in A, 5 Gbit/s in B)" in text


def test_a_link_of_another_class_stands_beside_the_one_that_it_replaces() -> None:
    point = compared(("topology.link=ethernet-10g",), ("topology.link=ethernet-25g",)).main
    first = point.links[0]
    assert first.kind == "ethernet-10g / ethernet-25g"
    assert first.num_bytes[0] == pytest.approx(first.num_bytes[1])
    assert first.by_bytes_s == pytest.approx(0.0, abs=1e-12)


def test_twice_the_buckets_bytes_are_bytes_and_not_rate() -> None:
    point = compared((), ("precision=fp16",)).main
    first = next(links for links in point.links if links.kind == "access")
    assert first.num_bytes[1] == pytest.approx(first.num_bytes[0] / 2)
    assert first.by_rate_s == 0.0
    assert first.by_bytes_s == pytest.approx(first.change_s)


def test_a_slow_rank_is_waiting_for_that_rank() -> None:
    found = compared((), ("stragglers=[{kind: constant, factor: 3, of: [2]}]",))
    point = found.main
    assert largest(point) == "waiting"
    first = part(point, "waiting").causes[0]
    assert first.name == "rank 2"
    assert first.change_s > 0.9 * part(point, "waiting").change_s
    compute = part(point, "compute").causes[-1]
    assert compute.is_rest
    assert compute.change_s > 0.7 * part(point, "compute").change_s
    assert "for rank 2 (host2/gpu0)" in " ".join(found.answer)


def test_a_slower_gpu_is_compute_of_its_layers() -> None:
    found = compared((), ("topology.host.gpu=k80",))
    point = found.main
    assert largest(point) == "compute"
    layers = [cause for cause in part(point, "compute").causes if not cause.is_rest]
    assert sum(cause.change_s for cause in layers) > 0.95 * part(point, "compute").change_s
    assert all(cause.change_s > 0 for cause in layers)
    facts = {fact.key: fact.words for fact in point.facts}
    assert facts["architecture of the GPU"] == ("pascal", "kepler")
    assert facts["rate of its memory"] == ("732 GB/s", "240 GB/s")
    assert "the sheets of the GPUs say: peak" in " ".join(found.answer)


def test_layers_that_all_change_alike_are_said_once() -> None:
    run = only(small())
    layers = tuple((name, op, 2 * one, 2 * two, *rest) for name, op, one, two, *rest in run.layers)
    slow = replace(longer("compute", run.breakdown_s["compute"]), layers=layers)
    slow = replace(small(), runs=(slow,))
    assert "All layers take 2.00× their time" in " ".join(diff(small(), slow).answer)


def test_another_optimizer_is_its_update() -> None:
    point = compared((), ("optimizer=adam",)).main
    causes = {cause.name: cause.change_s for cause in part(point, "compute").causes}
    assert max(causes, key=lambda name: abs(causes[name])) == "optimizer update"


def test_recomputed_layers_are_named() -> None:
    a, b = "parallelism={pipeline: 2, micro_batches: 2}", "parallelism={pipeline: 2, micro_batches: 2, recompute: full}"
    point = compared((a,), (b,)).main
    first = part(point, "compute").causes[0]
    assert first.name == "recomputed layers"
    assert first.a_s == 0.0
    assert first.change_s == pytest.approx(part(point, "compute").change_s, rel=0.1)


def test_a_pipeline_is_its_bubble() -> None:
    found = compared(("parallelism={pipeline: 2, micro_batches: 8}",), ("parallelism={pipeline: 2, micro_batches: 2}",))
    assert part(found.main, "bubble").change_s > 0
    assert "pipeline bubble takes" in " ".join(found.answer).lower()


def test_models_with_other_names_of_layers_are_compared_by_kind_of_layer() -> None:
    causes = {cause.name for cause in part(compared((), ("model=vgg16",)).main, "compute").causes}
    assert {"convolution", "fully-connected"} <= causes


def test_several_changed_keys_are_not_called_a_cause() -> None:
    text = " ".join(compared((), ("topology.link=5 Gbit/s", "batch.per_gpu=16")).answer)
    assert "differ in 2 keys, so no single one is known to be the cause" in text
    assert "topology.link (10 Gbit/s in A, 5 Gbit/s in B)" in text


def test_another_version_is_said() -> None:
    old = replace(small(), version="0.0.9")
    assert "A is of clustersim 0.0.9 and B of 0.1.0" in " ".join(diff(old, small()).answer)


def test_a_difference_below_the_error_of_a_comparison_says_so() -> None:
    near = compared((), ("topology.link=9.9 Gbit/s",)).answer[0]
    far = compared((), ("topology.link=1 Gbit/s",)).answer[0]
    assert "less than the error of a comparison" in near
    assert "error" not in far
    assert "probably" not in far


def test_a_difference_within_the_spread_over_seeds_says_so() -> None:
    jitter = "stragglers=[{kind: lognormal, sigma: 0.5, per: iteration}]", "replicates=3", "num_iterations=4"
    assert "within the spread over seeds" in compared(jitter, (*jitter, "seed=7")).answer[0]


def test_the_same_scenario_with_another_result_is_not_blamed_on_a_key() -> None:
    text = " ".join(diff(small(), replace(small(), runs=(longer("waiting", 1.0),))).answer)
    assert "the same keys" in text
    assert "error of a comparison" not in text


def test_dropped_gradients_are_said() -> None:
    workers = "num_gpus=8", "stragglers=[{kind: lognormal, sigma: 0.3, per: iteration}]"
    backup = "strategy={kind: backup, backups: 2, servers: {num: 2, on: workers}}"
    every = "strategy={kind: backup, backups: 0, servers: {num: 2, on: workers}}"
    text = " ".join(compared((*workers, every), (*workers, backup)).answer)
    assert "0\u202f% of the gradients are dropped in A and 25\u202f% in B." in text


def test_waiting_for_many_ranks_is_not_put_on_one() -> None:
    jitter = "num_gpus=8", "stragglers=[{kind: lognormal, sigma: 0.3, per: iteration}]", "num_iterations=40"
    assert " different ranks, most for rank " in " ".join(compared(("num_gpus=8",), jitter).answer)


def test_links_that_do_not_explain_a_change_are_not_blamed() -> None:
    text = " ".join(compared((), ("strategy.overlap=true",)).answer)
    assert "No links are busy for so much shorter (the busiest, access, " in text


def test_parts_that_change_against_the_difference_are_said() -> None:
    half = "num_gpus=8", "batch.per_gpu=16", "topology.link=5 Gbit/s"
    text = " ".join(compared(("model=resnet50",), ("model=resnet50", *half)).answer)
    assert "of what is added)" in text
    assert "against that, compute takes" in text
