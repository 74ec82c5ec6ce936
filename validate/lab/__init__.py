"""The lab: a real cluster on one machine, made of network namespaces with links of known rates.

Real processes run real `torch.distributed` over real kernel TCP, and the simulator simulates the same. The lab has
links, queues, messages and waiting; it has no GPUs, no NCCL and no latency, and compute is sleep.
"""
