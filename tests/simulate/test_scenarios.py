"""Every scenario that ships runs, says what it shows, and shows it."""

from __future__ import annotations

import pytest

import clustersim
from clustersim.collectives import server_seconds, tree_seconds
from clustersim.data import shipped_files

SHIPPED = shipped_files("scenarios")
WEIGHT_BYTES = 53.5e6  # GoogLeNet with auxiliary heads
RATE = 7e9


@pytest.mark.parametrize("name", SHIPPED)
def test_it_runs_and_its_parts_add_up(name):
    sweep = clustersim.sweep(clustersim.load_scenario(name, overrides=["num_iterations=1", "replicates=1"]))
    assert len(sweep.runs) > 1
    for run in sweep.runs:
        assert sum(run.breakdown_s.values()) == pytest.approx(run.iteration_s, rel=1e-9)
        assert run.samples_per_s > 0


@pytest.mark.parametrize("name", SHIPPED)
def test_it_starts_with_a_comment_that_says_what_it_shows(name):
    modeline, comment, named = SHIPPED[name].read_text(encoding="utf-8").splitlines()[:3]
    assert modeline == "# yaml-language-server: $schema=scenario.schema.json"
    assert comment.startswith("# ")
    assert comment.endswith((".", "?"))
    assert named == f"name: {name}"


def test_server_and_tree_follow_the_papers_formulas_and_cross_where_they_say():
    """Through push and pull in turn, buckets of a server take |W| and the largest bucket: a flow shop of two.

    The server's update of a bucket, 0.2 ms here, comes on top.
    """
    runs = clustersim.sweep("server-versus-tree").runs
    exposed = {(run.axes["strategy"], run.num_gpus): run.breakdown_s["communication_exposed"] for run in runs}
    largest = max(num_bytes for _, num_bytes, _ in runs[-1].buckets)
    for (strategy, size), seconds in exposed.items():
        if strategy == "server":
            assert seconds == pytest.approx(server_seconds(WEIGHT_BYTES + largest, size, RATE), rel=0.015)
        else:
            assert seconds == pytest.approx(tree_seconds(WEIGHT_BYTES, size, RATE), rel=0.01)
    slower = {size: exposed["server", size] > exposed["all-reduce", size] for _, size in exposed}
    assert slower[8]
    assert exposed["server", 4] / exposed["all-reduce", 4] == pytest.approx(1 + largest / WEIGHT_BYTES, rel=0.015)
