"""One fit behind every door: equal ids and scores, whatever the transform and its options."""

import argparse
import ast
import copy
import runpy
from types import SimpleNamespace

import numpy as np
import pytest
import torch

import mmvtr
from children import ROOT
from mmvtr.apis.inferencer.inputs import vector_inputs
from mmvtr.apis.inferencer.ranking import Gallery, rank
from mmvtr.apis.inferencer.transforms import check_transform, fitted_to_bank
from mmvtr.cli.transform_options import add_options, options_given
from mmvtr.engine.hooks import score_transforms
from mmvtr.engine.hooks.query_queue import Queries
from mmvtr.engine.loops.evaluation import Encoded, Evaluation
from mmvtr.functional.transforms.transform_table import (
    ADDITIVE,
    OF_BANK,
    OF_QUERIES,
    TRANSFORMS,
    units,
)
from mmvtr.models.similarities.cosine import CosineSimilarity
from mmvtr.models.temperature import Temperature
from mmvtr.registry import HOOKS
from mmvtr.structures import Directed, Embedding, Relation

pytest.importorskip('mmvtr_gallery', reason='pip install -e projects/gallery')
pytestmark = pytest.mark.filterwarnings('ignore:Local mode performs exact')
K, WIDTH = 5, 8
NAMES = (*OF_BANK, 'auto')
#: Those that a gallery can keep.
KEPT = (*ADDITIVE, 'auto')

pytest.importorskip('mmvtr_gallery', reason='pip install -e projects/gallery')


class Case:
    """Vectors of any lengths, a bank that asks some things again and again, a transform, options.

    Options are left out now and then, so that defaults are compared, too.
    """

    def __init__(self, name, seed):
        random = np.random.default_rng([seed, NAMES.index(name)])
        self.name = name
        takes = {} if name == 'auto' else TRANSFORMS[name].options
        needs = set() if name == 'auto' else TRANSFORMS[name].needs
        known = 70 if name == 'auto' else 40  # fewer decide nothing
        self.texts, self.videos, self.bank, self.seen = (
            torch.tensor(random.normal(size=(n, WIDTH)) + 0.7).float()
            for n in (20, int(random.integers(20, 70)), known, known)
        )
        if name == 'auto':  # pairs, of which a tenth lies near everything
            self.seen[::10] += 1.5
            self.bank += self.seen
        for rows in (self.texts, self.videos, self.bank, self.seen):
            rows *= torch.tensor(random.lognormal(size=(len(rows), 1))).float()
        self.often = torch.cat([torch.arange(known), torch.zeros(30, dtype=torch.int64)])
        drawn = dict(
            temperature=float(random.uniform(0.02, 0.2)),
            item_temperature=float(random.uniform(0.02, 0.2)),
            iterations=int(random.integers(1, 12)),
            marginal_penalty=float(random.uniform(0, 1)),
            neighbours=int(random.integers(1, 9)),
            alpha=float(random.normal()),
            strength=float(random.normal()),
            first=float(random.normal()),
            places=int(random.integers(1, 4)),
            share=float(random.uniform(0.02, 1)),
        )
        left_out = {x for x in drawn if random.random() < 0.4} - needs
        self.options = {x: y for x, y in drawn.items() if x in {*takes} - left_out}
        self.pair = (self.bank[self.often], self.seen[self.often])
        self.fit(self.pair)

    def fit(self, pair):
        """Fit to the log, or to the same pairs once."""
        self.fitted = mmvtr.fit(self.videos, pair, self.name, **self.options)
        self.found = self.fitted.search(self.texts, K)

    @property
    def reads_items(self):
        return self.name == 'auto' or bool(
            {'bank_gallery', 'item_bank'} & {*TRANSFORMS[self.name].reads}
        )

    def agrees(self, ids, scores):
        """Equal ids and, to 1e-5 of the largest, equal scores."""
        assert [[int(x) for x in row] for row in ids] == self.found.ids.tolist()
        expected = self.found.debiased.numpy()
        scale = max(1, np.abs(expected).max())
        np.testing.assert_allclose(np.asarray(scores) / scale, expected / scale, atol=1e-5)

    def ranks(self, scores):
        """The same of all scores [Q, N]."""
        best = torch.as_tensor(scores).topk(K, dim=1)
        self.agrees(best.indices.tolist(), best.values)


