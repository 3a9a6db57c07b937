"""Banks, indices and searches from a config and a checkpoint, against scores made by hand."""

import json
import re
import runpy
from functools import partial

import pytest
import torch

from children import ROOT, in_child, run_tool, tool_file
from mmvtr.apis import as_tested, encode_set, encode_texts, encode_videos, load_retriever
from mmvtr.datasets import collate_retrieval
from mmvtr.datasets.videos.video_files import pictures_span
from mmvtr.engine.hooks.query_queue import Queries
from mmvtr.engine.hooks.score_transforms import SinkhornHook
from mmvtr.engine.hooks.stored_queries import read_bank
from mmvtr.functional.transforms.dual_banks import dbsn
from mmvtr.functional.transforms.score_transforms import (
    inverted_softmax,
    sinkhorn_scores,
    unbalanced_sinkhorn,
)
from mmvtr.models.similarities.mmt import ExpertSimilarity
from mmvtr.models.supervisions.teachers import StoredTeachers
from mmvtr.models.target import Target
from mmvtr.registry import DATASETS
from mmvtr.structures import Embedding, take
from mmvtr_gallery.store import open_store
from tiny_sets import of_videos

TRAIN, TEST = 'abcdef', 'ghij'
CONFIG = of_videos(TEST, TRAIN) + "model.update(temperature=dict(type='Temperature', init=0.2))\n"


@pytest.fixture(scope='module')
def corpus(tmp_path_factory, write_video):
    """Videos a-k, the config, and a checkpoint whose queue holds train texts b, c and d."""
    folder = tmp_path_factory.mktemp('corpus')
    (folder / 'config.py').write_text(CONFIG)
    for number, name in enumerate(TRAIN + TEST + 'k'):
        write_video(folder / f'{name}.mp4', [40 + 15 * number, 60 + 10 * number])
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        model, cfg = load_retriever('config.py', None, random_weights=True, device='cpu')
        texts = encode_texts(model, cfg, ['b', 'c', 'd'])
        states = Queries(texts.levels, *[torch.arange(1, 4)] * 2).state()
        torch.save(dict(state_dict=model.state_dict()), 'bare.pth')
        queue = dict(text=states, video=states)
        torch.save(dict(state_dict=model.state_dict(), query_queue=queue), 'trained.pth')
    return folder


def by_hand(folder):
    """The model, and the levels of test texts, test videos and train texts."""
    model, cfg = load_retriever('config.py', 'trained.pth', device='cpu')
    tested = encode_set(model, cfg.test_dataloader)
    train = encode_set(model, as_tested(cfg, 'train'))
    return model, tested['text'].levels, tested['video'].levels, train


def hits_of(printed):
    """{text: [(id, score, file) by rank]} from what search.py prints."""
    hits, text = {}, None
    for line in printed.splitlines():
        if ' - WARNING - ' in line:  # of weights without a digest
            continue
        match = re.fullmatch(r' +(\d+)  (\w+)  (-?\d+\.\d{4})  (\S+)', line)
        if match is None:
            hits[text := line] = []
        else:
            assert int(match[1]) == len(hits[text]) + 1
            hits[text].append((match[2], float(match[3]), match[4]))
    return hits


# -- banks -------------------------------------------------------------------------------------


def test_bank_of_the_whole_train_set(folder, tmp_path):
    out = tmp_path / 'new' / 'bank.pth'
    code, printed = run_tool(folder, 'export_bank.py', 'config.py', 'bare.pth', '--out', out)
    assert code == 0, printed
    assert 'bank.pth: 6 texts and 6 videos of the train set' in printed
    stored = SinkhornHook(queries='bank', bank_file=str(out))._stored(None)
    *_, train = by_hand(folder)
    for kind in ('text', 'video'):
        queries = stored[kind]
        assert queries.index.tolist() == queries.video.tolist() == [*range(6)]
        assert list(queries.levels) == ['global'] and queries.levels['global'].tokens is None
        expected = train[kind].levels['global'].mean
        torch.testing.assert_close(queries.levels['global'].mean, expected)
    assert [path.name for path in out.parent.iterdir()] == ['bank.pth']


