"""The multiprocessors that a collective occupies: one for each channel of NCCL, or of a sheet, or none."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import clustersim
from clustersim.communicator.sm_share import sm_share, uses_sms
from clustersim.hardware import GPUS, TRANSPORTS, load_transport
from clustersim.topology import load_topology

CLUSTERS = {
    "a100": {"kind": "star", "num_hosts": 2, "host": "dgx-a100", "link": "infiniband-hdr"},
    "h100": {"kind": "star", "num_hosts": 2, "host": "dgx-h100", "link": "infiniband-ndr"},
    "v100": {"kind": "star", "num_hosts": 2, "host": {"template": "dgx-1", "gpu": "v100"}, "link": "infiniband-edr"},
    "p100": {"kind": "star", "num_hosts": 2, "host": {"template": "dgx-1", "gpu": "p100"}, "link": "infiniband-edr"},
    "pcie": {"kind": "star", "num_hosts": 2, "host": {"template": "dual-socket", "gpu": "k80"}, "link": "10 Gbit/s"},
    "bare": {"kind": "star", "num_hosts": 2, "link": "10 Gbit/s"},
}


@pytest.mark.parametrize(
    ("cluster", "num_gpus", "algorithm", "share"),
    [
        ("a100", 8, "ring", 24 / 108),
        ("a100", 16, "ring", 16 / 108),
        ("h100", 8, "ring", 24 / 132),
        ("h100", 8, "nvls", 16 / 132),
        ("h100", 16, "double-tree", 16 / 132),
        ("v100", 8, "ring", 12 / 80),
        ("v100", 16, "ring", 8 / 80),
        ("p100", 8, "ring", 8 / 56),
        ("pcie", 2, "ring", 2 / 13),
        ("a100", 1, "ring", 0.0),
        ("bare", 2, "ring", 0.0),
    ],
)
def test_nccl_occupies_a_multiprocessor_for_each_channel(cluster, num_gpus, algorithm, share):
    topology = load_topology(CLUSTERS[cluster])
    shares = sm_share(topology, np.arange(num_gpus), load_transport("nccl"), algorithm)
    assert shares == pytest.approx(np.full(num_gpus, share), abs=0.0)


def test_nccl_1_has_one_block_of_threads():
    topology = load_topology(CLUSTERS["p100"])
    shares = sm_share(topology, np.arange(8), load_transport("nccl"), "ring", "nccl-1")
    assert shares == pytest.approx(np.full(8, 1 / 56))


@pytest.mark.parametrize(("num_gpus", "num_channels"), [(8, 24), (16, 2)])
def test_on_omni_path_channels_are_those_of_one_way_out_of_a_host(num_gpus, num_channels):
    """NCCL 2.10.3 had two on hosts of Jean Zay with four adapters (BigScience, experiments/bandwidth)."""
    host = {"template": "dgx-a100", "nics": 4}
    topology = load_topology({"kind": "star", "num_hosts": 2, "link": "100 Gbit/s", "host": host})
    shares = sm_share(topology, np.arange(num_gpus), load_transport("nccl-omni-path"), "ring")
    assert shares == pytest.approx(np.full(num_gpus, num_channels / 108))


def test_no_other_library_occupies_any():
    occupying = [name for name in TRANSPORTS if uses_sms(load_transport(name))]
    assert occupying == ["nccl", "nccl-omni-path", "nccl-one-socket", "nccl-roce", "nccl-sockets"]
    topology = load_topology(CLUSTERS["a100"])
    assert not sm_share(topology, np.arange(8), load_transport("mpi-cuda"), "ring").any()


@pytest.mark.parametrize("channels", [0, 1, 10])
def test_a_sheet_may_set_the_number(channels):
    topology = load_topology(CLUSTERS["a100"])
    own = replace(load_transport("nccl"), channels=channels)
    assert sm_share(topology, np.arange(8), own, "ring") == pytest.approx(np.full(8, channels / 108))
    assert uses_sms(own) == (channels > 0)


def small(folder: Path, num: int) -> dict[str, object]:
    """Return a host of eight GPUs that have so few multiprocessors, behind NVSwitch."""
    path, text = folder / f"small-{num}.yaml", GPUS.find("h100").read_text()
    text = re.sub(r"(num_multiprocessors:\n  value: )\d+", rf"\g<1>{num}", text)
    path.write_text(text.replace("name: h100", f"name: small-{num}"))
    host = {"template": "dgx-h100", "gpu": str(path)}
    return {"kind": "star", "num_hosts": 1, "host": host, "link": "infiniband-ndr"}


@pytest.mark.parametrize("num", [1, 10, 16, 24, 25])
@pytest.mark.parametrize("algorithm", ["ring", "nvls"])
def test_nccl_leaves_one_to_compute_on(num: int, algorithm: str, tmp_path: Path) -> None:
    wanted = 16 if algorithm == "nvls" else 24
    shares = sm_share(load_topology(small(tmp_path, num)), np.arange(8), load_transport("nccl"), algorithm)
    assert shares == pytest.approx(np.full(8, min(wanted, num - 1) / num))


@pytest.mark.parametrize("num", [10, 24])
def test_a_gpu_smaller_than_nccls_channels_is_slowed_the_same_by_workers_in_arrays_and_by_processes(
    num: int, tmp_path: Path
) -> None:
    """Vectorized ranks, and ranks that are processes, end at the same times and lose the same to the exchange."""
    asked = {
        "model": "resnet50",
        "num_gpus": 8,
        "batch": {"per_gpu": 16},
        "topology": small(tmp_path, num),
        "software": "plain",
        "transport": "nccl",
        "strategy": {"kind": "all-reduce"},
        "num_iterations": 2,
    }
    quick, exact = (clustersim.sweep(asked, exact=exact).runs[0] for exact in (False, True))
    assert quick.iteration_s == pytest.approx(exact.iteration_s, rel=1e-9)
    assert quick.breakdown_s == pytest.approx(exact.breakdown_s)
    assert 0 < quick.breakdown_s["slowed"] < quick.iteration_s
