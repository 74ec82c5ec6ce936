"""The update log: for each gradient, the model version it was computed on and the one it was applied to."""

from __future__ import annotations

from array import array
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np

ALL_WORKERS = -1
"""Value of the worker where one update has the gradients of all workers."""


class Update(NamedTuple):
    """One gradient that was applied or dropped; `learning_rate` is relative to the configured rate."""

    time_s: float
    worker: int
    version_read: int
    version_written: int
    learning_rate: float
    accepted: bool

    @property
    def staleness(self) -> int:
        """The version the gradient was applied to minus the version it was computed on."""
        return self.version_written - 1 - self.version_read

    def __str__(self) -> str:
        """Return the update as textbooks write it.

        >>> print(Update(1.0, 3, 97, 101, 1.0, True))
        W_101 = W_100 - lr * dW_97 (worker 3, staleness 3)
        """
        source = "all workers" if self.worker == ALL_WORKERS else f"worker {self.worker}"
        applied = self.version_written - 1
        if not self.accepted:
            return f"dW_{self.version_read} is dropped at W_{applied} ({source}, staleness {self.staleness})"
        rate = "lr" if self.learning_rate == 1.0 else f"{self.learning_rate:.4g} lr"
        return (
            f"W_{self.version_written} = W_{applied} - {rate} * dW_{self.version_read} "
            f"({source}, staleness {self.staleness})"
        )


@dataclass
class UpdateLog:
    """Every gradient in the order in which it was applied or dropped, in columns [num_gradients]: 29 bytes each.

    Gradients of one update write the same version. `worker` is a rank, or ALL_WORKERS.
    """

    time_s: array[float] = field(default_factory=lambda: array("d"))
    worker: array[int] = field(default_factory=lambda: array("i"))
    version_read: array[int] = field(default_factory=lambda: array("i"))
    version_written: array[int] = field(default_factory=lambda: array("i"))
    learning_rate: array[float] = field(default_factory=lambda: array("d"))
    accepted: array[int] = field(default_factory=lambda: array("b"))

    def add(self, update: Update) -> None:
        """Add one gradient."""
        self.time_s.append(update.time_s)
        self.worker.append(update.worker)
        self.version_read.append(update.version_read)
        self.version_written.append(update.version_written)
        self.learning_rate.append(update.learning_rate)
        self.accepted.append(update.accepted)

    def rows(self) -> Iterator[Update]:
        """Yield the gradients one by one."""
        for *values, accepted in zip(*vars(self).values(), strict=True):
            yield Update._make([*values, bool(accepted)])

    def __len__(self) -> int:
        return len(self.time_s)

    @property
    def num_bytes(self) -> int:
        """Bytes that the columns hold."""
        return sum(column.itemsize * len(column) for column in vars(self).values())

    @property
    def staleness(self) -> np.ndarray:
        """[num_gradients] version applied to minus version read."""
        staleness: np.ndarray = np.asarray(self.version_written) - 1 - np.asarray(self.version_read)
        return staleness

    @property
    def is_accepted(self) -> np.ndarray:
        """[num_gradients] whether the gradient was applied."""
        return np.asarray(self.accepted, dtype=bool)

    def part(self, start: int, stop: int) -> UpdateLog:
        """Return the rows `start` to `stop` - 1."""
        return UpdateLog(**{name: column[start:stop] for name, column in vars(self).items()})

    def to_dict(self) -> dict[str, Any]:
        """Return the columns as JSON values, including the staleness."""
        columns = {name: column.tolist() for name, column in vars(self).items()}
        return {**columns, "staleness": self.staleness.tolist(), "accepted": self.is_accepted.tolist()}

    @classmethod
    def from_dict(cls, document: Mapping[str, Any]) -> UpdateLog:
        """Return the columns of a JSON document."""
        kinds = {name: column.typecode for name, column in vars(cls()).items()}
        return cls(**{name: array(kinds[name], document[name]) for name in kinds if name in document})
