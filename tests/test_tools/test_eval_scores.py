"""tools/analysis_tools/eval_scores.py: numbers against numpy in float64, and each bad input."""

import json
import runpy
import sys

import numpy as np
import pytest
import scipy.special
import scipy.stats

from children import ROOT, run_tool

TRANSFORMS = (
    'sinkhorn',
    'unbalanced_sinkhorn',
    'inverted_softmax',
    'dual_softmax',
    'qb_norm',
    'csls',
)
TEMPERATURE, ITERATIONS, K = 0.05, 3, 10
TEXTS, VIDEOS = 30, 12
TOOL = 'analysis_tools/eval_scores.py'
BANK = ('--query-source', 'bank', '--bank-t2v', 'bank_t2v.npy', '--bank-v2t', 'bank_v2t.npy')


def unit(x):
    return x / np.linalg.norm(x, axis=1, keepdims=True)


@pytest.fixture
def folder(tmp_path):
    """Scores of 30 texts and 12 videos (two or three texts a video), pairs, and banks."""
    draw = np.random.default_rng(0).normal
    owner = np.arange(TEXTS) % VIDEOS
    videos = draw(size=(VIDEOS, 8)) + 1
    texts = unit(videos[owner] + draw(size=(TEXTS, 8)) - 1)
    videos = unit(videos)
    files = dict(
        scores=texts @ videos.T,
        square=(texts @ videos.T)[:VIDEOS],
        owner=owner,
        positives=owner[:, None] == np.arange(VIDEOS),
        bank_t2v=unit(draw(size=(50, 8)) - 1) @ videos.T,
        bank_v2t=texts @ unit(draw(size=(40, 8)) + 1).T,
        bank_gallery=draw(size=(50, 40)) / 3,
        item_bank_t2v=draw(size=(40, VIDEOS)) / 3,
        item_bank_v2t=draw(size=(50, TEXTS)) / 3,
        other=texts[:, :5],
    )
    for name, array in files.items():
        np.save(tmp_path / f'{name}.npy', array)
    return tmp_path


def evaluate(folder, *arguments):
    """The JSON, and what was printed."""
    code, printed = run_tool(folder, TOOL, *arguments, '--out', 'out.json')
    assert code == 0, printed
    return json.loads((folder / 'out.json').read_text()), printed


@pytest.fixture(scope='module')
def main():
    return runpy.run_path(str(ROOT / 'tools' / TOOL))['main']


@pytest.fixture
def refuse(folder, main, monkeypatch):
    """The one line that the tool ends with, for these arguments."""

    def run(*arguments):
        monkeypatch.chdir(folder)
        monkeypatch.setattr(sys, 'argv', [TOOL, *arguments])
        with pytest.raises(SystemExit) as exit_info:
            main()
        message = exit_info.value.code
        assert message.startswith('error: ') and len(message.splitlines()) == 1
        return message

    return run


def test_an_error_is_one_line_and_an_exit_code(folder):
    code, printed = run_tool(folder, TOOL, 'none.npy')
    place, line = printed.splitlines()
    assert code == 1 and place.startswith('FileNotFoundError at ')
    assert line == 'error: none.npy does not exist'


def read(folder, *names):
    return [np.load(folder / f'{name}.npy') for name in names]


def transform(name, scores, bank):
    """One direction, as the papers write it: [queries, gallery] in float64."""
    weights, own = np.exp(bank / TEMPERATURE), np.exp(scores / TEMPERATURE)
    if name == 'sinkhorn':
        beta = 1 / weights.sum(0)
        for _ in range(ITERATIONS):
            alpha = 1 / (weights @ beta)
            beta = 1 / (alpha @ weights)
        return scores + TEMPERATURE * np.log(beta)
    if name == 'unbalanced_sinkhorn':
        beta = weights.sum(0) ** -0.8
        for _ in range(ITERATIONS):
            alpha = 1 / (weights @ beta)
            beta = (alpha @ weights) ** -0.8
        return scores + TEMPERATURE * np.log(beta)
    inverted = TEMPERATURE * np.log(own / weights.sum(0))
    if name == 'inverted_softmax':
        return inverted
    if name == 'dual_softmax':  # up to a factor for each query
        share = own / weights.sum(0)
        return scores * share / np.maximum(share.max(1, keepdims=True), 1)
    if name == 'qb_norm':
        active = np.isin(scores.argmax(1), bank.argmax(1))
        return np.where(active[:, None], inverted, scores)
    return scores - -np.sort(-bank, axis=0)[:K].mean(0) / 2  # the query's own term ranks nothing


