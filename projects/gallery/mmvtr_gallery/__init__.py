"""Galleries at work: kept in a store, served over HTTP, filled by the million, taken elsewhere."""

__version__ = '2.0.0'
