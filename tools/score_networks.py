"""Scores the kernel model on whole networks. No total was fitted to; Caffe's GoogLeNet on the Titan X and PyTorch's two
networks on the H100 lent the times of their element-wise layers."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from kernel_data import caffe_layers, operators

from clustersim.hardware import load_gpu
from clustersim.workload.catalogue import load_model
from clustersim.workload.compute_time import rate_factor
from clustersim.workload.layer_times import estimate_layers
from clustersim.workload.optimizer import OptimizerSpec
from clustersim.workload.published_rates import published_rates


def score_networks(folder: Path) -> dict[str, object]:
    """Return log(model / measured) of every network, and the summary by precision.

    Of a rate curve the largest batch is scored; smaller ones, where frameworks wait for their host, stand beside it.
    """
    errors: dict[str, dict[str, float]] = {}
    for curve in published_rates():
        model, gpu = load_model(curve.model), load_gpu(curve.gpu)
        name = f"{curve.model} {curve.gpu} {curve.precision} ({curve.software})"
        errors[name] = {
            f"batch {batch}": -round(
                float(np.log(rate_factor(model, gpu, batch, curve.precision, OptimizerSpec(), rate))), 3
            )
            for batch, rate in sorted(curve.samples_per_s.items())
        }
    for name, model_name, measured_s in (
        ("googlenet titan-x-maxwell fp32 (Caffe)", "googlenet", sum(caffe_layers(folder, "googlenet")["TOTAL"])),
        ("vgg11 titan-x-maxwell fp32 (Caffe)", "vgg11", sum(caffe_layers(folder, "vgg_a")["TOTAL"])),
        ("alexnet titan-x-maxwell fp32 (Caffe)", "alexnet", sum(caffe_layers(folder, "alexnet")["TOTAL"])),
    ):
        batch = 64 if model_name == "vgg11" else 128
        errors[name] = {f"batch {batch}": _error(model_name, "titan-x-maxwell", batch, "fp32", measured_s)}
    for model_name in ("resnet50", "vgg13"):
        rows = [row for row in operators(folder, model_name) if not row[0].startswith("aten::_foreach")]
        measured_s = sum(seconds for _, seconds, _, _ in rows)
        errors[f"{model_name} h100 tf32 (PyTorch)"] = {"batch 128": _error(model_name, "h100", 128, "tf32", measured_s)}
    return {"summary": _summary(errors), "networks": errors}


def _error(model: str, gpu: str, batch: int, precision: str, measured_s: float) -> float:
    layers = estimate_layers(load_model(model), load_gpu(gpu), batch, precision).layers
    return round(float(np.log(sum(layer.forward_s + layer.backward_s for layer in layers) / measured_s)), 3)


def _summary(errors: dict[str, dict[str, float]]) -> dict[str, dict[str, float]]:
    by_precision: dict[str, list[float]] = {}
    for name, values in errors.items():
        by_precision.setdefault(name.split()[2], []).append(list(values.values())[-1])
    return {
        precision: {
            "networks": len(values),
            "median": round(float(np.median(np.abs(values))), 3),
            "p90": round(float(np.quantile(np.abs(values), 0.9)), 3),
            "bias": round(float(np.median(values)), 3),
        }
        for precision, values in by_precision.items()
    }