def summary(prefix, ranks):
    recalls = {f'{prefix}_R{k}': 100 * np.mean(ranks <= k) for k in (1, 5, 10)}
    return {**recalls, f'{prefix}_MdR': np.median(ranks), f'{prefix}_MnR': ranks.mean()}


def unevenness(prefix, queries):
    mass = scipy.special.softmax(queries / TEMPERATURE, axis=1).sum(0)
    best = np.argsort(-queries, axis=1)[:, : min(K, queries.shape[1])]
    occurrence = np.bincount(best.flatten(), minlength=queries.shape[1])
    return {
        f'{prefix}_norm_error': np.abs(1 - mass / mass.mean()).mean(),
        f'{prefix}_hubness': scipy.stats.skew(occurrence),
    }


def measure(t2v, v2t, owner):
    """All numbers of matrices [texts, videos]; videos are asked for by their best caption."""
    own = t2v[np.arange(len(t2v)), owner]
    captions = np.array([v2t[owner == v].max(0) for v in range(v2t.shape[1])])
    numbers = {
        **summary('t2v', 1 + (t2v > own[:, None]).sum(1)),
        **summary('v2t', 1 + (captions > np.diag(captions)).sum(0)),
        **unevenness('t2v', t2v),
        **unevenness('v2t', v2t.T),
    }
    numbers['rsum'] = sum(v for key, v in numbers.items() if key[3:] in ('_R1', '_R5', '_R10'))
    return numbers


def assert_numbers(found, expected):
    assert {key: found[key] for key in expected} == pytest.approx(expected, rel=1e-4, abs=1e-6)


@pytest.mark.parametrize('source', ['test', 'bank'])
def test_all_transforms_are_those_of_numpy(folder, source):
    scores, owner = read(folder, 'scores', 'owner')
    banks = [scores, scores] if source == 'test' else read(folder, 'bank_t2v', 'bank_v2t')
    options = ['--temperature', TEMPERATURE, '--iters', ITERATIONS, '--transform', *TRANSFORMS]
    options += BANK if source == 'bank' else ['--query-source', 'test']
    results, printed = evaluate(folder, 'scores.npy', '--positives', 'owner.npy', *options)
    assert list(results) == ['raw', *TRANSFORMS]
    assert_numbers(results['raw'], measure(scores, scores, owner))
    for name in TRANSFORMS:
        t2v = transform(name, scores, banks[0])
        v2t = transform(name, scores.T, banks[1].T).T
        assert_numbers(results[name], measure(t2v, v2t, owner))
        assert results[name]['query_source'] == source
        assert results[name]['transductive'] is (source == 'test')
    assert 'query_source' not in results['raw']
    assert ('transductive' in printed) == (source == 'test')
    for name in ('raw', 'sinkhorn', 'inverted', 'dual', 'qb_norm', 'csls', 'chance', 'R@1'):
        assert name in printed
    assert 'texts a video 2 to 3' in printed and 'iterations 3' in printed
    assert max(map(len, printed.splitlines())) <= 100


def test_transforms_of_two_banks_are_those_of_numpy(folder):
    scores, owner, bank, back = read(folder, 'scores', 'owner', 'bank_t2v', 'bank_v2t')
    pairs, videos, texts = read(folder, 'bank_gallery', 'item_bank_t2v', 'item_bank_v2t')
    options = ['--temperature', TEMPERATURE, '--transform', 'nnn', 'dbsn', 'db_norm', *BANK]
    options += ['--bank-gallery', 'bank_gallery.npy', '--item-banks']
    options += ['item_bank_t2v.npy', 'item_bank_v2t.npy']
    results, printed = evaluate(folder, 'scores.npy', '--positives', 'owner.npy', *options)

    def nearest(own, given):
        return own - 0.75 * np.sort(given, axis=0)[-16:].mean(0)

    def of_both(own, given, pairs):
        weights = np.exp(np.hstack([given, pairs]) / TEMPERATURE)
        beta = np.ones(weights.shape[1])
        for _ in range(10):
            beta = 1 / ((1 / (weights @ beta)) @ weights)
        return own + TEMPERATURE * np.log(beta[: own.shape[1]])

    def product(own, given, items):
        reach = [(x.max(1) - x.mean(1)).mean() for x in (given, items)]
        t, u = TEMPERATURE, 16 * TEMPERATURE * reach[1] / reach[0]
        sums = [np.log(np.exp(x / d).sum(0)) for x, d in ((given, t), (items, u))]
        return own - t * u / (t + u) * (sums[0] + sums[1])

    expected = dict(
        nnn=(nearest(scores, bank), nearest(scores.T, back.T).T),
        dbsn=(of_both(scores, bank, pairs), of_both(scores.T, back.T, pairs.T).T),
        db_norm=(product(scores, bank, videos), product(scores.T, back.T, texts).T),
    )
    for name, (t2v, v2t) in expected.items():
        assert_numbers(results[name], measure(t2v, v2t, owner))
        assert results[name]['t2v_norm_error'] != results['raw']['t2v_norm_error']
        assert name in printed


