"""A share of the killed joint changes, and what the judge sees."""

from __future__ import annotations

import pytest

from campaign import joint
from campaign.trial import BAD

pytest.importorskip('mmvtr_gallery', reason='pip install -e projects/gallery')

from mmvtr_gallery.store import create_store, open_store  # noqa: E402
from mmvtr_gallery.store.moments import MomentStore  # noqa: E402


def test_both_are_old_or_both_new(tmp_path):
    pytest.importorskip('faiss')
    trials = joint.run(4, 11, tmp_path)  # before the journal, after it, and between the two writes
    assert {trial.row for trial in trials} == {'refit', 'undo'}
    assert len(trials) == 4 and [trial for trial in trials if trial.verdict in BAD] == []


def test_biases_of_two_refits_are_seen(tmp_path):
    pytest.importorskip('faiss')
    joint.make(tmp_path)
    options = dict(transform='inverted_softmax', temperature=joint.SECONDS, fewer=True)
    with open_store(tmp_path, write=True) as store, store.kept():
        store.refit(joint.units(joint.BANK, 2), **options)
        assert joint.fitted(store) == 2
    with open_store(tmp_path) as store, MomentStore.open(store, tmp_path) as moments:
        assert joint.both(store, moments) == 3 and not moments.alike
    with create_store(tmp_path / 'other', joint.DIM) as store:
        store.add(joint.names(), joint.units(joint.ITEMS, 0))
        assert joint.fitted(store) == 0
        store.refit(joint.units(joint.BANK, 7), **options)
        assert joint.fitted(store) == 3
