"""A bank of those that ask is called transductive at every door that knows both."""

import logging
import runpy
from types import SimpleNamespace
from unittest.mock import patch

import numpy as np
import pytest
import torch
from torch.nn.functional import normalize

import mmvtr
from children import ROOT
from mmvtr.apis.inferencer.ranking import Gallery
from mmvtr.apis.inferencer.transforms import fitted_to_bank
from mmvtr.engine.hooks.query_queue import Queries
from mmvtr.engine.hooks.score_transforms import ScoreTransformHook
from mmvtr.engine.loops.evaluation import Encoded, Evaluation
from mmvtr.functional.similarities.distinct import asked_before
from mmvtr.functional.transforms.transform_table import OF_BANK
from mmvtr.registry import HOOKS
from mmvtr.structures import Directed, Relation

pytest.importorskip('mmvtr_gallery', reason='pip install -e projects/gallery')

from test_arrays import test_doors as doors  # noqa: E402

TEXTS, VIDEOS, SEEN = (torch.randn(n, 8, generator=torch.manual_seed(n)) for n in (20, 30, 40))
OTHERS = torch.randn(40, 8, generator=torch.manual_seed(5))
#: Encoded in other batches.
AGAIN = torch.cat([OTHERS[:20], TEXTS + 1e-6 * torch.randn(20, 8)])
SAID = 'transductive: 20 of the 20 '


def bank_file(folder, texts, videos):
    order = torch.arange(40)
    rows = dict(text=texts, video=videos)
    stored = {x: Queries(doors.levels(y), order, order).state() for x, y in rows.items()}
    torch.save(stored, folder / 'bank.pth')
    return str(folder / 'bank.pth')


def of_retrieve(bank, *told):
    return mmvtr.retrieve(TEXTS.numpy(), VIDEOS.numpy(), bank.numpy(), 'sinkhorn').why


def of_saved(bank, folder, caplog):
    mmvtr.fit(VIDEOS, bank, 'nnn').save(folder / 'fit')
    return mmvtr.Debiaser.load(folder / 'fit', VIDEOS).search(TEXTS).why


def of_mteb_index(bank, folder, caplog):
    from mmvtr_gallery.mteb_index import DebiasedIndex

    index = DebiasedIndex(bank)
    index.add_documents(VIDEOS, [str(i) for i in range(30)])
    with patch('mmvtr_gallery.mteb_index.print_log') as log:
        index.search(TEXTS, 5)
    return str(log.call_args)


def of_evaluator(bank, folder, caplog):
    pytest.importorskip('sentence_transformers')
    from mmvtr.sentence_transformers import DebiasedEvaluator

    model = SimpleNamespace(encode=lambda rows, **how: torch.stack(rows), model_card_data=None)
    own = DebiasedEvaluator(list(TEXTS), list(VIDEOS), [0] * 20, bank=bank, name='dev')
    own.store_metrics_in_model_card_data = lambda *args: None
    own(model)
    return caplog.text


def of_eval_scores(bank, folder, caplog):
    tool = runpy.run_path(str(ROOT / 'tools/analysis_tools/eval_scores.py'))
    bank, texts, videos, seen = (normalize(x, dim=1) for x in (bank, TEXTS, VIDEOS, SEEN))
    queries = Directed(bank @ videos.T, texts @ seen.T)
    queries = tool['different'](tool['Banks'](queries)).queries
    return ' '.join(tool['transductive']('bank', texts @ videos.T, queries))


def of_inferencer(bank, folder, caplog):
    how = dict(bank=bank_file(folder, bank, SEEN), transform='sinkhorn', options={})
    fitted = fitted_to_bank(doors.model(), 'video', doors.levels(VIDEOS), **how)
    gallery = Gallery(None, doors.levels(VIDEOS), None, *fitted)
    said = gallery.asked_before(doors.model(), doors.levels(TEXTS))
    assert gallery.asked_before(doors.model(), normalize(TEXTS, dim=1)) == said
    return said


