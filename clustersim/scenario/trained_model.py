"""The model as a scenario trains it: what `packing` and `lora` change in the model of `model`."""

from __future__ import annotations

from clustersim.errors import InputError
from clustersim.kernels.adapters import with_adapters
from clustersim.kernels.packing import with_packing
from clustersim.model import Model, load_workload
from clustersim.model.precision import PRECISIONS
from clustersim.model.workload_file import GivenTimes
from clustersim.scenario.keys import PointKeys


def trained_model(point: PointKeys) -> tuple[Model, GivenTimes | None]:
    """Return the model that a point trains, and the times of its layers where a workload file gives them."""
    model, given_times = load_workload(point.model)
    changes = {"packing": point.packing is not None and point.packing.kind == "packed", "lora": point.lora is not None}
    if given_times is not None and any(changes.values()):
        key = next(key for key, is_given in changes.items() if is_given)
        message = f"{model.name} gives times of layers, which {key} would change; take a model without times"
        raise InputError(message, key=key, got="given", allowed="without times in the workload file")
    if point.packing is not None:
        model = with_packing(model, point.packing)
    if point.lora is not None:
        model = with_adapters(model, point.lora, PRECISIONS[point.precision].operand_bytes)
    return model, given_times
