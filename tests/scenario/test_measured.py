"""Measured runs as keys: what is refused, each mistake with its place, and the points at which they were measured."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from clustersim.errors import InputError
from clustersim.scenario import load_scenario

SCENARIO: dict[str, Any] = {
    "model": "resnet50",
    "num_gpus": [4, 8],
    "batch": {"per_gpu": 32},
    "topology": {"kind": "star", "num_hosts": 4, "host": {"gpu": "v100", "num_gpus": 4}, "link": "10 Gbit/s"},
    "transport": "nccl",
    "strategy": {"kind": "all-reduce", "algorithm": "ring"},
}
RUN = {"num_gpus": 8, "samples_per_s": 1500}

REFUSED: dict[str, tuple[dict[str, Any], str, str]] = {
    "no figure": ({"num_gpus": 8}, "measured.0", "expected one of samples_per_s, iteration_s, collectives"),
    "two figures": ({**RUN, "iteration_s": 0.1}, "measured.0", "got samples_per_s and iteration_s"),
    "no number of GPUs": ({"samples_per_s": 3}, "measured.0.num_gpus", "number of GPUs of a measured run is missing"),
    "a figure of zero": ({"num_gpus": 8, "samples_per_s": 0}, "measured.0.samples_per_s", "above 0"),
    "an unknown key": ({**RUN, "gpus": 8}, "measured.0.gpus", "num_gpus"),
    "GPUs in set": ({**RUN, "set": {"num_gpus": 4}}, "measured.0.set.num_gpus", "give it beside `set`"),
    "a name in set": ({**RUN, "set": {"name": "x"}}, "measured.0.set.name", "no run sets 'name'"),
    "a wrong key in set": ({**RUN, "set": {"batch.per_gpuu": 4}}, "measured.0", "did you mean 'per_gpu'"),
    "more GPUs than there are": ({**RUN, "num_gpus": 32}, "measured.0", "has 16 GPUs (got 32)"),
    "another GPU": ({**RUN, "gpu": "p100"}, "measured.0", "with gpu p100, and with its keys the scenario has v100"),
    "another model": ({**RUN, "model": "vgg16"}, "measured.0", "another model is used only if `set` states it"),
    "another precision": ({**RUN, "precision": "fp16"}, "measured.0", "set: {precision: fp16}"),
    "an unknown GPU": ({**RUN, "gpu": "v1000"}, "measured.0", "no GPU is called 'v1000'"),
}  # fmt: skip


@pytest.mark.parametrize("what", REFUSED)
def test_a_wrong_run_is_refused(what: str) -> None:
    run, key, words = REFUSED[what]
    with pytest.raises(InputError) as error:
        load_scenario({**SCENARIO, "measured": [run]})
    (mistake,) = error.value.mistakes
    assert mistake.key == key
    assert words in f"{mistake.message} {mistake.allowed}"


@pytest.mark.parametrize(
    "own",
    [
        {"gpu": "p100", "set": {"topology.host.gpu": "p100"}},
        {"gpu": "p100", "set": {"topology": {"host": {"gpu": "p100"}}}},
        {"model": "vgg16", "set": {"model": "vgg16"}},
        {"precision": "fp16", "set": {"precision": "fp16"}},
    ],
)
def test_another_gpu_model_or_precision_is_taken_if_set_states_it(own: dict[str, Any]) -> None:
    (anchor,) = load_scenario({**SCENARIO, "measured": [{**RUN, **own}]}).anchors
    assert anchor.point.num_gpus == 8


def test_mistakes_have_their_place(tmp_path: Path) -> None:
    path = tmp_path / "wrong.yaml"
    path.write_text(
        "model: resnet50\nnum_gpus: 8\nbatch: {per_gpu: 32}\ntopology: {kind: star, num_hosts: 4, link: 10 Gbit/s, "
        "host: {gpu: v100, num_gpus: 4}}\nstrategy: {kind: all-reduce}\nmeasured:\n"
        "  - {num_gpus: 8, samples_per_s: 1500}\n  - {num_gpus: 64, samples_per_s: 9000}\n"
    )
    with pytest.raises(InputError) as error:
        load_scenario(path)
    (mistake,) = error.value.mistakes
    assert (mistake.line, mistake.column, mistake.key) == (8, 5, "measured.1")


def test_a_rate_of_one_gpu_beside_a_measured_run_is_refused() -> None:
    rate = {"single_gpu": {"samples_per_s": 300, "batch": 32, "source": "a test"}}
    with pytest.raises(InputError, match="drop one of the two"):
        load_scenario({**SCENARIO, "compute": rate, "measured": [RUN]})


def test_a_list_of_jobs_beside_a_measured_run_is_refused() -> None:
    with pytest.raises(InputError, match="says nothing of the other jobs"):
        load_scenario({**SCENARIO, "num_gpus": 4, "jobs": [{}, {"model": "vgg16"}], "measured": [RUN]})


def test_the_same_run_twice_is_refused() -> None:
    with pytest.raises(InputError, match=r"measured\.0 is the same run"):
        load_scenario({**SCENARIO, "measured": [RUN, {**RUN, "samples_per_s": 1400}]})


def test_an_axis_without_its_value_is_refused() -> None:
    swept = {**SCENARIO, "batch": {"per_gpu": [16, 32]}, "measured": [RUN]}
    with pytest.raises(InputError, match=r"several values of batch\.per_gpu; say in `set`"):
        load_scenario(swept)
    (anchor,) = load_scenario({**swept, "measured": [{**RUN, "set": {"batch.per_gpu": 16}}]}).anchors
    assert anchor.point.batch.per_gpu == 16


def test_an_axis_in_a_measured_run_is_refused() -> None:
    with pytest.raises(InputError, match="expected a number"):
        load_scenario({**SCENARIO, "measured": [{**RUN, "samples_per_s": [1, 2]}]})


def test_another_kind_leaves_no_option_of_the_old_one() -> None:
    run = {**RUN, "set": {"strategy": {"kind": "server"}}}
    (anchor,) = load_scenario({**SCENARIO, "measured": [run]}).anchors
    assert anchor.point.strategy.kind == "server"


def test_the_option_is_the_key() -> None:
    runs = [{"num_gpus": 8, "samples_per_s": 1500.5}, {"num_gpus": 4, "iteration_s": 0.12}]
    by_key = load_scenario({**SCENARIO, "measured": runs})
    by_option = load_scenario(SCENARIO, measured=["8=1500.5/s", "4 = 120 ms"])
    assert by_option.anchors == by_key.anchors
    assert by_option.raw == by_key.raw
    both = load_scenario({**SCENARIO, "measured": runs[0]}, measured=["4=120ms"])
    assert both.anchors == by_key.anchors


@pytest.mark.parametrize("text", ["8", "8=105", "8=105/h", "x=3/s", "=3/s", "8=-3s", "8=/s"])
def test_an_option_that_is_no_run_is_refused(text: str) -> None:
    with pytest.raises(InputError, match="expected") as error:
        load_scenario(SCENARIO, measured=[text])
    assert error.value.mistakes[0].file == "--measured"
