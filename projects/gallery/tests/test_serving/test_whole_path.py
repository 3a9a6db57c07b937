"""From 400 planted clips to an answer: extract, keep, search, change, refit, over HTTP."""

from __future__ import annotations

import subprocess
import sys

import numpy as np
import pytest
import torch

from children import ROOT, tool_file

pytest.importorskip(
    'fastapi', reason='the service is an extra: pip install projects/gallery[serve]'
)
pytest.importorskip(
    'faiss', reason='a store in memory is an extra: pip install projects/gallery[index]'
)
parquet = pytest.importorskip(
    'pyarrow.parquet', reason='rows: pip install projects/gallery[parquet]'
)

from mmvtr import apis  # noqa: E402
from mmvtr.datasets.planted_corpus.dataset import PlantedDataset  # noqa: E402
from mmvtr.functional.transforms.sinkhorn import column_biases, sinkhorn  # noqa: E402
from mmvtr.storage import write_plain  # noqa: E402
from mmvtr_gallery.serving.gallery import Gallery, try_to_take  # noqa: E402
from mmvtr_gallery.store import create_store  # noqa: E402
from services import served  # noqa: E402

CONFIG = """
_base_ = ['{root}/configs/clip4clip_planted.py']
corpus = dict(data_root='{data}', num_train=1, num_val=1, num_test=400)
pipeline = [dict(type='WordTokenize', vocab_file='{data}/vocab.txt')]
dataset = dict(**corpus, text_pipeline=pipeline)
train_dataloader = dict(dataset=dataset)
val_dataloader = dict(dataset=dataset)
test_dataloader = dict(dataset=dataset, num_workers=0)
"""


@pytest.mark.nightly
def test_the_whole_path(extracted, tmp_path):
    pytest.importorskip('faiss')
    folder, dataset, rows = extracted
    place = tmp_path / 'store'
    config, checkpoint = str(folder / 'config.py'), str(folder / 'model.pth')
    model, cfg = apis.load_retriever(config, checkpoint, device='cpu')
    weights = apis.fingerprint(model)
    paths = {video['video_id']: video['path'] for video in dataset.videos}
    assert sorted(rows) == sorted(paths) and len(rows) == 400
    ids = sorted(rows)
    vectors = np.array([rows[name] for name in ids], np.float32)
    about = dict(checkpoint=checkpoint)
    with create_store(place, vectors.shape[1], model=weights, about=about) as store:
        store.add(ids[:390], vectors[:390], paths=[paths[name] for name in ids[:390]])
        store.persist()
    cfg.dump(place / 'config.json')
    texts = [text['text'] for text in dataset.texts]
    assert len(texts) == 400
    queries = apis.vectors(model, apis.encode_texts(model, cfg, texts).levels).numpy()

    gallery = Gallery.open(place, library=dataset.folder)
    assert try_to_take(gallery) is None
    with served(gallery) as client:

        def right(count, biases):
            """Answers whose 10 best are those of brute force."""
            wanted = queries @ vectors[:count].T + biases
            equal = 0
            for text, scores in zip(texts, wanted):
                hits = client.search(text=text, k=10)['hits']
                found = [ids.index(hit['id']) for hit in hits]
                best = np.sort(scores)[::-1][:10]
                # Of equal scores either may come first.
                equal += len(set(found)) == 10 and np.allclose(scores[found], best, atol=1e-5)
            return equal

        assert right(390, 0) == 400
        files = {name: str(dataset.folder / paths[name]) for name in ids}
        new = [
            dict(id=name, file=files[name].removeprefix(f'{dataset.folder}/')) for name in ids[390:]
        ]
        assert client.change('/add', items=new)[2] == dict(items=400)
        assert right(400, 0) == 400
        # Some captions are alike, so there are fewer queries than items.
        status, _, said = client.change('/refit', texts=texts, temperature=0.05, fewer=True)
        assert status == 200, said
        # A text that is asked n times weighs 1 / n.
        different, times = np.unique(queries, axis=0, return_counts=True)
        weights = torch.from_numpy(1 / times).float()
        bank, all_vectors = torch.from_numpy(different), torch.from_numpy(vectors)
        scores = bank @ all_vectors.T
        marginals = weights / weights.sum()
        rows_of = sinkhorn(scores, temperature=0.05, iterations=4, row_marginals=marginals).rows
        biases = column_biases(scores, rows_of, temperature=0.05).numpy()
        assert np.abs(biases).max() > 0.01 and right(400, biases) == 400
        assert client.change('/delete', ids=ids[390:])[2] == dict(items=390)
        assert right(390, biases[:390]) == 400


@pytest.fixture(scope='module')
def extracted(tmp_path_factory):
    """The folder, the 400 clips, and their vectors by id, which two processes made."""
    folder = tmp_path_factory.mktemp('whole')
    (folder / 'config.py').write_text(CONFIG.format(root=ROOT, data=folder / 'planted'))
    corpus = dict(data_root=str(folder / 'planted'), num_train=1, num_val=1, num_test=400)
    dataset = PlantedDataset([], [], split='test', **corpus)
    model, _ = apis.load_retriever(
        str(folder / 'config.py'), None, random_weights=True, device='cpu'
    )
    write_plain(dict(state_dict=model.state_dict()), folder / 'model.pth')
    listed = ['id,path', *(f'{v["video_id"]},{v["path"]}' for v in dataset.videos)]
    (folder / 'list.csv').write_text('\n'.join(listed) + '\n')
    command = [
        *(sys.executable, '-m', 'torch.distributed.run', '--standalone', '--nproc_per_node', '2'),
        *(str(tool_file('extract_features.py')), 'config.py', 'model.pth'),
        *('--format', 'parquet', '--out', 'rows', '--videos', 'list.csv'),
    ]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr[-3000:]
    rows = {}
    parts = sorted((folder / 'rows').rglob('*.parquet'))
    for part in parts:
        for row in parquet.read_table(part).to_pylist():
            assert row['error'] is None and row['id'] not in rows
            rows[row['id']] = row['mean']
    assert len(parts) >= 2
    return folder, dataset, rows
