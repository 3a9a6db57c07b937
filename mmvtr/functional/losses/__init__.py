"""Losses of score matrices, and their components."""
