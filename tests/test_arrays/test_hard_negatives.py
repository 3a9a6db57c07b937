"""Hard negatives, against loops over queries and items."""

import numpy as np
import pytest
import torch

from children import run_tool
from mmvtr.arrays import hard_negatives
from mmvtr.arrays.hard_negatives import mine_negatives


def unit(x):
    return x / np.linalg.norm(x, axis=1, keepdims=True)


def by_loops(queries, gallery, own, *, k, skip, guide, margin, relative, ids):
    q, g = unit(queries), unit(gallery)
    jq, jg = (q, g) if guide is None else map(unit, guide)
    rows = []
    for i, items in enumerate(own):
        items = [int(j) for j in np.atleast_1d(items) if j >= 0]
        right = {j for j in range(len(g)) if ids[j] in {ids[m] for m in items}}
        left = [j for j in range(len(g)) if j not in right]
        if right:
            bar = max(jq[i] @ jg[j] for j in right)
            if margin is not None:
                left = [j for j in left if jq[i] @ jg[j] <= bar - margin]
            if relative is not None and bar > 0:
                left = [j for j in left if jq[i] @ jg[j] <= relative * bar]
        left = sorted(left, key=lambda j: -(q[i] @ g[j]))[skip : skip + k]
        rows.append(left + [-1] * (k - len(left)))
    return rows


@pytest.mark.parametrize('tile', [1, 2**24])
@pytest.mark.parametrize('margin, relative', [(0.0, None), (0.2, None), (None, 0.6), (None, None)])
@pytest.mark.parametrize('guided', [False, True])
def test_it_is_what_loops_find(tile, margin, relative, guided, monkeypatch):
    monkeypatch.setattr(hard_negatives, 'TILE', tile)
    draw = np.random.default_rng(3)
    queries, gallery = draw.normal(size=(9, 5)), draw.normal(size=(14, 5))
    own = draw.integers(-1, 14, size=(9, 2))
    own[4] = -1  # nobody's
    ids = np.arange(14) // 2
    guide = (draw.normal(size=(9, 7)), draw.normal(size=(14, 7))) if guided else None
    how = dict(k=4, skip=1, guide=guide, margin=margin, relative=relative)
    found = mine_negatives(
        queries.astype(np.float32), torch.as_tensor(gallery), own, gallery_ids=ids, **how
    )
    assert found.tolist() == by_loops(queries, gallery, own, ids=ids, **how)
    if margin == 0.2:
        assert (found == -1).any()  # there are not so many


def test_positives_may_be_a_mask():
    draw = np.random.default_rng(4)
    queries, gallery = draw.normal(size=(5, 4)), draw.normal(size=(8, 4))
    own = np.array([[0, 7], [3, -1], [2, 5], [-1, -1], [1, 6]])
    mask = np.zeros((5, 8), dtype=bool)
    for i, items in enumerate(own):
        mask[i, items[items >= 0]] = True
    expected = mine_negatives(queries, gallery, own, k=3, margin=None)
    for given in (mask, torch.as_tensor(mask)):
        assert torch.equal(mine_negatives(queries, gallery, given, k=3, margin=None), expected)


def test_without_a_guide_scores_are_made_once():
    class Counted(torch.utils._python_dispatch.TorchDispatchMode):
        products = 0

        def __torch_dispatch__(self, function, types, args=(), kwargs=None):
            self.products += function is torch.ops.aten.mm.default
            return function(*args, **(kwargs or {}))

    with Counted() as counted:
        mine_negatives(np.eye(3), np.eye(3), [0, 1, 2], k=1)
    assert counted.products == 1


def test_a_text_guide_finds_what_nobody_has_annotated():
    """Two videos with one caption: each is right for the other's text."""
    captions = np.eye(6)[[0, 0, 1, 2, 3, 4]] + 0.01
    draw = np.random.default_rng(0)
    videos = captions + 0.05 * draw.normal(size=(6, 6))
    own = np.arange(6)
    blind = mine_negatives(captions, videos, own, k=1, margin=None)
    assert blind[:2].flatten().tolist() == [1, 0]
    told = mine_negatives(captions, videos, own, k=1, guide=(captions, captions), margin=0.1)
    assert not {0, 1} & {*told[:2].flatten().tolist()}


