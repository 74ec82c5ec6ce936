"""Branches of a network on different GPUs: closed forms of a module, laws, and messages."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import clustersim
from clustersim.errors import InputError
from clustersim.kernels import memory_per_gpu
from clustersim.model import load_model
from clustersim.parallelism import ModelLayout
from clustersim.scenario import load_scenario
from clustersim.simulate.forecast import forecast
from clustersim.simulate.setup import Setup

SWITCHED = {"kind": "star", "num_hosts": 1, "host": "dgx-a100", "link": "infiniband-hdr"}
FAR = {"kind": "star", "num_hosts": 4, "host": {"gpu": "v100"}, "link": "10 GB/s", "hop": "1 us"}


def written(path: Path, paths: dict[str, float], elements: int = 10, before: bool = True) -> str:
    """Write a model whose one module has paths of so many seconds forward, and twice as many backward."""
    first = [("first", 0.01, "")] if before else []
    layers = [*first, *((name, seconds, name) for name, seconds in paths.items()), ("join", 0.01, "")]
    rows = (
        f"  - {{name: {name}, op: convolution, flop: 1e9, parameter_bytes: 4e6, activation_bytes: {4 * elements}, "
        f"input_bytes: {4 * elements}, forward_s: {seconds}, backward_s: {2 * seconds}"
        + (f", branch: {branch}}}" if branch else "}")
        for name, seconds, branch in layers
    )
    path.write_text("\n".join(["name: module", "layers:", *rows, ""]))
    return str(path)


def scenario(model: str, num_gpus: int, data: int = 1, **other: Any) -> dict[str, Any]:
    return {
        "model": model,
        "num_gpus": num_gpus,
        "batch": {"global": 8 * data},
        "topology": SWITCHED,
        "software": "plain",
        "strategy": {"kind": "all-reduce"},
        "parallelism": {"kind": "paths", "data": data},
        "compute": {"variability": 0},
        "num_iterations": 2,
        **other,
    }


def laid_out(asked: dict[str, Any]) -> ModelLayout:
    found = Setup(load_scenario(asked).points()[0].point).laid_out
    assert found is not None
    return found


@pytest.mark.parametrize(
    ("seconds", "num_gpus", "longest"),
    [
        ({"a": 0.02, "b": 0.02}, 2, 0.02),
        ({"a": 0.01, "b": 0.05, "c": 0.02}, 2, 0.05),
        ({"a": 0.01, "b": 0.03, "c": 0.02, "d": 0.02}, 2, 0.04),
        ({"a": 0.01, "b": 0.03, "c": 0.02, "d": 0.02}, 4, 0.03),
        ({"a": 0.01, "b": 0.03, "c": 0.02, "d": 0.02}, 1, 0.08),
    ],
)
def test_a_module_takes_as_long_as_the_gpu_with_most_to_do(
    tmp_path: Path, seconds: dict[str, float], num_gpus: int, longest: float
) -> None:
    """Of paths dealt out the longest first; what comes before and behind them takes its own time."""
    model = written(tmp_path / "model.yaml", seconds)
    run = clustersim.simulate(scenario(model, num_gpus))
    updates = sum(plan.iteration.update_s for plan in laid_out(scenario(model, num_gpus)).plans)
    scale = 1 / num_gpus  # times of a file are those of a GPU's batch
    assert run.iteration_s == pytest.approx(3 * (0.02 + longest) / scale, abs=2e-4 + updates)


def test_a_path_that_is_done_early_waits_and_is_in_no_bubble(tmp_path: Path) -> None:
    model = written(tmp_path / "m.workload.yaml", {"a": 0.01, "b": 0.05})
    run = clustersim.simulate(scenario(model, 2))
    assert run.breakdown_s["bubble"] == 0
    assert run.breakdown_s["waiting"] > 0.2 * run.iteration_s
    kinds = {kind for kind, *_ in run.spans.rows()}
    assert "waiting" in kinds
    assert "bubble" not in kinds
    assert (run.layout["kind"], run.layout["pipeline"], run.layout["data"]) == ("paths", 2, 1)


def with_gradients_that_stay(model: str) -> float:
    """Return what plain training holds, where gradients have buffers of their own as they have in a layout."""
    point = load_scenario(scenario(model, 1) | {"parallelism": {}}).points()[0].point
    return sum(memory_per_gpu(load_model(model), point.per_gpu_batch, point.precision, point.optimizer).values())


def test_one_gpu_of_paths_is_plain_training() -> None:
    plain = clustersim.simulate(scenario("googlenet", 1) | {"parallelism": {}})
    run = clustersim.simulate(scenario("googlenet", 1))
    assert run.iteration_s == pytest.approx(plain.iteration_s, rel=1e-9)
    assert run.memory_bytes == pytest.approx(with_gradients_that_stay("googlenet"), rel=1e-9)


def test_the_model_lies_on_the_gpus_of_a_copy_once() -> None:
    model = load_model("inception-v3")
    found = laid_out(scenario("inception-v3", 4))
    layers = [piece.layer for part in found.parts for piece in part.pieces]
    assert sorted(layer.name for layer in layers) == sorted(layer.name for layer in model.layers)
    one = laid_out(scenario("inception-v3", 1)).plans[0].program.phase_s()
    phases = [plan.program.phase_s() for plan in found.plans]
    for phase in ("forward", "backward"):
        assert sum(each[phase] for each in phases) == pytest.approx(one[phase], rel=1e-9)


def test_a_module_sends_what_it_reads_once_to_each_gpu_and_back_what_paths_write(tmp_path: Path) -> None:
    """Of 8 samples of 1000 elements of 4 bytes: two paths of three, one GPU having both or one each, both ways."""
    model = written(tmp_path / "model.yaml", {"a": 0.05, "b": 0.02, "c": 0.02}, elements=1000)
    message = 8 * 4 * 1000.0
    for num_gpus, messages in ((2, 1 + 2), (3, 2 + 2)):
        run = clustersim.simulate(scenario(model, num_gpus, topology=FAR))
        sent = sum(kind.num_bytes for kind in run.link_classes if kind.kind == "access") / 2
        assert sent == pytest.approx(2 * messages * message, rel=1e-9)


def test_towers_that_begin_with_the_sample_are_sent_none(tmp_path: Path) -> None:
    """Nor is a gradient of it sent back: only what the second tower writes, and its gradient."""
    model = written(tmp_path / "model.yaml", {"left": 0.02, "right": 0.02}, elements=1000, before=False)
    run = clustersim.simulate(scenario(model, 2, topology=FAR))
    sent = sum(kind.num_bytes for kind in run.link_classes if kind.kind == "access") / 2
    assert sent == pytest.approx(2 * 8 * 4 * 1000.0, rel=1e-9)


def test_copies_exchange_gradients_path_by_path() -> None:
    """A ring over d copies puts 2 (d - 1) of all parameters on the wires, wherever in a copy they lie."""
    asked = scenario("squeezenet-1.0", 4, data=2, topology=FAR, strategy={"kind": "all-reduce", "algorithm": "ring"})
    found = laid_out(asked)
    assert [sorted(ranks.tolist()) for ranks in found.replicas()] == [[0, 2], [1, 3]]
    run = clustersim.simulate(asked)
    sent = sum(kind.num_bytes for kind in run.link_classes if kind.kind == "access") / 2
    alone = clustersim.simulate(scenario("squeezenet-1.0", 2, topology=FAR))
    moved = sum(kind.num_bytes for kind in alone.link_classes if kind.kind == "access") / 2
    assert sent == pytest.approx(2 * moved + 2 * 4 * load_model("squeezenet-1.0").num_parameters, rel=1e-6)


def test_towers_with_one_set_of_weights_add_up_their_gradients() -> None:
    """In a ring of two, as many bytes as two copies of the model would; and 4096 features a pair there and back."""
    shared = load_model("siamese-omniglot").num_parameters - 4097
    for overlap in (True, False):
        strategy = {"kind": "all-reduce", "overlap": overlap}
        run = clustersim.simulate(scenario("siamese-omniglot", 2, topology=FAR, strategy=strategy))
        sent = sum(kind.num_bytes for kind in run.link_classes if kind.kind == "access") / 2
        assert sent == pytest.approx(2 * 4 * shared + 2 * 8 * 4 * 4096, rel=1e-6)


def test_a_tower_on_a_gpu_of_its_own_holds_the_weights_too_and_both_on_one_hold_them_once() -> None:
    one, two = laid_out(scenario("siamese-omniglot", 1)), laid_out(scenario("siamese-omniglot", 2))
    weights = [memory["weights"] for memory in two.memory]
    assert weights[0] == one.memory[0]["weights"] == 4 * 38_951_745
    assert weights[1] == 4 * (38_951_745 - 4097)
    plain = clustersim.simulate(scenario("siamese-omniglot", 1) | {"parallelism": {}})
    alone = clustersim.simulate(scenario("siamese-omniglot", 1))
    assert alone.iteration_s == pytest.approx(plain.iteration_s, rel=1e-9)
    assert alone.memory_bytes == pytest.approx(with_gradients_that_stay("siamese-omniglot"), rel=1e-9)


def test_two_towers_take_half_the_time_on_two_gpus_where_messages_take_next_to_none() -> None:
    quick = {"kind": "star", "num_hosts": 1, "host": "dgx-h100", "link": "infiniband-ndr"}
    asked = (scenario("siamese-omniglot", num_gpus, topology=quick, batch={"global": 256}) for num_gpus in (1, 2))
    one, two = map(clustersim.simulate, asked)
    assert two.iteration_s == pytest.approx(one.iteration_s / 2, rel=0.1)


def test_shortcuts_change_nothing() -> None:
    point = load_scenario(scenario("googlenet", 8, data=2)).points()[0].point
    assert forecast(point).run.iteration_s == pytest.approx(forecast(point, exact=True).run.iteration_s, rel=1e-9)


def test_a_second_gpu_takes_part_of_the_activations() -> None:
    one, two = laid_out(scenario("inception-v3", 1)), laid_out(scenario("inception-v3", 2))
    held = [memory["activations"] for memory in two.memory]
    assert max(held) < one.memory[0]["activations"]
    assert sum(held) > one.memory[0]["activations"]
    assert sum(memory["weights"] for memory in two.memory) == pytest.approx(one.memory[0]["weights"])


@pytest.mark.parametrize(
    ("model", "num_gpus", "parallelism", "words"),
    [
        ("googlenet", 8, {}, "parallelism.data: the model has at most 4 parallel branches, and a replica has 8 GPUs"),
        ("vgg16", 2, {}, "parallelism.kind: the model has no parallel branches"),
        ("googlenet", 4, {"tensor": 2}, "parallelism.tensor: paths determines the layout over all GPUs"),
        ("googlenet", 4, {"data": 3}, "parallelism.data: 3 replicas of the model do not match 4 GPUs"),
    ],
)
def test_what_has_no_paths_is_refused(model: str, num_gpus: int, parallelism: dict[str, Any], words: str) -> None:
    asked = scenario(model, num_gpus, batch={"global": 24})
    asked["parallelism"] = {"kind": "paths", **parallelism}
    with pytest.raises(InputError) as caught:
        clustersim.simulate(asked)
    assert words in str(caught.value)


def test_weights_are_used_on_one_gpu_or_on_all_of_a_copy(tmp_path: Path) -> None:
    rows = [
        "{name: left, flop: 1e9, parameter_bytes: 8, branch: left}",
        "{name: right, flop: 1e9, weights_of: left, branch: right}",
        "{name: join, flop: 1e9}",
        *(f"{{name: {name}, flop: 1e9, branch: {name}}}" for name in "abc"),
    ]
    path = tmp_path / "towers.yaml"
    path.write_text("\n".join(["name: towers", "layers:", *(f"  - {row}" for row in rows), ""]))
    with pytest.raises(InputError, match="the weights of 'left' are used on 2 GPUs, and a replica has 3"):
        clustersim.simulate(scenario(str(path), 3))


def test_paths_keep_their_gpus_in_step() -> None:
    with pytest.raises(InputError, match="paths is synchronous: paths that join"):
        clustersim.simulate(scenario("googlenet", 2, strategy={"kind": "local", "steps": 2}))
