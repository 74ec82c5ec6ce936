"""What is collected here: not what only torch can import, as a search for doctests would everywhere."""

collect_ignore = ["allocator.py"]
