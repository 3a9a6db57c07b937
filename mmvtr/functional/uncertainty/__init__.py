"""Gaussians, and how unsure an item or a pair is."""
