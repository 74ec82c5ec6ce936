"""Writes `kernel_fit.yaml`: the constants, where they come from, and how far they are off."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from ruamel.yaml import YAML

PATH = Path(__file__).resolve().parent.parent / "clustersim" / "workload" / "kernel_fit.yaml"

HEADER = """\
# Constants of the kernel model, written by tools/fit_kernels.py: change the tool, not this file.
# kernel_model.py has the formula and kernel_constants.py says what each constant is. Errors are
# log(model / measured): `median` and `p90` of the absolute value, `bias` the median with its sign.
"""

ORIGIN = {
    "deepbench": "baidu-research/DeepBench, commit da81ba7820739e2e506dc27f382d15be5479f98f, results/train, Apache-2.0",
    "convnet-benchmarks": "soumith/convnet-benchmarks, commits b458aab61c0ac2257c0990119b5de15c1e886f02 and "
    "6468ba7bfe1d987b148fd2f093acf20b504d3c1f, MIT",
    "triosim": "sarchlab/triosim, commit 3fb3c060b3596e7022a710f33b26ba5f36be9288, sample_trace/trace2-h100-bs128, MIT",
}

# architecture: (whose constants, generation of the element-wise kernels, source); the measured ones are not here
LIKE = {
    "fermi": ("kepler", "caffe", "assumed: no kernel of Fermi was found; Kepler is the next architecture"),
    "turing": ("volta", "torch", "assumed: Turing's kernels are Volta's successors in the same cuDNN 7"),
    "ampere": ("volta", "torch", "assumed: no kernel of Ampere was found; Volta is the nearest architecture"),
    "hopper": ("volta", "torch", "assumed: few kernels of Hopper were found; Volta is the nearest architecture"),
    "blackwell": ("volta", "torch", "assumed: no kernel of Blackwell was found; Volta is the nearest architecture"),
    "other": ("volta", "torch", "assumed: the nearest architecture is not known; Volta's constants"),
}
GENERATION = {"kepler": "caffe", "maxwell": "caffe", "pascal": "caffe", "volta": "torch"}
SOURCE = {
    "kepler": "convnet-benchmarks (Titan Black, cuDNN R2, five convolutions); shapes cost as on Maxwell; the share "
    "of plain products is assumed: Maxwell's in proportion to forward convolutions",
    "maxwell": "DeepBench: Titan X and M40, FP32, cuDNN 5",
    "pascal": "DeepBench: Titan X Pascal (cuDNN 5) and P100 (cuDNN 6), FP32",
    "volta": "DeepBench: V100, cuDNN 7.6",
}
COUNTED = {  # operations nobody timed apart: the passes over memory that they cannot do without
    "caffe": {
        "batch-norm": ((2, 1), (4, 1)),
        "add": ((1, 1), (0, 0)),
        "lrn": ((2, 3), (2, 3)),
    },
    "torch": {"concat": ((1, 1), (1, 1)), "lrn": ((2, 3), (2, 3))},
}


def write_fit(
    shared: Mapping[str, float],
    fitted: Mapping[tuple[str, str], tuple[Mapping[str, float], Mapping[str, float]]],
    kepler: Mapping[str, float],
    element_wise: Mapping[str, Mapping[str, Any]],
    scores: Mapping[str, Any],
    networks: Mapping[str, Any],
) -> None:
    """Write the constants, rounded to four digits."""
    architectures: dict[str, dict[str, Any]] = {
        "kepler": {
            "element_wise": GENERATION["kepler"],
            "ordinary": {"source": SOURCE["kepler"], "efficiency": _rounded(kepler), "winograd": {}},
        }
    }
    for (name, units), (efficiency, winograd) in fitted.items():
        entry = architectures.setdefault(name, {"element_wise": GENERATION[name]})
        kind = {"ordinary": "FP32", "tensor": "FP16 with tensor cores"}[units]
        source = SOURCE[name] + (f", {kind}" if name == "volta" else "")
        entry[units] = {"source": source, "efficiency": _rounded(efficiency), "winograd": _rounded(winograd)}
    for name, (like, generation, source) in LIKE.items():
        units = ("ordinary", "tensor") if like == "volta" else ("ordinary",)
        architectures[name] = {
            "element_wise": generation,
            **{unit: {"like": like, "source": source} for unit in units},
        }
    document = {
        "origin": ORIGIN,
        "shared": _rounded(shared),
        "architectures": architectures,
        "element_wise": {name: _generation(name, table) for name, table in element_wise.items()},
        "errors": {
            "rule": "every fourth kernel shape, with all its batches and devices, was left out of the fit",
            **scores,
            "whole_networks": networks,
        },
    }
    yaml = YAML()
    yaml.width = 118
    with PATH.open("w", encoding="utf-8") as file:
        file.write(HEADER)
        yaml.dump(document, file)


def _generation(name: str, table: Mapping[str, Any]) -> dict[str, Any]:
    counted = {
        op: {
            "forward": {"input": float(forward[0]), "output": float(forward[1])},
            "backward": {"input": float(backward[0]), "output": float(backward[1])},
        }
        for op, (forward, backward) in COUNTED[name].items()
    }
    source = {
        "caffe": "convnet-benchmarks: Caffe's GoogLeNet on a Titan X (Maxwell), batch 128",
        "torch": "TrioSim: PyTorch's ResNet-50 and VGG-13 on an H100, batch 128",
    }[name]
    return {
        "source": source,
        "assumed": f"{', '.join(counted)} move what they cannot do without; nobody timed them apart",
        "memory_efficiency": table["memory_efficiency"],
        "traffic": {**table["traffic"], **counted},
    }


def _rounded(values: Mapping[str, float]) -> dict[str, float]:
    return {name: float(np.format_float_positional(value, 4, fractional=False)) for name, value in values.items()}
