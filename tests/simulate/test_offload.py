"""Offload to the host: bytes over PCIe, closed forms of its cost, and what the GPUs of a host share."""

from __future__ import annotations

import itertools
from pathlib import Path
from typing import Any

import pytest

import clustersim
from clustersim.errors import InputError
from clustersim.results import Run
from clustersim.scenario import load_scenario
from clustersim.simulate.programs import programs_of
from clustersim.simulate.setup import Setup
from clustersim.units import format_size

NUM_LAYERS, PARAMETERS, KEPT = 6, 5e6, 3e6  # of each layer; elements of its output for a sample
FORWARD_S, BACKWARD_S = 0.01, 0.02
BATCH = 4
ADAM_BYTES = 28  # that an update of a parameter moves, in fp32


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> str:
    """Equal layers with times of their own, each of which leaves its output for backward."""
    path = tmp_path_factory.mktemp("model") / "even.yaml"
    layer = (
        f"op: relu, flop: 1e9, parameter_bytes: {4 * PARAMETERS}, activation_bytes: {4 * KEPT}, "
        f"forward_s: {FORWARD_S}, backward_s: {BACKWARD_S}"
    )
    rows = "".join(f"  - {{name: l{number}, {layer}}}\n" for number in range(NUM_LAYERS))
    path.write_text(f"name: even\nlayers:\n{rows}")
    return str(path)


def host(tmp_path: Path, memory: str = "50 GB/s", pcie: str = "10 GB/s", num_gpus: int = 1) -> dict[str, Any]:
    """Return a host of one socket whose memory and PCIe have these rates, and no latency."""
    source = "source: 'assumed: a round number'"
    cpu = tmp_path / "cpu.yaml"
    cpu.write_text(
        f"name: cpu\ntitle: A processor\nmemory_bytes_per_s: {{value: {memory}, {source}}}\n"
        f"core_bytes_per_s: {{value: {memory}, {source}}}\n"
    )
    host = {"template": "single-socket", "gpu": "v100", "num_gpus": num_gpus, "cpu": str(cpu), "pcie": pcie}
    return {"kind": "star", "num_hosts": 1, "host": host, "link": "100 GB/s", "hop": "0 s"}


def scenario(model: str, topology: dict[str, Any], num_gpus: int = 1, **layout: Any) -> dict[str, Any]:
    return {
        "model": model,
        "num_gpus": num_gpus,
        "batch": {"per_gpu": BATCH},
        "topology": topology,
        "software": "plain",
        "optimizer": "adam",
        "strategy": {"kind": "all-reduce", "buckets": "layer"},
        "parallelism": {"data": num_gpus, **layout},
        "num_iterations": 2,
        "memory_check": False,
    }


def run(*arguments: Any, **layout: Any) -> Run:
    return clustersim.simulate(scenario(*arguments, **layout))


def pcie_bytes(simulated: Run) -> float:
    """Return what crosses links of PCIe in an iteration, both ways."""
    return sum(kind.num_bytes for kind in simulated.link_classes if kind.kind == "pcie")


def own_update_s(model: str, topology: dict[str, Any]) -> float:
    """Return what the update takes on the GPU."""
    return Setup(load_scenario(scenario(model, topology)).points()[0].point).reference.optimizer_s


@pytest.mark.parametrize("sharding", [None, "zero-1", "zero-2", "zero-3"])
def test_gradients_go_over_pcie_and_weights_come_back_once_an_iteration(
    model: str, tmp_path: Path, sharding: str | None
) -> None:
    for micro_batches in (1, 2):
        layout = {"offload": "optimizer", "sharding": sharding, "micro_batches": micro_batches}
        simulated = run(model, host(tmp_path), **layout)
        assert pcie_bytes(simulated) == pytest.approx((4 + 4) * NUM_LAYERS * PARAMETERS, rel=1e-12)


def test_sixteen_bit_weights_come_back_and_each_kept_byte_goes_there_and_back_but_for_the_last_layer(
    model: str, tmp_path: Path
) -> None:
    short = {**scenario(model, host(tmp_path), offload="optimizer+activations"), "precision": "fp16"}
    setup = Setup(load_scenario(short).points()[0].point)
    assert setup.laid_out is not None
    (part,) = setup.laid_out.parts
    expected = (2 + 2) * NUM_LAYERS * PARAMETERS + 2 * sum(part.kept[:-1])
    assert pcie_bytes(clustersim.simulate(short)) == pytest.approx(expected, rel=1e-12)


