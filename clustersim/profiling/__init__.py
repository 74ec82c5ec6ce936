"""The profiler: what every layer of a model takes on the device at hand, measured.

Standard library and torch only, and nothing of the other rooms: `pack` writes this room into one file that runs on a
node where nothing but torch is installed. torch is loaded when something is measured. Reading a profile
for a forecast is `clustersim.kernels`'s business.
"""
