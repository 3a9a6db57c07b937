"""Debiased lists in vector engines: equal or not, after adds, deletes and a refit, and filtered.

    python projects/lab/evidence/speed/engines.py DATA [--out FILE.json] [--only ENGINE ...]

DATA is the folder with `real_features` and `real_scores`.  Packages that are not installed are
named, and left out; all of them:

    pip install faiss-cpu hnswlib usearch lancedb qdrant-client
    pip install pgserver 'psycopg[binary]' milvus-lite

Each engine holds the rows of `as_vectors()` of captions of Flickr8k (MiniLM, 384 entries) and is
asked for the ten best with the rows of `query()`.  The reference is a product in float64 of the
unit vectors and the biases.  Then 1.25 % are added, 5 % are deleted, and all are written anew after
a refit; a filter leaves a tenth.  A graph's loss is stated beside the loss of the same graph of the
vectors without biases.  The second table has rounded vectors; the third what biases of a whole
gallery are worth in a filtered part of it, R@1.
"""

from __future__ import annotations

import argparse
import json
import tempfile
import time
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Callable, NamedTuple, Optional

import numpy as np

import mmvtr

K, PARTS = 10, 10
#: Queries of the first two tables, and texts of each bank.
QUERIES, BANK = 200, 500


class Rows(NamedTuple):
    """Rows of an engine: int64 [N] ids and kinds, float32 [N, D]."""

    ids: np.ndarray
    kinds: np.ndarray
    vectors: np.ndarray


# -- engines: made of rows; add, delete, update, search(queries, k, kind) -> ids [Q, <= k] --------


class Faiss:
    """FAISS, flat."""

    package = 'faiss'

    def __init__(self, rows: Rows) -> None:
        import faiss

        faiss.omp_set_num_threads(1)
        self.faiss, self.kinds = faiss, {}
        self.index = faiss.IndexIDMap2(self.bare(rows.vectors))
        self.add(rows)

    def bare(self, vectors: np.ndarray) -> Any:
        return self.faiss.IndexFlatIP(vectors.shape[1])

    def add(self, rows: Rows) -> None:
        self.index.add_with_ids(rows.vectors, rows.ids)
        self.kinds.update(zip(rows.ids.tolist(), rows.kinds.tolist()))

    def delete(self, ids: np.ndarray) -> None:
        self.index.remove_ids(ids)

    def update(self, rows: Rows) -> None:
        self.delete(rows.ids)
        self.add(rows)

    def search(self, queries: np.ndarray, k: int, kind: Optional[int] = None) -> Any:
        if kind is None:
            return self.index.search(queries, k)[1]
        wanted = np.array([x for x, own in self.kinds.items() if own == kind], np.int64)
        chosen = self.faiss.SearchParameters(sel=self.faiss.IDSelectorBatch(wanted))
        return self.index.search(queries, k, params=chosen)[1]


class Hnswlib:
    """hnswlib: M 16, ef 128."""

    package, approximate = 'hnswlib', True

    def __init__(self, rows: Rows) -> None:
        import hnswlib

        self.index, self.kinds = hnswlib.Index('ip', rows.vectors.shape[1]), {}
        self.index.init_index(2 * len(rows.ids), ef_construction=200, M=16)
        self.index.set_num_threads(1)
        self.index.set_ef(128)
        self.add(rows)

    def add(self, rows: Rows) -> None:
        self.index.add_items(rows.vectors, rows.ids)
        self.kinds.update(zip(rows.ids.tolist(), rows.kinds.tolist()))

    def delete(self, ids: np.ndarray) -> None:
        for one in ids.tolist():
            self.index.mark_deleted(one)

    update = add

    def search(self, queries: np.ndarray, k: int, kind: Optional[int] = None) -> Any:
        chosen = None if kind is None else lambda one: self.kinds[one] == kind
        return self.index.knn_query(queries, k, filter=chosen)[0]


