"""Operations that training programs run beside the products of a layer: the bytes that each moves through memory.

One module for each program or group of operations. `compute.library` in a scenario chooses among them.
"""