def test_bank_of_a_sample(folder, tool, tmp_path):
    banks = []
    for name, seed in (('first', 0), ('again', 0), ('other', 4)):
        tool(
            'export_bank.py', 'config.py', 'bare.pth', '--out', tmp_path / name, '--max', 3,
            '--cfg-options', f'randomness.seed={seed}',
        )  # fmt: skip
        banks.append(read_bank(str(tmp_path / name)))
    *_, train = by_hand(folder)
    for kind in ('text', 'video'):
        first, again, other = (bank[kind] for bank in banks)
        assert first.item_count == len(first.index) == 3
        assert torch.equal(first.index, again.index) and not torch.equal(first.index, other.index)
        expected = train[kind].levels['global'].mean[first.index]
        torch.testing.assert_close(first.levels['global'].mean, expected)


def test_of_several_videos_a_text_belongs_to_the_first():
    queries_of = runpy.run_path(str(ROOT / 'tools' / 'export_bank.py'))['queries_of']

    class Fake:
        similarity = None
        texts = [dict(video_idx=[3]), dict(video_idx=[0]), dict(video_idx=[2, 1])]
        index, levels = torch.tensor([0, 2]), {'global': Embedding(torch.ones(2, 4))}

    assert queries_of(Fake, 'text', Fake, Fake).video.tolist() == [3, 2]
    assert queries_of(Fake, 'video', Fake, Fake).video.tolist() == [0, 2]


# -- indices and searches ----------------------------------------------------------------------


def test_auto_and_probabilities_read_the_pairs_of_the_bank(folder, tool, tmp_path):
    """Six pairs decide nothing: the gallery says so and stays raw; probabilities are refused."""
    pytest.importorskip('faiss')
    export = ('export_index.py', 'config.py', 'bare.pth', '--out', tmp_path / 'index')
    tool('export_bank.py', 'config.py', 'bare.pth', '--out', tmp_path / 'bank.pth')
    bank = '--bank', tmp_path / 'bank.pth'
    printed = tool(*export, '--transform', 'auto', *bank)
    assert 'temperature as chosen' in printed
    store = open_store(tmp_path / 'index')
    assert store.debiaser is None and store.last_refit['asked'] == 'auto'
    code, printed = run_tool(
        folder, *export, '--replace', '--transform', 'sinkhorn', '--probabilities', *bank
    )
    assert code and '6 different bank videos are too few' in printed
    code, printed = run_tool(folder, *export, '--replace', '--probabilities')
    assert code and '--probabilities needs a --transform' in printed


def test_raw_index_from_shell_to_shell(folder, tmp_path):
    pytest.importorskip('faiss')
    code, printed = run_tool(folder, 'export_index.py', 'config.py', 'bare.pth', '--out', tmp_path)
    assert code == 0, printed
    assert '4 videos of the test set, raw scores' in printed
    code, printed = run_tool(folder, 'search.py', tmp_path, *TEST, '--k', 3)
    assert code == 0, printed
    model, texts, videos, _ = by_hand(folder)
    scores = model.similarity(texts, videos)['scores']
    found = hits_of(printed)
    assert list(found) == [*TEST]
    for row, hits in zip(scores, found.values()):
        best = row.sort(descending=True)
        assert [hit[0] for hit in hits] == [TEST[i] for i in best.indices[:3]]
        assert [hit[1] for hit in hits] == pytest.approx(best.values[:3].tolist(), abs=6e-5)
        assert all(hit[2] == f'{hit[0]}.mp4' for hit in hits)


