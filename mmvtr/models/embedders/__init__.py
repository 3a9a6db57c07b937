"""Embedders of other libraries, which do their own tokenising and scaling."""

# ruff: noqa: F401 - __all__ is made of what is imported

from mmvtr.models.embedders.sentence_transformer import SentenceTransformerEncoder
from mmvtr.registry import defined_in

__all__ = defined_in(globals())
