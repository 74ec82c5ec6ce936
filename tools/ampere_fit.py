"""The A100's convolutions in 16 bits: three-dimensional ones timed with channels first and last, and ResNet-50.

The kernels are xwang233's, of PyTorch's `Conv3d` with cuDNN 8.0.5, forward and backward, in both layouts. A convolution
in three dimensions is the same product as one in two whose kernel has as many taps and whose maps as many places. Left
out are those in which PyTorch's thread and not the GPU sets the time (forward under 0.12 ms, backward under 0.25 ms),
gradients through a stride in three dimensions, of which 7 of 8 products are with zeros, and channels fewer than tensor
cores read at once: where ordinary units have those, a tile's prologue there is Volta's, where they were timed. cuDNN's
kernels for three dimensions reach half of the memory rate; what those for two reach is told by ResNet-50, which trains
1,450 images/s with channels first and 2,150 with channels last at a batch of 200 (ptrblck, NVIDIA/apex, issue 1445,
2022), each counted `NETWORK_WEIGHT` times. Its first layer's 3 colours are filled up in both layouts
(`channels_last.constants_in`), and its batch norms are those of the layout. Plain products are `product_fit`'s; the
share of the memory rate, which is theirs as well, stays as assumed (`hopper_fit`).

    python tools/ampere_fit.py FOLDER

replaces these constants and the norms of `element_wise.norm_channels_last` alone, and scores whole networks again.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from chip_fit import NAMES, Chip, constants, predicted, soft, summary
from element_wise import norm_channels_last
from kernel_data import Kernel, Timed, layout_convolutions
from ruamel.yaml import YAML
from score_networks import score_networks
from write_fit import (
    ERRORS_HEADER,
    HEADER,
    KERNELS,
    ORIGIN,
    TORCH_SOURCE,
    ordinary_prologue,
    rounded,
    write,
    write_networks,
)

from clustersim.hardware import load_gpu
from clustersim.kernels.kernel_constants import constants_for, fit_document
from clustersim.kernels.kernel_model import PHASES
from clustersim.kernels.layer_times import estimate_layers
from clustersim.kernels.optimizer import OptimizerSpec
from clustersim.kernels.programs.channels_last import Layout, constants_in
from clustersim.model.catalogue import load_model
from clustersim.model.precision import PRECISIONS

AMPERE = Chip("ga100-tensor", ("a100-40gb",), "tensor", {"thin_traffic": 0.0})
START = {
    "forward": 0.7, "backward_data": 0.7, "backward_weights": 0.7, "convolution_prologue": 16.0, "layout_passes": 1.2,
    "convolution_occupancy_half": 0.1, "convolution_tile_half": 64.0,
}  # fmt: skip
LIMIT = {
    "convolution_prologue": 300.0,
    "layout_passes": 4.0,
    "convolution_occupancy_half": 5.0,
    "convolution_tile_half": 400.0,
}
VOLTAS = ("strided_backward_data", "forward_launches", "backward_data_launches", "backward_weights_launches")
PULL = 0.05
TINY = 1e-9  # for constants that are 0, which have no logarithm
NETWORK, NETWORK_BATCH, NETWORK_WEIGHT = "resnet50", 200, 6.0
NETWORK_RATES: dict[Layout, float] = {"nchw": 1450.0, "nhwc": 2150.0}  # images/s
HOST_S = {"forward": 0.12e-3, "backward": 0.25e-3}


def fit_ampere(folder: Path, assumed: np.ndarray, volta: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the A100's vector, and log(model / measured) of its kernels; what is not fitted stays as `assumed`."""
    from scipy.optimize import least_squares

    timed = [each for each in layout_convolutions(folder, "a100-40gb") if _is_kept(each)]
    measured_s = np.array([each.seconds for each in timed])
    start = assumed.copy()
    for name in VOLTAS:
        start[NAMES.index(name)] = volta[NAMES.index(name)]
    free = [NAMES.index(name) for name in START]
    begin = np.log(list(START.values()))
    others_s, networks = {layout: _other_seconds(layout) for layout in NETWORK_RATES}, list(_network())

    def whole(values: np.ndarray) -> np.ndarray:
        vector = start.copy()
        vector[free] = values
        return vector

    def residuals(values: np.ndarray) -> np.ndarray:
        vector = whole(values)
        kernels = soft(np.log(seconds(vector, timed) / measured_s))
        totals = [
            np.log((others_s[layout] + _sum(vector, networks, layout)) * rate / NETWORK_BATCH)
            for layout, rate in NETWORK_RATES.items()
        ]
        return np.concatenate([kernels, NETWORK_WEIGHT * np.array(totals), PULL * (values - begin)])

    upper = np.log([LIMIT.get(name, 1.0) for name in START])
    lower = np.full(len(free), np.log(1e-3))
    solution = least_squares(residuals, begin, bounds=(lower, upper), diff_step=np.full(len(free), 1e-3), max_nfev=60)
    vector = whole(solution.x)
    return vector, np.log(seconds(vector, timed) / measured_s)


