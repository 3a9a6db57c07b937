"""Layers shared by several encoders."""
