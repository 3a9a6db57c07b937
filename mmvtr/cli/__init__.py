"""The command line: options, errors that a user can fix, hints, progress, the end of a training.

Importing this package imports no torch (:mod:`.transform_options` does). Tools import
:mod:`.start` first.
"""

from mmvtr.cli.options import (
    Parser,
    cfg_words,
    check_files,
    count,
    output_file,
    output_folder,
    query,
    read_fusion,
    setting,
)

__all__ = [
    'Parser',
    'cfg_words',
    'check_files',
    'count',
    'output_file',
    'output_folder',
    'query',
    'read_fusion',
    'setting',
]
