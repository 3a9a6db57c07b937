"""Similarity of clips and texts computed from captions alone, without any frame."""