@pytest.mark.parametrize(
    ('transform', 'source'),
    [
        ('sinkhorn', 'train_queue'),
        ('sinkhorn', 'bank'),
        ('unbalanced_sinkhorn', 'bank'),
        ('inverted_softmax', 'train_queue'),
        ('inverted_softmax', 'bank'),
        ('dbsn', 'bank'),
    ],
)
def test_index_ranks_as_the_transformed_scores(folder, tool, tmp_path, transform, source):
    model, texts, videos, train = by_hand(folder)
    options = ['--transform', transform, '--queries', source]
    bank = train['text'].levels
    if source == 'bank':
        tool('export_bank.py', 'config.py', 'bare.pth', '--out', tmp_path / 'bank.pth')
        options += ['--bank', tmp_path / 'bank.pth', '--temperature', 0.05]
    else:
        bank = take(bank, slice(1, 4))
        options += ['--temperature', 'model']
    printed = tool('export_index.py', 'config.py', 'trained.pth', '--out', tmp_path, *options)
    size, temperature = (6, 0.05) if source == 'bank' else (3, 0.2)
    assert f'{transform} with {size} texts ({size} distinct) of ' in printed
    assert ('warning: 3 distinct queries are fewer than the 4' in printed) == (source != 'bank')
    scores = [model.similarity(x, videos)['scores'] for x in (texts, bank)]
    own = model.similarity(bank, train['video'].levels)['scores'] if source == 'bank' else None
    functions = (sinkhorn_scores, unbalanced_sinkhorn, inverted_softmax)
    named = {function.__name__.removesuffix('_scores'): function for function in functions}
    named['dbsn'] = partial(dbsn, bank_gallery=own)
    expected = named[transform](*scores, temperature=temperature)
    for row, hits in zip(expected, open_store(tmp_path).search(model.similarity.flat(texts), 4)):
        best = row.sort(descending=True)
        assert [hit.item.id for hit in hits] == [TEST[i] for i in best.indices]
        found = torch.tensor([hit.score for hit in hits])
        torch.testing.assert_close(found - found[0], best.values - best.values[0])


@pytest.fixture
def rows(folder, tool, tmp_path):
    """Vectors of the test videos as extract_features.py writes them, with a broken one."""
    (tmp_path / 'broken.mp4').write_bytes(b'no video')
    lines = [f'{name},{folder / name}.mp4,,' for name in TEST[:-1]]
    lines += [f'{TEST[-1]},{folder / TEST[-1]}.mp4,0,5', f'k,{tmp_path / "broken.mp4"},,']
    (tmp_path / 'list.csv').write_text('\n'.join(['id,path,start,end', *lines]))
    options = ['--format', 'parquet', '--out', tmp_path / 'rows', '--videos', tmp_path / 'list.csv']
    assert '1 broken' in tool('extract_features.py', 'config.py', 'trained.pth', *options)
    return tmp_path / 'rows', tmp_path / 'list.csv'


def test_a_store_of_extracted_rows(folder, rows, tool, tmp_path):
    pytest.importorskip('faiss')
    options = ['--rows', rows[0], '--videos', rows[1], '--transform', 'sinkhorn']
    printed = tool(
        'export_index.py', 'config.py', 'trained.pth', '--out', tmp_path / 'of_rows', *options
    )
    assert '4 videos of ' in printed
    tool(
        'export_index.py', 'config.py', 'trained.pth', '--out', tmp_path / 'of_set', *options[4:]
    )  # fmt: skip
    model, texts, *_ = by_hand(folder)
    asked = model.similarity.flat(texts)
    found, expected = (
        [[(hit.item.id, hit.item.path) for hit in hits] for hits in store.search(asked, 4)]
        for store in (open_store(tmp_path / 'of_rows'), open_store(tmp_path / 'of_set'))
    )
    assert [[name for name, _ in hits] for hits in found] == [[n for n, _ in x] for x in expected]
    (last,) = open_store(tmp_path / 'of_rows').get([TEST[-1]])
    assert (last.path, last.start, last.end) == (str(folder / f'{TEST[-1]}.mp4'), 0.0, 5.0)


