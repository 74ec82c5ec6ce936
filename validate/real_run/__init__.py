"""The worker for real nodes: it measures what `clustersim validate --real` compares with the simulator.

It needs only the standard library, torch and `clustersim.profiling`, which has the same dependencies.
`clustersim validate --write-worker FILE` packs all of it into one file, which runs on a node with only torch.
"""
