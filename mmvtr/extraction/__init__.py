"""Videos by the million: ids and files in, Arrow tables of their vectors out (needs pyarrow)."""

from mmvtr.extraction.extractor import SCHEMA, Extractor, Reader
from mmvtr.extraction.parts import Parts

__all__ = ['SCHEMA', 'Extractor', 'Parts', 'Reader']
