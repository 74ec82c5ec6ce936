"""Delayed all-reduce: the previous gradient is sent while the next one is computed, and is one version old."""

from __future__ import annotations

from typing import Any

import pytest

import clustersim
from clustersim.errors import InputError


def scenario(link: str, **strategy: Any) -> dict[str, Any]:
    """Return a training of four workers without jitter; the link decides how much communication is hidden."""
    return {
        "model": "resnet50",
        "num_gpus": 4,
        "batch": {"per_gpu": 32},
        "topology": {"kind": "star", "num_hosts": 4, "host": {"gpu": "v100"}, "link": link, "hop": "5 us"},
        "software": "plain",
        "transport": "nccl",
        "compute": {"variability": 0},
        "strategy": {"kind": "delayed", "algorithm": "ring", **strategy},
        "num_iterations": 5,
    }


def test_every_gradient_is_one_version_old() -> None:
    run = clustersim.simulate(scenario("25 Gbit/s"))
    assert run.staleness["histogram"] == [[1, 5 * 4]]
    assert [update.staleness for update in run.updates.rows()] == [1] * 5


def test_an_iteration_is_compute_where_all_communication_hides_behind_it() -> None:
    run = clustersim.simulate(
        scenario("400 Gbit/s") | {"software": {"name": "plain", "launch": "graphs"}, "compute": {"variability": 0}}
    )
    assert run.breakdown_s["communication_exposed"] == pytest.approx(0.0, abs=1e-12)
    compute_s = run.breakdown_s["compute"] + run.breakdown_s["slowed"]  # the ring occupies SMs meanwhile
    assert run.iteration_s == pytest.approx(compute_s, rel=1e-9)


def test_an_iteration_is_the_ring_and_the_update_where_the_link_is_slow() -> None:
    """Buckets are sent one after another without gaps, so the ring takes as long as for all bytes at once."""
    run = clustersim.simulate(scenario("0.5 Gbit/s", buckets="whole"))
    ring_s = 2 * 3 / 4 * 25_557_032 * 4 / 62.5e6
    assert run.iteration_s > ring_s
    assert run.iteration_s == pytest.approx(ring_s, rel=0.05)  # the payload of a link, its delays, and the update


def test_a_switch_that_it_fixes_is_named_as_yaml_writes_it() -> None:
    with pytest.raises(InputError, match=r"strategy\.overlap: expected true \(got false\)"):
        clustersim.simulate(scenario("10 Gbit/s", overlap=False))


def test_hiding_a_whole_iteration_is_never_slower_than_hiding_backward() -> None:
    for link in ("1 Gbit/s", "10 Gbit/s", "100 Gbit/s"):
        asked = scenario(link)
        after = asked | {"strategy": {"kind": "all-reduce", "algorithm": "ring"}}
        assert clustersim.simulate(asked).iteration_s <= clustersim.simulate(after).iteration_s * (1 + 1e-9)
