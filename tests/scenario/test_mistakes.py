"""All mistakes are reported together, each with its place, the value and what is allowed."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

import pytest

from clustersim.errors import InputError, Mistake
from clustersim.kernels import OptimizerSpec, memory_per_gpu
from clustersim.model import load_model
from clustersim.scenario import Scenario, build_topology, load_scenario
from clustersim.units import format_size, parse

Load = Callable[..., Scenario]
Mistakes = Callable[..., list[Mistake]]
CheckMistake = Callable[[str, str | None, int, str], None]


def needed(batch: int) -> str:
    """Return the memory of AlexNet on one of several GPUs at a batch; DistributedDataParallel's buckets hold a copy of
    the gradients."""
    held = memory_per_gpu(load_model("alexnet"), batch, "fp32", OptimizerSpec())
    return format_size(sum(held.values()) + held["gradients"])


@pytest.mark.parametrize(
    ("added", "key", "column", "words"),
    [
        ("modle: alexnet", "modle", 1, "there is no such key here; did you mean 'model'?"),
        ("model: resnet51", "model", 8, "did you mean 'resnet50'?"),
        ("model: [alexnet]\nnum_gpus: 0", "num_gpus", 11, "expected a number of at least 1 (got 0)"),
        ("num_gpus: four", "num_gpus", 11, "expected a whole number (got 'four')"),
        ("num_gpus: 2.5", "num_gpus", 11, "expected a whole number (got 2.5)"),
        ("num_gpus: true", "num_gpus", 11, "expected a whole number (got true)"),
        ("num_gpus: '4'", "num_gpus", 11, "expected a whole number (got '4')"),
        ("num_gpus: {a: 1}", "num_gpus", 11, "expected a whole number (got a map with a)"),
        ("num_gpus:", "num_gpus", 10, "expected a whole number (got nothing)"),
        ("num_gpus: 9", "num_gpus", 11, "has 8 GPUs (got 9)"),
        (
            "topology: {kind: torus, dims: [3, 1], link: 1 GB/s, gpu: k80}\nnum_gpus: 4",
            "num_gpus",
            11,
            "the cluster 'torus' has 3 GPUs (got 4): its 3 x 1 routers have 3 hosts; take fewer GPUs, or larger dims",
        ),
        (
            "topology: {kind: torus, dims: [3, 3], link: 1 GB/s, gpu: k80}\n"
            "strategy: {kind: all-reduce, algorithm: torus-ring}",
            "strategy.algorithm",
            41,
            "need the ranks along each dimension, whose product is 4 (got 3 x 3)",
        ),
        (
            "strategy: {kind: all-reduce, algorithm: nvls}",
            "strategy.algorithm",
            41,
            "nvls adds in the switch between the GPUs of a host: the 4 GPUs are on 4 hosts, and the switch is in one",
        ),
        (
            "strategy: {kind: all-reduce, algorithm: torus-ring, dims: [2, 3]}",
            "strategy.dims",
            59,
            "need the ranks along each dimension, whose product is 4 (got 2 x 3)",
        ),
        (
            "strategy: {kind: server, servers: {on: own-hosts, num: 5}}",
            "strategy.servers.num",
            56,
            "the cluster 'star' of 8 hosts has 4 left; take fewer servers or GPUs, more hosts, or servers on: workers",
        ),
        (
            "num_gpus: 8\nstrategy: {kind: async, servers: {on: own-hosts}}",
            "strategy.servers.on",
            39,
            "1 servers on own hosts need as many hosts without workers",
        ),
        (
            "batch: {per_gpu: 8000}",
            "batch.per_gpu",
            18,
            f"one k80 holds 12.9 GB, and this needs {needed(8000)}: weights 244 MB + gradients 244 MB + optimizer "
            "244 MB + activations ",
        ),
        ("batch: {global: 32000}", "batch.global", 17, f"and this needs {needed(8000)}: weights"),
        ("model: gpt2-xl", "model", 8, "; even one sample per GPU takes "),
        (
            "compression: {kind: top-k, density: 1}\nnum_gpus: 8\nmodel: vgg19\nbatch: {per_gpu: 50}",
            "batch.per_gpu",
            18,
            " + gathered 9.19 GB + buckets 575 MB; use",
        ),
        (
            "failures: {gpu: {mtbf: 1 h}, checkpoint: {write: 1 s}, length: 100000 h}",
            "failures.length",
            64,
            "in 100000 h of training at least 400,000 failures are expected, and at most 200,000 are simulated",
        ),
        (
            "failures: {gpu: {mtbf: 1 s}, checkpoint: {write: 1 s}}",
            "failures.gpu",
            17,
            "in 720 h of training at least 10,368,000 failures are expected",
        ),
        (
            "failures: {gpu: {mtbf: 1 h}, host: {mtbf: 100 h}, checkpoint: {write: 1 h}, restart: 2 h}",
            "failures.gpu.mtbf",
            24,
            "the training does not end: there is a failure every 14.9 min on average, and a restart takes 3.00 h",
        ),
        ("batch: 32", "batch", 8, "expected a map of 'key: value' (got 32)"),
        ("batch: {}", "batch", 8, "expected one of per_gpu, global (got none of them)"),
        ("batch: {per_gpu: 8, global: 32}", "batch", 8, "(got per_gpu and global)"),
        (
            "batch: {global: 30}",
            "batch.global",
            17,
            "30 does not divide over 4 GPUs; the nearest that does is 28 or 32",
        ),
        ("batch: {global: 3}", "batch.global", 17, "the nearest that does is 4"),
        ("topology: titn", "topology", 11, "did you mean 'titan'?"),
        ("topology: {num_hosts: 4}", "topology.kind", 1, "this key is missing: the kind of topology (known: "),
        ("topology: {kind: toru, dims: [2]}", "topology.kind", 18, "did you mean 'torus'?"),
        ("topology: {kind: star, num_hosts: 4}", "topology.link", 1, "this key is missing: every link"),
        (
            "topology: {kind: star, num_hosts: 4, link: 1 Gbit/s}",
            "topology",
            11,
            "the cluster does not name its GPU; give topology.gpu",
        ),
        ("topology: {kind: star, num_hosts: 4, link: 10 Gb/s, gpu: k80}", "topology.link", 44, "write Gbit/s or GB/s"),
        (
            "topology: {kind: star, num_hosts: 4, link: 1 B/s, hop: 3, gpu: k80}",
            "topology.hop",
            56,
            "a number needs a unit",
        ),
        ("topology: {kind: star, num_hosts: 4, link: 1 B/s, gpu: k8}", "topology.gpu", 56, "no GPU is called 'k8'"),
        ("placement: blok", "placement", 12, "did you mean 'block'?"),
        ("placement: compact", "placement", 12, "needs a torus"),
        ("placement: [0, 1]", "placement", 12, "lists 2 GPUs for 4 ranks"),
        ("placement: {kind: fragmented, fre: 1}", "placement.fre", 31, "did you mean 'free'?"),
        ("transport: ncl", "transport", 12, "did you mean 'nccl'?"),
        ("strategy: {kind: all-reduce, algorithm: rng}", "strategy.algorithm", 41, "did you mean 'ring'?"),
        (
            "strategy: {kind: al-reduce}",
            "strategy.kind",
            18,
            "no strategy is called 'al-reduce'; did you mean 'all-reduce'?",
        ),
        ("strategy: all-reduce", "strategy", 11, "expected a map of 'key: value' (got 'all-reduce')"),
        (
            "strategy: {kind: backup, backups: 4}",
            "strategy.backups",
            35,
            "with 4 of 4 workers as backups, no gradient is left",
        ),
        ("strategy: {kind: backup, backups: -1}", "strategy.backups", 35, "expected a number of at least 0 (got -1)"),
        ("strategy: {kind: backup, backups: 1, fraction: 0.5}", "strategy.fraction", 48, "keep one"),
        ("strategy: {kind: bounded-staleness, bound: -1}", "strategy.bound", 44, "a number of at least 0 (got -1)"),
        ("strategy: {kind: bounded-staleness}", "strategy.bound", 1, "this key is missing"),
        ("strategy: {kind: softsync, n: 5}", "strategy.n", 31, "too few for 5 updates"),
        ("strategy: {kind: local, steps: 0}", "strategy.steps", 32, "expected a number of at least 1 (got 0)"),
        ("strategy: {kind: gossip, graph: rin}", "strategy.graph", 33, "did you mean 'ring'?"),
        (
            "strategy: {kind: gossip, graph: [[0, 1], [2, 3]]}",
            "strategy.graph",
            33,
            "no path leads from worker 0 to worker 2",
        ),
        (
            "strategy: {kind: gossip, graph: [[0, 1], [1, 2], [2, 2], [2, 3]]}",
            "strategy.graph.2",
            50,
            "worker 2 cannot be its own neighbour",
        ),
        ("strategy: {kind: gossip, graph: []}", "strategy.graph", 33, "the graph has no edges; give pairs of workers"),
        (
            "strategy: {kind: all-reduce, buckets: 0 MiB}",
            "strategy.buckets",
            39,
            "a bucket of '0 MiB' holds nothing; write `layer` or `tensor` where every gradient travels by itself",
        ),
        ("strategy: {kind: gossip, graph: [[0, 7]]}", "strategy.graph", 33, "an edge leads to worker 7"),
        (
            "strategy: {kind: gossip, graph: random-regular, degree: 4}",
            "strategy.degree",
            57,
            "4 workers cannot all have 4 neighbours",
        ),
        (
            "strategy: {kind: async, servers: {local_sum: true}}",
            "strategy.servers",
            34,
            "take strategy `hierarchical`",
        ),
        (
            "strategy: {kind: async}\nsoftware: {name: plain, servers_whole: true}",
            "software.servers_whole",
            40,
            "whole buckets are simulated with strategy `server` or `hierarchical` only",
        ),
        ("precision: fp33", "precision", 12, "did you mean 'fp32'?"),
        ("precision: amp-fp16", "precision", 12, "does not compute in amp-fp16"),
        (
            "software: {name: plain, image_layout: nhwc}",
            "software.image_layout",
            39,
            "fp32 does not use: image_layout: nhwc would change nothing",
        ),
        (
            "software: {name: plain, library: cudnn-fused}",
            "software.library",
            34,
            "with channels last; write image_layout: nhwc",
        ),
        ("optimizer: adma", "optimizer", 12, "expected one of"),
        (
            "optimizer: {kind: adam}\nsoftware: {name: plain, update_passes: 1}",
            "software.update_passes",
            40,
            "adam reads and writes at least 7 tensors, those of one fused kernel",
        ),
        ("input: 300 samples/s", "input", 8, "expected a map of 'key: value'"),
        ("input: {}", "input", 8, "what limits the input? Give decode, or storage with sample_bytes, or copied_bytes"),
        ("input: {decode: 300}", "input.decode", 17, "a number needs a unit"),
        ("input: {decode: 300 sample/s}", "input.decode", 17, "expected a rate of samples, such as '2000 samples/s'"),
        ("input: {decode: 0 samples/s}", "input.decode", 17, "decode must be above 0, or no sample ever comes"),
        ("input: {copied_bytes: 0 B}", "input.copied_bytes", 23, "copied_bytes must be above 0"),
        ("input: {decode: 3 samples/s, copied_ahead: true}", "input.copied_ahead", 44, "Give copied_bytes as well"),
        ("input: {decode: 3 samples/s, memory: first-socket}", "input.memory", 38, "Give copied_bytes as well"),
        ("input: {copied_bytes: 1 B, file_samples: 9}", "input.file_samples", 42, "means something with copied_ahead"),
        ("input: {storage: 1 GB/s}", "input.storage", 18, "storage means something with sample_bytes only"),
        (
            "input: {decode: 3 samples/s, sample_bytes: 1 kB}",
            "input.sample_bytes",
            44,
            "sample_bytes means something with storage only",
        ),
        ("input: {storage: 1 B/s, sample_bytes: 1 B, cv: 1}", "input.cv", 48, "cv is that of decoding; give decode"),
        (
            "input: {decode: 9 samples/s, prefetch: -1}",
            "input.prefetch",
            40,
            "expected a number of at least 0 (got -1)",
        ),
        (
            "compression: fp8",
            "compression",
            14,
            "no compression is called 'fp8' (known: fp16, int8, none, one-bit, top-k)",
        ),
        ("compression: 3", "compression", 14, "expected a map of 'key: value' (got 3)"),
        ("compression: {density: 0.1}", "compression.kind", 1, "this key is missing: the kind of compression"),
        ("compression: {kind: topk}", "compression.kind", 21, "did you mean 'top-k'?"),
        ("compression: {kind: fp16, density: 1}", "compression.density", 27, "there is no such key here (known: kind)"),
        ("compression: {kind: top-k, density: 0}", "compression.density", 37, "expected a number above 0 (got 0)"),
        ("compression: {kind: top-k, density: 2}", "compression.density", 37, "a number of at most 1 (got 2)"),
        ("compression: {kind: int8, group: 0}", "compression.group", 34, "a number of at least 1 (got 0)"),
        (
            "compression: {kind: one-bit, encode_bytes_per_s: 0 B/s}",
            "compression.encode_bytes_per_s",
            50,
            "expected a number above 0 (got '0 B/s')",
        ),
        (
            "compression: int8\nstrategy: {kind: all-reduce, algorithm: tree}",
            "strategy.algorithm",
            41,
            "tree adds gradients in transit, but int8 gradients cannot be added and must be gathered; write one of: "
            "auto, doubling, ring, torus-ring",
        ),
        (
            "compression: int8\nstrategy: {kind: local}",
            "strategy.kind",
            18,
            "local averages weights, and int8 compresses",
        ),
        (
            "compression: top-k\nstrategy: {kind: gossip}",
            "strategy.kind",
            18,
            "gossip averages weights, and top-k compresses",
        ),
        (
            "compression: one-bit\nstrategy: {kind: hierarchical}",
            "strategy.kind",
            18,
            "hierarchical adds gradients inside a host, but one-bit gradients cannot be added",
        ),
        (
            "compression: int8\nstrategy: {kind: server, servers: {local_sum: true}}",
            "strategy.servers.local_sum",
            47,
            "local_sum adds gradients before they are pushed, but int8 gradients cannot be added; leave it out",
        ),
        (
            "compute: {single_gpu: {samples_per_s: 3, batch: 1, gpu: k8, source: x}}",
            "compute.single_gpu.gpu",
            57,
            "'k8'",
        ),
        ("compute: {profile: gone.json}", "compute.profile", 20, "gone.json"),
        ("stragglers: {kind: gamma}", "stragglers.cv", 1, "this key is missing"),
        ("stragglers: [{kind: gamma}]", "stragglers.0.cv", 14, "this key is missing"),
        (
            "stragglers: [{kind: gamma, cv: 1, of: som}]",
            "stragglers.0.of",
            39,
            "expected one of 'all' or a list or a map",
        ),
        (
            "stragglers: [{kind: gamma, cv: 1, of: []}]",
            "stragglers.0.of",
            39,
            "a list of at least 1 (got an empty list)",
        ),
        (
            "stragglers: [{kind: gamma, cv: 1, of: [4]}]",
            "stragglers.0.of",
            39,
            "the job has 4 GPUs, with ranks 0 to 3 (got 4)",
        ),
        ("stragglers: [{kind: gamma, cv: 1, of: {hosts: [9]}}]", "stragglers.0.of.hosts", 47, "the job is on 4 hosts"),
        ("stragglers: [{kind: gamma, cv: 1, of: {host: [1]}}]", "stragglers.0.of.host", 40, "did you mean 'hosts'?"),
        ("stragglers: [{kind: lognormal}]", "stragglers.0", 14, "a lognormal needs one of 'cv' and 'sigma'"),
        (
            "stragglers: [{kind: link-outages, every: 1 h, lasts: 1 s, of: {hosts: [9]}}]",
            "stragglers.0.of.hosts",
            71,
            "the job is on 4 hosts",
        ),
        (
            "stragglers: [{kind: link-outages, every: 1 h, lasts: 1 s, of: {kinds: [acces]}}]",
            "stragglers.0.of",
            63,
            "no kind of link in this cluster is called 'acces'; did you mean 'access'?",
        ),
        (
            "stragglers: [{kind: slow-periods, factor: 2, every: 1 s, lasts: -1 s}]",
            "stragglers.0.lasts",
            65,
            "it must not be negative",
        ),
        ("stragglers: [{kind: gamma, cv: -0.1}]", "stragglers.0.cv", 32, "expected a number above 0 (got -0.1)"),
        ("stragglers: [{kind: trace, file: gone.csv}]", "stragglers.0.file", 34, "'gone.csv' cannot be read: No such"),
        ("epochs: 3", "epochs", 9, "(got epochs: 3); give dataset_size"),
        ("epochs: 0\ndataset_size: 10", "epochs", 9, "expected a number above 0 (got 0)"),
        ("baseline: {hours: 3, source: x}", "baseline.hours", 19, "give epochs and dataset_size"),
        ("baseline: {samples_per_s: 3}", "baseline.source", 1, "this key is missing: source of the figure"),
        ("baseline: {source: x}", "baseline", 11, "expected one of hours, samples_per_s (got none of them)"),
        ("published: [{num_gpus: 2, source: x}]", "published.0", 13, "(got none of them)"),
        ("published: [{num_gpus: 2, hours: 2, speedup: 2, source: x}]", "published.0", 13, "(got hours and speedup)"),
        ("parallelism: {data: 3}", "parallelism.data", 21, "3 replicas of the model do not match 4 GPUs"),
        ("memory_check: maybe", "memory_check", 15, "expected true or false (got 'maybe')"),
        ("seed: -1", "seed", 7, "expected a number of at least 0 (got -1)"),
        ("replicates: .nan", None, 13, "a number must be finite"),
        ("seed: 1\nseed: 2", "seed", 1, "the key is given twice"),
    ],
)
def test_one_mistake_gives_one_message_at_its_place(
    check_mistake: CheckMistake, added: str, key: str | None, column: int, words: str
) -> None:
    check_mistake(added, key, column, words)


def test_a_trace_with_text_is_reported_with_its_lines_and_that_of_the_scenario(
    mistakes: Mistakes, tmp_path: Path
) -> None:
    (tmp_path / "measured.csv").write_text('rank,seconds\n0,0.1\n"0, slow", slow\n0,0.2\n7\n0,-1\n')
    found = mistakes("stragglers: [{kind: trace, file: measured.csv, column: seconds}]")
    assert [(Path(each.file or "").name, each.line, each.column, each.key, each.got) for each in found] == [
        ("measured.csv", 3, 12, "seconds", "slow"),
        ("measured.csv", 5, 2, "seconds", "nothing"),
        ("measured.csv", 6, 3, "seconds", "-1"),
    ]
    assert all(each.message.endswith("small.yaml:8:34 names: stragglers.0.file)") for each in found)
    assert found[0].source_line == '"0, slow", slow'


@pytest.mark.parametrize(
    ("knobs", "key", "column", "words"),
    [
        ("", "stragglers.0.file", 34, "the trace has several columns; give 'column', one of rank, seconds"),
        (", column: secs", "stragglers.0.column", 56, "the trace has no column 'secs' (known: rank, seconds)"),
    ],
)
def test_a_missing_column_of_a_trace_is_reported_with_the_header_line_and_that_of_the_scenario(
    mistakes: Mistakes, tmp_path: Path, knobs: str, key: str, column: int, words: str
) -> None:
    (tmp_path / "measured.csv").write_text("# ours\nrank,seconds\n0,0.1\n")
    (mistake,) = mistakes(f"stragglers: [{{kind: trace, file: measured.csv{knobs}}}]")
    assert (Path(mistake.file or "").name, mistake.line, mistake.column) == ("measured.csv", 2, 1)
    assert words in mistake.message
    assert mistake.message.endswith(f"small.yaml:8:{column} names: {key})")


def test_a_trace_of_one_job_is_reported_with_the_line_of_that_job(mistakes: Mistakes, tmp_path: Path) -> None:
    (tmp_path / "measured.csv").write_text("seconds\nslow\n")
    (mistake,) = mistakes("jobs: [{}, {stragglers: [{kind: trace, file: measured.csv}]}]")
    assert (mistake.line, mistake.column, mistake.got) == (2, 1, "slow")
    assert mistake.message.endswith("small.yaml:8:46 names: jobs.1.stragglers.0.file)")


def test_a_model_that_does_not_fit_is_refused_before_the_run_unless_memory_check_is_false(load: Load) -> None:
    with pytest.raises(InputError, match="use a smaller batch per GPU") as error:
        load("batch: {per_gpu: 8000}")
    written = re.search(r"this needs ([\d.]+) GB: (.*?);", str(error.value))
    assert written is not None
    parts = [parse(part.partition(" ")[2], "size") for part in written[2].split(" + ")]
    assert sum(parts) == pytest.approx(float(written[1]) * 1e9, rel=5e-3)  # all are written with three digits
    assert load("batch: {per_gpu: 8000}\nmemory_check: false").points()


def test_a_sweep_reports_each_size_that_does_not_fit_once(mistakes: Mistakes) -> None:
    found = mistakes("batch: {per_gpu: [8, 8000, 9000]}\nnum_gpus: [2, 4]")
    assert [(each.key, each.column, each.got) for each in found] == [
        ("batch.per_gpu", 22, needed(8000)),
        ("batch.per_gpu", 28, needed(9000)),
    ]


def test_all_mistakes_are_reported_together_in_the_order_of_the_file(mistakes: Mistakes) -> None:
    found = mistakes(
        "num_gpus: x\nseed: -1\ntopology: {kind: star, num_hosts: 0, link: 3, lnik: 1}\n"
        "strategy: {kind: rung}\nbogus: 1\nseed: 5"
    )
    assert [mistake.key for mistake in found] == [
        "num_gpus",
        "seed",
        "topology.num_hosts",
        "topology.link",
        "topology.lnik",
        "strategy.kind",
        "bogus",
        "seed",
    ]
    assert [mistake.line for mistake in found] == sorted(mistake.line or 0 for mistake in found)


def test_got_and_allowed_are_separate_fields(mistakes: Mistakes) -> None:
    (mistake,) = mistakes("strategy: {kind: all-reduce, algorithm: rng}")
    assert mistake.got == "rng"
    assert mistake.allowed is not None
    assert "ring" in mistake.allowed.split(", ")
    (mistake,) = mistakes("num_gpus: 0")
    assert (mistake.got, mistake.allowed) == ("0", "a number of at least 1")


def test_a_mistake_in_a_mapping_has_no_line_but_a_key() -> None:
    with pytest.raises(InputError) as caught:
        load_scenario({"software": "plain", "model": "alexnet", "num_gpus": "x", "batch": {"per_gpu": 0}})
    assert [(mistake.key, mistake.line) for mistake in caught.value.mistakes] == [
        ("num_gpus", None),
        ("batch.per_gpu", None),
        ("topology", None),
    ]


@pytest.mark.parametrize(
    ("value", "words"),
    [
        (object(), "expected text, a number, a list or a map (got object)"),
        (float("nan"), "a number must be finite (got nan)"),
        (b"4", "(got bytes)"),
        ({1, 2}, "(got set)"),
    ],
)
def test_a_mapping_may_have_only_values_of_a_file(load: Load, value: object, words: str) -> None:
    with pytest.raises(InputError) as caught:
        load_scenario(load().raw | {"num_gpus": value})
    assert words in caught.value.mistakes[0].message
    assert caught.value.mistakes[0].key == "num_gpus"


def test_a_mapping_that_holds_itself_is_refused(load: Load) -> None:
    raw = dict(load().raw)
    raw["batch"] = raw
    with pytest.raises(InputError, match="nested more than 40 levels deep"):
        load_scenario(raw)


def test_numbers_of_numpy_and_paths_are_plain_values(load: Load, tmp_path: Path) -> None:
    import numpy as np

    cluster = tmp_path / "cluster.yaml"
    cluster.write_text("kind: star\nnum_hosts: 3\nlink: 1 Gbit/s\ngpu: k80\n", encoding="utf-8")
    scenario = load_scenario(load().raw | {"num_gpus": list(np.array([1, 2])), "topology": cluster})
    assert scenario.axes == {"num_gpus": [1, 2]}
    assert scenario.topology.num_hosts == 3


def test_a_whole_number_may_be_written_with_an_exponent(load: Load) -> None:
    scenario = load("dataset_size: 1.28e6\nepochs: 2")
    assert scenario.dataset_size == 1_280_000
    assert isinstance(scenario.dataset_size, int)


def test_global_and_per_gpu_batches_follow_from_each_other(load: Load) -> None:
    (point,) = (point for _, point in load("batch: {global: 64}").points())
    assert (point.per_gpu_batch, point.global_batch) == (16, 64)
    (point,) = (point for _, point in load("batch: {per_gpu: 8}").points())
    assert (point.per_gpu_batch, point.global_batch) == (8, 32)


def test_published_figures_have_a_metric(load: Load) -> None:
    (figure,) = load("published: [{num_gpus: 4, efficiency: 0.5, source: x, note: y}]").published
    assert (figure.metric, figure.value) == ("efficiency", 0.5)


def test_equal_clusters_are_built_once(load: Load) -> None:
    first, second = (build_topology(point.topology) for _, point in load("num_gpus: [1, 2]").points())
    assert first is second


def test_no_mistake_hides_another(tmp_path):
    """Wrong names, sizes and options are all reported, whichever package finds them."""
    path = tmp_path / "wrong.yaml"
    path.write_text(
        "model: alexnte\nnum_gpus: 99\nbatch: {per_gpu: 4}\nepochs: 3\n"
        "topology: {kind: star, num_hosts: 2, gpu: k80, link: 1 GB/s, hop: 1 us}\n"
        "transport: ncl\nstrategy: {kind: all-reduce, algorithm: rng}\n"
    )
    with pytest.raises(InputError) as error:
        load_scenario(path)
    keys = {mistake.key for mistake in error.value.mistakes}
    assert keys == {"model", "num_gpus", "epochs", "transport", "strategy.algorithm"}


def test_an_unknown_cluster_hides_no_mistake(tmp_path):
    path = tmp_path / "wrong.yaml"
    path.write_text("model: alexnte\nnum_gpus: 8\nbatch: {per_gpu: 4}\ntopology: titn\nstrategy: {kind: alreduce}\n")
    with pytest.raises(InputError) as error:
        load_scenario(path)
    assert {mistake.key for mistake in error.value.mistakes} == {"model", "topology", "strategy.kind"}


def test_a_batch_that_does_not_divide_hides_no_wrong_model(tmp_path):
    path = tmp_path / "wrong.yaml"
    path.write_text(
        "model: alexnte\nnum_gpus: 5\nbatch: {global: 12}\ntopology: titan\nstrategy: {kind: all-reduce, buckets: 12}\n"
    )
    with pytest.raises(InputError) as error:
        load_scenario(path)
    assert {mistake.key for mistake in error.value.mistakes} == {"model", "batch.global", "strategy.buckets"}


@pytest.mark.parametrize(
    ("wrong", "memory"),
    [
        ({"recompute": "full"}, False),
        ({"lora": {"rank": 0}}, False),
        ({"software": "torchtitann"}, False),
        ({"gradient_precision": "fp12"}, False),
        ({"seed": -1}, True),
    ],
)
def test_memory_is_not_checked_beside_a_mistake_in_a_key_that_it_depends_on(
    wrong: dict[str, object], memory: bool
) -> None:
    """A refused key says the cause alone; one that has nothing to do with memory hides no lack of it."""
    asked = {
        "model": "llama-3.1-8b", "num_gpus": 8, "batch": {"per_gpu": 1}, "precision": "amp-bf16", "optimizer": "adam",
        "topology": {"kind": "star", "num_hosts": 1, "host": "dgx-h100", "link": "infiniband-ndr"},
    }  # fmt: skip
    with pytest.raises(InputError) as raised:
        load_scenario({**asked, **wrong})
    assert any("one h100 holds" in each.message for each in raised.value.mistakes) == memory
    assert len(raised.value.mistakes) == 1 + memory
