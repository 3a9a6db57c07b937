"""Convert stores of older versions, which used LanceDB's files (needs lancedb).

python -m mmvtr_gallery.store.from_lance DIR
"""

from __future__ import annotations

import hashlib
import re
import sys
from pathlib import Path

import numpy as np

from mmvtr.errors import UserError
from mmvtr.storage import file_digest
from mmvtr_gallery.store.fits import read_fit
from mmvtr_gallery.store.items import COLUMNS, Rows
from mmvtr_gallery.store.joint import JOURNAL, WINDOWS
from mmvtr_gallery.store.manifest import FILES, FORMAT, NAME, read_sealed
from mmvtr_gallery.store.refits import Fit
from mmvtr_gallery.store.replacing import replace_store
from mmvtr_gallery.store.undoing import Change


def convert(folder: Path) -> str:
    """Replace a store in LanceDB's files by a current one; return a sentence on what was done.

    Everything is kept, except the index and the possibility to undo the last change.

    Raises:
        ImportError, OSError, RuntimeError: no lancedb; it cannot be written; a file is damaged.
    """
    said = read_sealed(folder / NAME, (1, 2, FORMAT), unsealed=1)
    if said.get('engine') != 'lance':
        return f'{folder}: no store in the files of LanceDB, nothing to do'
    if (folder / JOURNAL).exists():
        raise UserError(f'{folder}: a change was cut short: open it once with an older version')
    import lancedb

    for key in ('biases', 'normaliser', 'config', 'queue', 'table'):
        if said.get(key) is not None and not re.fullmatch(FILES[key], said[key]):
            raise UserError(f'{folder / NAME} is damaged: {key} names no file of a store')
    digests = said.get('digests', {})  # the first format has none
    for name, digest in digests.items():
        there = name != said['biases'] and (folder / name).is_file()
        if there and file_digest(folder / name) != digest:
            raise UserError(f'{folder / name} is damaged: its SHA-256 differs')
    table = lancedb.connect(str(folder)).open_table(said.get('table', 'items.lance')[:-6])
    table.checkout(said['items'])
    found = table.to_arrow().sort_by('number')
    count, dim, types = len(found), said['dim'], said['types']
    vectors = found['vector'].combine_chunks()
    vectors = vectors.flatten().to_numpy().reshape(count, vectors.type.list_size)[:, :dim]
    columns = {name: found[name].to_pylist() for name in [*COLUMNS, *types]}
    raw = (folder / said['biases']).read_bytes()[: 4 * said['next']]
    if digests.get(said['biases']) not in (None, hashlib.sha256(raw).hexdigest()):
        raise UserError(f'{folder / said["biases"]} is damaged: its SHA-256 differs')
    biases = np.frombuffer(raw, '<f4')[found['number'].to_numpy()]
    geometry, name = said.get('geometry'), said['normaliser']
    how = dict(dim=dim, geometry=geometry or 'inner_product')
    debiaser = name and read_fit(folder / name, **how, refit=said['refit'])
    options = dict(model=said['model'], about=said['about'], online=said['online'], **how)
    with replace_store(folder, **options) as store:
        if count:
            store._change([], Rows(columns.pop('id'), vectors, columns, types), biases, None)
        fit = Fit(debiaser, said['refit'], said.get('calibration'))
        store._switch(fit, [(np.arange(count), biases)], Change('refit'))
        store._commit(geometry=geometry, quarantined=said.get('quarantined', []))
        if said.get('config'):
            store.keep_config((folder / said['config']).read_text())
        queue = folder / said.get('queue', 'queue.safetensors')
        if store.online is not None and (said.get('sampled') or queue.is_file()):
            store.online.read(queue)
        store.persist()
    return f'{folder}: {count} items are converted'


if __name__ == '__main__':
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    for place in (Path(sys.argv[1]), Path(sys.argv[1], WINDOWS)):
        if (place / NAME).exists():
            print(convert(place))
