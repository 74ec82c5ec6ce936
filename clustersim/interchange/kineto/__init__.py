"""Layer profiles from traces of torch.profiler (Kineto's Chrome trace).

A kernel's correlation identifies its launch, the launch the operator around it, the operator the module around
that; a backward operator's sequence number identifies the forward operator whose gradient it computes.
"""

from clustersim.interchange.kineto.profile import import_kineto

__all__ = ["import_kineto"]