def test_two_forms_of_positives(folder):
    results = [
        evaluate(folder, 'scores.npy', '--positives', f'{name}.npy')[0]
        for name in ('owner', 'positives')
    ]
    assert results[0] == results[1]
    np.save(folder / 'numbers.npy', np.load(folder / 'positives.npy').astype(np.float32))
    assert evaluate(folder, 'scores.npy', '--positives', 'numbers.npy')[0] == results[0]
    assert list(results[0]) == ['raw'] and 'v2t_caption_R1' in results[0]['raw']


def test_a_square_matrix_is_of_pairs(folder):
    (square,) = read(folder, 'square')
    results, printed = evaluate(folder, 'square.npy', '--temperature', TEMPERATURE)
    assert_numbers(results['raw'], measure(square, square, np.arange(VIDEOS)))
    assert 'texts a video 1 ' in printed and 'video to caption' not in printed
    assert not any('caption' in key for key in results['raw'])


def test_default_temperature_fits_the_scale(folder):
    (square,) = read(folder, 'square')
    cosines, printed = evaluate(folder, 'square.npy')
    assert 'temperature of the error 0.01 (default for cosines)' in ' '.join(printed.split())
    np.save(folder / 'logits.npy', 100 * square)
    logits, printed = evaluate(folder, 'logits.npy')
    reach = f'{100 * np.abs(square).max():.3g}'
    assert f'temperature of the error 1 (default for logits: scores reach {reach})' in ' '.join(
        printed.split()
    )
    assert (cosines['raw'].pop('temperature'), logits['raw'].pop('temperature')) == (0.01, 1)
    assert logits['raw'] == pytest.approx(cosines['raw'], rel=1e-6)


@pytest.mark.parametrize('dtype', ['float16', 'float32', '>f4', '>f8', 'int16'])
def test_any_type_of_number(folder, dtype):
    (square,) = read(folder, 'square')
    typed = (100 * square).astype(dtype)
    np.save(folder / 'typed.npy', np.asfortranarray(typed))
    results, _ = evaluate(folder, 'typed.npy', '--temperature', 5)
    np.save(folder / 'plain.npy', typed.astype(np.float64))
    expected, _ = evaluate(folder, 'plain.npy', '--temperature', 5)
    assert results['raw'] == pytest.approx(expected['raw'], rel=1e-5)


def test_fewer_than_ten_queries_or_items(folder):
    np.save(folder / 'tiny.npy', np.array([[0.9, 0.5, 0.1], [0.8, 0.7, 0.1], [0.7, 0.1, 0.3]]))
    options = ['--query-source', 'test', '--transform', *TRANSFORMS]
    results, _ = evaluate(folder, 'tiny.npy', *options)
    assert results['raw']['t2v_R1'] == pytest.approx(100 / 3)
    assert results['sinkhorn']['t2v_R1'] == pytest.approx(100)


def test_second_banks_that_do_not_fit(folder, refuse):
    options = ['scores.npy', '--positives', 'owner.npy', *BANK, '--transform']
    message = refuse(*options, 'dbsn', '--bank-gallery', 'other.npy')
    assert 'other.npy [30, 5] must be [50, 40]: the bank with itself' in message
    names = ['item_bank_t2v.npy', 'other.npy']
    message = refuse(*options, 'db_norm', '--item-banks', *names)
    assert 'other.npy [30, 5] must be [items seen before, 30 test items]' in message


