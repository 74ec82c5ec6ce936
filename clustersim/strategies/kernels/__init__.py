"""Asynchronous workers and their parameter servers in compiled kernels: for jobs of many messages.

The kernels do what `server_strategy`, `execution.worker` and `parameter_server` do, in the same order and at the same
times, to the bit. A test compares both. A process is a row that holds the stage it has reached. Nothing here is
imported before the work is large enough to pay for loading the compiler.
"""
