"""Sampling of an epoch: its items, their environments and order, and their collation to batches."""
