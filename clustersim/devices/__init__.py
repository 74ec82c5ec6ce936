"""A GPU on the SimPy clock: one compute stream, two copy engines, memory behind a link.

Each is a SimPy resource, so a process of the user's own can queue for them like ours do. How long a
kernel takes is somebody else's knowledge (`clustersim.workload`).
"""

from clustersim.devices.gpu import GpuDevice

__all__ = ["GpuDevice"]