def _is_kept(timed: Timed) -> bool:
    shape, backward = timed.kernels[0].shape, len(timed.kernels) > 1
    if backward and shape["stride_w"] > 1:
        return False
    return (
        timed.seconds >= HOST_S["backward" if backward else "forward"] and min(shape["channels"], shape["filters"]) >= 8
    )


def seconds(vector: np.ndarray, timed: Sequence[Timed]) -> np.ndarray:
    """Return the model's seconds of each timed call, with the layout it was timed in."""
    return np.array([_sum(vector, each.kernels, each.layout) for each in timed])


def _sum(vector: np.ndarray, kernels: Sequence[Kernel], layout: Layout) -> float:
    known = constants_in(layout, constants(AMPERE, vector), PRECISIONS["amp-fp16"])
    return float(predicted(kernels, known).sum())


def _network() -> Iterator[Kernel]:
    gpu = load_gpu("a100-40gb")
    for layer in load_model(NETWORK).layers:
        if layer.op == "convolution":
            flop = (layer.flop, layer.flop_backward_data, layer.flop_backward_weights)
            for phase, each in zip(PHASES, flop, strict=True):
                if each:
                    yield Kernel(gpu, "amp-fp16", "convolution", dict(layer.shape), NETWORK_BATCH, phase, 0.0, ())


def _other_seconds(layout: Layout) -> float:
    """Return what ResNet-50 takes on an A100 besides its convolutions, the update of its weights included."""
    model, gpu = load_model(NETWORK), load_gpu("a100-40gb")
    layers = estimate_layers(model, gpu, NETWORK_BATCH, "amp-fp16", layout=layout).layers
    update_s = OptimizerSpec.model_validate({"kind": "momentum"}).update_s(model.num_parameters, gpu, launches=161)
    return update_s + sum(each.forward_s + each.backward_s for each in layers if each.layer.op != "convolution")


def main(folder: Path) -> None:
    """Fit, score, and write both files."""
    yaml = YAML(typ="safe", pure=True)
    document: dict[str, Any] = yaml.load((KERNELS / "kernel_fit.yaml").read_text(encoding="utf-8"))
    scores: dict[str, Any] = yaml.load((KERNELS / "kernel_errors.yaml").read_text(encoding="utf-8"))
    torch = document["element_wise"]["torch"]
    document["origin"]["code-snippet"] = ORIGIN["code-snippet"]
    torch |= {"source": TORCH_SOURCE, "channels_last": norm_channels_last(torch["memory_efficiency"])}
    write("kernel_fit.yaml", HEADER, document)
    _forget()
    chips = document["chips"]
    vector, errors = fit_ampere(folder, stored(chips[AMPERE.name]), stored(chips["gv100-tensor"]))
    known = constants(AMPERE, vector)
    chips[AMPERE.name]["shape"] |= rounded({name: getattr(known.shape, name) for name in START if name not in PHASES})
    chips[AMPERE.name]["efficiency"] |= rounded({name: known.efficiency[name] for name in PHASES})
    chips[AMPERE.name] |= ordinary_prologue(AMPERE.name, chips["gv100-tensor"]["shape"])
    scores["fitted"]["a100-40gb amp-fp16"] = summary(errors)
    write("kernel_fit.yaml", HEADER, document)
    write("kernel_errors.yaml", ERRORS_HEADER, scores)
    _forget()
    write_networks(score_networks(folder))


def stored(chip: Mapping[str, Mapping[str, float]]) -> np.ndarray:
    """Return the vector of a chip's constants as they stand in `kernel_fit.yaml`; 1 for what tensor cores have not."""
    values = {**chip["shape"], **chip["efficiency"]}
    return np.array([np.log(max(values.get(name, 1.0), TINY)) for name in NAMES])


def _forget() -> None:
    fit_document.cache_clear()
    constants_for.cache_clear()


if __name__ == "__main__":
    main(Path(sys.argv[1]))
