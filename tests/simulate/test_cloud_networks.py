"""All-reduces on shipped clusters of clouds against bus bandwidths that nccl-tests printed there."""

from __future__ import annotations

import pytest

from clustersim.simulate import time_collective

GIB = 2.0**30


@pytest.mark.parametrize(
    ("cluster", "num_gpus", "num_bytes", "measured_gb_per_s", "is_fitted"),
    [
        ("ec2-p5-48xlarge", 32, 8 * GIB, 357.0, True),
        ("ec2-p5-48xlarge", 64, 8 * GIB, 355.4, True),
        ("ec2-p5-48xlarge", 128, 8 * GIB, 356.3, True),
        ("ec2-p5-48xlarge", 256, 8 * GIB, 321.1, False),
        ("ec2-p4de-24xlarge", 16, 1 * GIB, 76.8, False),
        ("ec2-p4de-24xlarge", 16, 2 * GIB, 78.3, False),
    ],
)
def test_large_all_reduces_over_efa_are_as_quick_as_measured(
    cluster: str, num_gpus: int, num_bytes: float, measured_gb_per_s: float, is_fitted: bool
) -> None:
    """Sources are in docs/physics/transports.md. The fit is one of rings."""
    algorithm = "ring" if is_fitted else "auto"
    (row,) = time_collective("all-reduce", cluster, algorithm, num_gpus, [num_bytes], transport="nccl")["rows"]
    assert row["busbw_bytes_per_s"] == pytest.approx(measured_gb_per_s * 1e9, rel=0.05 if is_fitted else 0.1)
