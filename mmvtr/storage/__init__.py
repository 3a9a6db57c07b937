"""Files that no kill tears, no flipped bit passes through, and no pickle runs code from."""

from mmvtr.storage.atomic import leftovers, write_atomically
from mmvtr.storage.lock import FolderInUse, FolderLock
from mmvtr.storage.reader import read_plain
from mmvtr.storage.seal import seal, write_plain

__all__ = [
    'FolderInUse',
    'FolderLock',
    'leftovers',
    'read_plain',
    'seal',
    'write_atomically',
    'write_plain',
]
