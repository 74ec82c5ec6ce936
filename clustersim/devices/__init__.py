"""A GPU on the SimPy clock (one compute stream, two copy engines, memory behind a link) and its input stage.

The stream and the engines each have a queue, which a user's own SimPy process can wait in as well. The time of a kernel
is given from outside: `clustersim.kernels` estimates it.
"""

from clustersim.devices.gpu import GpuDevice
from clustersim.devices.input import Input, InputStage
from clustersim.devices.multiprocessors import Multiprocessors, Pieces
from clustersim.devices.queueing import Queue, SharedRate

__all__ = ["GpuDevice", "Input", "InputStage", "Multiprocessors", "Pieces", "Queue", "SharedRate"]