def test_rows_that_do_not_fit(folder, rows, error, tmp_path):
    pytest.importorskip('faiss')
    base = ['export_index.py', 'config.py', 'trained.pth', '--out', tmp_path / 'i', '--rows']
    assert 'give --rows ROWS and --videos CSV together' in error(*base, rows[0])
    assert 'holds no rows' in error(*base, tmp_path, '--videos', rows[1])
    fewer = tmp_path / 'fewer.csv'
    fewer.write_text('\n'.join(rows[1].read_text().splitlines()[:2]))
    assert "the video 'h' is not in the list" in error(*base, rows[0], '--videos', fewer)
    origin = rows[0] / 'origin.txt'
    origin.write_text(origin.read_text().replace('weights ', 'weights f'))
    assert 'the checkpoint is' in error(*base, rows[0], '--videos', rows[1])
    assert not (tmp_path / 'i').exists()


def test_a_video_added_later(folder, tool, tmp_path):
    pytest.importorskip('faiss')
    tool(
        'export_index.py', 'config.py', 'trained.pth', '--out', tmp_path, '--transform', 'sinkhorn',
        '--temperature', 0.05, '--iters', 2,
    )  # fmt: skip
    before = hits_of(tool('search.py', tmp_path, 'g', 'h'))
    printed = tool('search.py', tmp_path, 'g', 'h', '--add', folder / 'k.mp4')
    first, rest = printed.split('\n', 1)
    assert first == f'{tmp_path}: 5 videos, 1 of them new'
    after = hits_of(rest)
    assert after == hits_of(tool('search.py', tmp_path, 'g', 'h'))  # it is in the folder
    model, cfg = load_retriever('config.py', 'trained.pth', device='cpu')
    loaded = open_store(tmp_path)
    assert loaded.geometry == 'inner_product'
    fitted = loaded.debiaser
    assert fitted.transform_ == 'sinkhorn' and loaded.about['iterations'] == 2
    assert fitted.options_['temperature'] == 0.05
    assert loaded.about['examples'] == list('ghij')
    video = model.similarity.flat(encode_videos(model, cfg, ['k.mp4']).levels)
    bias = fitted.biases_of(video)[0]
    query = model.similarity.flat(encode_texts(model, cfg, ['g', 'h']).levels)
    for text, score in zip('gh', query @ video[0] + bias):
        (new,) = (hit for hit in after[text] if hit[0] == 'k')
        assert new[1] == pytest.approx(score.item(), abs=6e-5) and new[2] == str(folder / 'k.mp4')
        assert [hit for hit in after[text] if hit[0] != 'k'] == before[text]
    said = tool('search.py', tmp_path, 'g', '--delete', 'g', '--raw', '--filter', 'id=h', 'id=k')
    assert said.startswith(f'{tmp_path}: 4 videos, 1 removed\n')
    raw = {hit[0]: hit[1] for hit in hits_of(said.split('\n', 1)[1])['g']}
    assert raw.keys() == {'h', 'k'} and raw['k'] == pytest.approx(
        (query[0] @ video[0]).item(), abs=6e-5
    )


