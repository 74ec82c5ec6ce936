"""The model and the data of the task `characters`."""

from __future__ import annotations

from functools import lru_cache

import numpy as np
import torch
from torch import nn

from clustersim.learning.tasks.characters import NUM_TRAINED, TEXT, Characters
from clustersim.learning.training.data import Data
from clustersim.learning.training.flat_model import FlatModel
from clustersim.learning.training.networks import drawn


def characters_trainee(task: Characters, seed: int) -> FlatModel:
    """Return a perceptron over embeddings of the last characters (Bengio et al., 2003), drawn for a seed."""
    data, num_known = text(task.context)
    with drawn(seed):
        module = nn.Sequential(
            nn.Embedding(num_known, task.embedding), nn.Flatten(),
            nn.Linear(task.context * task.embedding, task.hidden), nn.ReLU(), nn.Linear(task.hidden, num_known),
        )  # fmt: skip
    return FlatModel(module, *data)


@lru_cache(maxsize=2)
def text(context: int) -> tuple[Data, int]:
    """Return each `context` characters of the text [num_samples, context] with the next one, and how many kinds are.

    A character is its number in the alphabet of the text. Rows are views of one array.
    """
    content = TEXT.read_text(encoding="ascii")
    known = {char: number for number, char in enumerate(sorted(set(content)))}
    numbers = np.array([known[char] for char in content], dtype=np.int64)
    parts = [_pairs(part, context) for part in (numbers[:NUM_TRAINED], numbers[NUM_TRAINED:])]
    return Data(*parts[0], *parts[1]), len(known)


def _pairs(numbers: np.ndarray, context: int) -> tuple[torch.Tensor, torch.Tensor]:
    windows = torch.from_numpy(numbers).unfold(0, context, 1)[:-1]
    return windows, torch.from_numpy(numbers[context:].copy())