@pytest.mark.parametrize("offload", ["optimizer", "activations", "optimizer+activations"])
@pytest.mark.parametrize("layout", [{}, {"micro_batches": 2}, {"pipeline": 2, "micro_batches": 4}])
def test_with_an_infinitely_fast_host_offload_only_saves_the_gpu_its_update(
    model: str, tmp_path: Path, offload: str, layout: dict[str, Any]
) -> None:
    num_gpus = layout.get("pipeline", 1)
    topology = host(tmp_path, "1e12 GB/s", "1e12 GB/s", num_gpus)
    layout = {"data": 1, **layout}
    plain, away = (
        clustersim.simulate({**scenario(model, topology, num_gpus), "parallelism": {**layout, "offload": each}})
        for each in ("none", offload)
    )
    saved_s = own_update_s(model, topology) / num_gpus if "optimizer" in offload else 0.0
    assert away.iteration_s == pytest.approx(plain.iteration_s - saved_s, rel=1e-9)


@pytest.mark.parametrize("pcie_bytes_per_s", [1e8, 1e9, 4e9, 2e10])
def test_what_an_offloaded_update_costs_is_what_cannot_be_hidden_of_copies_and_updates(
    model: str, tmp_path: Path, pcie_bytes_per_s: float
) -> None:
    memory_bytes_per_s = 5e10
    topology = host(tmp_path, f"{memory_bytes_per_s} B/s", f"{pcie_bytes_per_s} B/s")
    copy_s, update_s = 4 * PARAMETERS / pcie_bytes_per_s, ADAM_BYTES * PARAMETERS / memory_bytes_per_s
    others = NUM_LAYERS - 1
    there_s = NUM_LAYERS * FORWARD_S + BACKWARD_S + others * max(BACKWARD_S, copy_s) + copy_s
    back_s = there_s + update_s + others * max(update_s, copy_s) + copy_s
    simulated = run(model, topology, offload="optimizer")
    assert simulated.iteration_s == pytest.approx(back_s, rel=1e-9)
    compute_s = NUM_LAYERS * (FORWARD_S + BACKWARD_S)
    assert simulated.breakdown_s["compute"] == pytest.approx(compute_s, rel=1e-9)
    assert simulated.breakdown_s["offload"] == pytest.approx(back_s - compute_s, rel=1e-9)


@pytest.mark.parametrize("pcie_bytes_per_s", [1e8, 2.4e9, 6e9, 4e10])
def test_what_offloaded_activations_cost_is_a_recurrence_over_the_layers(
    model: str, tmp_path: Path, pcie_bytes_per_s: float
) -> None:
    topology = host(tmp_path, pcie=f"{pcie_bytes_per_s} B/s")
    setup = Setup(load_scenario(scenario(model, topology, offload="activations")).points()[0].point)
    assert setup.laid_out is not None
    kept_s = [num_bytes / pcie_bytes_per_s for num_bytes in setup.laid_out.parts[0].kept]
    assert kept_s[1:] == pytest.approx([4 * KEPT * BATCH / pcie_bytes_per_s] * NUM_LAYERS)
    now_s, out_s = 0.0, [0.0] * len(kept_s)
    for place, seconds in enumerate(kept_s[:-1]):
        if seconds:
            now_s = max(now_s, *out_s)
            out_s[place] = now_s + seconds
        now_s += FORWARD_S
    away = [place for place, seconds in enumerate(kept_s[:-1]) if seconds]
    free_s, back_s = now_s, dict.fromkeys(range(NUM_LAYERS + 1), now_s)
    begun = iter(reversed(away))

    def fetch(place: int) -> None:
        nonlocal free_s
        free_s = back_s[place] = max(free_s, now_s, out_s[place]) + kept_s[place]

    fetch(next(begun))  # one ahead of the last layer's, which stays
    for layer in reversed(range(NUM_LAYERS)):
        if layer - 1 in away:
            fetch(next(begun))
        now_s = max(now_s, back_s[layer]) + BACKWARD_S
    expected_s = now_s + own_update_s(model, topology)
    assert run(model, topology, offload="activations").iteration_s == pytest.approx(expected_s, rel=1e-9)


@pytest.mark.parametrize("layout", [{}, {"sharding": "zero-1"}])
def test_gpus_share_the_memory_in_which_they_update_and_one_another_s_work_where_it_is_shared_out(
    model: str, tmp_path: Path, layout: dict[str, Any]
) -> None:
    memory_bytes_per_s = 1e9
    topology = host(tmp_path, f"{memory_bytes_per_s} B/s", "1e12 GB/s", num_gpus=4)
    alone_s = ADAM_BYTES * NUM_LAYERS * PARAMETERS / memory_bytes_per_s
    rows = run(model, topology, 4, offload="optimizer", **layout).spans.rows()
    spans = [row for row in rows if row[0] == "host-update"]
    copies = 1 if layout else 4  # of the model that are updated there
    lasts_s = max(end_s for _, _, _, _, end_s, _, _ in spans) - min(start_s for _, _, _, start_s, _, _, _ in spans)
    assert {rank for _, rank, *_ in spans} == {0, 1, 2, 3}
    assert lasts_s == pytest.approx(copies * alone_s, rel=1e-9)


