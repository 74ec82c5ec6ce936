"""Sharding with experts: fewer GPUs have copies of an expert than of the rest of the model."""

from __future__ import annotations

from typing import Any

import pytest

from clustersim.errors import InputError
from clustersim.scenario import load_scenario
from clustersim.simulate.forecast import Forecast, forecast
from clustersim.simulate.setup import Setup
from tests.models import write_experts

NUM_GPUS, GROUP = 8, 2


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> str:
    return write_experts(tmp_path_factory.mktemp("experts"))


def scenario(model: str, sharding: str | None, **parallelism: Any) -> dict[str, Any]:
    return {
        "model": model,
        "num_gpus": NUM_GPUS,
        "batch": {"per_gpu": 4},
        "topology": {"kind": "star", "num_hosts": 8, "host": {"gpu": "v100"}, "link": "1 GB/s", "hop": "1 us"},
        "software": "plain",
        "strategy": {"kind": "all-reduce", "algorithm": "ring"},
        "parallelism": {"expert": GROUP, "sharding": sharding, **parallelism},
        "num_iterations": 2,
    }


def simulated(model: str, sharding: str | None, exact: bool = False, **parallelism: Any) -> Forecast:
    return forecast(load_scenario(scenario(model, sharding, **parallelism)).points()[0].point, exact=exact)


def sent_bytes(model: str, sharding: str | None) -> float:
    """Return what leaves hosts in an iteration."""
    run = simulated(model, sharding).run
    return sum(kind.num_bytes for kind in run.link_classes if kind.kind == "access") / 2


def parameters(model: str) -> tuple[float, float]:
    """Return how many parameters the model has beside its experts, and how many its experts have."""
    layers = Setup(load_scenario(scenario(model, None)).points()[0].point).model.layers
    experts = sum(layer.num_parameters for layer in layers if layer.op == "experts")
    return float(sum(layer.num_parameters for layer in layers) - experts), float(experts)


def test_each_part_is_exchanged_among_the_ranks_that_have_it(model: str) -> None:
    """In bytes of all GPUs: an all-reduce of a part on n of them is 2 (n - 1) / n of it for each; zero-3 adds half."""
    rest, experts = parameters(model)
    copies = NUM_GPUS // GROUP
    each = (NUM_GPUS - 1) / NUM_GPUS * rest + (copies - 1) / copies * experts / GROUP
    plain = sent_bytes(model, None)
    assert sent_bytes(model, "zero-1") == pytest.approx(plain, rel=1e-9)
    assert sent_bytes(model, "zero-2") == pytest.approx(plain, rel=1e-9)
    assert sent_bytes(model, "zero-3") - plain == pytest.approx(NUM_GPUS * 4 * each, rel=1e-9)


@pytest.mark.parametrize("sharding", ["zero-1", "zero-2", "zero-3"])
def test_each_gpu_keeps_its_share_of_what_others_have_too(model: str, sharding: str) -> None:
    rest, experts = parameters(model)
    own = rest / NUM_GPUS + experts / NUM_GPUS
    setup, plain = (Setup(load_scenario(scenario(model, each)).points()[0].point) for each in (sharding, None))
    (held,), (whole,) = setup.laid_out.memory, plain.laid_out.memory
    assert whole["optimizer"] == pytest.approx(4 * (rest + experts / GROUP), rel=1e-9)
    assert held["optimizer"] == pytest.approx(4 * own, rel=1e-9)
    assert held["weights"] == pytest.approx(4 * own if sharding == "zero-3" else whole["weights"], rel=1e-9)


@pytest.mark.parametrize("layout", [{"sharding": "zero-1", "micro_batches": 2}, {"sharding": "zero-3", "context": 2}])
def test_shortcuts_change_nothing(model: str, layout: dict[str, Any]) -> None:
    quick, exact = (simulated(model, exact=exact, **layout) for exact in (False, True))
    assert quick.run.iteration_s == pytest.approx(exact.run.iteration_s, rel=1e-9)


def test_a_host_does_not_update_shares_of_experts(model: str) -> None:
    with pytest.raises(InputError, match="leave one of the three out") as refused:
        load_scenario(scenario(model, "zero-1", offload="optimizer")).points()
    assert refused.value.mistakes[0].key == "parallelism.offload"
