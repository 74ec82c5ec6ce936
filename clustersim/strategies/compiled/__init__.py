"""The days of workers out of step and of their servers, in kernels: for jobs of many messages.

They do what `served`, `day` and `bank` say, in the same order and at the same times, to the bit; a test holds both
together. A process is a row with the stage that it has come to. Nothing here is imported before the work is large
enough to pay for loading the compiler.
"""
