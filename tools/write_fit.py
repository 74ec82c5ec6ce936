"""Writes `kernel_fit.yaml`, the constants and where they come from, and `kernel_errors.yaml`, how far they are off."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from ruamel.yaml import YAML

from clustersim.kernels.kernel_constants import fit_document

KERNELS = Path(__file__).resolve().parent.parent / "clustersim" / "kernels"

HEADER = """\
# Constants of the kernel model, written by tools/fit_kernels.py: change the tool, not this file.
# kernel_model.py has the formula, kernel_constants.py says what each constant is, and kernel_errors.yaml how far off.
"""
ERRORS_HEADER = """\
# How far the constants of kernel_fit.yaml are off, written with them by tools/fit_kernels.py. An error is a factor
# less 1: median, geometric mean and ninth decile of max(model / measured, measured / model), and the signed bias.
"""
RULE = (
    "fitted: kernels whose shapes the stored constants have seen; left_out: every kernel, by constants that have not "
    "seen its shape, one of four quarters at a time; never_seen: by constants fitted on other GPUs alone"
)

ORIGIN = {
    "deepbench": "baidu-research/DeepBench, commit da81ba7820739e2e506dc27f382d15be5479f98f, results/train, Apache-2.0",
    "convnet-benchmarks": "soumith/convnet-benchmarks, commits b458aab61c0ac2257c0990119b5de15c1e886f02 and "
    "6468ba7bfe1d987b148fd2f093acf20b504d3c1f, MIT",
    "triosim": "sarchlab/triosim, commit 3fb3c060b3596e7022a710f33b26ba5f36be9288, sample_trace/trace2-h100-bs128, MIT",
    "code-snippet": "xwang233/code-snippet, commit d78d454b1ab5994ce8e586b678ebd5a19394f7e3, "
    "conv3d-channels-last/a100/res-c8cd883.json; commit a9840ad349957389935b93776fe7c4595d445eb1, "
    "batchnorm3d-channels-last, A100 and V100",
    "squares": "zzc0721/torch-performance-test-data, issue 140, and mli/transformers-benchmarks, commit "
    "19fe789684142c1e458c37abda789b0594980d63, matmul.ipynb",
}

TORCH_SOURCE = (
    "TrioSim: PyTorch's ResNet-50 and VGG-13 on an H100, batch 128; channels_last: code-snippet, PyTorch's batch norm "
    "of 16 bits on an A100 and a V100"
)

SOURCE = {  # of each chip's constants
    "gk110": "convnet-benchmarks (Titan Black, cuDNN R2, five convolutions); shapes cost as on Maxwell; the share of "
    "plain products is assumed: Maxwell's in proportion to forward convolutions; libraries of 2014, no Winograd",
    "gk210": "as GK110, with Winograd's products of cuDNN 5, assumed: Maxwell's in proportion to direct convolutions",
    "gm200": "DeepBench: Titan X (Maxwell) and M40, FP32, cuDNN 5",
    "gp102": "DeepBench: Titan X (Pascal), FP32, cuDNN 5",
    "gp100": "DeepBench: P100, FP32, cuDNN 6",
    "gv100": "DeepBench: V100, FP32, cuDNN 7.6",
    "gv100-tensor": "DeepBench: V100, FP16 with tensor cores, cuDNN 7.6; shares of products as of random numbers in "
    "PyTorch, where DeepBench multiplies zeros",
    "ga100-tensor": "code-snippet: convolutions on an A100, FP16, cuDNN 8.0.5, and ResNet-50 with channels first and "
    "last (NVIDIA/apex, issue 1445)",
    "gh100-tensor": "TrioSim: ResNet-50's convolutions in PyTorch on an H100, TF32",
}
# architecture: generation of the element-wise kernels; units: chip, source where it is not the chip's own
ARCHITECTURES: dict[str, tuple[str, dict[str, tuple[str, str]]]] = {
    "fermi": (
        "caffe",
        {"ordinary": ("gk110", "assumed: no kernel of Fermi was found; Kepler is the next architecture")},
    ),
    "kepler": ("caffe", {"ordinary": ("gk110", "")}),
    "maxwell": ("caffe", {"ordinary": ("gm200", "")}),
    "pascal": ("caffe", {"ordinary": ("gp102", "")}),
    "volta": ("torch", {"ordinary": ("gv100", ""), "tensor": ("gv100-tensor", "")}),
    "turing": (
        "torch",
        {
            "ordinary": ("gv100", "assumed: Turing's kernels are Volta's successors in the same cuDNN 7"),
            "tensor": ("gv100-tensor", "assumed: Turing's kernels are Volta's successors in the same cuDNN 7"),
        },
    ),
    "ampere": (
        "torch",
        {
            "ordinary": ("gv100", "assumed: no FP32 kernel of Ampere was found; Volta is the nearest architecture"),
            "tensor": ("ga100-tensor", ""),
        },
    ),
    "hopper": (
        "torch",
        {
            "ordinary": ("gv100", "assumed: no FP32 kernel of Hopper was found; Volta is the nearest architecture"),
            "tensor": ("gh100-tensor", ""),
        },
    ),
    "blackwell": (
        "torch",
        {
            "ordinary": ("gv100", "assumed: no FP32 kernel of Blackwell was found; Volta is the nearest architecture"),
            "tensor": ("gb100-tensor", ""),
        },
    ),
    "ada": (
        "torch",
        {
            "ordinary": ("gv100", "assumed: no FP32 kernel of Ada was found; Volta is the nearest architecture"),
            "tensor": ("ad102-tensor", ""),
        },
    ),
    "other": (
        "torch",
        {
            "ordinary": ("gv100", "assumed: the nearest architecture is not known; Volta's constants"),
            "tensor": ("gv100-tensor", "assumed: the nearest architecture is not known; Volta's constants"),
        },
    ),
}
GPUS = {
    **{name: {"ordinary": {"chip": "gp100"}} for name in ("p100", "p100-pcie")},
    "k80": {"ordinary": {"chip": "gk210"}},
    **{name: {"tensor": {"chip": "gb202-tensor"}} for name in ("rtx-5090", "rtx-pro-6000")},
}
ORDINARY_PROLOGUE = {"ga100-tensor": "gv100-tensor"}  # whose few channels were timed, where a chip's own were not
COUNTED = {  # operations without a timing of their own: the passes over memory that they must make
    "caffe": {
        "batch-norm": ((2, 1), (4, 1)),
        "add": ((1, 1), (0, 0)),
        "lrn": ((2, 3), (2, 3)),
    },
    "torch": {"concat": ((1, 1), (1, 1)), "lrn": ((2, 3), (2, 3))},
}


class ChipConstants(NamedTuple):
    """One chip's constants as plain numbers."""

    shape: Mapping[str, float]
    efficiency: Mapping[str, float]
    winograd: Mapping[str, float]