def test_windows_of_the_videos_beside_them(folder, tool, error, tmp_path):
    pytest.importorskip('faiss')
    export = ['export_index.py', 'config.py', 'trained.pth', '--out', tmp_path]
    tool(*export)
    assert 'holds no store' in error('search.py', tmp_path, 'g', '--moments')
    length = pictures_span(str(folder / 'g.mp4'))[1]
    options = ['--windows', length / 2, '--transform', 'sinkhorn', '--temperature', 0.05]
    assert '12 windows of' in tool(*export, '--replace', *options)
    printed = tool('search.py', tmp_path, 'g', '--moments', '--k', 2).splitlines()
    lines = [line.split() for line in printed if line.startswith('     ')]
    assert [line[0] for line in lines] == ['1', '2'] and all(x[-1] == 's' for x in lines)
    model, cfg = load_retriever('config.py', 'trained.pth', device='cpu')
    query = model.similarity.flat(encode_texts(model, cfg, ['g']).levels)
    spans = [(i * length / 4, i * length / 4 + length / 2) for i in range(3)]
    with open_store(tmp_path / 'moments') as windows:
        debiaser = windows.debiaser
    best = {}
    for name in TEST:
        found = encode_videos(model, cfg, [f'{name}.mp4'] * 3, ids=[*'abc'], spans=spans).levels
        vectors = model.similarity.flat(found)
        best[name] = (query @ vectors.T + debiaser.biases_of(vectors)).max().item()
    expected = sorted(best, key=best.get, reverse=True)[:2]
    assert [float(line[2]) for line in lines] == pytest.approx(
        [best[name] for name in expected], abs=1e-4
    )
    # What is added later gets windows of the same lengths, and they go and come with it.
    asked = ['search.py', tmp_path, 'g', '--moments', '--k', 9]
    tool(*asked, '--add', folder / 'k.mp4')
    with open_store(tmp_path / 'moments') as windows:
        new = windows.table(['start', 'end', 'bias'], filter=dict(of_item='k'))[1]
        assert windows.count() == 15 and sorted(zip(new['start'], new['end'])) == spans
    found = encode_videos(model, cfg, ['k.mp4'] * 3, ids=[*'abc'], spans=spans).levels
    biases = debiaser.biases_of(model.similarity.flat(found)).tolist()
    assert sorted(new['bias']) == pytest.approx(sorted(biases), abs=1e-5)
    assert '  k  ' not in tool(*asked, '--delete', 'k')
    assert '  k  ' in tool(*asked, '--undo')
    tool(*export, '--replace')  # the windows were of the gallery before
    assert not (tmp_path / 'moments').exists()


def test_moments_in_the_videos_that_a_gallery_finds_first(folder, tool, error, tmp_path):
    pytest.importorskip('faiss')
    options = ['--out', tmp_path]
    tool('export_index.py', 'config.py', 'bare.pth', *options)
    frames = ['--cfg-options', 'model.similarity.type=BestFrameSimilarity']
    arguments = ['find_moments.py', 'config.py', 'bare.pth', 'g', 'j', '--k', 2, *frames]
    everywhere = moments_of(tool(*arguments, '--store', tmp_path))
    assert everywhere == moments_of(tool(*arguments))
    first = hits_of(tool('search.py', tmp_path, 'g', 'j', '--k', 2))
    few = moments_of(tool(*arguments, '--store', tmp_path, '--shortlist', 2))
    for text in 'gj':
        assert {hit[0] for hit in few[text]} == {hit[0] for hit in first[text]}
    with open_store(tmp_path, write=True) as store:
        store.add(['lost'], store.get(['g'])[0].vector[None])
        store.persist()
    assert "item 'lost' is not a whole file with a known path" in error(
        *arguments, '--store', tmp_path
    )


def moments_of(printed):
    """{text: [(id, score)]} from what find_moments.py prints."""
    found = {}
    for line in printed.splitlines():
        if line in ('g', 'j'):
            text = found[line] = []
        elif re.match(r' +\d+  \w+  -?\d', line):
            text.append(tuple(line.split()[1:3]))
    return found


def test_index_of_another_split_and_a_moved_checkpoint(folder, tool, error, tmp_path):
    pytest.importorskip('faiss')
    (tmp_path / 'old.pth').write_bytes((folder / 'bare.pth').read_bytes())
    options = ['--out', tmp_path / 'index', '--split', 'train']
    printed = tool('export_index.py', 'config.py', tmp_path / 'old.pth', *options)
    assert '6 videos of the train set' in printed
    (tmp_path / 'old.pth').rename(tmp_path / 'new.pth')
    assert 'old.pth does not exist' in error('search.py', tmp_path / 'index', 'a')
    printed = tool('search.py', tmp_path / 'index', 'a', '--checkpoint', tmp_path / 'new.pth')
    assert {hit[0] for hit in hits_of(printed)['a']} == set(TRAIN)
    weights = torch.load(tmp_path / 'new.pth')['state_dict']
    torch.save({name: value + 1 for name, value in weights.items()}, tmp_path / 'new.pth')
    message = error('search.py', tmp_path / 'index', 'a', '--checkpoint', tmp_path / 'new.pth')
    assert 'new.pth has other weights than those that' in message


