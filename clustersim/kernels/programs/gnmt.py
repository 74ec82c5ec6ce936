"""GNMT in NVIDIA's code: unfused operations in its example, fused attention and loss in its MLPerf submissions.

Counted as in `programs.eager`, in elements of an activation, with w = 2 where they have 16 bits; operations that are
not listed are one pass.

`nvidia-gnmt` is the example (NVIDIA/DeepLearningExamples, PyTorch/Translation/GNMT/seq2seq, commit 0053b4b8), PyTorch's
operations in sequence:

- attention (`calc_score` in models/attention.py) has a tensor of every feature of every pair of words. The sum of query
  and key, which are read again for each pair from a cache, writes it, 1; the bias is added, 2; tanh, 2; the product
  with one vector reads it, 1. Backward that product's two gradients, 2; tanh's, 3; the bias's is a sum over it, 1, and
  so are those of query and key, 2.
- the loss (`LabelSmoothing` in train/smoothing.py, commit 70c51ad7): a log-softmax to fp32, 1 + w, and its mean over
  the vocabulary, w. Backward the gradient of that mean, w, zeros that hold those of the right words, w, their sum,
  3 w, and the log-softmax's gradient from that and its output, 2 w + 1.

`mlperf-gnmt` is NVIDIA's code of MLPerf's v0.7 (mlcommons/training_results_v0.7, NVIDIA/benchmarks/gnmt, commit
c6640611) with the options of its configurations, `--fused-attention` and `--fused-xentropy`. One kernel computes scores
from query and key without writing pairs, and one all their gradients, by recomputing them
(`seq2seq/csrc/attn_score_cuda.cpp` and its kernels). The loss is one kernel in each pass, which writes no more than its
gradient (apex's `xentropy`). The FLOP of these kernels are left out.

In both, the gradient of a matrix's bias reads the output's.
"""

from __future__ import annotations

from clustersim.kernels.kernel_constants import Traffic
from clustersim.kernels.programs.eager import widths
from clustersim.model.layer import Layer
from clustersim.model.precision import Precision

EXAMPLE, ROUND = "nvidia-gnmt", "mlperf-gnmt"
_NOTHING = Traffic(input=0.0, output=0.0)
_OF_PAIRS = {
    "tanh": (Traffic(input=5.0, output=0.0), Traffic(input=6.0, output=0.0)),
    "additive-scores": (Traffic(input=1.0, output=1.0), Traffic(input=2.0, output=1.0)),
}


def example_traffic(layer: Layer, precision: Precision) -> tuple[Traffic, Traffic] | None:
    """Return the elements that a layer of NVIDIA's example moves, None for layers of one kernel.

    Pairs 6 forward and 8 backward, their tanh's and their scores' together; the loss 1 + 2 w and 1 + 7 w.
    """
    if layer.op == "loss":
        _, wide = widths(precision)
        return Traffic(input=1 + 2 * wide, output=0.0), Traffic(input=1 + 7 * wide, output=0.0)
    return _OF_PAIRS.get(layer.op)


def round_traffic(layer: Layer, precision: Precision) -> tuple[Traffic, Traffic] | None:
    """Return the same for the MLPerf code: nothing for pairs, which stay on the chip."""
    return (_NOTHING, _NOTHING) if layer.op in _OF_PAIRS else None
