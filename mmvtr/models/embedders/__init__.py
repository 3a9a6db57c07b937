"""Embedders of other libraries, which do their own tokenising and scaling."""

from mmvtr.models.embedders.sentence_transformer import SentenceTransformerEncoder

__all__ = ['SentenceTransformerEncoder']
