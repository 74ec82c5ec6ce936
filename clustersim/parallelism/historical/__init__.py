"""Layouts of single papers: one weird trick, tiles of local fields, and paths of branching networks."""