# -- the doors, by what they are called; who takes a transform is found below ------------------


def of_retrieve(case, folder):
    parts = (x.numpy() for x in (case.texts, case.videos))
    bank = tuple(x.numpy() for x in case.pair)
    found = mmvtr.retrieve(*parts, bank, case.name, K, **case.options)
    case.agrees(found.ids, found.debiased)


def of_saved(case, folder):
    case.fitted.save(folder / 'debiaser')
    found = mmvtr.arrays.Debiaser.load(folder / 'debiaser', case.videos).search(case.texts, K)
    case.agrees(found.ids, found.debiased)


def of_vectors(case, folder):
    if case.name not in KEPT:
        with pytest.raises(ValueError, match='does not add one number per item'):
            case.fitted.as_vectors()
        return
    case.ranks(case.fitted.query(case.texts) @ case.fitted.as_vectors().T)


def of_scores(case, folder):
    case.ranks(case.fitted.scores(case.texts))


def of_mteb_index(case, folder):
    from mmvtr_gallery.mteb_index import DebiasedIndex

    index = DebiasedIndex(case.pair, transform=case.name, **case.options)
    index.add_documents(case.videos[:12], [str(i) for i in range(12)])
    index.add_documents(case.videos[12:], [str(i) for i in range(12, len(case.videos))])
    scores, places = index.search(case.texts, K)
    case.agrees(places, scores)


def of_evaluator(case, folder):
    pytest.importorskip('sentence_transformers')
    from mmvtr.sentence_transformers import DebiasedEvaluator

    seen = {}

    class Looking(DebiasedEvaluator):
        def _figures(self, name, scores):
            seen[name] = scores
            return {}

        def store_metrics_in_model_card_data(self, *args):
            pass

    own = [0] * len(case.texts)
    model = SimpleNamespace(encode=lambda rows, **how: torch.stack(rows))
    given = list(case.texts), list(case.videos), own
    Looking(*given, bank=case.pair, transform=case.name, **case.options)(model)
    case.ranks(seen['debiased'])


def of_eval_scores(case, folder):
    tool = runpy.run_path(str(ROOT / 'tools' / 'analysis_tools' / 'eval_scores.py'))
    unit = [torch.nn.functional.normalize(x.double(), dim=1) for x in (case.texts, case.videos)]
    bank, seen = (torch.nn.functional.normalize(x.double(), dim=1) for x in case.pair)
    texts, videos = unit
    queries = Directed(bank @ videos.T, texts @ seen.T)
    items = Directed(seen @ videos.T, bank @ texts.T)
    banks = tool['different'](tool['Banks'](queries, bank @ seen.T, items))
    found, _ = tool['transform'](case.name, texts @ videos.T, banks, case.options)
    case.ranks(found.t2v)


def of_commands(case, folder):
    """Options as they are typed in tools, and as the service reads them."""
    parser = argparse.ArgumentParser()
    add_options(parser, OF_BANK)  # of auto there are none
    words = [
        word
        for name, value in case.options.items()
        for word in (f'--{name.replace("_", "-")}', repr(value))
    ]
    words = [f'{a}={b}' for a, b in zip(words[::2], words[1::2])]
    assert options_given(parser.parse_args(words), [case.name]) == {case.name: case.options}
    if case.name in (*OF_QUERIES, 'auto'):
        pytest.importorskip('fastapi')
        from mmvtr_gallery.serving.bodies import Refit

        said = Refit(transform=case.name, **case.options).model_dump(exclude_none=True)
        assert {k: x for k, x in said.items() if k in units()} == case.options


def levels(rows):
    return {'global': Embedding(rows)}


def bank_file(case, folder):
    """Of tools/export_bank.py: what asks is text, what is asked for video."""
    rows = dict(text=case.pair[0], video=case.pair[1])
    order = torch.arange(len(case.often))
    stored = {kind: Queries(levels(x), order, order).state() for kind, x in rows.items()}
    torch.save(stored, folder / 'bank.pth')
    return str(folder / 'bank.pth')


