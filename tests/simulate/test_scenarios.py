"""Every scenario that ships runs, says what it shows, and shows it."""

from __future__ import annotations

import pytest

import clustersim
from clustersim.collectives import server_seconds, tree_seconds
from clustersim.data import shipped_files
from clustersim.report.answer import answer
from clustersim.report.text_table import plain

SHIPPED = shipped_files("scenarios")
FOR_THE_PLANNER = {"plan-gpt"}  # one point, of which `clustersim plan` makes many
WEIGHT_BYTES = 53.5e6  # GoogLeNet with auxiliary heads
RATE = 7e9


ANSWERS = {
    "asynchronous": ["Fastest at every size are async and async staleness aware rate: on 16 GPUs,", "15 versions old"],
    "backup-workers": ["Fastest is backups 0 with cv 0.02 (", "and backups 1 with cv 0.6 ("],
    "bounded-staleness": ["Fastest is bound 4:", "the rate of bound 0, the slowest; more gives nothing"],
    "compression": ["Fastest is top-k: on 16 GPUs,", "Int8 is", "as fast as compression none on 2 GPUs, but", "on 16"],
    "diloco": ["Steps 500 is always faster than steps 20,", "int8 gives", "Fastest is steps 500, int8:"],
    "dualpipe": ["Fastest is dualpipe-v:", "Exposed communication takes", "; pipeline bubble takes"],
    "failures": ["64 GPUs train", "Every step to more GPUs pays;", "Checkpoints and failures take"],
    "firecaffe-band": [
        "On 128 GPUs, mpi-cuda is always faster than mpi:",
        "compact gives",
        "Fastest at every size is compact, mpi-cuda:",
    ],
    "firecaffe-googlenet": ["128 GPUs train", "It pays to add GPUs up to 32: 64 train only", "published figures"],
    "gossip": [
        "Fastest is ring:",
        "of wheel and complete, the slowest, and",
        "torus, the next",
        "copies of the weights differ",
    ],
    "gpt-3d": ["TP 1 is always faster than TP 8:", "PP 1 gives", "Fastest is TP 1, PP 1:"],
    "hierarchical": [
        "Fastest at every size is hierarchical:",
        "Gradients are 7.0 (hierarchical) to 31 versions old (async)",
    ],
    "input-bound": ["Fastest is decode 1200 samples/s:", "input takes"],
    "local-fields": ["Fastest is infiniband-fdr:", "the rate of ethernet-1g, the slowest, and", "ethernet-10g,"],
    "local-sgd": ["Fastest at every size is steps 32:", "Copies of the weights differ between averages"],
    "long-context": ["Fastest is context method ring: for llama-3.1-8b-seq131072,"],
    "offload": ["Fastest under all conditions is offload none: with batch.per_gpu 8,", "; with batch.per_gpu 1,"],
    "overlap-10gbe": ["Fastest is overlap on: on 16 GPUs,", "of overlap off; on 1 GPU, equally fast.", "ethernet-10g"],
    "pairwise-gossip": ["Fastest is asynchronous off with factor 1 (", ") and asynchronous on from factor 2 on ("],
    "paths": [
        "Fastest is paths, data 2 with batch.global 8 (",
        "DP",
        ") and DP with batch.global 128 (",
        "paths, data 2",
    ],
    "pipedream": [
        "Pipedream is always faster than 1f1b:",
        "Fastest is micro_batches 4, pipedream",
        "pipeline bubble takes",
        "1.5 versions old,",
    ],
    "recurrent-stages": [
        "Fastest is time_chunks 35:",
        "of time_chunks 1, the slowest",
        "; time_chunks 5 gives",
        "of that.",
    ],
    "server-versus-tree": ["On an ideal network fastest is server up to 4 GPUs (", ") and all-reduce from 8 GPUs on ("],
    "siamese-towers": [
        "Fastest under all conditions is paths: with batch.global 128,",
        "; with batch.global 16,",
        "DP",
    ],
    "softsync": ["Fastest is n=1:", "Gradients are 1.0 (n=1) to 29 versions old (n=30),"],
    "two-jobs": [
        "Fastest is block:",
        "Beside the other jobs vgg16 takes 2.1",
        "its time alone with [0, 8, 1, 9 … 15],",
    ],
    "which-all-reduce": ["Fastest at every size is ring:", "of halving-doubling, the slowest, and", "hierarchical,"],
}
"""Parts of the answer of a scenario, in their order: it must be to the question of its description."""


