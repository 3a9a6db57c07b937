"""Any encoder of MTEB, raw and debiased, in MTEB's own evaluation."""

import pytest
import torch

import tiny_embedders
from children import ROOT
from mmvtr.functional import sinkhorn
from mmvtr_gallery.mteb_index import DebiasedIndex

SENTENCES = sorted({*tiny_embedders.pairs(120)[0]})
QUERIES, CORPUS, BANK = SENTENCES[:12], SENTENCES[1:13], SENTENCES[13:]


@pytest.fixture(scope='module', autouse=True)
def extras():
    """MTEB is imported where its tests run: it takes seconds, and every worker reads this file."""
    pytest.importorskip('mteb', reason="needs the extra 'mteb' (Python 3.11 or newer)")
    pytest.importorskip('sentence_transformers', reason="needs the extra 'sentence-transformers'")


def task(candidates=None):
    import datasets
    from mteb.abstasks.retrieval import AbsTaskRetrieval
    from mteb.abstasks.retrieval_dataset_loaders import RetrievalSplitData
    from mteb.abstasks.task_metadata import TaskMetadata
    from mteb.mocks.mock_tasks.retrieval import general_args

    class Made(AbsTaskRetrieval):
        metadata = TaskMetadata(
            type='Retrieval' if candidates is None else 'Reranking', name='MadeT2T',
            main_score='recall_at_1', **general_args | dict(category='t2t', modalities=['text']),
        )  # fmt: skip

        def load_data(self, **kwargs):
            queries = datasets.Dataset.from_dict(
                dict(id=[f'q{n}' for n in range(12)], text=QUERIES)
            )
            corpus = datasets.Dataset.from_dict(dict(id=[f'd{n}' for n in range(12)], text=CORPUS))
            right = {f'q{n}': {f'd{n}': 1} for n in range(12)}
            data = RetrievalSplitData(
                queries=queries, corpus=corpus, relevant_docs=right, top_ranked=candidates
            )
            self.dataset = dict(default=dict(test=data))
            self.data_loaded = True

    return Made()


@pytest.fixture
def model(tmp_path):
    return tiny_embedders.text_model(tmp_path)


def score(model, index, candidates=None):
    import mteb
    from mteb.models import SentenceTransformerEncoderWrapper
    from mteb.models.search_wrappers import SearchEncoderWrapper

    encoder = SentenceTransformerEncoderWrapper(model)
    options = dict(cache=None, show_progress_bar=False, co2_tracker=False)
    wrapped = SearchEncoderWrapper(encoder, index_backend=index)
    result = mteb.evaluate(wrapped, task(candidates), **options)
    return result.task_results[0].scores['test'][0]


def by_hand(model, *, debiased):
    q, c, b = (
        torch.as_tensor(model.encode(x, normalize_embeddings=True)) for x in (QUERIES, CORPUS, BANK)
    )
    scores = q @ c.T
    return scores + sinkhorn(b @ c.T, temperature=0.05).columns if debiased else scores


@pytest.mark.parametrize('debiased', [False, True])
def test_mteb_finds_what_scores_by_hand_find(model, debiased):
    scores = by_hand(model, debiased=debiased)
    bank = model.encode(BANK) if debiased else None
    told = score(model, DebiasedIndex(bank, transform='sinkhorn', temperature=0.05))
    for k in (1, 3, 5):
        right = scores.topk(k, dim=1).indices == torch.arange(12)[:, None]
        assert told[f'recall_at_{k}'] == pytest.approx(
            right.any(1).double().mean().item(), abs=1e-5
        )
    if not debiased:
        assert told['ndcg_at_10'] == pytest.approx(score(model, None)['ndcg_at_10'])
    else:
        assert told['ndcg_at_10'] != pytest.approx(score(model, DebiasedIndex())['ndcg_at_10'])


def test_a_reranking_task_sees_its_candidates_alone(model):
    candidates = {f'q{n}': [f'd{(n + k) % 12}' for k in range(4)] for n in range(12)}
    scores = by_hand(model, debiased=True)
    index = DebiasedIndex(model.encode(BANK), transform='sinkhorn', temperature=0.05)
    told = score(model, index, candidates)
    first = [max(range(n, n + 4), key=lambda d: scores[n, d % 12]) == n for n in range(12)]
    assert told['recall_at_1'] == pytest.approx(sum(first) / 12, abs=1e-5)


def test_documents_come_in_parts_and_go():
    index = DebiasedIndex(torch.eye(3))
    with pytest.raises(ValueError, match='there are no documents'):
        index.search(torch.eye(3), 2)
    index.add_documents(torch.eye(3)[:1], ['a'])
    index.add_documents(torch.eye(3)[1:].numpy(), ['b', 'c'])
    values, places = index.search(torch.eye(3), 2)
    assert [row[0] for row in places] == [0, 1, 2] and len(values[0]) == 2
    index.clear()
    with pytest.raises(ValueError, match='there are no documents'):
        index.search(torch.eye(3), 2)


def test_what_cannot_be_is_refused():
    with pytest.raises(ValueError, match="transform must be 'auto', None or one of"):
        DebiasedIndex(transform='magic')
    with pytest.raises(ValueError, match='the bank is empty'):
        DebiasedIndex(torch.zeros(0, 3))
    index = DebiasedIndex(torch.rand(4, 5))
    with pytest.raises(ValueError, match='1 documents and 2 ids'):
        index.add_documents(torch.eye(3)[:1], ['a', 'b'])
    index.add_documents(torch.eye(3), ['a', 'b', 'c'])
    with pytest.raises(ValueError, match='bank texts have width'):
        index.search(torch.eye(3), 1)
    index = DebiasedIndex()
    index.add_documents(torch.eye(3), ['a', 'b', 'c'])
    with pytest.raises(ValueError, match='texts have width 4'):
        index.search(torch.eye(4), 1)


@pytest.mark.nightly
def test_the_page_names_the_retrieval_tasks_of_the_benchmark():
    page = (ROOT / 'projects/gallery/docs/mteb.md').read_text()
    import mteb

    tasks = mteb.get_benchmark('MVEB(text, video, v1)').tasks
    names = {task.metadata.name for task in tasks if task.metadata.type == 'Any2AnyRetrieval'}
    assert len(names) == 8 and all(f'`{name}`' in page for name in names)
