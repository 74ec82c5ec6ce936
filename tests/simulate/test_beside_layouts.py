"""Features that work with layouts: laws that compare them with plain training, and shortcuts with the exact run.

A layout of one stage with all layers of a model is plain training; an executor simulates it.
"""

from __future__ import annotations

from typing import Any

import pytest

import clustersim
from clustersim.errors import InputError
from clustersim.kernels import COMPRESSIONS
from clustersim.model import load_model
from clustersim.scenario import load_scenario
from clustersim.simulate.forecast import forecast
from clustersim.simulate.long_run import written_bytes
from clustersim.simulate.setup import Setup
from tests.placed import placed

STAR = {"kind": "star", "num_hosts": 8, "gpu": "p100", "link": "10 Gbit/s", "hop": "1 us"}
DGX = {"kind": "star", "num_hosts": 2, "host": "dgx-a100", "link": "infiniband-hdr", "hop": "1 us"}
ONE_STAGE = {"stages": [len(load_model("squeezenet-1.0").layers)]}
KINDS: dict[str, dict[str, Any]] = {
    "fp16": {},
    "int8": {"group": 512},
    "one-bit": {"group": 512},
    "top-k": {"density": 0.01},
}


def scenario(**other: Any) -> dict[str, Any]:
    return placed(
        {
            "model": "squeezenet-1.0",
            "num_gpus": 4,
            "batch": {"per_gpu": 8},
            "topology": STAR,
            "transport": "nccl",
            "strategy": {"kind": "all-reduce"},
            "num_iterations": 3,
            **other,
        }
    )


def language(layout: dict[str, Any], num_gpus: int = 16, **other: Any) -> dict[str, Any]:
    """A small language model over hosts of eight."""
    return scenario(
        model="gpt-4x512x8-seq256", num_gpus=num_gpus, topology=DGX, batch={"global": 32}, parallelism=layout, **other
    )


def compressed(kind: str) -> dict[str, Any]:
    return {"kind": kind, **KINDS[kind]}


def assert_alike(one: Any, other: Any) -> None:
    assert one.iteration_s == pytest.approx(other.iteration_s, rel=1e-9)
    for part, seconds in other.breakdown_s.items():
        assert one.breakdown_s[part] == pytest.approx(seconds, rel=1e-9, abs=1e-9 * other.iteration_s)
    for links, others in zip(one.link_classes, other.link_classes, strict=True):
        assert links.num_bytes == pytest.approx(others.num_bytes, rel=1e-9)


def both(asked: dict[str, Any]) -> tuple[Any, Any]:
    """Return the forecasts with shortcuts and without."""
    point = load_scenario(asked).points()[0].point
    return forecast(point), forecast(point, exact=True)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(
    "strategy",
    [{"kind": "all-reduce"}, {"kind": "all-reduce", "overlap": False}, {"kind": "server", "servers": {"num": 2}}],
)
def test_one_stage_compresses_as_plain_training_does(kind: str, strategy: dict[str, Any]) -> None:
    asked = scenario(strategy=strategy, compression=compressed(kind))
    plain, laid_out = clustersim.simulate(asked), clustersim.simulate({**asked, "parallelism": ONE_STAGE})
    assert_alike(laid_out, plain)
    assert laid_out.memory_parts == pytest.approx(plain.memory_parts)
    assert laid_out.buckets == plain.buckets


@pytest.mark.parametrize("kind", KINDS)
def test_compressed_gradients_of_folded_ranks_are_those_of_all_ranks(kind: str) -> None:
    asked = language({"tensor": 2, "pipeline": 2, "micro_batches": 4}, compression=compressed(kind))
    folded, exact = both(asked)
    assert any("simulated as one" in shortcut for shortcut in folded.shortcuts)
    assert_alike(folded.run, exact.run)