class Usearch:
    """usearch: its defaults."""

    package, approximate, filters = 'usearch', True, False
    dtype = 'f32'

    def __init__(self, rows: Rows) -> None:
        from usearch.index import Index

        self.index = Index(ndim=rows.vectors.shape[1], metric='ip', dtype=self.dtype)
        self.add(rows)

    def add(self, rows: Rows) -> None:
        self.index.add(rows.ids, rows.vectors, threads=1)

    def delete(self, ids: np.ndarray) -> None:
        self.index.remove(ids)

    def update(self, rows: Rows) -> None:
        self.delete(rows.ids)
        self.add(rows)

    def search(self, queries: np.ndarray, k: int, kind: Optional[int] = None) -> Any:
        return [self.index.search(query, k).keys for query in queries]


class LanceDB:
    """LanceDB, flat."""

    package = 'lancedb'

    def __init__(self, rows: Rows) -> None:
        import lancedb

        self.table = lancedb.connect(tempfile.mkdtemp()).create_table('clips', self.told(rows))

    def told(self, rows: Rows) -> list[dict[str, Any]]:
        every = zip(rows.ids.tolist(), rows.kinds.tolist(), rows.vectors)
        return [dict(id=one, kind=kind, vector=vector) for one, kind, vector in every]

    def add(self, rows: Rows) -> None:
        self.table.add(self.told(rows))

    def delete(self, ids: np.ndarray) -> None:
        self.table.delete(f'id IN ({",".join(map(str, ids.tolist()))})')

    def update(self, rows: Rows) -> None:
        self.table.merge_insert('id').when_matched_update_all().execute(self.told(rows))

    def search(self, queries: np.ndarray, k: int, kind: Optional[int] = None) -> Any:
        found = []
        for query in queries:
            asked = self.table.search(query).distance_type('dot').limit(k)
            asked = asked if kind is None else asked.where(f'kind = {kind}', prefilter=True)
            found.append([row['id'] for row in asked.to_list()])
        return found


class Qdrant:
    """Qdrant, local mode."""

    package = 'qdrant_client'

    def __init__(self, rows: Rows) -> None:
        from qdrant_client import QdrantClient, models

        self.client, self.models = QdrantClient(':memory:'), models
        size = models.VectorParams(size=rows.vectors.shape[1], distance=models.Distance.DOT)
        self.client.create_collection('clips', vectors_config=size)
        self.add(rows)

    def add(self, rows: Rows) -> None:
        batch = self.models.Batch(
            ids=rows.ids.tolist(),
            vectors=rows.vectors.tolist(),
            payloads=[dict(kind=kind) for kind in rows.kinds.tolist()],
        )
        self.client.upsert('clips', batch)

    def delete(self, ids: np.ndarray) -> None:
        self.client.delete('clips', self.models.PointIdsList(points=ids.tolist()))

    update = add

    def search(self, queries: np.ndarray, k: int, kind: Optional[int] = None) -> Any:
        chosen = None
        if kind is not None:
            match = self.models.MatchValue(value=kind)
            chosen = self.models.Filter(must=[self.models.FieldCondition(key='kind', match=match)])
        ask = partial(self.client.query_points, 'clips', limit=k, query_filter=chosen)
        return [[point.id for point in ask(query=query).points] for query in queries]