def test_jobs_share_the_memory_in_which_a_host_updates_as_gpus_of_one_job_do(model: str, tmp_path: Path) -> None:
    topology = host(tmp_path, "1 GB/s", "1e12 GB/s", num_gpus=2)
    alone_s, both_s = (run(model, topology, num, offload="optimizer").iteration_s for num in (1, 2))
    jobs = clustersim.simulate(scenario(model, topology, offload="optimizer") | {"jobs": 2}).jobs
    assert [job.iteration_s for job in jobs] == pytest.approx([both_s] * 2, rel=1e-9)
    assert [job.alone_iteration_s for job in jobs] == pytest.approx([alone_s] * 2, rel=1e-9)


def test_gpus_behind_one_switch_share_its_link_to_the_host(model: str, tmp_path: Path) -> None:
    topology = host(tmp_path, "1e12 GB/s", "100 MB/s", num_gpus=4)
    behind_one = {**topology, "host": {**topology["host"], "template": "single-root"}}
    apart, together = (
        next(row for row in run(model, each, 2, offload="activations").spans.rows() if row[0] == "copy")
        for each in (topology, behind_one)
    )
    assert apart[5] == together[5] == "kept to host, micro-batch 0"
    assert together[4] - together[3] == pytest.approx(2 * (apart[4] - apart[3]), rel=1e-9)


@pytest.mark.parametrize(
    "layout",
    [
        {"offload": "optimizer"},
        {"offload": "optimizer+activations", "sharding": "zero-2", "micro_batches": 2},
        {"offload": "optimizer+activations", "sharding": "zero-3", "recompute": "full"},
        {"offload": "optimizer+activations", "data": 1, "pipeline": 4, "micro_batches": 4, "schedule": "interleaved"},
        {"offload": "optimizer", "data": 2, "pipeline": 2, "micro_batches": 4, "schedule": "zero-bubble"},
    ],
)
def test_the_exact_run_says_the_same_and_parts_fill_the_iteration(
    model: str, tmp_path: Path, layout: dict[str, Any]
) -> None:
    even = scenario(model, host(tmp_path, num_gpus=4), 4, **layout)
    if layout.get("schedule") == "interleaved":
        even["model"] = "vgg16"
    quick, exact = (clustersim.simulate(load_scenario(even), exact=each) for each in (False, True))
    assert quick.iteration_s == pytest.approx(exact.iteration_s, rel=1e-9)
    assert quick.breakdown_s == pytest.approx(exact.breakdown_s, rel=1e-9, abs=1e-12)
    assert quick.breakdown_s["offload"] > 0
    assert sum(quick.breakdown_s.values()) == pytest.approx(quick.iteration_s, rel=1e-9)


@pytest.mark.parametrize("sharding", ["zero-1", "zero-2", "zero-3"])
def test_one_gpu_with_sharding_is_as_fast_as_one_without(model: str, tmp_path: Path, sharding: str) -> None:
    topology = host(tmp_path)
    plain, alone = (run(model, topology, offload="optimizer", sharding=each) for each in (None, sharding))
    assert pcie_bytes(alone) == pytest.approx(pcie_bytes(plain), rel=1e-12)
    if sharding == "zero-1":
        assert alone.iteration_s == pytest.approx(plain.iteration_s, rel=1e-12)


