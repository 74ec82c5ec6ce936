"""Training with Muon on many GPUs: shares of matrices, gathered momenta, memory."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

import clustersim
from clustersim import load_scenario
from clustersim.errors import InputError
from clustersim.hardware import load_gpu
from clustersim.kernels.muon import matrices_of, matrix_times, newton_schulz_s, shared_out_s
from clustersim.model import load_model
from clustersim.parallelism.updates import stage_update
from clustersim.program.ops import Call
from clustersim.simulate.setup import Setup
from tests.placed import placed

MODEL = "gpt-12x768x12-seq128-vocab50257"
BLOCK = [(2304, 768), (768, 768), (3072, 768), (768, 3072)]
H100 = load_gpu("h100")


def scenario(optimizer: str = "muon", **keys: Any) -> dict[str, Any]:
    return placed(
        {
            "model": MODEL,
            "num_gpus": 4,
            "batch": {"per_gpu": 1},
            "topology": {"kind": "star", "num_hosts": 4, "host": {"gpu": "h100"}, "link": "10 GB/s"},
            "transport": "ideal",
            "strategy": {"kind": "all-reduce", "algorithm": "ring", "overlap": False},
            "precision": "amp-bf16",
            "software": "plain",
            "optimizer": optimizer,
            "compute": {"kernels": "law", "variability": 0},
            "num_iterations": 2,
            **keys,
        }
    )


def setup_of(**keys: Any) -> Setup:
    return Setup(load_scenario(scenario(**keys)).points()[0].point)


def whole_s() -> float:
    return 12 * sum(newton_schulz_s(*shape, H100) for shape in BLOCK)


def test_every_copy_of_a_model_orthogonalizes_all_matrices() -> None:
    adam, muon = (clustersim.simulate(scenario(each)) for each in ("adam", "muon"))
    work = setup_of().reference
    assert muon.iteration_s - adam.iteration_s == pytest.approx(
        work.optimizer_s - setup_of(optimizer="adam").reference.optimizer_s
    )
    assert work.optimizer_s > whole_s()


@pytest.mark.parametrize("sharding", ["zero-1", "zero-2", "zero-3"])
def test_replicas_that_shard_hand_out_matrices_and_gather_their_momenta(sharding: str) -> None:
    """A ring of n over links of rate r gathers B bytes in (n - 1) / n B / r; an all-to-all of B / n there and back
    takes a share of 1 / n of it each way."""
    adam, muon = (clustersim.simulate(scenario(each, parallelism={"sharding": sharding})) for each in ("adam", "muon"))
    found = [each for each in matrices_of(load_model(MODEL).layers) if each]
    num_parameters, num = sum(each.num_parameters for each in found), 4
    others_s = setup_of().reference.optimizer_s - whole_s() - setup_of(optimizer="adam").reference.optimizer_s
    update_s = others_s / num + shared_out_s(matrix_times(found, H100), num)
    gathered_s = 2 * num_parameters * (num - 1) / num / 10e9
    if sharding == "zero-3":
        gathered_s *= 2 / num
    assert muon.iteration_s - adam.iteration_s == pytest.approx(update_s + gathered_s, rel=1e-3)


def test_a_rank_of_a_tensor_group_orthogonalizes_its_parts() -> None:
    host = {"template": "dgx-1", "gpu": "h100"}
    topology = {"kind": "star", "num_hosts": 1, "host": host, "link": "10 GB/s"}
    laid_out = setup_of(num_gpus=2, topology=topology, parallelism={"tensor": 2}).laid_out
    assert laid_out is not None
    halves = [(1152, 768), (768, 384), (1536, 768), (768, 1536)]
    own_s = 12 * sum(newton_schulz_s(*shape, H100) for shape in halves)
    adam_s = setup_of(optimizer="adam").reference.optimizer_s
    assert 0 < laid_out.plans[0].iteration.update_s - own_s < adam_s


@pytest.mark.parametrize(("sharding", "share"), [("none", 1), ("zero-1", 4), ("zero-3", 4)])
def test_memory_has_one_momentum_for_matrices_and_two_moments_for_others(sharding: str, share: int) -> None:
    model = load_model(MODEL)
    of_matrices = sum(each.num_parameters for each in matrices_of(model.layers) if each)
    run = clustersim.simulate(scenario(parallelism={"sharding": sharding}))
    expected = (4 * of_matrices + 8 * (model.num_parameters - of_matrices)) / share
    assert run.memory_parts["optimizer"] == pytest.approx(expected)


@pytest.mark.parametrize(
    "layout",
    [
        {"sharding": "zero-1", "sharding_by": "tensors"},
        {"sharding": "zero-1", "sharding_over": 2},
        {"sharding": "zero-3", "sharding_over": 2},
        {"sharding": "zero-1", "pipeline": 2, "micro_batches": 2},
        {"pipeline": 2, "micro_batches": 2},
        {"context": 2, "sharding": "zero-1"},
    ],
)
def test_it_goes_with_every_other_layout(layout: dict[str, Any]) -> None:
    keys = {"parallelism": layout, "batch": {"global": 8}, "model": "gpt-12x768x12-seq128-vocab50257-fused"}
    adam, muon = (clustersim.simulate(scenario(each, **keys)) for each in ("adam", "muon"))
    assert muon.iteration_s > adam.iteration_s
    assert muon.memory_parts["optimizer"] < adam.memory_parts["optimizer"]


def test_experts_are_shared_by_the_ranks_that_have_the_same() -> None:
    """Of 4 ranks, all have the other layers, and two each the same half of the experts."""
    keys = {"model": "mixtral-8x7b", "parallelism": {"expert": 2, "sharding": "zero-1"}, "batch": {"global": 4}}
    laid_out = setup_of(**keys, memory_check=False).laid_out
    assert laid_out is not None
    pieces = [piece for part in laid_out.parts for piece in part.pieces]
    found = list(zip(matrices_of([piece.layer for piece in pieces]), pieces, strict=True))
    experts = [each for each, piece in found if each and piece.layer.op == "experts"]
    others = [each for each, piece in found if each and piece.layer.op != "experts"]
    assert sum(each.number for each in experts) == 32 * 3 * 4
    calls = {
        op.key.what: op for op in laid_out.plans[0].program.ops() if isinstance(op, Call) and "momenta" in op.key.what
    }
    assert calls["momenta"].num_bytes == 2 * sum(each.num_parameters for each in others)
    assert calls["momenta of experts"].num_bytes == 2 * sum(each.num_parameters for each in experts)


@pytest.mark.parametrize(
    "keys",
    [
        {"parallelism": {"offload": "optimizer"}},
        {"precision": "amp-fp16"},
        {"strategy": {"kind": "server", "servers": {"num": 1, "on": "host-memory"}}},
    ],
)
def test_what_it_does_not_go_with_is_refused(keys: dict[str, Any]) -> None:
    with pytest.raises(InputError, match="optimizer muon"):
        load_scenario(scenario(**keys))


@pytest.mark.parametrize("sharding", ["zero-1", "zero-3"])
def test_both_stages_of_a_mirrored_pair_share_the_matrices_of_experts(sharding: str) -> None:
    """With one rank for an expert in each stage, two have the same experts, and each does half of their matrices."""
    asked = {
        "model": "mixtral-8x7b",
        "num_gpus": 16,
        "batch": {"global": 32},
        "topology": {"kind": "star", "num_hosts": 16, "host": {"gpu": "b200"}, "link": "50 GB/s"},
        "precision": "amp-bf16",
        "software": "plain",
        "transport": "ideal",
        "optimizer": "muon",
        "memory_check": False,
        "strategy": {"kind": "all-reduce"},
        "parallelism": {
            "expert": 8, "pipeline": 2, "schedule": "dualpipe", "micro_batches": 4, "sharding": sharding,
        },
    }  # fmt: skip
    point = load_scenario(asked).points()[0].point
    laid_out = Setup(point).laid_out
    assert laid_out is not None
    assert point.grid.num_expert_replicas == 2
    calls = [
        op for op in laid_out.plans[0].program.ops() if isinstance(op, Call) and "momenta of experts" in op.key.what
    ]
    assert len(calls) == (1 if sharding == "zero-1" else 2)
    grid = replace(point.grid, mirrored=False)
    pieces = [piece for part in laid_out.parts for piece in part.pieces]
    updates = [stage_update(Setup(point).reference, point.optimizer, pieces, each) for each in (point.grid, grid)]
    assert [each.shared[-1].num_ranks for each in updates] == [2, 1]
