"""Layers that several encoders are made of."""