# -- bad input ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    'checkpoint, options, message',
    [
        ('bare.pth', ['--transform', 'sinkhorn'], "bare.pth holds no 'query_queue' of texts"),
        ('gone.pth', [], 'gone.pth does not exist'),
        ('trained.pth', ['--queries', 'train_queue'], 'need a --transform'),
        ('trained.pth', ['--temperature', 1], '--temperature belongs to sinkhorn'),
        ('trained.pth', ['--transform', 'sinkhorn', '--queries', 'bank'], 'got --queries bank'),
        (
            'trained.pth',
            ['--transform', 'sinkhorn', '--queries', 'train_queue', '--bank', 'x'],
            '--bank FILE belongs to --queries bank',
        ),
        ('trained.pth', ['--transform', 'sinkhorn', '--bank', 'gone'], 'gone does not exist'),
        (
            'trained.pth',
            ['--transform', 'sinkhorn', '--bank', 'bare.pth'],
            'bare.pth is not a bank',
        ),
        (
            'trained.pth',
            ['--transform', 'inverted_softmax', '--iters', 2],
            '--iterations belongs to sinkhorn',
        ),
        (
            'trained.pth',
            ['--transform', 'sinkhorn', '--iters', -1],
            'iterations must be 0 to 100,000',
        ),
        (
            'trained.pth',
            ['--transform', 'sinkhorn', '--temperature', 0],
            'temperature must be positive',
        ),
        ('trained.pth', ['--split', 'val'], 'config.py has no val_dataloader'),
        (
            'trained.pth',
            ['--cfg-options', 'model.similarity.type=TokenSimilarity'],
            'TokenSimilarity are not inner products',
        ),
        (
            'trained.pth',
            ['--cfg-options', 'model.similarity.type=TokenSimilarity']
            + ['model.similarity.shortlist=2'],
            'TokenSimilarity are not inner products',
        ),
    ],
)
def test_what_export_index_refuses(folder, error, tmp_path, checkpoint, options, message):
    pytest.importorskip('faiss')
    out = tmp_path / 'index'
    arguments = 'config.py', checkpoint, '--out', out
    assert message in error('export_index.py', *arguments, *options)
    assert not out.exists()


def test_unknown_transform(folder, tool, tmp_path, capsys):
    with pytest.raises(SystemExit):
        tool('export_index.py', 'config.py', 'x.pth', '--out', tmp_path, '--transform', 'qb_norm')
    assert "--transform: invalid choice: 'qb_norm'" in capsys.readouterr().err


@pytest.mark.parametrize(
    'levels, message',
    [
        ({'global': Embedding(torch.ones(0, 2))}, 'the bank holds no text queries'),
        ({'global': Embedding(torch.ones(3, 5))}, 'have 5 dimensions, the gallery 2'),
        ({'aligned': Embedding(torch.ones(3, 2))}, "reads 'global': they are of another model"),
    ],
)
def test_banks_that_do_not_fit(folder, error, tmp_path, levels, message):
    pytest.importorskip('faiss')
    count = torch.arange(len(next(iter(levels.values())).mean))
    state = Queries(levels, count, count).state()
    torch.save(dict(text=state, video=state), tmp_path / 'bank.pth')
    options = ['--transform', 'sinkhorn', '--bank', tmp_path / 'bank.pth', '--out', tmp_path / 'i']
    assert message in error('export_index.py', 'config.py', 'trained.pth', *options)
    assert not (tmp_path / 'i').exists()


