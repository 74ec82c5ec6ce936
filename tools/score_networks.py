"""Scores the kernel model on whole networks, one by one, from sheets alone. No total was fitted to.

Caffe's GoogLeNet on the Titan X and PyTorch's ResNet-50 on the H100 lent times of single layers to the fit: they are
not here.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
from kernel_data import caffe_layers, operators, torch_networks

from clustersim.hardware import load_gpu
from clustersim.kernels.compute_time import rate_factor
from clustersim.kernels.layer_times import Library, estimate_layers
from clustersim.kernels.optimizer import OptimizerSpec
from clustersim.kernels.published_rates import published_rates
from clustersim.model.catalogue import load_model


def score_networks(folder: Path) -> dict[str, object]:
    """Return log(model / measured) of every network, and the summary by precision.

    Of a rate curve the largest batch is scored; smaller ones, where frameworks wait for their host, stand beside it.
    """
    errors: dict[str, dict[str, float]] = {}
    for curve in published_rates():
        model, gpu = load_model(curve.model), load_gpu(curve.gpu)
        library: Library = "unrolled" if "own kernels" in curve.software else "cudnn"
        name = f"{curve.model} {curve.gpu} {curve.precision} ({curve.software})"
        errors[name] = {
            f"batch {batch}": -_rounded(
                rate_factor(
                    model, gpu, batch, curve.precision, OptimizerSpec(), rate, library, layout=curve.layout
                ).kernels
            )
            for batch, rate in sorted(curve.samples_per_s.items())
        }
    for name, model_name, measured_s in (
        ("vgg11 titan-x-maxwell fp32 (Caffe)", "vgg11", sum(caffe_layers(folder, "vgg_a")["TOTAL"])),
        ("alexnet titan-x-maxwell fp32 (Caffe)", "alexnet", sum(caffe_layers(folder, "alexnet")["TOTAL"])),
    ):
        batch = 64 if model_name == "vgg11" else 128
        errors[name] = {f"batch {batch}": _error(model_name, "titan-x-maxwell", batch, "fp32", measured_s)}
    for model_name, gpu_name, measured_s in torch_networks(folder):
        errors[f"{model_name} {gpu_name} fp32 (Torch)"] = {
            "batch 16": _error(model_name, gpu_name, 16, "fp32", measured_s)
        }
    rows = [row for row in operators(folder, "vgg13") if not row[0].startswith("aten::_foreach")]
    measured_s = sum(seconds for _, seconds, _, _ in rows)
    errors["vgg13 h100 tf32 (PyTorch)"] = {"batch 128": _error("vgg13", "h100", 128, "tf32", measured_s)}
    return {"summary": _summary(errors), "networks": errors}


def _error(model: str, gpu: str, batch: int, precision: str, measured_s: float) -> float:
    layers = estimate_layers(load_model(model), load_gpu(gpu), batch, precision).layers
    return _rounded(sum(layer.forward_s + layer.backward_s for layer in layers) / measured_s)


def _rounded(factor: float) -> float:
    return round(float(np.log(factor)), 3)


def _summary(errors: dict[str, dict[str, float]]) -> dict[str, dict[str, float]]:
    """Return the errors at each network's largest batch: of all by precision, and of each GPU and each network."""
    groups: dict[str, list[float]] = {}
    for name, values in errors.items():
        network, gpu, precision = name.split()[:3]
        for group in (precision, f"{gpu} {precision}", f"{network} {precision}"):
            groups.setdefault(group, []).append(list(values.values())[-1])
    return {
        group: {
            "networks": len(values),
            "median": round(float(np.expm1(np.median(np.abs(values)))), 3),
            "geometric_mean": round(float(np.expm1(np.mean(np.abs(values)))), 3),
            "worst": round(float(np.expm1(np.max(np.abs(values)))), 3),
            "bias": round(float(np.expm1(np.median(values))), 3),
        }
        for group, values in groups.items()
    }