def test_each_stage_gathers_the_gradients_of_its_own_part() -> None:
    """Of 4 copies each sends its compressed part to 3 others, over all stages the whole model's."""
    asked = scenario(num_gpus=8, parallelism={"pipeline": 2, "micro_batches": 2}, strategy={"kind": "all-reduce"})
    runs = [clustersim.simulate({**asked, "compression": kind}) for kind in ("none", compressed("int8"))]
    plain, small = (next(each.num_bytes for each in run.link_classes if each.kind == "access") / 2 for run in runs)
    gradients = load_model("squeezenet-1.0").num_parameters
    saved = gradients * (2 * 3 * 4 - 4 * 3 * (1 + 4 / 512))
    assert plain - small == pytest.approx(saved, rel=1e-9)


def test_a_gradient_of_two_bytes_is_sent_as_it_is() -> None:
    asked = language({"tensor": 2, "pipeline": 2, "micro_batches": 2}, precision="fp16", memory_check=False)
    plain, short = (clustersim.simulate({**asked, "compression": kind}) for kind in ("none", "fp16"))
    assert short.iteration_s == plain.iteration_s


@pytest.mark.parametrize("kind", ["one-weird-trick", "local-fields", "paths"])
def test_other_layouts_compress_what_copies_exchange(kind: str) -> None:
    model = {"one-weird-trick": "alexnet", "local-fields": "squeezenet-1.0", "paths": "googlenet"}[kind]
    layout = {"kind": kind} if kind == "one-weird-trick" else {"kind": kind, "data": 2}
    asked = scenario(model=model, parallelism=layout, compression=compressed("int8"))
    assert both(asked)[0].run.iteration_s == pytest.approx(both(asked)[1].run.iteration_s, rel=1e-9)
    sent = [sum(size for _, size, _ in clustersim.simulate({**asked, "compression": each}).buckets) for each in
            ("none", compressed("int8"))]  # fmt: skip
    assert sent[1] / sent[0] == pytest.approx(COMPRESSIONS["int8"].model_validate({"kind": "int8"}).wire_bytes(4) / 4)


LAYOUTS: list[dict[str, Any]] = [
    ONE_STAGE,
    {"pipeline": 2, "micro_batches": 4},
    {"pipeline": 2, "micro_batches": 4, "schedule": "pipedream"},
    {"data": 2, "sharding": "zero-3", "pipeline": 2},
    {"kind": "local-fields", "data": 2},
]


MEET_IN_ALL_REDUCES = {"schedule", "sharding", "kind"}


@pytest.mark.parametrize(
    ("strategy", "layout"),
    [
        (strategy, layout)
        for strategy in ("all-reduce", "server", "local", "gossip", "async", "backup")
        for layout in LAYOUTS
        if strategy == "all-reduce" or not layout.keys() & MEET_IN_ALL_REDUCES
    ],
)
def test_layout_jobs_on_links_of_their_own_are_as_fast_as_alone(strategy: str, layout: dict[str, Any]) -> None:
    asked = scenario(parallelism=layout, strategy={"kind": strategy})
    alone, beside = clustersim.simulate(asked), clustersim.simulate({**asked, "jobs": 2})
    assert [job.slowdown for job in beside.jobs] == pytest.approx([1, 1], rel=1e-9)
    if strategy in ("async", "backup"):
        return  # measuring begins when both have ended their warm-up, and alone when one has
    assert beside.iteration_s == pytest.approx(alone.iteration_s, rel=1e-9)
    assert beside.breakdown_s == pytest.approx(alone.breakdown_s, rel=1e-9, abs=1e-9 * alone.iteration_s)
    assert beside.links[0].num_bytes == pytest.approx(alone.links[0].num_bytes, rel=1e-9)
    assert beside.staleness == alone.staleness
    assert [line.stage for line in beside.memory_lines] == [line.stage for line in alone.memory_lines]


TRUNK = {
    "kind": "explicit",
    "gpu": "p100",
    "link": "1000 GB/s",
    "hop": "0 s",
    "nodes": {"h0": "host", "h1": "host", "left": "switch", "right": "switch", "h2": "host", "h3": "host"},
    "links": [
        {"a": "h0", "b": "left"},
        {"a": "h1", "b": "left"},
        {"a": "left", "b": "right", "link": "10 MB/s"},
        {"a": "h2", "b": "right"},
        {"a": "h3", "b": "right"},
    ],
}
"""Two GPUs on either side of one link."""