def test_further_columns_of_a_table_are_metadata(folder, tool, tmp_path):
    pytest.importorskip('faiss')
    rows = ['video,text,kind,year,no good', 'g,g,sea,1999,x', 'h,h,land,2001,x', 'i,i,sea,2003,x']
    (tmp_path / 'own.csv').write_text('\n'.join([*rows, '']))
    own = f"type='TableDataset', split='all', table='{tmp_path}/own.csv', videos='.'"
    own = f"test_dataloader['dataset'].update({own})\ndel test_dataloader['dataset']['names']\n"
    (tmp_path / 'own.py').write_text(CONFIG + own)
    place = tmp_path / 'gallery'
    printed = tool('export_index.py', tmp_path / 'own.py', 'bare.pth', '--out', place)
    assert 'columns that no filter can name are left out: no good' in printed
    with open_store(place) as store:
        assert store.types == dict(kind='str', year='int')
        assert {x.id: x.metadata for x in store.get(['g', 'h'])} == {
            'g': dict(kind='sea', year=1999),
            'h': dict(kind='land', year=2001),
        }
    found = tool('search.py', place, 'g', '--filter', 'kind=sea')
    assert ' i  ' in found and ' h  ' not in found


def contents(folder):
    return {path.name: path.read_bytes() for path in folder.rglob('*') if path.is_file()}


def test_what_search_refuses(folder, tool, error, tmp_path, capsys):
    pytest.importorskip('faiss')
    assert 'holds no store: store.json is missing' in error('search.py', tmp_path, 'a')
    tool('export_index.py', 'config.py', 'bare.pth', '--out', tmp_path)
    files = contents(tmp_path)
    assert "the gallery has item 'g' already" in error('search.py', tmp_path, '--add', 'g.mp4')
    assert 'gone.mp4' in error('search.py', tmp_path, '--add', 'k.mp4', 'gone.mp4')
    (tmp_path / 'broken.mp4').write_text('no video')
    assert 'broken.mp4' in error('search.py', tmp_path, '--add', tmp_path / 'broken.mp4')
    (tmp_path / 'broken.mp4').unlink()
    assert 'k must be 1 or more, not 0' in error('search.py', tmp_path, 'a', '--k', 0)
    with pytest.raises(SystemExit):
        tool('search.py', tmp_path)
    assert 'a TEXT to search for, or videos to --add' in capsys.readouterr().err
    assert contents(tmp_path) == files
    assert json.loads(files['store.json'])['about']['set']['split'] is None


def test_what_export_bank_refuses(folder, tool, error, tmp_path, capsys):
    arguments = ['export_bank.py', 'config.py', 'bare.pth', '--out', tmp_path / 'bank.pth']
    with pytest.raises(SystemExit):
        tool(*arguments, '--max', 0)
    assert "--max: an integer of 1 or more expected, got '0'" in capsys.readouterr().err
    options = ['--cfg-options', 'train_dataloader=None']
    assert 'config.py has no train_dataloader' in error(*arguments, *options)
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    'options, needs, extra',
    [([], 'faiss', 'index'), (['--to', 'http://host:1/x'], 'qdrant_client', 'qdrant')],
)
def test_without_an_engine_nothing_starts(options, needs, extra, tmp_path):
    (tmp_path / 'config.py').write_text('')
    arguments = ['export_index.py', 'config.py', 'x.pth', '--out', 'x', *options]
    code = (
        f'import os, runpy, sys; os.chdir({str(tmp_path)!r}); '
        "sys.modules['faiss'] = sys.modules['qdrant_client'] = None; "
        f'sys.argv = {arguments}; '
        f"runpy.run_path({str(tool_file('export_index.py'))!r}, run_name='__main__')"
    )
    log = tmp_path / 'printed.txt'
    assert in_child(log, exec, code, {}) == 1
    said = f"error: an index needs {needs}: pip install -e 'projects/gallery[{extra}]'"
    assert log.read_text().splitlines()[-1] == said


# -- teachers ----------------------------------------------------------------------------------


