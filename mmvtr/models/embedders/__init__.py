"""Embedders of other libraries and servers, which do their own tokenising and scaling."""

from mmvtr.models.embedders.remote import RemoteEncoder
from mmvtr.models.embedders.sentence_transformer import SentenceTransformerEncoder

__all__ = ['RemoteEncoder', 'SentenceTransformerEncoder']