def test_copies_and_the_update_on_the_host_are_in_the_timeline_and_in_the_program(model: str, tmp_path: Path) -> None:
    away = scenario(model, host(tmp_path), offload="optimizer+activations")
    simulated = clustersim.simulate(away)
    names = {(kind, name.split(",")[0]) for kind, _, _, _, _, name, _ in simulated.spans.rows()}
    assert {
        ("copy", "gradients to host"),
        ("copy", "updated weights from host"),
        ("copy", "kept to host"),
        ("copy", "fetched from host"),
        ("host-update", "update on the host"),
        ("offload", "updated weights"),
    } <= names
    copies = sorted(
        (start_s, end_s) for kind, _, _, start_s, end_s, name, _ in simulated.spans.rows() if "to host" in name
    )
    assert all(before[1] <= after[0] + 1e-12 for before, after in itertools.pairwise(copies))
    programs = programs_of(Setup(load_scenario(away).points()[0].point))
    lines = programs.plans[0].program.lines()
    assert "begin to copy gradients 0.0 to host: 2e+07 B" in lines
    assert "begin update on the host 0.1 after update on the host 0.0: 1.4e+08 B in the host's memory" in lines
    assert "begin to copy updated weights 0.1 from host after update on the host 0.1: 2e+07 B" in lines
    with pytest.raises(InputError, match="no node for the work of a host"):
        programs.tasks()


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"parallelism": {"offload": "optimizer", "pipeline": 2, "schedule": "pipedream"}}, "keeps the weights"),
        (
            {"parallelism": {"offload": "activations", "pipeline": 2, "schedule": "zero-bubble", "micro_batches": 4}},
            "splits the backward pass of a layer in two",
        ),
        ({"strategy": {"kind": "server"}}, "from an all-reduce (got strategy server)"),
        ({"compression": "fp16"}, "they are not compressed (got fp16)"),
        ({"parallelism": {"kind": "one-weird-trick", "offload": "optimizer"}}, "leave offload out"),
        (
            {
                "topology": {
                    "kind": "star",
                    "num_hosts": 2,
                    "host": {"template": "bare", "gpu": "v100"},
                    "link": "1 GB/s",
                }
            },
            "no host memory",
        ),
    ],
)
def test_settings_that_exclude_offload_are_refused(
    model: str, tmp_path: Path, changes: dict[str, Any], message: str
) -> None:
    wrong = {**scenario(model, host(tmp_path, num_gpus=2), 2, offload="optimizer"), **changes}
    with pytest.raises(InputError) as caught:
        load_scenario(wrong).points()
    assert message in str(caught.value)
    assert "parallelism.offload" in str(caught.value)


def test_ten_billion_parameters_fit_one_v100_with_offload_and_not_without() -> None:
    """Ren et al., arXiv:2101.06840, abstract; layers and batch are those of DeepSpeed's tutorial of ZeRO-Offload."""
    dgx2 = {"kind": "star", "num_hosts": 1, "host": {"template": "dgx-2", "gpu": "v100-32gb"}, "link": "100 Gbit/s"}
    gpt = {
        **scenario("gpt-50x4096x32-seq1024", dgx2, recompute="full", offload="optimizer"),
        "batch": {"global": 10},
        "precision": "fp16",
        "memory_check": True,
    }
    assert Setup(load_scenario(gpt).points()[0].point).memory_warnings() == ()
    smallest = {"offload": "none", "recompute": "full", "micro_batches": 10}
    with pytest.raises(InputError, match=r"and this needs 1\d\d GB"):
        load_scenario({**gpt, "parallelism": smallest}).points()


@pytest.mark.parametrize("sharding", [None, "zero-1"])
def test_what_four_gpus_offload_has_to_fit_into_the_memory_of_their_host(
    model: str, tmp_path: Path, sharding: str | None
) -> None:
    topology = host(tmp_path, num_gpus=4)
    away = {**scenario(model, topology, 4, offload="optimizer", sharding=sharding), "memory_check": True}
    unknown = Setup(load_scenario(away).points()[0].point).assumptions([])
    held = (8 + 4 + 4) * NUM_LAYERS * PARAMETERS * (1 if sharding else 4)  # state, weights, gradients
    assert any("its capacity is unknown" in sentence for sentence in unknown)
    topology["host"]["memory"] = f"{held * 1.001} B"
    known = Setup(load_scenario(away).points()[0].point).assumptions([])
    found = [sentence for sentence in known if sentence.startswith("Host memory holds")]
    assert found == [f"Host memory holds {format_size(held)} of offloaded data; its capacity is {format_size(held)}."]
    topology["host"]["memory"] = f"{held * 0.99} B"
    with pytest.raises(InputError, match="shard it over the copies") as caught:
        load_scenario(away).points()
    assert caught.value.mistakes[0].key == "parallelism.offload"
    assert load_scenario({**away, "memory_check": False}).points()


def test_what_jobs_offload_has_to_fit_into_the_memory_of_a_host_together(model: str, tmp_path: Path) -> None:
    topology = host(tmp_path, num_gpus=2)
    held = (8 + 4 + 4) * NUM_LAYERS * PARAMETERS  # of one job: state, weights, gradients
    topology["host"]["memory"] = f"{held * 1.99} B"
    away = {**scenario(model, topology, offload="optimizer"), "memory_check": True}
    assert load_scenario(away).points()
    with pytest.raises(InputError, match="its jobs offload 960 MB to it; take fewer jobs") as caught:
        load_scenario(away | {"jobs": 2}).points()
    assert [(each.key, each.got) for each in caught.value.mistakes] == [("jobs", format_size(2 * held))]
    assert load_scenario(away | {"jobs": 2, "topology": {**topology, "num_hosts": 2}, "placement": "spread"}).points()
