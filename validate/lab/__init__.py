"""The lab: a real cluster on one machine, of network namespaces joined by links of a known rate.

Real processes run real `torch.distributed` over real kernel TCP, and the simulator is asked the same. It has links,
queues, messages and waiting; it has no GPUs, no NCCL and no latency, and compute is sleep.
"""
