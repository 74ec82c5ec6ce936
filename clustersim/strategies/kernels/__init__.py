"""Compiled kernels for asynchronous workers and their parameter servers, in jobs of many messages.

The kernels give the same times, to rounding and in the same order, as `server_strategy`, `execution.worker` and
`parameter_server`. A test compares both. Each process is a row of the table `tasks`, which holds the stage that it has
reached. Nothing here is imported before the job is large enough to pay for loading the compiler.
"""
