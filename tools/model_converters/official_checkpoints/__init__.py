"""Converters of official checkpoints to mmvtr's parameter names."""
