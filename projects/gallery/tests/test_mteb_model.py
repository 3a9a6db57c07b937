"""MTEB's own evaluation of our models, on tasks that are made here, against scores by hand."""

import pytest
import torch
from mmengine.config import Config

from mmvtr.apis import encode_texts, encode_videos, load_retriever, vectors
from mmvtr.storage import write_plain
from mmvtr_gallery.mteb_model import MTEBRetriever
from tiny_sets import of_videos

TEXTS = ['red dog', 'a w1 w2', 'cyanish', 'dog w71', 'red w34']
TOY = of_videos(frames=4)


@pytest.fixture(scope='module')
def folder(tmp_path_factory, write_video):
    # Imported by the tests alone: it takes seconds, and every worker reads this file.
    pytest.importorskip('mteb', reason="needs the extra 'mteb' (Python 3.11 or newer)")
    folder = tmp_path_factory.mktemp('mteb')
    for n in range(len(TEXTS)):
        greys = [(37 * n + 61 * i) % 250 for i in range(4 + n)]
        write_video(folder / f'v{n}.mp4', greys, size=(64, 64), codec='ffv1')
    words = ['red', 'dog', 'a', 'cyanish', *(f'w{i}' for i in range(72))]
    (folder / 'vocab.txt').write_text('\n'.join(words))
    (folder / 'toy.py').write_text(TOY)
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        model, _ = load_retriever('toy.py', None, random_weights=True, device='cpu')
    write_plain(dict(state_dict=model.state_dict()), folder / 'toy.pth')
    return folder


@pytest.fixture
def model(folder, monkeypatch):
    monkeypatch.chdir(folder)
    return MTEBRetriever('toy.py', 'toy.pth', device='cpu')


def tables(folder, *, as_bytes):
    """The texts and the videos, as MTEB's sets hold them."""
    import datasets

    files = [folder / f'v{n}.mp4' for n in range(len(TEXTS))]
    videos = [dict(bytes=f.read_bytes(), path=None) if as_bytes else str(f) for f in files]
    texts = datasets.Dataset.from_dict(dict(id=[f't{n}' for n in range(5)], text=TEXTS))
    clips = datasets.Dataset.from_dict(dict(id=[f'v{n}' for n in range(5)], video=videos))
    return texts, clips.cast_column('video', datasets.Video())


def scores_by_hand(folder):
    model, cfg = load_retriever('toy.py', 'toy.pth', device='cpu')
    texts = encode_texts(model, cfg, TEXTS)
    videos = encode_videos(model, cfg, [folder / f'v{n}.mp4' for n in range(5)])
    return vectors(model, texts.levels) @ vectors(model, videos.levels).T


def task_of(folder, way, *, as_bytes=True):
    from mteb.abstasks.retrieval import AbsTaskRetrieval
    from mteb.abstasks.retrieval_dataset_loaders import RetrievalSplitData
    from mteb.abstasks.task_metadata import TaskMetadata
    from mteb.mocks.mock_tasks.retrieval import general_args

    class Made(AbsTaskRetrieval):
        metadata = TaskMetadata(
            type='Any2AnyRetrieval', name=f'Made{way}', main_score='recall_at_1',
            **general_args | dict(category=way, modalities=['text', 'video']),
        )  # fmt: skip

        def load_data(self, **kwargs):
            texts, clips = tables(folder, as_bytes=as_bytes)
            queries, corpus = (texts, clips) if way == 't2v' else (clips, texts)
            right = {q: {c: 1} for q, c in zip(queries['id'], corpus['id'])}
            data = RetrievalSplitData(
                queries=queries, corpus=corpus, relevant_docs=right, top_ranked=None
            )
            self.dataset = dict(default=dict(test=data))
            self.data_loaded = True

    return Made()


@pytest.mark.parametrize('way', ['t2v', 'v2t'])
def test_mteb_finds_what_scores_by_hand_find(folder, model, way, tmp_path):
    import mteb

    scores = scores_by_hand(folder)
    scores = scores if way == 't2v' else scores.T
    options = dict(cache=None, show_progress_bar=False, co2_tracker=False)
    result = mteb.evaluate(model, task_of(folder, way), **options)
    (told,) = result.task_results[0].scores['test']
    for k in (1, 3):
        right = scores.topk(k, dim=1).indices == torch.arange(5)[:, None]
        expected = right.any(1).double().mean().item()
        assert 0 < expected < 1  # else every order would do
        assert told[f'recall_at_{k}'] == pytest.approx(expected, abs=1e-5)


