"""Transforms of score matrices at test time."""
