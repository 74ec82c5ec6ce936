"""Blocks of newer transformers for the catalogue and for importers: attention, feed-forward layers, frames of decoders.

They know sizes, not where these come from. `net.BlockBuilder` is the catalogue's builder with more kinds of layers.
"""