class Pgvector:
    """PostgreSQL with pgvector, without an index."""

    package = 'pgserver'
    column, ops, write = 'vector', 'vector_ip_ops', None

    def __init__(self, rows: Rows) -> None:
        import pgserver
        import psycopg

        self.server = pgserver.get_server(tempfile.mkdtemp(), cleanup_mode='delete')
        self.base = psycopg.connect(self.server.get_uri(), autocommit=True)
        self.base.execute('CREATE EXTENSION vector')
        width = rows.vectors.shape[1]
        self.base.execute(
            f'CREATE TABLE clips (id bigint PRIMARY KEY, kind int, row vector({width}))'
        )
        self.add(rows)
        self.prepare()

    def prepare(self) -> None:
        """Make an index, in a subclass."""

    def told(self, rows: Rows) -> list[tuple[int, int, str]]:
        every = zip(rows.ids.tolist(), rows.kinds.tolist(), rows.vectors.tolist())
        return [(one, kind, str(vector)) for one, kind, vector in every]

    def add(self, rows: Rows) -> None:
        with self.base.cursor().copy('COPY clips (id, kind, row) FROM STDIN') as copy:
            for one in self.told(rows):
                copy.write_row(one)

    def delete(self, ids: np.ndarray) -> None:
        self.base.execute('DELETE FROM clips WHERE id = ANY(%s)', (ids.tolist(),))

    def update(self, rows: Rows) -> None:
        given = [(row, one) for one, _, row in self.told(rows)]
        with self.base.transaction():  # searches see all old rows or all new ones
            self.base.cursor().executemany('UPDATE clips SET row = %s WHERE id = %s', given)

    def search(self, queries: np.ndarray, k: int, kind: Optional[int] = None) -> Any:
        where = '' if kind is None else f'WHERE kind = {int(kind)}'
        ask = f'SELECT id FROM clips {where} ORDER BY row <#> %s::vector LIMIT {k}'
        found = [self.base.execute(ask, (str(query.tolist()),)).fetchall() for query in queries]
        return [[row[0] for row in rows] for rows in found]

    def close(self) -> None:
        self.base.close()
        self.server.cleanup()


class PgvectorHnsw(Pgvector):
    """PostgreSQL with pgvector's HNSW: ef 128."""

    approximate = True

    def prepare(self) -> None:
        self.base.execute('CREATE INDEX ON clips USING hnsw (row vector_ip_ops)')
        self.base.execute('SET hnsw.ef_search = 128')
        self.base.execute('SET enable_seqscan = off')
        self.base.execute('SET enable_sort = off')


class Milvus:
    """Milvus Lite, flat."""

    package, kind_of = 'milvus_lite', 'FLAT'

    def __init__(self, rows: Rows) -> None:
        from pymilvus import MilvusClient

        self.client = MilvusClient(f'{tempfile.mkdtemp()}/clips.db')
        schema = self.client.create_schema(auto_id=False)
        from pymilvus import DataType

        schema.add_field('id', DataType.INT64, is_primary=True)
        schema.add_field('kind', DataType.INT64)
        schema.add_field('row', DataType.FLOAT_VECTOR, dim=rows.vectors.shape[1])
        how = self.client.prepare_index_params()
        how.add_index('row', index_type=self.kind_of, metric_type='IP')
        self.client.create_collection(
            'clips', schema=schema, index_params=how, consistency_level='Strong'
        )
        self.add(rows)

    def told(self, rows: Rows) -> list[dict[str, Any]]:
        every = zip(rows.ids.tolist(), rows.kinds.tolist(), rows.vectors.tolist())
        return [dict(id=one, kind=kind, row=vector) for one, kind, vector in every]

    def add(self, rows: Rows) -> None:
        self._write(self.client.insert, rows)

    def delete(self, ids: np.ndarray) -> None:
        self.client.delete('clips', ids=ids.tolist())

    def update(self, rows: Rows) -> None:
        self._write(self.client.upsert, rows)

    def _write(self, write: Callable, rows: Rows) -> None:
        told = self.told(rows)
        for start in range(0, len(told), 1000):
            write('clips', told[start : start + 1000])

    def search(self, queries: np.ndarray, k: int, kind: Optional[int] = None) -> Any:
        chosen = {} if kind is None else dict(filter=f'kind == {kind}')
        options = dict(limit=k, search_params=dict(metric_type='IP'), **chosen)
        found = self.client.search('clips', queries.tolist(), anns_field='row', **options)
        return [[hit['id'] for hit in hits] for hits in found]

    def close(self) -> None:
        self.client.close()


ENGINES = (Faiss, Hnswlib, Usearch, LanceDB, Qdrant, Pgvector, PgvectorHnsw, Milvus)


# -- references --------------------------------------------------------------------------------


def unit(vectors: np.ndarray) -> np.ndarray:
    wide = vectors.astype(np.float64)
    return wide / np.linalg.norm(wide, axis=1, keepdims=True)


def best(vectors: np.ndarray, biases: Any, queries: np.ndarray, ids: np.ndarray) -> np.ndarray:
    """Return the ids of the K best items in float64, int64 [Q, K]."""
    scores = unit(queries) @ unit(vectors).T + np.asarray(biases, np.float64)
    return ids[np.argsort(-scores, axis=1, kind='stable')[:, :K]]


