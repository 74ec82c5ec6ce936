"""Models that several tests train."""

from __future__ import annotations

from pathlib import Path

from clustersim.model import write_workload_file
from clustersim.model.builder import Builder
from clustersim.model.catalogue.llama import attention


def write_experts(folder: Path, num_blocks: int = 1, num_experts: int = 4) -> str:
    """Write the file of a model of blocks with fused attention, and two of some experts a token; return its name."""
    net = Builder(
        "experts", f"{num_blocks} blocks of {num_experts} experts", sample="sequence", source="made up for a test"
    )
    x = net.embedding("embedding", 64, 256, rows=[1000])
    for block in [""] if num_blocks == 1 else [f" of {number}" for number in range(num_blocks)]:
        x = net.add(f"add1{block}", x, attention(net, f"attention{block}", net.rms_norm(f"norm1{block}", x), 4))
        y = net.rms_norm(f"norm2{block}", x)
        net.router(f"router{block}", y, num_experts)
        into = net.experts(f"in{block}", y, 512, num_experts, 2, count=2)
        made = net.experts(f"out{block}", net.gate(f"gate{block}", into), 256, num_experts, 2)
        x = net.add(f"add2{block}", x, net.weighted_sum(f"sum{block}", made))
    net.loss("loss", net.linear("head", x, 1000, bias=False))
    return str(write_workload_file(net.model(), folder / "experts.yaml"))