def test_two_pipelines_that_send_over_one_link_get_half_of_it_each(tmp_path) -> None:
    """Its activations go over the link, then its gradients back. Times of a file are a GPU's share of the batch."""
    layer = "op: other, parameter_bytes: 0, activation_bytes: 10e6, forward_s: 0.005, backward_s: 0.01"
    (tmp_path / "two.yaml").write_text(f"name: two\nlayers:\n  - {{name: a, {layer}}}\n  - {{name: b, {layer}}}\n")
    asked = scenario(model=str(tmp_path / "two.yaml"), topology=TRUNK, num_gpus=2, batch={"global": 1},
                     placement=[0, 2, 1, 3], transport="ideal", parallelism={"pipeline": 2})  # fmt: skip
    alone, beside = clustersim.simulate(asked), clustersim.simulate({**asked, "jobs": 2})
    assert alone.iteration_s == pytest.approx(0.06 + 2 * 1.0, rel=1e-9)
    assert beside.iteration_s == pytest.approx(0.06 + 2 * 2.0, rel=1e-9)
    assert [job.slowdown for job in beside.jobs] == pytest.approx([4.06 / 2.06] * 2, rel=1e-9)


@pytest.mark.parametrize("strategy", ["all-reduce", "async"])
def test_a_layout_beside_a_plain_job_is_the_same_with_shortcuts_and_without(strategy: str) -> None:
    jobs = [{"parallelism": {"pipeline": 2, "micro_batches": 4}}, {"strategy": {"kind": strategy}, "start": "20 ms"}]
    asked = scenario(num_gpus=2, topology={**TRUNK, "hop": "1 us"}, placement=[0, 2, 1, 3], jobs=jobs)
    simulated, exact = (clustersim.simulate(asked, exact=exact) for exact in (False, True))
    assert max(job.slowdown for job in simulated.jobs) > 1.05
    for job, other in zip(simulated.jobs, exact.jobs, strict=True):
        assert job.iteration_s == pytest.approx(other.iteration_s, rel=1e-9)
        assert job.slowdown == pytest.approx(other.slowdown, rel=1e-9)


def failing(**checkpoint: Any) -> dict[str, Any]:
    return {"gpu": {"mtbf": "1000 h"}, "checkpoint": checkpoint, "restart": "5 min", "length": "100 h"}


@pytest.mark.parametrize("checkpoint", [{"rate": "1 GB/s"}, {"host": 3, "writers": "all"}])
def test_one_stage_fails_and_recovers_as_plain_training_does(checkpoint: dict[str, Any]) -> None:
    asked = scenario(failures=failing(**checkpoint))
    plain, laid_out = clustersim.simulate(asked), clustersim.simulate({**asked, "parallelism": ONE_STAGE})
    assert_fails_alike(laid_out.failures, plain.failures)
    assert_alike(laid_out, plain)


def assert_fails_alike(one: Any, other: Any) -> None:
    assert (one.num_failures, one.num_checkpoints) == (other.num_failures, other.num_checkpoints)
    found = [(each.write_s, each.lost_s, each.total_s, each.best_s) for each in (one, other)]
    assert found[0] == pytest.approx(found[1], rel=1e-9)


def written(asked: dict[str, Any], writers: str) -> list[float]:
    """Return the bytes of a checkpoint that each rank writes."""
    point = load_scenario({**asked, "failures": failing(rate="1 GB/s", writers=writers)}).points()[0].point
    return written_bytes(Setup(point), point.failures).tolist()


