"""Tensors in, tensors out: the equations of the papers.  Knows only torch."""
