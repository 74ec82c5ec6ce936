"""What the columns of the table of all runs mean: `clustersim explain mfu`."""

from __future__ import annotations

import re

COLUMNS = {
    "GPUs": "number of GPUs of a run",
    "iteration": "time of one iteration, mean over iterations and replicates; of asynchronous training, of each "
    "worker's own iteration",
    "samples/s": "samples trained per second on all GPUs, without those whose gradients are dropped",
    "90% band": "between which samples per second the measurement is expected with a probability of 90 %, from the "
    "errors of checked forecasts of the same class; comparisons of two runs of a sweep are surer than that",
    "baseline": "samples per second of what a run's speedup is over, and of how many GPUs, from two up",
    "speedup": "rate of a run over that of its baseline: one GPU at its batch, the fewest GPUs that hold the model, "
    "or the one in the scenario",
    "efficiency": "samples per second and GPU, over those of the baseline: 100 % where each GPU adds as much as "
    "those of the baseline train",
    "training": "time of the whole training, where epochs or samples are given",
    "tokens/s": "tokens trained per second on all GPUs, of encoder and decoder both",
    "tokens/s/GPU": "tokens per second over the number of GPUs",
    "MFU": "model FLOP utilisation: FLOP of the model per second over the peak of all GPUs at the scenario's "
    "precision, dense. Counted are matrix products and convolutions, forward and backward, with the output layer; a "
    "causal attention counts only the pairs of tokens that its kernel computes, half of what formulas with 12 x "
    "layers x width x tokens count. Embedding look-ups, norms and the optimizer are not counted",
    "HFU": "hardware FLOP utilisation: as MFU, with the layers whose forward pass `recompute` repeats",
    "stale": "mean staleness: how many versions of the weights a gradient is behind those that it updates; 0 of "
    "synchronous training",
    "dropped": "share of the gradients that are computed and not applied",
    "to target": "simulated time after which the trained task is as good as `learning.target` says, mean over seeds; "
    "– where a seed does not get there",
    "loss": "loss of the trained task after its last update, on samples that are not trained on, mean over seeds",
    "accuracy": "share of these samples whose class is found, mean over seeds",
    "updates": "updates of the trained task's weights, in each seed",
    "memory": "memory of the GPU that holds most, at its peak",
    "$/h": "price of all GPUs for an hour",
    "$/M tokens": "price of training a million tokens",
    "$ total": "price of the whole training",
    "$/M samples": "price of training a million samples",
    "compute": "share of an iteration in which a worker computes: forward, backward and update, mean over workers",
    "slowed": "share by which kernels take longer since collectives run beside them",
    "comm.": "exposed communication: share of an iteration in which a worker computes nothing since its messages are "
    "under way; communication beside compute is not in it",
    "waiting": "share of an iteration in which a worker waits for slower ranks",
    "input": "share of an iteration in which a worker waits for samples",
    "bubble": "share of an iteration in which a stage of a pipeline waits for micro-batches",
    "offload": "share of an iteration in which a worker waits for copies to or from the host, or for its optimizer",
    "host": "share of an iteration in which a GPU waits for the host to issue kernels",
    "recovery": "share of the time for checkpoints and failures",
}
"""The meaning of each column by its heading; shares are means over workers and sum to the iteration."""


def explained_column(name: str) -> str:
    """Return a column's heading and meaning by its name in any case; empty for another word.

    >>> explained_column("comm").splitlines()[0], explained_column("learning_rate")
    ('comm. (a column of the table of runs)', '')
    """
    found = {_squashed(heading): heading for heading in COLUMNS} | {"band": "90% band"}
    heading = found.get(_squashed(name))
    return "" if heading is None else f"{heading} (a column of the table of runs)\n  {COLUMNS[heading]}"


def _squashed(text: str) -> str:
    return re.sub(r"[^a-z0-9$]", "", text.lower())