def test_a_small_bank_is_pointed_out(folder):
    np.save(folder / 'bank_t2v.npy', np.load(folder / 'bank_t2v.npy')[:5])
    options = ['--positives', 'owner.npy', '--transform', 'csls', *BANK]
    _, printed = evaluate(folder, 'scores.npy', *options)
    assert 'note: a bank of 5 texts for 12 videos is small' in printed
    assert 'bank of 40 videos' not in printed and 'sinkhorn iterations' not in printed


def test_the_picture(folder):
    options = ['--transform', 'sinkhorn', '--query-source', 'test', '--plot', 'figure.png']
    evaluate(folder, 'square.npy', *options)
    picture = (folder / 'figure.png').read_bytes()
    assert picture.startswith(b'\x89PNG') and len(picture) > 20_000
    code, printed = run_tool(folder, TOOL, 'square.npy', '--plot', 'figure.xyz')
    assert code == 1 and "error: figure.xyz: Format 'xyz' is not supported" in printed


@pytest.mark.parametrize(
    'options, message',
    [
        (['--transform', 'csls'], '--transform needs queries: say --query-source bank'),
        (['--transform', 'csls', *BANK[2:]], '--transform needs queries: say --query-source bank'),
        (['--transform', 'csls', *BANK[:2]], 'needs --bank-t2v, --bank-v2t, or both'),
        (['--transform', 'csls', '--query-source', 'test', *BANK[2:]], 'test reads no bank'),
        (['--query-source', 'test'], 'say which with --transform'),
        (['--transform', 'dbsn', *BANK], 'dbsn and --bank-gallery together'),
        (['--transform', 'db_norm', *BANK], 'db_norm and --item-banks together'),
        (
            ['--transform', 'dbsn', '--query-source', 'test', '--bank-gallery', 'other.npy'],
            'dbsn reads the items of a bank',
        ),
        (['--temperature', '0'], '--temperature must be positive, not 0.0'),
        (['--temperature', '1e-35'], '--temperature 1e-35 is too small for scores that reach'),
        (['--iters', '2'], '--iterations belongs to sinkhorn, unbalanced_sinkhorn, dbsn; got no'),
        (
            ['--transform', 'sinkhorn', '--query-source', 'test', '--iters', '-1'],
            'iterations must be 0 to 100,000, not -1',
        ),
        (['--out', 'square.npy/out.json'], 'square.npy is a file, not a folder to write to'),
        (['--plot', '.'], '. is a folder, not a file to write'),
    ],
)
def test_options_that_do_not_fit(refuse, options, message):
    assert message in refuse('square.npy', *options)


def spoiled(square, row, column, value):
    square = square.copy()
    square[row, column] = value
    return square


@pytest.mark.parametrize(
    'make, message',
    [
        (lambda s: spoiled(s, 3, 7, np.nan), 'bad.npy[3, 7] is nan, expected finite scores'),
        (lambda s: spoiled(s, 1, 0, -np.inf), 'bad.npy[1, 0] is -inf'),
        (lambda s: s[0], 'bad.npy must be 2-d scores [texts, videos], not float64 [12]'),
        (lambda s: s.astype(complex), 'must be 2-d scores [texts, videos], not complex128'),
        (lambda s: s[:, :5], '12 texts and 5 videos are not pairs: give the matches, --positives'),
        (lambda s: np.full((4, 4), 0.3), 'bad.npy [4, 4] is all one value (0.3): nothing to rank'),
        (lambda s: s[:0], 'bad.npy [0, 12] is empty'),
        (lambda s: s.astype(object), 'bad.npy is not a .npy file of numbers'),
    ],
)
def test_bad_scores(folder, refuse, make, message):
    np.save(folder / 'bad.npy', make(np.load(folder / 'square.npy')), allow_pickle=True)
    assert message in refuse('bad.npy')


def test_files_that_cannot_be_read(folder, refuse):
    (folder / 'text.npy').write_text('no numbers')
    assert 'text.npy is not a .npy file of numbers' in refuse('text.npy')
    np.savez(folder / 'several.npz', a=np.eye(2))
    assert 'several.npz is an archive of several' in refuse('several.npz')


