"""Ranks, metrics, relevance and biases of a retrieval."""
