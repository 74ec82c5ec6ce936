"""A network that is faster than the slots of its cards is told."""

from __future__ import annotations

import pytest

import clustersim


@pytest.mark.parametrize(
    ("link", "host", "is_told"),
    [
        ("200 Gbit/s", {"template": "dgx-a100", "nics": 1}, False),
        ("400 Gbit/s", {"template": "dgx-a100", "nics": 1}, True),
        ("400 Gbit/s", {"template": "dgx-a100", "nics": 1, "nic_link": "pcie-5-x16"}, False),
        ("400 Gbit/s", {"template": "bare", "gpu": "a100", "num_gpus": 8}, False),
    ],
)
def test_slots_that_are_slower_than_the_network_are_told(link: str, host: dict[str, object], is_told: bool) -> None:
    scenario = {
        "model": "squeezenet-1.0",
        "num_gpus": 16,
        "batch": {"per_gpu": 1},
        "topology": {"kind": "star", "link": link, "host": host},
        "num_iterations": 2,
    }
    found = [each for each in clustersim.sweep(scenario).warnings if "cards' links to the host" in each]
    assert bool(found) is is_told
    if is_told:
        assert "192 Gbit/s, and the network 400" in found[0]