@pytest.mark.parametrize(
    'make, message',
    [
        (lambda p: p[1:], 'must be bool or 0-1 [30, 12], or int [30] (the video of each text)'),
        (lambda p: 2 * p, 'must be bool or 0-1 [30, 12], or int [30] (the video of each text)'),
        (lambda p: p.argmax(1) + 1.0, 'not float64 [30]'),
        (lambda p: p.argmax(1) + 1, 'p.npy[11] is 12, expected a video of 0 to 11'),
        (lambda p: p.argmax(1) - 1, 'p.npy[0] is -1, expected a video of 0 to 11'),
        (
            lambda p: spoiled(p, [4, 9], slice(None), 0),
            'text 4 has no video (2 of 30 texts have none)',
        ),
    ],
)
def test_bad_positives(folder, refuse, make, message):
    np.save(folder / 'p.npy', make(np.load(folder / 'positives.npy')))
    assert message in refuse('scores.npy', '--positives', 'p.npy')


@pytest.mark.parametrize(
    'name, make, message',
    [
        ('bank_t2v', lambda b: b[:, 1:], '[50, 11] must be [bank texts, 12 test videos]'),
        ('bank_v2t', lambda b: b[1:], '[29, 40] must be [30 test texts, bank videos]'),
        ('bank_v2t', lambda b: b.T, '[40, 30] must be [30 test texts, bank videos]'),
        ('bank_t2v', lambda b: b[:0], 'bank_t2v.npy [0, 12] is empty: no queries'),
        ('bank_v2t', lambda b: b[:, :0], 'bank_v2t.npy [30, 0] is empty: no queries'),
        ('bank_v2t', lambda b: spoiled(b, 2, 5, np.inf), 'bank_v2t.npy[2, 5] is inf'),
        ('bank_t2v', lambda b: 0 * b + 1, 'bank_t2v.npy [50, 12] is all one value (1)'),
    ],
)
def test_bad_banks(folder, refuse, name, make, message):
    np.save(folder / f'{name}.npy', make(np.load(folder / f'{name}.npy')))
    options = ['--positives', 'owner.npy', '--transform', 'sinkhorn', *BANK]
    assert message in refuse('scores.npy', *options)


@pytest.fixture
def trec(folder, main, monkeypatch, capsys):
    """Square scores as an .npz, a run and qrels; and the tool without a process of its own."""
    from mmvtr.datasets import PairValues, write_qrels

    scores = np.load(folder / 'square.npy')
    ids = [f't{i}' for i in range(VIDEOS)], [f'v{i}' for i in range(VIDEOS)]
    np.savez(folder / 'all.npz', scores=scores, text_ids=ids[0], video_ids=ids[1])
    grades = np.full_like(scores, np.nan)
    np.fill_diagonal(grades, 1)
    write_qrels(folder / 'pairs.qrels', PairValues.of_matrix(grades, *ids))
    grades[:6, :3] = np.random.default_rng(1).integers(0, 2, (6, 3))
    write_qrels(folder / 'judged.qrels', PairValues.of_matrix(grades, *ids))

    def run(*arguments):
        monkeypatch.chdir(folder)
        monkeypatch.setattr(sys, 'argv', [TOOL, *arguments, '--out', 'out.json'])
        main()
        return json.loads((folder / 'out.json').read_text()), capsys.readouterr().out

    return run


JUDGED = ('--positives', 'pairs.qrels', '--judgments', 'judged.qrels')


def test_an_archive_a_run_and_embeddings_say_the_same(folder, trec):
    numbers, printed = trec('all.npz', *JUDGED, '--save', 'all.run')
    assert 'mean rank (0 texts and 0 videos tie at the top)' in ' '.join(printed.split())
    assert numbers['raw']['judged_t2v_queries'] == VIDEOS and ' bpref ' in printed
    lines = (folder / 'all.run').read_text().splitlines()
    assert len(lines) == VIDEOS**2 and lines[0].startswith('t0 Q0 ')
    again, _ = trec('all.run', *JUDGED, '--save', 'again.npz')
    assert again['raw'] == pytest.approx(numbers['raw'], rel=1e-9)  # in another order
    with np.load(folder / 'again.npz') as archive:
        for name, ids in (('text_ids', 't'), ('video_ids', 'v')):
            assert sorted(archive[name]) == sorted(f'{ids}{i}' for i in range(VIDEOS))
    assert trec('again.npz', *JUDGED)[0] == again
    np.save(folder / 'one.npy', np.load(folder / 'square.npy'))
    np.save(folder / 'unit.npy', np.eye(VIDEOS))
    from_products, _ = trec('one.npy', '--gallery', 'unit.npy')
    plain, _ = trec('square.npy')
    assert from_products['raw']['t2v_R1'] == plain['raw']['t2v_R1'] == numbers['raw']['t2v_R1']


