"""Layer times at batch sizes that were not measured, interpolated from those that were.

Kernel times grow in steps: a batch fills the multiprocessors in waves, below one wave a larger batch costs nothing, and
a launch costs the same at any batch. The kernel model has waves and launches, so it gives the position of a batch size
between two measured ones. The measured times give the values at both ends.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence

from clustersim.hardware.sheet import Gpu
from clustersim.kernels.layer_times import estimate_layers
from clustersim.model.layer import LayerTime, Model


class BatchInterpolation:
    """Interpolates measured layer times of a model to one batch size, along the curve of the kernel model."""

    def __init__(self, model: Model, gpu: Gpu, precision: str, batch: int):
        self.model, self.gpu, self.precision, self.batch = model, gpu, precision, batch
        self._estimates: dict[int, tuple[LayerTime, ...]] = {}

    def seconds(self, index: int, phase: int, batches: Sequence[int], measured_s: Sequence[float]) -> float:
        """Return a layer's seconds of a phase (0 forward, 1 data, 2 weights), given those at ascending batches.

        A measured batch takes the measured time. Between two, with e the kernel model's time of the phase,
        t = t_lo + (t_hi - t_lo) (e - e_lo) / (e_hi - e_lo), so the result lies between the two. Where the model's time
        does not grow, the batch size takes the place of e. Outside the measured range t = t_near e / e_near.
        """
        at = bisect_left(batches, self.batch)
        if at < len(batches) and batches[at] == self.batch:
            return measured_s[at]
        if at in (0, len(batches)):
            near = 0 if at == 0 else -1
            return measured_s[near] * self._ratio(index, phase, batches[near])
        low_s, high_s = measured_s[at - 1 : at + 1]
        return low_s + (high_s - low_s) * self._progress(index, phase, *batches[at - 1 : at + 1])

    def _progress(self, index: int, phase: int, low: int, high: int) -> float:
        low_s, here_s, high_s = (self._model_s(index, phase, batch) for batch in (low, self.batch, high))
        if low_s < high_s and low_s <= here_s <= high_s:
            return (here_s - low_s) / (high_s - low_s)
        return (self.batch - low) / (high - low)

    def _ratio(self, index: int, phase: int, near: int) -> float:
        near_s = self._model_s(index, phase, near)
        return self._model_s(index, phase, self.batch) / near_s if near_s > 0 else self.batch / near

    def _model_s(self, index: int, phase: int, batch: int) -> float:
        if batch not in self._estimates:
            self._estimates[batch] = self._estimate(batch)
        layer = self._estimates[batch][index]
        return (layer.forward_s, layer.backward_data_s, layer.backward_weights_s)[phase]

    def _estimate(self, batch: int) -> tuple[LayerTime, ...]:
        """Return the estimated times of kernels alone, as a profile has them: without waiting for their launch."""
        return estimate_layers(self.model, self.gpu, batch, self.precision).layers
