"""The worker for real nodes: what `clustersim validate --real` compares with the simulator, measured.

Standard library, torch and `clustersim.profiling` (which is the same) only. `clustersim validate --write-worker FILE`
packs all of it into one file that runs on a node where nothing but torch is installed.
"""