def test_each_stage_is_written_once_by_the_first_of_its_ranks_or_shared_out_among_them() -> None:
    asked = scenario(num_gpus=8, parallelism={"pipeline": 4})
    first, all_of_them = written(asked, "first"), written(asked, "all")
    state = 2 * 4 * load_model("squeezenet-1.0").num_parameters  # weights, and a momentum for each
    assert sum(first) == pytest.approx(state)
    assert first[1::2] == [0.0] * 4
    assert all_of_them == pytest.approx([size / 2 for size in first[::2] for _ in range(2)])


def test_copies_that_share_out_the_state_each_write_their_share_of_it() -> None:
    asked = scenario(parallelism={"sharding": "zero-1"})
    state = 2 * 4 * load_model("squeezenet-1.0").num_parameters
    assert written(asked, "first") == pytest.approx([state / 4] * 4)


def test_every_expert_is_written_once() -> None:
    asked = scenario(model="mixtral-8x7b", parallelism={"expert": 2}, batch={"global": 4}, memory_check=False)
    sizes, state = written(asked, "first"), 2 * 4 * load_model("mixtral-8x7b").num_parameters
    experts = 32 * 8 * 3 * 4096 * 14_336 * 2 * 4.0
    assert sum(sizes) == pytest.approx(state)
    assert sizes[1:] == pytest.approx([experts / 2, 0.0, 0.0])


def test_fully_connected_layers_of_one_weird_trick_are_written_by_all_ranks_that_have_them() -> None:
    sizes = written(scenario(model="alexnet", parallelism={"kind": "one-weird-trick"}), "first")
    assert sizes[1] == sizes[2] == sizes[3] > 0
    assert sizes[0] - sizes[1] == pytest.approx(2_469_696 * 2 * 4)


def test_a_failed_gpu_of_any_stage_stops_all() -> None:
    asked = scenario(num_gpus=8, parallelism={"pipeline": 2, "micro_batches": 2}, failures=failing(rate="1 GB/s"))
    folded, exact = both(asked)
    assert_fails_alike(folded.run.failures, exact.run.failures)
    assert folded.run.failures.mtbf_s == pytest.approx(1000 * 3600 / 8)
    assert folded.run.breakdown_s["recovery"] > 0


BOXES = {**STAR, "num_hosts": 4, "host": {"template": "dual-socket", "gpu": "p100", "num_gpus": 2}}
BOXES.pop("gpu")
INPUTS: list[dict[str, Any]] = [
    {"decode": "300 samples/s"},
    {"decode": "600 samples/s", "cv": 0.4, "prefetch": 0},
    {"storage": "100 MB/s", "sample_bytes": "110 kB"},
    {"decode": "500 samples/s", "copied_bytes": "6 MB"},
]


@pytest.mark.parametrize("samples", INPUTS)
@pytest.mark.parametrize("strategy", ["all-reduce", "server", "local"])
def test_one_stage_waits_for_its_samples_as_plain_training_does(samples: dict[str, Any], strategy: str) -> None:
    asked = scenario(topology=BOXES, strategy={"kind": strategy}, input=samples)
    plain, laid_out = clustersim.simulate(asked), clustersim.simulate({**asked, "parallelism": ONE_STAGE})
    assert plain.breakdown_s["input"] > 0
    assert_alike(laid_out, plain)


READERS = [
    ({"pipeline": 2, "micro_batches": 4}, 1),
    ({"pipeline": 2, "micro_batches": 4, "schedule": "interleaved"}, 1),
    ({"pipeline": 2, "micro_batches": 4, "schedule": "pipedream"}, 1),
    ({"tensor": 2}, 2),
    ({"sharding": "zero-3"}, 2),
    ({"kind": "one-weird-trick"}, 2),
]


@pytest.mark.parametrize(("layout", "num_hosts"), READERS)
def test_hosts_of_the_first_stage_set_the_pace_that_they_decode_at(layout: dict[str, Any], num_hosts: int) -> None:
    """Each copy of a batch is decoded once, however many GPUs a copy of the model lies on."""
    samples = {"decode": "20 samples/s", "copied_bytes": "600 kB"}
    run = clustersim.simulate(scenario(model="alexnet", topology=BOXES, parallelism=layout, input=samples))
    assert run.samples_per_s == pytest.approx(20 * num_hosts, rel=1e-6)
    assert sum(run.breakdown_s.values()) == pytest.approx(run.iteration_s, rel=1e-9)
    assert run.breakdown_s["input"] > 0.4 * run.iteration_s
    assert "input" in run.spans.kind


