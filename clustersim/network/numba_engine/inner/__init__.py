"""A clock for processes and the network under it, in kernels: for jobs whose processes are kernels themselves.

Events of one time come in the same order, and sums are added in the same order, as on the Python engine. So times are
equal to the bit. Each process on this clock has a number. It waits for one thing at a time: its own message, a time,
or another process. Nothing here is imported before the work is large enough to pay for loading Numba.
"""
