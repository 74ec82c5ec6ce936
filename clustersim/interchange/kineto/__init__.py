"""Layer profiles from what torch.profiler wrote (Kineto's Chrome trace).

A kernel's correlation leads to its launch, the launch to the operator around it, the operator to the module around
that; a backward operator's sequence number leads to the forward operator whose gradient it computes.
"""

from clustersim.interchange.kineto.profile import import_kineto

__all__ = ["import_kineto"]