@pytest.mark.parametrize('logits', [False, True])
@pytest.mark.parametrize('kind', ['npy', 'hdf5', 'npz'])
def test_a_model_teaches_another_by_its_vectors(folder, tool, tmp_path, kind, logits):
    """From the tool to the target of a student: the scores of the model that was exported."""
    flags = ['--logits', '--half'] if logits else []
    printed = tool(
        'export_teacher.py', 'config.py', 'bare.pth', '--out', tmp_path, '--format', kind, *flags
    )
    assert '6 texts of the train set, 2 numbers of a whole item' in printed
    suffix = dict(npy='', hdf5='.h5', npz='.npz')[kind]
    assert sorted(path.name for path in tmp_path.iterdir()) == [f'text{suffix}', f'video{suffix}']
    model, cfg = load_retriever('config.py', 'bare.pth', device='cpu')
    dataset = cfg.train_dataloader.dataset
    for side in ('text', 'video') if kind != 'npz' else ():
        load = dict(type='LoadVectors', side=side, stores=dict(me=f'{tmp_path}/{side}{suffix}'))
        dataset[f'{side}_pipeline'].append(load)
    dataset = DATASETS.build(dataset)
    batch = collate_retrieval([dataset[i] for i in (4, 1, 2)])
    supervision = StoredTeachers(teachers={'me': tmp_path} if kind == 'npz' else ['me'])
    levels = supervision.own_levels({}, batch['data_samples'], torch.device('cpu'))
    target, _ = supervision(*levels, Target(torch.eye(3, dtype=torch.bool)))
    train = encode_set(model, dict(as_tested(cfg, 'train')))
    texts, videos = (take(train[side].levels, torch.tensor([4, 1, 2])) for side in train)
    expected = model.similarity(texts, videos)['scores']
    if logits:  # by the temperature .2
        expected = 5 * expected
    within = 1e-2 if logits else 1e-6
    torch.testing.assert_close(target.extras['teacher'], expected, atol=within, rtol=0)
    assert expected.std() > 1e-3


def test_experts_are_stored_each_and_weighted():
    """Texts with their weights; what a video lacks is zero."""
    export_teacher = runpy.run_path(str(ROOT / 'tools' / 'export_teacher.py'))
    encoder = torch.nn.Module()
    encoder.similarity = ExpertSimilarity()
    generator = torch.Generator().manual_seed(0)
    weights = torch.tensor([[0.2, 0.3, 0.5], [0.6, 0.3, 0.1]])
    units = torch.nn.functional.normalize(torch.randn(2, 3, 4, generator=generator), dim=-1)
    tokens = torch.randn(2, 3, 4, generator=generator)
    there = torch.tensor([[True, True, True], [True, False, True]])
    levels = [
        {
            'global': Embedding(
                torch.zeros(2, 4), tokens=weights[..., None] * units, mask=there | True
            )
        },
        {'global': Embedding(torch.zeros(2, 4), tokens=tokens, mask=there)},
    ]
    texts, videos = (export_teacher['rows_of_items'](encoder, side) for side in levels)
    assert texts.shape == videos.shape == (2, 3, 4) and not videos[1, 1].any()
    products = torch.einsum('ted,ved->tv', texts, videos)
    scores = encoder.similarity(*levels)['scores']
    torch.testing.assert_close(products[:, 0], scores[:, 0])
    torch.testing.assert_close(products[:, 1], scores[:, 1] * weights[:, [0, 2]].sum(1))


def test_what_export_teacher_refuses(folder, error, tmp_path):
    options = ['--cfg-options', 'model.similarity.type=TokenSimilarity']
    said = error('export_teacher.py', 'config.py', 'bare.pth', '--out', tmp_path, *options)
    assert 'the scores of TokenSimilarity are not inner products' in said
    assert not [*tmp_path.iterdir()]
    said = error('export_teacher.py', 'config.py', 'nowhere.pth', '--out', tmp_path)
    assert 'nowhere.pth' in said