def test_scores_are_the_models_for_files_and_for_bytes(folder, model):
    scores = scores_by_hand(folder)
    for as_bytes in (False, True):
        texts, clips = tables(folder, as_bytes=as_bytes)
        model.index(clips)
        found = model.search(texts, top_k=3)
        assert all(len(hits) == 3 for hits in found.values())
        for name, hits in found.items():
            for item, score in hits.items():
                assert score == pytest.approx(scores[int(name[1:]), int(item[1:])].item(), abs=1e-5)
    kept = dict.fromkeys(texts['id'], ['v4', 'v2'])
    for hits in model.search(texts, top_k=5, top_ranked=kept).values():
        assert set(hits) == {'v2', 'v4'}
        assert list(hits.values()) == sorted(hits.values(), reverse=True)


def test_vectors_for_the_other_tasks(folder, model):
    texts, clips = tables(folder, as_bytes=True)
    load = dict(
        batch_size=2, collate_fn=lambda rows: {key: [r[key] for r in rows] for key in rows[0]}
    )
    sides = [model.encode(torch.utils.data.DataLoader(x, **load)) for x in (texts, clips)]
    assert torch.allclose(model.similarity(*sides), scores_by_hand(folder), atol=1e-5)
    pairs = model.similarity_pairwise(*sides)
    assert torch.allclose(pairs, scores_by_hand(folder).diagonal(), atol=1e-5)


def test_what_cannot_be_answered_is_refused(folder, model, tmp_path):
    import datasets

    texts, clips = tables(folder, as_bytes=False)
    with pytest.raises(ValueError, match='no corpus'):
        model.search(texts, top_k=1)
    model.index(clips)
    with pytest.raises(ValueError, match='videos for videos'):
        model.search(clips, top_k=1)
    with pytest.raises(ValueError, match=r"\['text', 'video'\]"):
        model.index(clips.add_column('text', TEXTS))
    lost = datasets.Dataset.from_dict(dict(id=['gone'], video=[str(tmp_path / 'no.mp4')]))
    with pytest.raises(ValueError, match="item 'gone'"):
        model.index(lost.cast_column('video', datasets.Video()))
    with pytest.raises(ValueError, match='temprature'):
        MTEBRetriever('toy.py', 'toy.pth', temprature=0.1)
    with pytest.raises(ValueError, match='organisation/name'):
        MTEBRetriever('toy.py', 'toy.pth', name='mine')


def test_token_wise_scores_can_be_searched_but_have_no_vectors(folder, tmp_path, monkeypatch):
    from children import ROOT

    cfg = Config.fromfile(ROOT / 'configs/uatvr_planted.py')
    cfg.test_dataloader.dataset.text_pipeline[0].vocab_file = str(folder / 'vocab.txt')
    cfg.dump(tmp_path / 'uatvr.py')
    own, cfg = load_retriever(tmp_path / 'uatvr.py', None, random_weights=True, device='cpu')
    write_plain(dict(state_dict=own.state_dict()), tmp_path / 'uatvr.pth')
    model = MTEBRetriever(tmp_path / 'uatvr.py', tmp_path / 'uatvr.pth', device='cpu')
    texts, clips = tables(folder, as_bytes=True)
    with pytest.raises(ValueError, match='not inner products'):
        model.encode(torch.utils.data.DataLoader(texts))
    model.index(clips)
    found = model.search(texts, top_k=2)
    items = (
        encode_texts(own, cfg, TEXTS),
        encode_videos(own, cfg, [folder / f'v{n}.mp4' for n in range(5)]),
    )
    with torch.no_grad():
        scores = own.similarity(items[0].levels, items[1].levels)['scores']
    for n, row in enumerate(scores):
        assert list(found[f't{n}'].values()) == pytest.approx(row.topk(2).values.tolist(), abs=1e-5)