@pytest.mark.parametrize(
    "layout", [{"tensor": 2, "pipeline": 2, "data": 1, "micro_batches": 2}, {"sharding": "zero-1"}]
)
def test_samples_that_come_in_time_change_nothing_of_a_layout(layout: dict[str, Any]) -> None:
    asked = scenario(model="alexnet", topology=BOXES, parallelism=layout, compute={"launch": "graphs"})
    plain, fed = (clustersim.simulate({**asked, **more}) for more in ({}, {"input": {"decode": "1e9 samples/s"}}))
    assert fed.breakdown_s["input"] == pytest.approx(0, abs=1e-6 * plain.iteration_s)
    assert fed.iteration_s == pytest.approx(plain.iteration_s, rel=1e-4)


def test_the_gpu_that_reads_gives_its_samples_to_those_that_split_layers_with_it() -> None:
    asked = scenario(model="alexnet", topology=STAR, parallelism={"tensor": 4}, batch={"global": 32})
    plain, fed = (
        clustersim.simulate({**asked, "input": {"decode": "1 samples/s", "copied_bytes": size}})
        for size in ("1 B", "1 MB")
    )
    sent = [sum(each.num_bytes for each in run.link_classes if each.kind == "access") / 2 for run in (plain, fed)]
    assert sent[1] - sent[0] == pytest.approx(3 * 32 * (1e6 - 2), rel=1e-9)  # LL sends a byte with another of flags


MEETINGS: list[dict[str, Any]] = [
    {"kind": "async", "servers": {"num": 2, "on": "own-hosts"}},
    {"kind": "softsync", "n": 2},
    {"kind": "bounded-staleness", "bound": 1},
    {"kind": "backup"},
    {"kind": "backup", "backups": 0},
    {"kind": "gossip"},
    {"kind": "gossip", "overlap": False, "graph": "complete"},
]


@pytest.mark.parametrize("strategy", MEETINGS)
@pytest.mark.parametrize("stragglers", [[], [{"kind": "lognormal", "cv": 0.3}]], ids=["steady", "jitter"])
def test_copies_of_one_gpu_exchange_as_workers_do(strategy: dict[str, Any], stragglers: list[dict[str, Any]]) -> None:
    asked = scenario(strategy=strategy, stragglers=stragglers, num_iterations=8)
    plain, laid_out = clustersim.simulate(asked), clustersim.simulate({**asked, "parallelism": ONE_STAGE})
    assert_alike(laid_out, plain)
    assert laid_out.update_s == pytest.approx(plain.update_s, rel=1e-9)
    assert (laid_out.staleness, laid_out.gradients) == (plain.staleness, plain.gradients)
    assert laid_out.facts == pytest.approx(plain.facts, rel=1e-9)


def test_a_copy_is_one_worker_of_asynchronous_servers() -> None:
    """Of n copies alike a gradient is n - 1 versions old when it is applied, by all ranks of its copy."""
    asked = scenario(num_gpus=8, topology={**STAR, "link": "1 TB/s"}, strategy={"kind": "async"}, num_iterations=40)
    run = clustersim.simulate({**asked, "parallelism": {"pipeline": 2, "micro_batches": 2}})
    assert run.staleness["p50"] == 3
    assert run.gradients == {"applied": 40 * 2, "dropped": 0}
    assert {update.worker for update in run.updates.rows()} == {0, 1, 2, 3}


