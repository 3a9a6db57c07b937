"""Losses of score matrices, and what they are made of."""
