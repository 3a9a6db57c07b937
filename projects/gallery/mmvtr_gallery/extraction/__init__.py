"""Large-scale extraction: ids and files in, Arrow tables of their vectors out (needs pyarrow)."""

from mmvtr_gallery.extraction.extractor import SCHEMA, Extractor, Reader
from mmvtr_gallery.extraction.parts import Parts

__all__ = ['SCHEMA', 'Extractor', 'Parts', 'Reader']