def test_a_slow_stage_holds_up_its_own_copy_alone() -> None:
    """Two copies of two stages each, one with a stage four times as slow: their rates add up."""
    layout = {"parallelism": {"pipeline": 2, "micro_batches": 4}, "strategy": {"kind": "async"}, "num_iterations": 40}
    asked = scenario(topology={**STAR, "link": "1 TB/s"}, batch={"global": 64}, **layout)
    slow = {"kind": "constant", "factor": 4}
    alone = [
        clustersim.simulate({**asked, "num_gpus": 2, "batch": {"global": 32}, "stragglers": each}).samples_per_s
        for each in ([], [{**slow, "of": [1]}])
    ]
    run = clustersim.simulate({**asked, "stragglers": [{**slow, "of": [3]}]})
    assert alone[1] < alone[0] / 2
    assert run.samples_per_s == pytest.approx(sum(alone), rel=0.05)


def test_all_ranks_of_a_copy_agree_on_whose_gradient_is_too_late() -> None:
    asked = scenario(num_gpus=8, strategy={"kind": "backup"}, stragglers=[{"kind": "lognormal", "cv": 0.3}])
    run = clustersim.simulate({**asked, "parallelism": {"pipeline": 2, "micro_batches": 2}, "num_iterations": 8})
    assert run.gradients["applied"] == 8 * 3 * 2
    assert run.gradients["dropped"] % 2 == 0


def test_gossip_of_folded_copies_is_that_of_all_ranks() -> None:
    asked = scenario(num_gpus=8, strategy={"kind": "gossip"}, topology=BOXES, batch={"per_gpu": 4})
    folded, exact = both({**asked, "parallelism": {"tensor": 1, "pipeline": 2, "micro_batches": 2}})
    assert_alike(folded.run, exact.run)


@pytest.mark.parametrize(
    ("layout", "added", "key", "words"),
    [
        ({"sharding": "zero-1"}, {"compression": "fp16"}, "sharding", "with zero-1 gradients are reduce-scattered"),
        (
            {"pipeline": 2, "schedule": "pipedream"},
            {"compression": "fp16"},
            "schedule",
            "the gradients of every micro-batch",
        ),
        ({"pipeline": 2}, {"strategy": {"kind": "hierarchical"}}, "pipeline", "between the workers of a host"),
        ({"pipeline": 2}, {"strategy": {"kind": "gossip", "asynchronous": True}}, "pipeline", "with any free one"),
        (
            {"pipeline": 2},
            {"stragglers": {"kind": "lognormal", "cv": 0.1, "per": "layer"}},
            "pipeline",
            "the whole model",
        ),
        ({"pipeline": 2}, {"strategy": {"kind": "all-reduce", "buckets": "tensor"}}, "pipeline", "single tensors"),
        (
            {"kind": "local-fields"},
            {"input": {"decode": "9 samples/s"}},
            "kind",
            "reading parts of samples",
        ),
    ],
)
def test_settings_that_exclude_a_layout_are_refused(layout, added, key: str, words: str) -> None:
    with pytest.raises(InputError) as error:
        clustersim.simulate(scenario(parallelism=layout, **added))
    assert error.value.mistakes[0].key == f"parallelism.{key}"
    assert words in error.value.mistakes[0].message


def test_gpus_that_share_tokens_stay_in_step() -> None:
    with pytest.raises(InputError, match="so they must be synchronous") as error:
        clustersim.simulate(language({"context": 2}, strategy={"kind": "async"}))
    assert error.value.mistakes[0].key == "parallelism.context"


def test_a_worker_is_a_copy_and_not_a_gpu() -> None:
    with pytest.raises(InputError, match="2 of 2 workers as backups") as error:
        clustersim.simulate(scenario(parallelism={"pipeline": 2}, strategy={"kind": "backup", "backups": 2}))
    assert error.value.mistakes[0].key == "strategy.backups"


def test_experts_are_not_compressed() -> None:
    with pytest.raises(InputError, match="gradients of experts are added in an exchange of their own") as error:
        clustersim.simulate(
            scenario(model="mixtral-8x7b", parallelism={"expert": 4}, compression="fp16", memory_check=False)
        )
    assert error.value.mistakes[0].key == "parallelism.expert"
