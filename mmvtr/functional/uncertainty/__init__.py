"""Gaussians, and the uncertainty of items and pairs."""
