"""Operations that training programs run in addition to the GEMMs of a layer: the bytes that each moves through memory.

One module for each program or group of operations. `software.library` in a scenario selects among them.
"""
