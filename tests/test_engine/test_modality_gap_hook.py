import logging
from types import SimpleNamespace

import pytest
import torch
from torch.nn.functional import normalize

from mmvtr.engine.hooks.result_hooks import ModalityGapHook
from mmvtr.engine.loops.evaluation import Encoded, Evaluation
from mmvtr.models.similarities.cosine import CosineSimilarity
from mmvtr.structures import Embedding, Relation


def test_the_gap_of_two_levels():
    """Cosines of both levels, averaged as the similarity does."""
    generator = torch.Generator().manual_seed(0)

    def encoded(count):
        levels = {n: Embedding(torch.randn(count, 4, generator=generator)) for n in ('a', 'b')}
        return Encoded(torch.arange(count), [''] * count, levels, torch.ones(count))

    texts, videos = encoded(3), encoded(5)
    similarity = CosineSimilarity(levels=('a', 'b'), weights=(3, 1))
    scores = similarity(texts.levels, videos.levels)
    evaluation = Evaluation(
        SimpleNamespace(similarity=similarity),
        torch.device('cpu'),
        texts,
        videos,
        scores,
        Relation(torch.ones(3, 5).bool()),
    )
    ModalityGapHook().after_scoring(None, evaluation)
    numbers = evaluation.numbers
    assert numbers['modality_gap/cross'] == pytest.approx(float(scores['scores'].mean()), abs=1e-6)
    cosines = [normalize(texts.levels[n].mean, dim=1) for n in ('a', 'b')]
    within = 0.75 * cosines[0] @ cosines[0].t() + 0.25 * cosines[1] @ cosines[1].t()
    expected = float((within.sum() - within.trace()) / 6)
    assert numbers['modality_gap/within_text'] == pytest.approx(expected, abs=1e-6)


@pytest.mark.parametrize('texts, videos', [(1, 1), (1, 4), (3, 1)])
def test_a_set_without_pairs_has_no_gap(texts, videos, caplog):
    def encoded(count):
        levels = dict(a=Embedding(torch.ones(count, 4)))
        return Encoded(torch.arange(count), [''] * count, levels, torch.ones(count))

    similarity = CosineSimilarity(levels=('a',))
    relation = Relation(torch.ones(texts, videos).bool())
    evaluation = Evaluation(
        SimpleNamespace(similarity=similarity),
        torch.device('cpu'),
        encoded(texts),
        encoded(videos),
        {},
        relation,
    )
    with caplog.at_level(logging.INFO):
        ModalityGapHook().after_scoring(
            SimpleNamespace(logger=logging.getLogger('gap')), evaluation
        )
    assert evaluation.numbers == {} and 'no modality gap' in caplog.text