@pytest.mark.parametrize("name", SHIPPED)
def test_it_runs_and_its_parts_add_up_and_its_answer_is_to_its_question(name):
    loaded = clustersim.load_scenario(name, overrides=["num_iterations=1", "replicates=1"])
    sweep = clustersim.sweep(loaded, learns=False)
    assert len(sweep.runs) > (name not in FOR_THE_PLANNER)
    for run in sweep.runs:
        assert sum(run.breakdown_s.values()) == pytest.approx(run.iteration_s, rel=1e-9)
        assert run.samples_per_s > 0
    said, place = plain(answer(sweep)), 0
    for part in ANSWERS.get(name, []):
        assert part in said[place:], said
        place = said.index(part, place) + len(part)


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


def test_slow_decoding_holds_every_size_back_and_shared_storage_only_the_large_one():
    """Of 1, 4, 8 and 16 GPUs, four a host: at 600 samples/s a host from 4 on, by 300 MB/s of 110 kB samples at 16."""
    overrides = ["input.cv=0", "num_iterations=3"]
    runs = {
        (run.axes["input.decode"], run.num_gpus): run
        for run in clustersim.sweep(clustersim.load_scenario("input-bound", overrides)).runs
    }
    for hosts, num_gpus in ((1, 4), (2, 8), (4, 16)):
        assert runs["600 samples/s", num_gpus].samples_per_s == pytest.approx(600 * hosts, rel=1e-6)
    assert runs["1200 samples/s", 16].samples_per_s == pytest.approx(300e6 / 110e3, rel=1e-6)
    for num_gpus in (1, 4, 8):
        assert runs["1200 samples/s", num_gpus].breakdown_s["input"] == pytest.approx(0, abs=1e-9)


def test_one_weird_trick_beats_data_parallelism_where_most_of_its_bytes_lie_beside_passes():
    runs = clustersim.sweep(clustersim.load_scenario("one-weird-trick", overrides=["num_gpus=8"])).runs
    grid, gathered, _, in_shares = (run.samples_per_s for run in runs)
    assert in_shares > gathered
    assert in_shares > grid


def test_tiles_of_a_network_lose_to_a_host_of_them_over_slow_links_and_are_worth_most_of_theirs_over_fast_ones():
    """No GPU holds the network: the baseline is four of them, which are one host."""
    slow, _, fast = clustersim.sweep(clustersim.load_scenario("local-fields", overrides=["num_iterations=1"])).runs
    assert slow.baseline.num_gpus == fast.baseline.num_gpus == 4
    assert slow.speedup < 1
    assert fast.speedup > 0.75 * 3
    assert fast.memory_bytes < 2 * 2**30


def test_eight_bits_lose_to_none_from_8_gpus_on_and_the_largest_gradients_alone_win():
    rates = {(run.axes["compression"], run.num_gpus): run.samples_per_s for run in clustersim.sweep("compression").runs}
    for num_gpus in (2, 4, 8, 16):
        assert (rates["int8", num_gpus] > rates["none", num_gpus]) == (num_gpus < 8)
        assert rates["fp16", num_gpus] > rates["none", num_gpus]
        assert rates["top-k", num_gpus] == max(rates[kind, num_gpus] for kind in ("none", "fp16", "int8", "top-k"))


def test_a_pipeline_without_a_flush_gains_the_bubble_for_older_gradients_and_more_memory():
    overrides = ["num_iterations=1", "parallelism.micro_batches=4"]
    flushed, flowing = clustersim.sweep(clustersim.load_scenario("pipedream", overrides)).runs
    assert flowing.samples_per_s > 1.5 * flushed.samples_per_s
    assert flowing.staleness["mean"] == 1.5
    assert flowing.memory_parts["stashed weights"] > 0
    assert flowing.memory_bytes > flushed.memory_bytes