def of_store(bank, folder, caplog):
    """Who asks is known at the command line, which says so."""
    from mmvtr_gallery.store import create_store

    pytest.importorskip('faiss')
    with create_store(folder / 'faiss', 8) as store:
        store.add([str(i) for i in range(30)], VIDEOS)
        store.refit(bank, fewer=True)
        return store.debiaser.asked_before(TEXTS)


def of_hook(bank, folder, caplog, kind='SinkhornHook', seen=SEEN):
    ids = [[str(i) for i in range(len(x))] for x in (TEXTS, VIDEOS)]
    sides = (
        Encoded(torch.arange(len(x)), own, doors.levels(x), torch.ones(len(x)))
        for x, own in zip((TEXTS, VIDEOS), ids)
    )
    texts, videos = sides
    matrices = doors.model().similarity(texts.levels, videos.levels)
    matrices['temperature'] = torch.tensor(0.3)
    truth = Relation(torch.ones(20, 30, dtype=torch.bool))
    test = Evaluation(doors.model(), torch.device('cpu'), texts, videos, matrices, truth)
    given = dict(LocalScalingHook=dict(t2v=0.1), HedgedScalingHook=dict(first=0.2, rest=-0.2))
    path = bank_file(folder, bank, seen)
    hook = HOOKS.get(kind)(queries='bank', bank_file=path, **given.get(kind, {}))
    hook.after_scoring(SimpleNamespace(hooks=[], logger=logging.getLogger('run')), test)
    said = test.notes[hook.name]
    assert ('transductive' in said) == ('inductive' not in said) == (hook.name in test.transductive)
    assert ('transductive' in said) == ('transductive' in caplog.text)
    return said


#: Doors of tests/test_arrays/test_doors.py that never see who asks, or are one of the others.
QUIET = {
    doors.of_vectors: 'another engine searches',
    doors.of_scores: 'numbers alone come back',
    doors.of_commands: 'options alone are read',
    doors.of_files: 'vectors alone are written',
    doors.of_qdrant: 'as of_store',
    doors.of_moments: 'as of_store',
}
ASKED = [
    of_retrieve, of_saved, of_mteb_index, of_evaluator, of_eval_scores, of_inferencer, of_store,
    of_hook,
]  # fmt: skip


def test_every_door_is_asked():
    named = {door.__name__ for door in doors.DOORS} - {door.__name__ for door in QUIET}
    assert named == {door.__name__ for door in ASKED}


@pytest.mark.parametrize('door', ASKED)
def test_a_bank_of_those_that_ask_is_transductive(door, tmp_path, caplog):
    assert SAID in door(AGAIN, tmp_path, caplog)


@pytest.mark.parametrize('door', ASKED)
def test_another_bank_is_not(door, tmp_path, caplog):
    few = torch.cat([OTHERS[:30], TEXTS[:10]])
    assert 'transductive' not in door(few, tmp_path, caplog)


def test_every_hook_with_a_bank_file_says_it(tmp_path, caplog):
    kinds = [
        name
        for name, kind in HOOKS.module_dict.items()
        if issubclass(kind, ScoreTransformHook) and kind is not ScoreTransformHook
    ]
    assert {HOOKS.get(kind).default_name for kind in kinds} == {*OF_BANK, 'auto'}
    for kind in kinds:
        caplog.clear()
        assert SAID + 'test texts' in of_hook(AGAIN, tmp_path, caplog, kind)
        caplog.clear()
        clips = torch.cat([VIDEOS, SEEN[:10]])
        said = of_hook(OTHERS, tmp_path, caplog, kind, seen=clips)
        assert 'transductive: 30 of the 30 test videos are in the bank' in said


def test_another_width_or_form_is_not_the_same():
    assert asked_before(TEXTS, TEXTS[:, :4], 'texts') == ''
    assert asked_before(TEXTS, TEXTS[:1], 'texts').startswith('transductive: 1 of the 1 texts')
    assert asked_before(torch.from_numpy(np.zeros((0, 8), 'f4')), TEXTS, 'texts') == ''