def test_ties_at_their_best_and_worst(folder, trec):
    rounded = np.load(folder / 'square.npy').round()
    np.save(folder / 'rounded.npy', rounded)
    numbers, printed = trec('rounded.npy', '--tie-range')
    low, mean, high = (numbers[x]['t2v_R1'] for x in ('pessimistic', 'raw', 'optimistic'))
    top = rounded == rounded.max(1, keepdims=True)
    own = np.diag(top)
    assert high == pytest.approx(100 * own.mean()) and high > low
    assert low == mean == pytest.approx(100 * (own & (top.sum(1) == 1)).mean())
    assert f'({(top.sum(1) > 1).sum()} texts and' in ' '.join(printed.split())


def test_a_run_that_was_cut(folder, trec, refuse):
    numbers, _ = trec('all.npz', *JUDGED, '--save', 'all.run')
    lines = [x for x in (folder / 'all.run').read_text().splitlines() if int(x.split()[3]) <= 5]
    (folder / 'cut.run').write_text('\n'.join(lines))
    cut, printed = trec('cut.run', *JUDGED)
    for name in ('t2v_R1', 't2v_R5'):
        assert cut['raw'][name] == pytest.approx(numbers['raw'][name])
    assert cut['raw']['t2v_P5'] == pytest.approx(numbers['raw']['judged_t2v_P5'])
    assert cut['raw']['t2v_share5'] == pytest.approx(numbers['raw']['judged_t2v_share5'])
    note = 'cut at 5 videos a text, which is too few for R10, P10, bpref'
    assert note in printed and 't2v_R10' not in cut['raw']
    (folder / 'short.run').write_text('\n'.join(x for x in lines if not x.startswith('t3 ')))
    short, printed = trec('short.run', *JUDGED)
    assert f'note: 1 of {VIDEOS} texts are not in the run and count as not found' in printed
    found = [x for x in lines if x.startswith('t3 Q0 v3 ')]
    lost = 100 / VIDEOS if found else 0
    assert short['raw']['t2v_R5'] == pytest.approx(cut['raw']['t2v_R5'] - lost)
    assert 'does not list all videos' in refuse('cut.run', *JUDGED, '--tie-range')


def test_bad_interchange(folder, trec, refuse):
    trec('all.npz', *JUDGED, '--save', 'all.run')
    assert 'all.run is a run: give the matches as qrels' in refuse('all.run')
    good = (folder / 'all.run').read_text()
    for text, message in (
        (good + good.splitlines()[0], 'a second line of text'),
        (good + 'x Q0 v1 1 0.5 m', "unknown text 'x'"),
        (good.replace(' ', ','), "expected 6 fields separated by spaces, 'query Q0 item"),
        (good + 't1 Q0 v99 1 nan m', 'expected score, a finite number'),
    ):
        (folder / 'bad.run').write_text(text)
        assert message in refuse('bad.run', *JUDGED)
    for text, message in (
        ('t0 0 v1 fine\n', "expected grade, a finite number, found 'fine'"),
        ('t0 0 v1 1\nt0 0 elsewhere 1\n', "unknown video 'elsewhere' (1 of 2 pairs are unknown)"),
        ('a 0 b 1\n', 'none of 1 pairs belongs to these texts'),
    ):
        (folder / 'bad.qrels').write_text(text)
        assert message in refuse('all.npz', *JUDGED[:2], '--judgments', 'bad.qrels')
    (folder / 'few.qrels').write_text('t0 0 v0 1\n')
    assert "text 't1' has no video (11 of 12" in refuse('all.npz', '--positives', 'few.qrels')
    assert 'few.qrels: unknown' not in refuse('all.npz', '--positives', 'none.qrels')
    np.savez(folder / 'bad.npz', scores=np.eye(2), text_ids=['a', 'a'], video_ids=['a', 'b'])
    assert 'text_ids must be 2 ids that differ' in refuse('bad.npz')
    assert '--gallery needs embeddings' in refuse('all.npz', '--gallery', 'square.npy')
    np.save(folder / 'thin.npy', np.ones((4, 3)))
    assert 'must be [Q, D] and [N, D]' in refuse('square.npy', '--gallery', 'thin.npy')