def model():
    return SimpleNamespace(
        similarity=CosineSimilarity(),
        temperature=Temperature(init=0.3),
        data_preprocessor=SimpleNamespace(device='cpu'),
    )


def of_inferencer(case, folder):
    bank, items = bank_file(case, folder), levels(case.videos)
    check_transform(case.name, 'video', bank=bank, captions=None, options=case.options)
    how = dict(bank=bank, transform=case.name, options=case.options)
    debiaser, _ = fitted_to_bank(model(), 'video', items, **how)
    gallery = Gallery(vector_inputs(case.videos, 'video'), items, debiaser=debiaser)
    asked = vector_inputs(case.texts, 'text')
    found = list(rank(model(), asked, levels(case.texts), gallery, K))
    case.agrees([x.ids for x in found], torch.stack([x.scores for x in found]))


def of_hook(case, folder):
    """Items are texts where the hook changes their lists alone."""
    kind = next(
        x for x in HOOKS.module_dict.values() if getattr(x, 'default_name', None) == case.name
    )
    flipped = case.name == 'hedged_scaling'
    renamed = dict(local_scaling=dict(strength='t2v'), hedged_scaling=dict(strength='rest'))
    given = {renamed.get(case.name, {}).get(name, name): x for name, x in case.options.items()}
    if case.name == 'local_scaling':  # whose default is none in either direction
        given.setdefault('t2v', TRANSFORMS[case.name].options['strength'])
    path = bank_file(case, folder)
    sides = [case.texts, case.videos]
    if flipped:
        stored = torch.load(path)
        torch.save(dict(text=stored['video'], video=stored['text']), path)
        sides = sides[::-1]
    texts, videos = (
        Encoded(
            torch.arange(len(x)), [str(i) for i in range(len(x))], levels(x), torch.ones(len(x))
        )
        for x in sides
    )
    made = model()
    matrices = made.similarity(texts.levels, videos.levels)
    matrices['temperature'] = torch.tensor(0.3)
    truth = Relation(torch.ones(len(sides[0]), len(sides[1]), dtype=torch.bool))
    evaluation = Evaluation(made, torch.device('cpu'), texts, videos, matrices, truth)
    runner = SimpleNamespace(hooks=[], logger=SimpleNamespace(warning=lambda *args: None))
    hook = kind(queries='bank', bank_file=path, **given)
    hook.after_scoring(runner, evaluation)
    found = evaluation.transformed[hook.name]
    case.ranks(found.v2t.t() if flipped else found.t2v)


def of_store(case, folder, engine='faiss'):
    created = pytest.importorskip('mmvtr_gallery.store').create_store
    needs = dict(faiss='faiss', qdrant='qdrant_client')
    pytest.importorskip(needs[engine])
    if engine == 'qdrant':
        from qdrant_client import QdrantClient

        from mmvtr_gallery.store.qdrant import QdrantStore

        store = QdrantStore.create('x', WIDTH, client=QdrantClient(':memory:'))
    else:
        store = created(folder / engine, WIDTH)
    seen = case.pair[1] if case.reads_items else None
    how = dict(case.options, transform=case.name, fewer=True, paired=case.name == 'auto')
    with store:
        store.add([str(i) for i in range(len(case.videos))], case.videos)
        if case.name not in KEPT:
            with pytest.raises(ValueError, match=f"must be one of .*, not '{case.name}'"):
                store.refit(case.pair[0], **how)
            return
        store.refit(case.pair[0], items=seen, **how)
        for _ in range(2):
            hits = store.search(case.texts, K)
            ids = [[hit.item.id for hit in found] for found in hits]
            case.agrees(ids, [[hit.score for hit in found] for found in hits])
            store.refit(transform=None)
            store.undo()  # biases are found anew, of the Debiaser that was kept


def of_qdrant(case, folder):
    of_store(case, folder, 'qdrant')


