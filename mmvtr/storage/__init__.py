"""Files that no kill tears, no flipped bit passes through, and no pickle runs code from."""

from mmvtr.storage.atomic import leftovers, write_atomically
from mmvtr.storage.digests import file_digest
from mmvtr.storage.lock import FolderInUse, FolderLock
from mmvtr.storage.reader import read_plain
from mmvtr.storage.seal import seal, write_plain
from mmvtr.storage.tensors import read_tensors, write_tensors

__all__ = [
    'FolderInUse',
    'FolderLock',
    'file_digest',
    'leftovers',
    'read_plain',
    'read_tensors',
    'seal',
    'write_atomically',
    'write_plain',
    'write_tensors',
]
