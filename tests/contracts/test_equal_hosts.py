"""GPUs whose hosts issue at the same time: the default result equals the exact one, although only rounding parts them.

Jitter makes the GPUs unequal, but each waits until its host has issued the exchange. All hosts do so at once, so the
order in which the GPUs go on decides who is served first.
"""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from clustersim.scenario import layout
from clustersim.strategies import server_strategy
from tests.contracts.exactness import check_exact
from tests.contracts.test_strategies import required

KINDS = ("async", "softsync", "bounded-staleness", "hierarchical")


def scenario(kind: str, transport: str, seed: int) -> dict[str, Any]:
    """Return a small language model on eight hosts of one H100, by operators of eager PyTorch."""
    host = {"template": "dual-socket", "gpu": "h100", "num_gpus": 1, "nics": 1, "cpu": "epyc-7742"}
    return {
        "model": "gpt-4x256x4-seq64",
        "num_gpus": 8,
        "batch": {"per_gpu": 2},
        "precision": "fp32",
        "topology": {"kind": "star", "num_hosts": 8, "host": host, "link": "infiniband-hdr", "hop": "1 us"},
        "transport": transport,
        "strategy": {"kind": kind, **required(kind)},
        "software": {"name": "plain", "library": "eager", "host": "pytorch-eager"},
        "stragglers": [{"kind": "lognormal", "cv": 0.1}],
        "num_iterations": 3,
        "seed": seed,
    }


@pytest.mark.parametrize("transport", ["mpi", "ideal"])
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("seed", range(3))
def test_staged_exchanges(kind: str, transport: str, seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Transports that stage in host memory, here with the issue time of NCCL's calls."""
    monkeypatch.setattr(layout, "load_transport", lambda name: SimpleNamespace(library="nccl"))
    check_exact(scenario(kind, transport, seed))


@pytest.mark.parametrize("most_messages", [0, 1_000_000], ids=["kernels", "processes"])
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("seed", range(3))
def test_compiled_kernels(kind: str, most_messages: int, seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(server_strategy, "MOST_PYTHON_MESSAGES", most_messages)
    check_exact(scenario(kind, "nccl", seed))