def of_moments(case, folder):
    """Each video is one window."""
    pytest.importorskip('faiss')
    from mmvtr_gallery.store import create_store
    from mmvtr_gallery.store.moments import MomentStore, Windows

    if case.name not in KEPT:
        return  # as of_store
    names = [str(i) for i in range(len(case.videos))]
    with create_store(folder / 'm', WIDTH) as store:
        with MomentStore.create(store, folder / 'm') as moments:
            store.add(names, case.videos)
            windows = {
                name: Windows([0.0], [1.0], row[None]) for name, row in zip(names, case.videos)
            }
            moments.put(windows)
            seen = case.pair[1] if case.reads_items else None
            how = dict(case.options, transform=case.name, fewer=True, paired=case.name == 'auto')
            moments.refit(case.pair[0], items=seen, **how)
            hits = moments.search(case.texts, K)
            ids = [[hit.item.id for hit in found] for found in hits]
            case.agrees(ids, [[hit.score for hit in found] for found in hits])


def of_files(case, folder):
    """The gallery in three files."""
    parquet = pytest.importorskip('pyarrow.parquet')
    from mmvtr_gallery.shards import fit_shards

    if case.name not in (*OF_QUERIES, 'auto'):
        with pytest.raises(ValueError, match='transform must be one of'):
            fit_shards([__file__], case.bank, case.name, out=folder / 'no')
        return
    paths, out = [folder / f'{i}.npy' for i in range(3)], folder / 'files'
    for path, rows in zip(paths, case.videos.split([1, 7, len(case.videos) - 8])):
        np.save(path, rows.numpy())
    fitted = fit_shards(paths, case.pair, case.name, out=out, **case.options)
    tables = [parquet.read_table(out / f'{i}.parquet')['vector'].to_pylist() for i in range(3)]
    vectors = np.array([row for rows in tables for row in rows], dtype='f4')
    case.ranks(fitted.query(case.texts) @ vectors.T)


GALLERY = 'projects/gallery/mmvtr_gallery/'
ROOMS = ('mmvtr', 'tools', GALLERY)
#: The doors, and which callables of the sources each of them goes through.
DOORS = {
    of_retrieve: ['mmvtr/arrays/retrieval.py: retrieve', 'mmvtr/arrays/retrieval.py: fit'],
    of_saved: ['mmvtr/arrays/debiaser.py: __init__'],
    of_vectors: [],
    of_scores: [],
    of_mteb_index: [],
    of_evaluator: ['mmvtr/sentence_transformers/evaluator.py: __init__'],
    of_eval_scores: ['tools/analysis_tools/eval_scores.py: --transform'],
    of_commands: [
        GALLERY + 'commands/export_index.py: --transform',
        GALLERY + 'commands/search.py: --transform',
    ],
    of_inferencer: [
        'mmvtr/apis/inferencer/inferencer.py: set_gallery',
        'mmvtr/apis/inferencer/transforms.py: check_transform',
        'mmvtr/apis/inferencer/transforms.py: check_calibration',
        'mmvtr/apis/inferencer/transforms.py: fitted_to_bank',
    ],
    of_hook: [],
    of_store: [GALLERY + 'store/refits.py: refit'],
    of_qdrant: [],
    of_moments: [],
    of_files: [GALLERY + 'shards.py: fit_shards'],
}
#: Those whose bank is a training set, in which a text counts once: repeats there say nothing about
#: what is asked for.
OF_TRAINING = (of_eval_scores, of_inferencer, of_hook)
#: What fits for others: the mechanism itself.
WITHIN = {
    'mmvtr/functional/transforms/transform_table.py',
    'mmvtr/functional/transforms/item_biases.py',
    'mmvtr/arrays/fitting.py',
}


@pytest.mark.parametrize(
    'seed', [0, *(pytest.param(seed, marks=pytest.mark.nightly) for seed in (1, 2))]
)
@pytest.mark.parametrize('name', NAMES)
def test_all_doors_agree(name, seed, tmp_path):
    case = Case(name, seed)
    if name == 'auto':
        assert 'held-out bank pairs' in case.fitted.why_ and (case.fitted.transform_ or seed)
    for door in DOORS:
        if seed and door is of_qdrant:
            continue  # slow
        one = copy.copy(case)
        if door in OF_TRAINING:
            one.fit((case.bank, case.seen))
        door(one, tmp_path)


