"""A GPU on the SimPy clock: one compute stream, two copy engines, memory behind a link; and what feeds it samples.

Each has a queue, so a process of the user's own can wait for its turn like ours do. How long a
kernel takes is somebody else's knowledge (`clustersim.kernels`).
"""

from clustersim.devices.gpu import GpuDevice
from clustersim.devices.input import Input, InputStage
from clustersim.devices.multiprocessors import Multiprocessors, Pieces
from clustersim.devices.queue import Queue
from clustersim.devices.shared_rate import SharedRate

__all__ = ["GpuDevice", "Input", "InputStage", "Multiprocessors", "Pieces", "Queue", "SharedRate"]
