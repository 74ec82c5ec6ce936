"""The inner clock and the plain engine under it, in kernels: for programs of many messages that are kernels themselves.

What is due at one time comes in the same order, and every sum is added up in the same order, so that times are those
of the plain side, to the bit. Whoever is on this clock has a number; it waits for one thing at a time: a message of its
own, a time, or somebody else who says so. Nothing here is imported before the work is large enough to pay for loading
the compiler.
"""