@pytest.mark.parametrize('door', [of_inferencer, of_hook])
@pytest.mark.parametrize('name', [x for x in OF_BANK if 'temperature' in TRANSFORMS[x].options])
def test_the_temperature_of_a_model(door, name, tmp_path):
    """'model' is the model's own number where a model is known, and is refused elsewhere."""
    case = Case(name, 0)
    case.options = dict(case.options, temperature=0.3)
    case.fit((case.bank, case.seen))
    case.options['temperature'] = 'model'
    door(case, tmp_path)
    with pytest.raises(ValueError, match='temperature must be positive.* not model'):
        case.fit((case.bank, case.seen))


def takes_a_transform(node):
    """Names of functions with an argument ``transform`` that is a name, and of an option."""
    if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
        every = [*node.args.args, *node.args.kwonlyargs]
        return [
            node.name
            for x in every
            if x.arg == 'transform' and 'str' in ast.unparse(x.annotation or ast.Constant(''))
        ]
    if isinstance(node, ast.Call) and node.args and isinstance(node.args[0], ast.Constant):
        if node.args[0].value == '--transform':
            return ['--transform']
    return []


def test_auto_by_texts_alone(tmp_path):
    """A bank without its items gets the usual setting at the doors that take one."""
    pytest.importorskip('faiss')
    from mmvtr_gallery.store import create_store

    case = Case('auto', 0)
    found = mmvtr.fit(case.videos, case.bank).search(case.texts, K)
    unit = [torch.nn.functional.normalize(x, dim=1) for x in (case.bank, case.texts, case.videos)]
    scores = (
        mmvtr.Debiaser('auto').fit_scores(unit[0] @ unit[2].T).transform_scores(unit[1] @ unit[2].T)
    )
    assert scores.topk(K).indices.tolist() == found.ids.tolist()
    with create_store(tmp_path / 'store', WIDTH) as store:
        store.add([str(i) for i in range(len(case.videos))], case.videos)
        store.refit(case.bank, transform='auto')
        hits = store.search(case.texts, K)
        assert [[int(x.item.id) for x in one] for one in hits] == found.ids.tolist()
        assert store.last_refit['asked'] == 'auto'
        store.refit(case.bank[:20], fewer=True)  # auto again, of which so few decide nothing
        assert store.debiaser is None and store.last_refit['asked'] == 'auto'


@pytest.mark.parametrize(
    'given, words',
    [
        (dict(items=True), 'paired=True, if row i of both'),
        (dict(paired=True), 'needs queries and items'),
        (dict(probabilities=True), 'probabilities=True reads pairs'),
        (dict(temperature=0.1), 'is an option of a transform: name one of'),
    ],
)
def test_auto_at_a_store_refuses(given, words, tmp_path):
    pytest.importorskip('faiss')
    from mmvtr_gallery.store import create_store

    case = Case('auto', 0)
    if given.get('items'):
        given = dict(given, items=case.seen)
    with create_store(tmp_path / 'store', WIDTH) as store:
        store.add([str(i) for i in range(len(case.videos))], case.videos)
        with pytest.raises(ValueError, match=words):
            store.refit(case.bank, transform='auto', **given)


def test_all_doors_are_known():
    """A further function that takes a transform's name is asked above, or is refused here."""
    found = set()
    for path in (x for room in ROOMS for x in (ROOT / room).rglob('*.py')):
        name = str(path.relative_to(ROOT))
        if name in WITHIN or 'options_of(' in name:
            continue
        source = path.read_text()
        for node in ast.walk(ast.parse(source if 'transform' in source else '')):
            found.update(f'{name}: {one}' for one in takes_a_transform(node))
    private = {x for x in found if x.rpartition(': ')[2].startswith('_') and '__' not in x}
    assert found - private == {x for known in DOORS.values() for x in known}


def test_each_hook_is_of_the_table():
    """Every hook of the package that fits a bank takes its options from the table."""
    of_table = {
        x.default_name
        for x in HOOKS.module_dict.values()
        if isinstance(x, type)
        and issubclass(x, score_transforms.ScoreTransformHook)
        and x.__module__.startswith('mmvtr.')
    }
    assert of_table == set(NAMES)


# -- what does not fit, at the doors that read vectors ---------------------------------------------


