"""Embedders of other libraries, which do their own tokenising and scaling."""

from mmvtr.models.embedders.sentence_transformer import SentenceTransformerEncoder
from mmvtr.registry import own_names

__all__ = own_names(globals())