def overlap(found: Any, right: np.ndarray) -> float:
    """Return the share of the right ids that were found, whatever their order."""
    pairs = zip(found, right)
    return float(np.mean([len({*map(int, a)} & {*b.tolist()}) / len(b) for a, b in pairs]))


# -- the three tables --------------------------------------------------------------------------


def flickr(data: Path) -> np.ndarray:
    """Return MiniLM's vectors of five captions of 8,000 images, float32 [8000, 5, 384]."""
    whole = np.load(data / 'real_features/flickr8k_captions_minilm.npz')['vec']
    return whole.astype(np.float32).reshape(8000, 5, -1)


def of_engine(engine: Any, captions: np.ndarray, items: int) -> dict[str, Any]:
    """Return the shares of right ids of an engine, and the seconds of each step."""
    pictures = items // 4
    gallery = captions[:pictures, [0, 2, 3, 4]].reshape(items, -1)
    more = captions[pictures : pictures + items // 80, [0, 2, 3, 4]].reshape(-1, gallery.shape[1])
    queries = captions[:QUERIES, 1]
    banks = [captions[7000 + BANK * i : 7000 + BANK * (i + 1), 1] for i in (0, 1)]
    ids = np.arange(items, dtype=np.int64)
    kinds = ids % PARTS
    fitted = mmvtr.fit(gallery, banks[0], 'sinkhorn')
    asked, said = fitted.query(queries), dict(engine=engine.__doc__.strip('. '))
    times: dict[str, float] = {}

    def timed(name: str, call: Callable) -> Any:
        began = time.process_time()
        result = call()
        times[name] = time.process_time() - began
        return result

    rows = Rows(ids, kinds, fitted.as_vectors())
    made = timed('build', lambda: engine(rows))
    biases = fitted.biases_.numpy()
    found = timed('search', lambda: made.search(asked, K))
    said['search'] = overlap(found, best(gallery, biases, queries, ids))
    if getattr(engine, 'filters', True):
        part = kinds == 3
        right = best(gallery[part], biases[part], queries, ids[part])
        said['filter'] = overlap(made.search(asked, K, 3), right)
    fitted.add(more)
    new = Rows(
        np.arange(items, items + len(more)),
        np.arange(items, items + len(more)) % PARTS,
        fitted.as_vectors()[items:],
    )
    timed('add', lambda: made.add(new))
    gallery, ids = np.concatenate([gallery, more]), np.concatenate([ids, new.ids])
    biases = fitted.biases_.numpy()
    said['add'] = overlap(made.search(asked, K), best(gallery, biases, queries, ids))
    gone = ids[::20]
    timed('delete', lambda: made.delete(gone))
    left = ~np.isin(ids, gone)
    gallery, ids, biases = gallery[left], ids[left], biases[left]
    said['delete'] = overlap(made.search(asked, K), best(gallery, biases, queries, ids))
    again = mmvtr.fit(gallery, banks[1], 'sinkhorn')
    timed('update', lambda: made.update(Rows(ids, ids % PARTS, again.as_vectors())))
    right = best(gallery, again.biases_.numpy(), queries, ids)
    said['update'] = overlap(made.search(again.query(queries), K), right)
    if getattr(engine, 'approximate', False):
        plain = engine(Rows(ids, ids % PARTS, unit(gallery).astype(np.float32)))
        right = best(gallery, 0, queries, ids)
        said['without biases'] = overlap(plain.search(unit(queries).astype(np.float32), K), right)
        getattr(plain, 'close', int)()
    getattr(made, 'close', int)()
    return dict(said, seconds={name: round(x, 2) for name, x in times.items()})


def rounded(captions: np.ndarray, items: int) -> dict[str, list[float]]:
    """Return recall at 10 of rounded rows, with biases and without, by kind."""
    pictures = items // 4
    gallery = captions[:pictures, [0, 2, 3, 4]].reshape(items, -1)
    queries, bank = captions[:QUERIES, 1], captions[7000 : 7000 + BANK, 1]
    fitted = mmvtr.fit(gallery, bank, 'sinkhorn')
    every, biases = np.arange(items), fitted.biases_.numpy()
    right = [best(gallery, x, queries, every) for x in (biases, 0)]
    wide = fitted.as_vectors(), fitted.query(queries)
    bare = [x[:, :-1] for x in wide]

    def top(scores: np.ndarray, k: int = K) -> np.ndarray:
        return np.argsort(-scores, axis=1)[:, :k]

    def again(places: np.ndarray, sides: Any) -> np.ndarray:
        """Rank candidates by exact scores."""
        exact = np.take_along_axis(sides[1] @ sides[0].T, places, axis=1)
        return np.take_along_axis(places, top(exact), axis=1)

    def one_range(rows: np.ndarray) -> np.ndarray:
        most = np.quantile(np.abs(rows), 0.99)
        return np.clip(np.round(rows / most * 127), -127, 127) * most / 127

    def bits(rows: np.ndarray) -> np.ndarray:
        return np.sign(rows) / np.sqrt(rows.shape[1])

    #: The mean product of a unit vector with the signs of another: what brings signs to cosines.
    scale = np.abs(bare[0]).mean() * np.sqrt(bare[0].shape[1])
    beside = top(bare[1] @ bits(bare[0]).T / scale + biases, 100)
    said = {}

    def tell(name: str, debiased: np.ndarray, raw: np.ndarray) -> None:
        said[name] = [overlap(debiased, right[0]), overlap(raw, right[1])]

    tell('int8, one range that cuts 1 %', *(top(q @ one_range(g).T) for g, q in (wide, bare)))
    tell(
        'int8 of the vector, bias as a float beside',
        top(bare[1] @ one_range(bare[0]).T + biases),
        top(bare[1] @ one_range(bare[0]).T),
    )
    tell('bits', *(top(bits(q) @ bits(g).T) for g, q in (wide, bare)))
    tell(
        'bits, 100 ranked again',
        *(again(top(bits(q) @ bits(g).T, 100), (g, q)) for g, q in (wide, bare)),
    )
    raw = again(top(bare[1] @ bits(bare[0]).T, 100), bare)
    tell('bits of the vector, bias as a float beside, 100 ranked again', again(beside, wide), raw)
    if find_spec('faiss'):
        import faiss

        kinds = dict(QT_8bit='its range by column', QT_fp16='half precision')
        for kind, words in kinds.items():
            found = []
            for rows, asked in (wide, bare):
                index = faiss.IndexScalarQuantizer(
                    rows.shape[1], getattr(faiss.ScalarQuantizer, kind), faiss.METRIC_INNER_PRODUCT
                )
                index.train(np.ascontiguousarray(rows))
                index.add(np.ascontiguousarray(rows))
                found.append(index.search(np.ascontiguousarray(asked), K)[1])
            tell(f'FAISS {kind}: {words}', *found)
    if find_spec('usearch'):
        kind = type('Int8', (Usearch,), dict(dtype='i8'))
        made = [kind(Rows(every, every, np.ascontiguousarray(g))) for g, _ in (wide, bare)]
        tell('usearch i8', *(one.search(q, K) for one, (_, q) in zip(made, (wide, bare))))
    return said


def pairs_of(data: Path) -> dict[str, tuple[np.ndarray, np.ndarray]]:
    """Return texts and items of each set, row i of both one pair."""
    clap = data / 'real_scores/clap_audiocaps'
    names = ('outputs_embeddings_text_embeddings', 'outputs_embeddings_audio_emb_original')
    captions = flickr(data)
    return {
        'CLAP, AudioCaps': tuple(np.load(clap / f'{name}.npy') for name in names),
        'MiniLM, Flickr8k captions': (captions[:4000, 1], captions[:4000, 0]),
    }


def filtered(data: Path) -> list[dict[str, Any]]:
    """Return R@1 within parts of a gallery: raw, with biases of the whole, and of the part."""
    said = []
    for name, (texts, items) in pairs_of(data).items():
        order = np.random.default_rng(0).permutation(len(texts))
        texts, items = texts[order].astype(np.float32), items[order].astype(np.float32)
        half = len(texts) // 2
        bank, texts, items = texts[:half], texts[half:], items[half:]
        kinds = dict(drawn=np.arange(len(items)) % PARTS, alike=clusters(items))
        whole = mmvtr.fit(items, bank, 'unbalanced_sinkhorn').biases_.numpy()
        for kind, parts in kinds.items():
            hits = {x: [] for x in ('raw', 'of the whole', 'of the part')}
            for part in range(PARTS):
                rows = parts == part
                if rows.sum() < 10:
                    continue
                own = mmvtr.fit(items[rows], bank, 'unbalanced_sinkhorn').biases_.numpy()
                for how, biases in zip(hits, (0, whole[rows], own)):
                    first = best(items[rows], biases, texts[rows], np.arange(rows.sum()))[:, 0]
                    hits[how] += (first == np.arange(rows.sum())).tolist()
            figures = {how: round(100 * float(np.mean(x)), 1) for how, x in hits.items()}
            said.append(dict(set=name, parts=kind, **figures))
    return said


def clusters(items: np.ndarray, rounds: int = 20) -> np.ndarray:
    """Return a part of alike items for each, int [N], by spherical k-means."""
    vectors = unit(items - items.mean(0))
    random = np.random.default_rng(0)
    centres = vectors[random.choice(len(vectors), PARTS, replace=False)]
    for _ in range(rounds):
        parts = (vectors @ centres.T).argmax(1)
        sums = [vectors[parts == i].sum(0) for i in range(PARTS)]
        centres = unit(np.stack([x if x.any() else c for x, c in zip(sums, centres)]))
    return parts


def printed(found: dict[str, Any]) -> str:
    """Return the tables in Markdown."""
    steps = ('search', 'filter', 'add', 'delete', 'update', 'without biases')
    lines = [f'| engine | {" | ".join(steps)} | CPU s: build, update |', '|---' * 8 + '|']
    for row in found['engines']:
        if 'missing' in row:
            lines.append(f'| {row["engine"]} | not installed: {row["missing"]} |')
            continue
        shares = ' | '.join(_share(row.get(step)) for step in steps)
        spent = row['seconds']
        lines.append(
            f'| {row["engine"]} | {shares} | {spent["build"]:.1f}, {spent["update"]:.1f} |'
        )
    lines += ['', '| rows | with biases | without |', '|---|---|---|']
    lines += [f'| {x} | {_share(a)} | {_share(b)} |' for x, (a, b) in found['rounded'].items()]
    lines += ['', '| R@1 in a tenth | parts | raw | biases of the whole | of the part |']
    lines.append('|---' * 5 + '|')
    for row in found['filtered']:
        figures = [row[x] for x in ('set', 'parts', 'raw', 'of the whole', 'of the part')]
        lines.append(f'| {" | ".join(map(str, figures))} |')
    return '\n'.join(lines)


def _share(x: Optional[float]) -> str:
    return '' if x is None else '1' if x == 1 else f'{x:.4f}'.lstrip('0')


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    add = parser.add_argument
    add('data', type=Path, help='folder with real_features and real_scores')
    add('--items', type=int, default=6000, help='captions in an engine (default: 6000)')
    names = [engine.__name__ for engine in ENGINES]
    add('--only', nargs='+', choices=names, default=names, help='engines of the first table')
    add('--out', type=Path, metavar='FILE', help='json to write')
    args = parser.parse_args()
    captions, engines = flickr(args.data), []
    for engine in ENGINES:
        if engine.__name__ not in args.only:
            continue
        if not find_spec(engine.package):
            engines.append(dict(engine=engine.__doc__.strip('. '), missing=engine.package))
            continue
        engines.append(of_engine(engine, captions, args.items))
        print(json.dumps(engines[-1]), flush=True)
    found = dict(
        items=args.items,
        engines=engines,
        rounded=rounded(captions, args.items),
        filtered=filtered(args.data),
    )
    print(printed(found))
    if args.out:
        args.out.write_text(json.dumps(found, indent=1) + '\n')


if __name__ == '__main__':
    main()
