"""Data of a task as tensors, which all its seeds share."""

from __future__ import annotations

from typing import NamedTuple

from torch import Tensor


class Data(NamedTuple):
    """Samples to train on and to evaluate: `inputs` [num_samples, ...] and `targets` [num_samples] or [num_samples, 1].

    Targets of whole numbers are classes.
    """

    inputs: Tensor
    targets: Tensor
    test_inputs: Tensor
    test_targets: Tensor

    def as_rows(self) -> Data:
        """Return the data with each sample as a row of numbers; no number is copied."""
        return self._replace(inputs=self.inputs.flatten(1), test_inputs=self.test_inputs.flatten(1))
