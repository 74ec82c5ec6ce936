"""The profiler: measures the time of every layer of a model on a device.

Standard library and torch only, and no other package of clustersim: `pack` writes this package into one file that runs
on a node where only torch is installed. torch is imported when a measurement starts. Reading a profile
for a forecast is in `clustersim.kernels`.
"""