def write_fit(
    chips: Mapping[str, ChipConstants],
    element_wise: Mapping[str, Mapping[str, Any]],
    scores: Mapping[str, Any],
) -> None:
    """Write the constants, rounded to four digits, and their errors."""
    document = {
        "origin": ORIGIN,
        "chips": {
            name: {
                "source": SOURCE[name],
                **{part: rounded(values) for part, values in chip._asdict().items()},
                **ordinary_prologue(name, chips[ORDINARY_PROLOGUE.get(name, name)].shape),
            }
            for name, chip in chips.items()
        },
        "architectures": {
            name: {"element_wise": generation, **{unit: _entry(*entry) for unit, entry in units.items()}}
            for name, (generation, units) in ARCHITECTURES.items()
        },
        "gpus": GPUS,
        "element_wise": {name: _generation(name, table) for name, table in element_wise.items()},
        "convolutions": dict(fit_document()["convolutions"]),  # `rate_fit` has them
    }
    write("kernel_fit.yaml", HEADER, document)
    write("kernel_errors.yaml", ERRORS_HEADER, {"rule": RULE, **scores})


def write_networks(networks: Mapping[str, Any]) -> None:
    """Write the errors of whole networks after those of kernels."""
    path = KERNELS / "kernel_errors.yaml"
    scores = YAML(typ="safe", pure=True).load(path.read_text(encoding="utf-8"))
    write(path.name, ERRORS_HEADER, {**scores, "whole_networks": networks})


def write(name: str, header: str, document: Mapping[str, Any]) -> None:
    yaml = YAML()
    yaml.width = 118
    yaml.representer.ignore_aliases = lambda _: True
    with (KERNELS / name).open("w", encoding="utf-8") as file:
        file.write(header)
        yaml.dump(document, file)


def ordinary_prologue(name: str, timed: Mapping[str, float]) -> dict[str, float]:
    """Return the prologue of convolutions beside tensor cores, where it is another chip's, `timed` there."""
    if name not in ORDINARY_PROLOGUE:
        return {}
    return rounded({"ordinary_prologue": timed["convolution_prologue"]})


def _entry(chip: str, source: str) -> dict[str, str]:
    return {"chip": chip, "source": source} if source else {"chip": chip}


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
        "torch": TORCH_SOURCE,
    }[name]
    return {
        "source": source,
        "assumed": f"{', '.join(counted)} move the bytes they must move; no source times them separately",
        "memory_efficiency": table["memory_efficiency"],
        "traffic": {**table["traffic"], **counted},
        **{part: table[part] for part in ("channels_last",) if part in table},
    }


def rounded(values: Mapping[str, float]) -> dict[str, float]:
    return {name: float(np.format_float_positional(value, 4, fractional=False)) for name, value in values.items()}
