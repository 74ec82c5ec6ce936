"""What a run is compared with for its efficiency: plain data of a run."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Baseline:
    """A training that can be, with the settings of the run: on one GPU, or on the fewest GPUs that hold it.

    `batch` is samples per update of all its `num_gpus`, in `micro_batches` for each replica of the model. `text` names
    it (`one NVIDIA A100 SXM4 (GA100, 80 GB) at a batch of 64`), `short` in a word or two (`1 GPU`). `why` says why it
    is not one GPU with all of the batch at once; empty if it is.

    >>> Baseline(8, 64, 2, 400.0, "8 NVIDIA A100", "one lacks memory").samples_per_s_per_gpu
    50.0
    """

    num_gpus: int
    batch: int
    micro_batches: int
    samples_per_s: float
    text: str
    why: str = ""

    @property
    def samples_per_s_per_gpu(self) -> float:
        """Samples per second of each of its GPUs."""
        return self.samples_per_s / self.num_gpus

    @property
    def short(self) -> str:
        """How many GPUs it has, for a heading or a note.

        >>> Baseline(1, 64, 1, 400.0, "one NVIDIA A100").short
        '1 GPU'
        """
        return "1 GPU" if self.num_gpus == 1 else f"{self.num_gpus:,} GPUs"