def fitted(videos, bank, texts, folder):
    return mmvtr.fit(videos, bank, 'sinkhorn').search(texts, 3).ids.tolist()


def retrieved(videos, bank, texts, folder):
    parts = (x.numpy() for x in (texts, videos, bank))
    return mmvtr.retrieve(*parts, 'sinkhorn', 3).ids.tolist()


def indexed(videos, bank, texts, folder):
    from mmvtr_gallery.mteb_index import DebiasedIndex

    index = DebiasedIndex(bank, transform='sinkhorn')
    index.add_documents(videos, [str(i) for i in range(len(videos))])
    return index.search(texts, 3)[1]


def evaluated(videos, bank, texts, folder):
    pytest.importorskip('sentence_transformers')
    from mmvtr.sentence_transformers import DebiasedEvaluator

    seen = {}

    class Looking(DebiasedEvaluator):
        def _figures(self, name, scores):
            seen[name] = scores
            return {}

        def store_metrics_in_model_card_data(self, *args):
            pass

    given = list(texts), list(videos), [0] * len(texts)
    model = SimpleNamespace(encode=lambda rows, **how: torch.stack(rows))
    Looking(*given, bank=bank, transform='sinkhorn')(model)
    return seen['debiased'].topk(min(3, len(videos)), dim=1).indices.tolist()


def stored(videos, bank, texts, folder):
    pytest.importorskip('faiss')
    from mmvtr_gallery.store import create_store

    with create_store(folder / 'store', WIDTH) as store:
        store.add([str(i) for i in range(len(videos))], videos)
        store.refit(bank, transform='sinkhorn', fewer=True)
        return [[int(hit.item.id) for hit in hits] for hits in store.search(texts, 3)]


def spoiled(rows, value):
    rows = rows.clone()
    rows[3] = value
    return rows


GIVEN = Case('sinkhorn', 0)
READERS = [fitted, retrieved, indexed, evaluated, stored]
ZEROS, INFINITE = r'(row|vector) 3 is all zeros', r'(row|vector) 3 is not finite'


@pytest.mark.parametrize('reader', READERS)
@pytest.mark.parametrize('part', ['videos', 'bank', 'texts'])
@pytest.mark.parametrize('value, words', [(0.0, ZEROS), (torch.nan, INFINITE)])
def test_rows_without_a_direction(reader, part, value, words, tmp_path):
    given = dict(videos=GIVEN.videos, bank=GIVEN.bank, texts=GIVEN.texts)
    given[part] = spoiled(given[part], value)
    with pytest.raises(ValueError, match=words):
        reader(**given, folder=tmp_path)


@pytest.mark.parametrize('reader', READERS)
@pytest.mark.parametrize('part', ['bank', 'texts'])
def test_another_width(reader, part, tmp_path):
    if reader is evaluated and part == 'texts':
        pytest.skip('one model encodes texts and items')
    given = dict(videos=GIVEN.videos, bank=GIVEN.bank, texts=GIVEN.texts)
    given[part] = given[part][:, :3]
    words = r'have width 3, the videos 8|holds vectors \[N, 8\], not \[\d+, 3\]'
    with pytest.raises(ValueError, match=words):
        reader(**given, folder=tmp_path)


@pytest.mark.parametrize('reader', READERS)
def test_nothing_to_rank_stays_raw(reader, tmp_path):
    """One item, or items that are alike; a bank of one text is a bank."""
    one = reader(GIVEN.videos[:1], GIVEN.bank, GIVEN.texts, tmp_path / 'one')
    assert one == [[0]] * len(GIVEN.texts)
    alike = reader(GIVEN.videos[:1].repeat(4, 1), GIVEN.bank, GIVEN.texts, tmp_path / 'alike')
    assert all(len({*row}) == 3 for row in alike)
    once = reader(GIVEN.videos, GIVEN.bank[:1], GIVEN.texts, tmp_path / 'once')
    often = reader(GIVEN.videos, GIVEN.bank[:1].repeat(60, 1), GIVEN.texts, tmp_path / 'often')
    assert (
        once
        == often
        == mmvtr.fit(GIVEN.videos, GIVEN.bank[:1], 'sinkhorn').search(GIVEN.texts, 3).ids.tolist()
    )
