"""The network engine in Python objects: ready at once, and fast enough for small work."""
