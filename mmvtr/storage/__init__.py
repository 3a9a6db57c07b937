"""File storage with atomic writes, digest checks and no code execution on reading."""

from mmvtr.storage.arrays import array_names, read_array, read_arrays
from mmvtr.storage.atomic import leftovers, naming, write_atomically, write_text
from mmvtr.storage.digests import file_digest
from mmvtr.storage.lock import FolderInUse, FolderLock, in_use
from mmvtr.storage.reader import read_plain, seal, write_plain
from mmvtr.storage.tensors import read_tensors, write_tensors

__all__ = [
    'FolderInUse',
    'FolderLock',
    'array_names',
    'file_digest',
    'in_use',
    'leftovers',
    'naming',
    'read_array',
    'read_arrays',
    'read_plain',
    'read_tensors',
    'seal',
    'write_atomically',
    'write_plain',
    'write_tensors',
    'write_text',
]
