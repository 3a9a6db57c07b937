"""Embedders of other libraries, which read texts and frames in their own way."""

from mmvtr.models.embedders.sentence_transformer import SentenceTransformerEncoder

__all__ = ['SentenceTransformerEncoder']
