"""Embedders of other libraries and servers, which read texts and frames in their own way."""

from mmvtr.models.embedders.remote import RemoteEncoder
from mmvtr.models.embedders.sentence_transformer import SentenceTransformerEncoder

__all__ = ['RemoteEncoder', 'SentenceTransformerEncoder']