def test_recurrent_layers_on_two_gpus_gain_nothing_until_sequences_come_in_parts():
    runs = clustersim.sweep(clustersim.load_scenario("recurrent-stages", ["num_iterations=1"])).runs
    speedup = [run.speedup for run in runs]
    assert speedup[0] <= 1
    assert speedup == sorted(speedup)
    assert speedup[-1] > 1.4


def test_branches_on_two_gpus_beat_copies_where_there_are_few_samples_and_lose_where_there_are_many():
    runs = clustersim.sweep(clustersim.load_scenario("paths", ["num_iterations=1"])).runs
    rates = {(run.axes["batch.global"], run.axes["parallelism"]): run.samples_per_s for run in runs}
    assert rates[8, "paths data=2"] > rates[8, "data=4"]
    assert rates[128, "paths data=2"] < rates[128, "data=4"]


def test_a_tower_on_each_gpu_beats_a_copy_on_each_by_its_samples():
    runs = clustersim.sweep(clustersim.load_scenario("siamese-towers", ["num_iterations=1"])).runs
    rates = {(run.axes["batch.global"], run.axes["parallelism"]): run.samples_per_s for run in runs}
    assert rates[16, "paths"] > rates[16, "data=2"]
    assert rates[128, "paths"] > rates[128, "data=2"]


def test_the_bubble_of_four_stages_is_that_of_gpipe_and_chunks_and_put_off_gradients_make_it_smaller():
    overrides = ["num_iterations=1", "parallelism.micro_batches=4"]
    runs = clustersim.sweep(clustersim.load_scenario("gpipe-bubble", overrides)).runs
    share = {run.axes["parallelism.schedule"]: run.breakdown_s["bubble"] / run.iteration_s for run in runs}
    assert share["gpipe"] == pytest.approx(3 / 7, rel=0.02)
    assert share["1f1b"] == pytest.approx(3 / 7, rel=0.02)
    (interleaved,) = (run for run in runs if run.axes["parallelism.schedule"] == "interleaved")
    longest_s = max(parts["compute"] for parts in interleaved.worker_breakdown_s)  # 4 % above the mean
    assert interleaved.iteration_s == pytest.approx(longest_s * 5.5 / 4, rel=0.02)
    assert interleaved.iteration_s < 0.85 * next(run.iteration_s for run in runs if run is not interleaved)
    assert share["zero-bubble"] < 0.75 * share["1f1b"]


def test_a_ring_hides_behind_long_sequences_and_gathering_is_quicker_for_short_ones():
    runs = {
        (run.axes["model"], run.axes["software.context_method"]): run
        for run in clustersim.sweep(clustersim.load_scenario("long-context")).runs
    }
    short, long = "llama-3.1-8b", "llama-3.1-8b-seq131072"
    assert 1.0 < runs[short, "ring"].iteration_s / runs[short, "all-gather"].iteration_s < 1.05
    assert 0.85 < runs[long, "ring"].iteration_s / runs[long, "all-gather"].iteration_s < 0.95
    assert runs[long, "all-gather"].memory_bytes - runs[long, "ring"].memory_bytes > 1.5e9


def test_offload_weighs_less_the_larger_the_batch_and_activations_nothing_where_blocks_keep_little():
    seconds = {
        (run.axes["batch.per_gpu"], run.axes["parallelism.offload"]): run.iteration_s
        for run in clustersim.sweep(clustersim.load_scenario("offload")).runs
    }
    cost_s = {batch: seconds[batch, "optimizer"] - seconds[batch, "none"] for batch in (1, 8)}
    assert 0.5 < cost_s[8] / cost_s[1] < 0.7  # more of it is hidden behind a longer backward
    assert 3.7 < seconds[1, "optimizer"] / seconds[1, "none"] < 3.9
    assert seconds[8, "optimizer"] < 1.35 * seconds[8, "none"]
    for batch in (1, 8):
        assert seconds[batch, "optimizer+activations"] < 1.01 * seconds[batch, "optimizer"]