@pytest.mark.parametrize(
    'wrong, reason',
    [
        (dict(queries=np.ones((3, 4))), 'queries have 4 dimensions, the gallery 5'),
        (dict(queries=np.full((3, 5), np.nan)), 'queries: row 0 is not finite'),
        (dict(gallery=np.eye(5) * [[1], [0], [1], [1], [1]]), 'gallery: row 1 is all zero'),
        (dict(queries=np.ones(5)), 'queries must be .N, D.'),
        (dict(positives=[0, 1]), 'whole numbers'),
        (dict(positives=np.ones((3, 4), dtype=bool)), 'mask of positives must be .3, 5.'),
        (dict(positives=[0.0, 1.0, 2.0]), 'whole numbers'),
        (dict(positives=[0, 1, 5]), 'positives must be 0 to 4'),
        (dict(k=0), 'k must be 1 or more'),
        (dict(skip=-1), 'skip 0 or more'),
        (dict(guide=(np.ones((3, 2)), np.ones((4, 2)))), "the guide's vectors are"),
        (dict(gallery_ids=[0, 1]), 'gallery_ids must be 5 numbers'),
        (dict(gallery_ids=[0, 1, 2, 3, -1]), 'gallery_ids must be 5 numbers'),
    ],
)
def test_what_does_not_fit_is_refused(wrong, reason):
    given = dict(queries=np.ones((3, 5)), gallery=np.eye(5), positives=[0, 1, 2])
    with pytest.raises(ValueError, match=reason):
        mine_negatives(**{**given, **wrong})


def test_the_tool_writes_what_the_function_finds(tmp_path):
    draw = np.random.default_rng(1)
    texts, videos = draw.normal(size=(6, 4)), draw.normal(size=(6, 4))
    guide = draw.normal(size=(6, 3)), draw.normal(size=(6, 3))
    for name, x in dict(t=texts, v=videos, gt=guide[0], gv=guide[1]).items():
        np.save(tmp_path / f'{name}.npy', x.astype(np.float32))
    words = ['t.npy', 'v.npy', '--out', 'n.csv', '--k', 3, '--guide', 'gt.npy', 'gv.npy']
    code, printed = run_tool(tmp_path, 'mine_negatives.py', *words, '--margin', 0.1)
    assert code == 0, printed
    found = mine_negatives(texts, videos, np.arange(6), k=3, guide=guide, margin=0.1)
    short = int((found < 0).any(1).sum())
    assert f'n.csv: 3 negatives of 6 queries; {short} have fewer' in printed
    head, *rows = (tmp_path / 'n.csv').read_text().splitlines()
    assert head == 'query,negative_1,negative_2,negative_3'
    for i, row in enumerate(rows):
        expected = [str(i), *('' if p < 0 else str(p) for p in found[i].tolist())]
        assert row.split(',') == expected
    np.save(tmp_path / 'v.npy', videos[:5].astype(np.float32))
    code, printed = run_tool(tmp_path, 'mine_negatives.py', 't.npy', 'v.npy', '--out', 'n.csv')
    assert code == 1 and '6 queries and 5 items are not pairs' in printed


def test_no_graph_is_built():
    random, kept = torch.Generator().manual_seed(0), []
    queries = torch.randn(4, 8, generator=random, requires_grad=True)
    gallery = torch.randn(9, 8, generator=random)
    with torch.autograd.graph.saved_tensors_hooks(lambda x: kept.append(x) or x, lambda x: x):
        mine_negatives(queries, gallery, torch.arange(4), k=3)
    assert not kept


def test_ranks_are_the_same_under_autocast():
    queries, gallery = np.random.default_rng(0).normal(size=(2, 200, 32))
    how = dict(positives=torch.arange(200), k=20)
    plain = mine_negatives(queries, gallery, **how)
    with torch.autocast('cpu', torch.bfloat16):
        assert mine_negatives(queries, gallery, **how).equal(plain)


def test_a_mask_of_several_positives_is_their_list():
    mask = torch.rand(30, 50, generator=torch.Generator().manual_seed(0)) < 0.2
    mask[3] = False
    listed = torch.full((30, int(mask.sum(1).max())), -1)
    for row, own in enumerate(mask):
        listed[row, : own.sum()] = own.nonzero()[:, 0]
    assert hard_negatives._positions(mask, 30, 50).equal(listed)
