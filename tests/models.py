"""Models that several tests train."""

from __future__ import annotations

from pathlib import Path

from clustersim.model import write_workload_file
from clustersim.model.builder import Builder
from clustersim.model.catalogue.llama import attention


def write_experts(folder: Path) -> str:
    """Write the file of a model of one block, whose attention is fused and which has four experts; return its name."""
    net = Builder("experts", "one block of four experts", sample="sequence", source="made up for a test")
    x = net.embedding("embedding", 64, 256, rows=[1000])
    x = net.add("add1", x, attention(net, "attention", net.rms_norm("norm1", x), 4))
    y = net.rms_norm("norm2", x)
    net.router("router", y, 4)
    made = net.experts("out", net.gate("gate", net.experts("in", y, 512, 4, 2, count=2)), 256, 4, 2)
    x = net.add("add2", x, net.weighted_sum("sum", made))
    net.loss("loss", net.linear("head", x, 1000, bias=False))
    return str(write_workload_file(net.model(), folder / "experts.yaml"))
