"""Shipped profiles: separately measured layers add up to iterations that were timed as a whole."""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path
from statistics import median

import pytest

import clustersim
from clustersim.errors import InputError
from clustersim.hardware import load_gpu
from clustersim.kernels import ComputeSpec, OptimizerSpec, build_workload, read_profile
from clustersim.kernels.memory import activation_bytes
from clustersim.kernels.profile import shipped_profiles
from clustersim.kernels.whole_iterations import CheckedIteration, checked_iterations
from clustersim.model import load_model

GPU = "xeon-2-50ghz"
NAMES = tuple(shipped_profiles())


@cache
def checked(name: str) -> tuple[CheckedIteration, ...]:
    return tuple(checked_iterations(read_profile(name), load_gpu(GPU)))


@pytest.mark.parametrize("name", NAMES)
def test_layers_add_up_to_whole_iterations_at_batches_that_were_not_profiled(name: str) -> None:
    unseen = [row for row in checked(name) if not row.is_profiled]
    assert unseen or name == f"gpt2-medium-{GPU}", "two samples of that do not fit into the machine's memory"
    assert all(abs(row.error) < 0.2 for row in unseen)
    assert all(row.forecast_s != row.measured_s for row in unseen)


def test_in_the_median_over_models_and_such_batches_they_are_within_five_percent() -> None:
    assert median(abs(row.error) for name in NAMES for row in checked(name) if not row.is_profiled) < 0.05


@pytest.mark.parametrize("name", NAMES)
def test_a_shipped_profile_has_every_layer_that_computes_and_says_where_it_was_measured(name: str) -> None:
    profile = read_profile(name)
    assert name == f"{profile.content.model}-{GPU}"
    document = json.loads(profile.path.read_text(encoding="utf-8"))
    assert {"name", "num_threads", "num_cores", "memory_bytes"} <= document["device"].keys()
    assert {"torch", "system"} <= document["software"].keys()
    assert document["flags"]["num_threads"] == 1
    assert "virtual machine" in document["note"]
    assert all(row["date"] >= "2026" for row in document["whole"])
    batch = min(row["batch"] for row in document["layers"])
    model = load_model(profile.content.model)
    work = build_workload(model, load_gpu(GPU), batch, "fp32", OptimizerSpec(), ComputeSpec(profile=name))
    assert work.provenance()["measured"] > 0.99
    assert name in work.assumptions[0]


def test_a_scenario_takes_a_shipped_profile_by_its_name() -> None:
    scenario = {
        "model": "alexnet",
        "num_gpus": 2,
        "batch": {"per_gpu": 6},
        "topology": {"kind": "star", "num_hosts": 2, "host": {"gpu": GPU}, "link": "ethernet-10g"},
        "software": {"name": "plain", "bucket_copies": "none"},
        "transport": "gloo",
        "strategy": {"kind": "all-reduce"},
        "compute": {"profile": f"alexnet-{GPU}"},
    }
    run = clustersim.simulate(clustersim.load_scenario(scenario))
    (row,) = [row for row in checked(f"alexnet-{GPU}") if row.batch == 6]
    assert run.breakdown_s["compute"] == pytest.approx(row.forecast_s, rel=1e-3)


@pytest.mark.parametrize("name", [name for name in NAMES if not name.startswith("lstm")])
def test_what_backward_keeps_is_what_autograd_kept(name: str) -> None:
    """A processor keeps a dropout's mask as fp32, not as bytes, and of an LSTM every gate of every step.

    Of one sequence alone, attention there keeps scaled queries and keys beside the tensor that all three are views of.
    """
    profile = read_profile(name)
    model = load_model(profile.content.model)
    masks = 3.0 * sum(layer.output_elements for layer in model.layers if layer.op == "dropout")
    for row in json.loads(profile.path.read_text(encoding="utf-8"))["whole"]:
        kept = row["batch"] * (activation_bytes(model, "fp32") + masks)
        views = row["batch"] == 1 and model.sample == "sequence"
        assert kept == pytest.approx(row["memory"]["saved_for_backward_bytes"], rel=0.08 if views else 0.04)


def test_shipped_profiles_stay_small() -> None:
    assert sum(path.stat().st_size for path in shipped_profiles().values()) < 1_200_000


def test_a_profile_that_does_not_ship_is_answered_with_those_that_do() -> None:
    with pytest.raises(InputError, match=r"no profile is called 'alexnet-xeon'; did you mean 'alexnet-xeon-2-50ghz'\?"):
        read_profile("alexnet-xeon")


def test_a_file_of_a_shipped_profiles_name_comes_first(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / NAMES[0]).write_text(shipped_profiles()[NAMES[0]].read_text(encoding="utf-8"), encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    assert read_profile(NAMES[0]).path == Path(NAMES[0])


def test_a_profile_of_one_thread_is_not_one_of_two(tmp_path: Path) -> None:
    document = json.loads(shipped_profiles()[NAMES[0]].read_text(encoding="utf-8"))
    document["device"]["num_threads"] = 2
    path = tmp_path / "two.json"
    path.write_text(json.dumps(document), encoding="utf-8")
    with pytest.raises(InputError, match=r"was measured on 2 threads, and One core of .* has 1"):
        next(checked_iterations(read_profile(path), load_gpu(GPU)))
