"""The study of real features, on a tiny set: read, trained, tested, resumed and tabled."""

import importlib
import json
import re
import subprocess
import sys

import numpy as np
import pytest
import torch
from config_files import ROOT, config_file

import mmvtr
from mmvtr.datasets import ItemKey, collate_retrieval
from mmvtr.evaluation.seeds import of_seeds_and_queries


def run(real, monkeypatch, *argv):
    monkeypatch.setattr(sys, 'argv', ['run.py', *map(str, argv)])
    real['run'].main()


def test_a_set_of_ones_own_is_trained_tested_and_not_made_again(real, folder, monkeypatch):
    out = folder.parent / 'results'
    ask = [
        '--set',
        folder,
        '--only',
        'infonce',
        'guide',
        '--seeds',
        0,
        '--epochs',
        6,
        '--results',
        out,
    ]
    run(real, monkeypatch, *ask)
    lines = (out / 'own_minilm.jsonl').read_text().splitlines()
    rows = [json.loads(line) for line in lines]
    rates = importlib.import_module('results').RATES
    assert [(r['method'], r['rate']) for r in rows] == [
        (name, rate) for name in ('infonce', 'guide') for rate in rates
    ]
    base = rows[0]['best']
    assert 0 <= base['t2v_R1'] <= base['t2v_R5'] <= 100 and {*base['transforms']} >= {
        'csls',
        'auto',
    }
    run(real, monkeypatch, *ask)
    assert (out / 'own_minilm.jsonl').read_text().splitlines() == lines


def test_students_are_made_of_kept_members_and_compared(real, folder, monkeypatch, capsys):
    out = folder.parent / 'results'
    ask = ['--set', folder, '--only', 'infonce', 'student', 'wide', '--seeds', 0, 1, '--epochs', 2]
    run(real, monkeypatch, *ask, '--results', out, '--transforms')
    printed = capsys.readouterr().out
    assert 'own: texts are 12 stored numbers each (captions.npz)' in printed
    assert 'own student seed 9000: 2 epochs of 1 steps, 2 in all' in printed
    kept = {path.stem for path in (folder.parent / 'work_dirs/real/own').glob('member_*.pth')}
    seeds = {seed + 1000 * n for seed in (0, 1) for n in range(3)}
    assert len(kept) in (6, 7, 8) and {int(name.rpartition('_')[2]) for name in kept} == seeds
    rows = [json.loads(line) for line in (out / 'own_minilm.jsonl').read_text().splitlines()]
    base = [row for row in rows if row['method'] == 'infonce']
    rate = max((row for row in base if row['seed'] == 0), key=lambda row: row['val'])['rate']
    of = {
        name: {row['seed']: row['best']['rsum'] for row in rows if row['method'] == name}
        for name in ('student', 'wide')
    }
    of['infonce'] = {row['seed']: row['best']['rsum'] for row in base if row['rate'] == rate}
    for name in ('student', 'wide'):
        mean = sum(of[name][seed] - of['infonce'][seed] for seed in (0, 1)) / 2
        (line,) = re.findall(rf'\| own {name} over infonce \| rsum \| (.*)', printed)
        cells = line.strip(' |').split(' | ')
        assert cells[2] == f'{mean:+.2f}' and cells[4:6] == ['2', '27']
        assert cells[3] == interval(rows, rate, name)
    run(real, monkeypatch, *ask, '--results', out, '--transforms')
    assert len((out / 'own_minilm.jsonl').read_text().splitlines()) == len(rows)


def interval(rows, rate, name):
    """That of rsum over seeds and queries, from the results' bits: two texts of each of 9 items."""
    fields = []
    for side, count in (('t2v', 18), ('v2t', 9)):
        each = {
            (row['method'], row['seed']): sum(
                np.unpackbits(np.frombuffer(bytes.fromhex(bits), np.uint8), count=count) * 100.0
                for key, bits in row['best']['hits'].items()
                if key.startswith(side)
            )
            for row in rows
            if row['method'] == name or row['rate'] == rate
        }
        fields.append(np.stack([each[name, s] - each['infonce', s] for s in (0, 1)]))
    found = of_seeds_and_queries(fields, [np.repeat(np.arange(9), 2), np.arange(9)])
    return '{:+.2f} to {:+.2f}'.format(*found.interval)


@pytest.mark.parametrize(
    'place, unit',
    [('minilm', 'video'), ('words', 'video'), ('minilm', 'video_with_all_texts')],
    indirect=['place'],
)
def test_a_batch_read_at_once_is_that_of_its_items(real, place, unit):
    reads = ('classes', 'agreement', 'facts', 'by_length', 'guide')
    data = real['reading'].dataset(place.folder, 'train', place.text, reads, unit)
    keys = [ItemKey(3, epoch, index) for epoch, index in ((0, 5), (0, 2), (1, 5), (7, 0))]
    batch, items = data.__getitems__(keys), [data[key] for key in keys]
    expected = collate_retrieval(items)
    for part, own in expected.items():
        assert own.keys() == batch[part].keys()
        for name, values in own.items():
            assert_same(batch[part][name], values)
    chosen = {item['texts'][0]['text_id'] for item in (items[0], items[2])}
    assert (
        unit != 'video'
        or len({data[ItemKey(3, n, 5)]['texts'][0]['text_id'] for n in range(9)} | chosen) > 1
    )


def assert_same(found, expected):
    """Equal to the bit, rows of tensors and of lists alike."""
    if isinstance(expected, dict):
        assert found.keys() == expected.keys()
        for name in expected:
            assert_same(found[name], expected[name])
    elif len(expected) and isinstance(expected[0], torch.Tensor):
        assert len(found) == len(expected) and all(map(torch.equal, found, expected))
    else:
        assert found == expected


def test_vectors_of_teachers_are_read_with_their_items(real, place):
    data = real['reading'].dataset(place.folder, 'train', 'minilm')
    texts, videos = torch.randn(len(data.texts), 4), torch.randn(len(data.videos), 4)
    batch = data.with_vectors(one=(texts, videos)).__getitems__([ItemKey(0, 0, n) for n in (4, 1)])
    samples = batch['data_samples']
    assert torch.equal(samples['text_vectors']['one'][:, 0], texts[samples['text_idx']])
    assert torch.equal(samples['video_vectors']['one'][:, 0], videos[samples['video_idx']])
    assert 'text_vectors' not in data.__getitems__([ItemKey(0, 0, 1)])['data_samples']


@pytest.mark.nightly
def test_the_script_finds_its_modules_by_itself():
    script = ROOT / 'projects/lab/evidence/real/run.py'
    done = subprocess.run(
        [sys.executable, script, '--list'], capture_output=True, text=True, cwd=ROOT
    )
    assert done.returncode == 0 and ' hours of one core' in done.stdout, done.stderr


@pytest.fixture
def place(real, folder, request):
    """That set, prepared, with lengths and categories of its items."""
    raw = real['sets'].of_folder(folder)
    facts = {item: (10.0 + n, 15 + n % 2) for n, item in enumerate(raw.features)}
    made = real['sets'].prepare('own', raw._replace(extra=dict(facts=facts)), folder / 'made')
    return real['run'].Place('own', made, getattr(request, 'param', 'minilm'))


@pytest.mark.parametrize(
    'place, name',
    [
        *(('minilm', x) for x in ('length_split', 'sure_first', 'dsa', 'ranp', 'dvtr_crossed')),
        *(('words', x) for x in ('dvtr', 'guide', 'teachtext')),
    ],
    indirect=['place'],
)
def test_rows_of_every_kind_are_trained(real, place, name):
    place.schedule = real['training'].Schedule(2, batch=8, looks=1)
    row = real['run'].one(place, name, 0, 1e-3)
    assert row['best'] == row['last'] and 0 <= row['best']['rsum'] <= 600


@pytest.mark.parametrize(
    'name, kind, b2', [('arl', 'AdamW', 0.999), ('arl_own', 'BertAdam', 0.999)]
)
def test_the_optimizer_of_a_row(real, place, monkeypatch, name, kind, b2):
    """The common one, or that of the row's config; what the runner has built."""
    built = []

    class Seen(real['training'].Runner):
        def train(self):
            model = super().train()
            built.append(self.optim_wrapper.optimizer)
            return model

    monkeypatch.setattr(real['training'], 'Runner', Seen)
    place.schedule = real['training'].Schedule(2, batch=8, looks=1)
    real['run'].one(place, name, 0, 3e-4)
    (optimizer,) = built
    assert type(optimizer).__name__ == kind and optimizer.defaults['lr'] == 3e-4
    assert {group['betas'][1] for group in optimizer.param_groups} == {b2}


@pytest.mark.nightly
@pytest.mark.parametrize('place', ['minilm', 'words'], indirect=True)
def test_every_row_is_trained(real, place):
    place.schedule = real['training'].Schedule(4, batch=8, looks=2)
    for name, method in real['methods'].METHODS.items():
        if not {'truth', 'wrong_truth'} & {*method.reads}:  # of Flickr8k
            row = real['run'].one(place, name, 0, 1e-3)
            assert 0 <= row['last']['rsum'] <= 600, name


def test_members_of_a_split_see_their_lengths_alone(real, place):
    data = real['reading'].dataset(place.folder, 'train', 'minilm', ('facts', 'by_length'))
    lengths = {video['video_id']: video['duration'] for video in data.videos}
    mean = sum(lengths.values()) / len(lengths)
    found = {video['video_id']: video['environment'] for video in data.videos}
    assert found == {name: int(x >= mean) for name, x in lengths.items()}
    at_random = real['reading'].dataset(place.folder, 'train', 'minilm', ('facts', 'at_random'))
    drawn = [video['environment'] for video in at_random.videos]
    assert sorted(drawn) == sorted(found.values()) and drawn != [*found.values()]


def test_words_from_scratch_are_read_in_order_and_without_padding(real):
    tower = real['towers'].WordGRU(9, 4).eval()
    ids = torch.tensor([[1, 2, 3, 8], [3, 2, 1, 8], [1, 2, 3, 5]])
    mask = torch.tensor([[True, True, True, False]] * 3)
    _, texts = tower(ids, mask)
    assert torch.equal(texts[0], texts[2]) and not torch.allclose(texts[0], texts[1])


def test_sure_texts_come_first_of_a_clip_alone(real):
    scores = torch.tensor([[0.51, 0.59], [0.5, 0.6], [0.1, 0.2]])  # three texts, two clips
    implied = torch.tensor([[1.0, 0.0, 1.0], [0.0, 1.0, 1.0], [0.0, 0.0, 1.0]])
    both = real['measure'].sure_first(scores, implied, 0.99)
    assert torch.equal(both.t2v, scores)
    assert both.v2t.argmax(0).tolist() == [2, 2]  # all imply the third
    order = both.v2t.argsort(0, descending=True)
    assert order[1:].t().tolist() == [[0, 1], [1, 0]]


def test_training_learns_and_takes_another_caption_in_another_epoch(real, place):
    data = real['reading'].dataset(place.folder, 'train', 'minilm')
    key = importlib.import_module('mmvtr.datasets.sampling.samplers').ItemKey
    drawn = {data[key(0, epoch, 0)]['texts'][0]['text_id'] for epoch in range(8)}
    assert drawn == {'item0#0', 'item0#1'}
    place.schedule = real['training'].Schedule(30)
    row = real['run'].one(place, 'infonce', 0, 2e-3)
    assert row['last']['t2v_R5'] > 100 * 5 / 9 + 20  # chance: 5 of 9 items


def a_line_more(folder, line):
    path = folder / 'captions.csv'
    path.write_text(path.read_text() + line + '\n')


FAULTS = {
    r"captions.csv, line 74: split 'dev'": lambda x: a_line_more(x, 'item0,a cat,new,dev'),
    r"line 74: features.npz has no item 'item99'": lambda x: a_line_more(x, 'item99,a,new,val'),
    r"line 74: text_id 'item0#0' is there already": lambda x: a_line_more(x, 'item0,a,item0#0,val'),
    r"captions.npz: no vector of text_id 'new'": lambda x: a_line_more(x, 'item0,a cat,new,val'),
    r"no column 'split'": lambda x: (x / 'captions.csv').write_text('video,text,text_id\n'),
    r"no text of split 'train'": lambda x: (x / 'captions.csv').write_text(
        'video,text,text_id,split\nitem0,a,item0#0,test\n'
    ),
    r"features.npz: no array 'item', it has \['feat'\]": lambda x: np.savez(
        x / 'features.npz', feat=np.ones((3, 2))
    ),
    r'item \(2,\), feat \(3, 2\), expected \[n\] and \[n, D\]': lambda x: np.savez(
        x / 'features.npz', feat=np.ones((3, 2)), item=['item0', 'item1']
    ),
    r'no .*features.npz, with feat': lambda x: (x / 'features.npz').unlink(),
}


@pytest.mark.parametrize('said', FAULTS)
def test_a_fault_of_a_folder_ends_with_one_sentence(real, folder, monkeypatch, said):
    FAULTS[said](folder)
    with pytest.raises(SystemExit, match=f'^error: .*{said}'):
        run(real, monkeypatch, '--set', folder)


def test_what_a_set_has_not_is_left_out_and_said(real, folder, monkeypatch, capsys):
    (folder / 'words.npz').unlink()
    out = folder.parent / 'results'
    ask = ['--set', folder, '--only', 'ti', 'oracle', 'rmv_all', '--seeds', 0, '--results', out]
    with pytest.raises(SystemExit, match='^error: no row is left'):
        run(real, monkeypatch, *ask)
    said = capsys.readouterr().out
    for name, lacks in (('ti', 'words.npz'), ('oracle', 'what people say'), ('rmv_all', 'lengths')):
        assert f'own: {name} is left out, for it reads {lacks}' in said
    assert not out.exists()


def test_one_caption_a_video_and_words_without_spaces_are_said(real, folder, monkeypatch, capsys):
    lines = (folder / 'captions.csv').read_text().splitlines()
    lines = [line.replace(' ', '') for line in lines[:1] + lines[1::2]]
    (folder / 'captions.csv').write_text('\n'.join(lines) + '\n')
    ask = ['--set', folder, '--only', 'gist', 'implied', 'sure_first', 'infonce', '--text', 'words']
    with pytest.raises(SystemExit, match='no row is left'):
        run(real, monkeypatch, *ask)
    said = capsys.readouterr().out
    assert 'infonce is left out, for it reads words with spaces' in said
    with pytest.raises(SystemExit, match='no row is left'):
        run(real, monkeypatch, *ask[:-3])
    said = capsys.readouterr().out
    for name in ('gist', 'implied', 'sure_first'):
        assert f'own: {name} is left out, for it reads two captions of a video' in said


def test_seed_0_chooses_the_rate_where_another_is_asked_for(real, folder, monkeypatch, capsys):
    out = folder.parent / 'results'
    ask = ['--set', folder, '--only', 'hardness', '--seeds', 7, '--epochs', 2, '--results', out]
    run(real, monkeypatch, *ask)
    rows = [json.loads(line) for line in (out / 'own_minilm.jsonl').read_text().splitlines()]
    assert [row['seed'] for row in rows] == [0, 0, 7]
    run(real, monkeypatch, '--list', '--results', out)
    assert '\n3 results, 0.' in capsys.readouterr().out
    assert rows[2]['rate'] == max(rows[:2], key=lambda row: row['val'])['rate']


def test_a_folder_that_has_changed_is_not_taken_for_the_one_of_before(real, folder, tmp_path):
    sets, made = real['sets'], tmp_path / 'made'
    assert sets.prepare('own', sets.of_folder(folder), made) == made
    assert sets.prepare('own', sets.of_folder(folder), made) == made
    a_line_more(folder, 'item0,a red dog,item0#9,train')
    (folder / 'captions.npz').unlink()
    (folder / 'words.npz').unlink()
    with pytest.raises(ValueError, match='own has changed since .* remove that folder'):
        sets.prepare('own', sets.of_folder(folder), made)


def test_each_half_is_trained_alone_and_both_judge_the_whole(real, place, monkeypatch):
    crossed, run = (importlib.import_module(name) for name in ('cross_fitted', 'run'))
    data = real['reading'].dataset(place.folder, 'train', 'minilm', ('halves_3',))
    seen = []

    def fit(place, method, config, some, *args):
        seen.append({data.videos[v]['video_id'] for v in some.videos_with_text})
        model = importlib.import_module('mmvtr.registry').MODELS.build(config)
        return real['training'].Trained(model, model.state_dict(), [], 0.0)

    monkeypatch.setattr(run, 'fit', fit)
    paths = crossed.halves(place, data, 1e-3, 3)
    assert not seen[0] & seen[1] and len(seen[0] | seen[1]) == 18
    config = real['methods'].model_of(
        real['methods'].METHODS['dvtr_crossed'], place.about, 'minilm'
    )
    config['teacher']['halves'] = paths
    importlib.import_module('mmvtr.registry').MODELS.build(config).init_weights()


def test_an_ensemble_scores_by_the_mean_of_its_members(real, place):
    registry, ensemble = (importlib.import_module(x) for x in ('mmvtr.registry', 'ensemble'))
    config = real['methods'].model_of(real['methods'].METHODS['ensemble'], place.about, 'minilm')
    members = [registry.MODELS.build(config) for _ in range(3)]
    inputs = real['reading'].evaluated(place.folder, 'test', 'minilm').inputs
    encode, score = real['training'].encode, real['run'].score
    each = [score(model, *encode(model, inputs)) for model in members]
    whole = ensemble.Ensemble.of(members)
    assert torch.allclose(score(whole, *encode(whole, inputs)), sum(each) / 3, atol=1e-6)
    assert ensemble.Ensemble.of(members[:1]) is members[0]


def test_trainings_side_by_side_are_those_one_after_the_other(real, folder, monkeypatch, capsys):
    out = folder.parent / 'results'
    ask = ['--set', folder, '--seeds', 0, 1, '--epochs', 2, '--only', 'gist', 'ran']
    rows = []
    for jobs in (1, 2):
        run(real, monkeypatch, *ask, '--results', out / str(jobs), '--jobs', jobs)
        lines = (out / str(jobs) / 'own_minilm.jsonl').read_text().splitlines()
        kept = {(r['method'], r['seed']): r for r in map(json.loads, lines)}
        rows.append({k: (r['val'], r['best'], r['last']) for k, r in kept.items()})
    assert rows[0] == rows[1] and len(rows[0]) == 4


def test_a_row_that_fails_stops_no_other(real, folder, monkeypatch, capsys):
    one = real['run'].one

    def fails(place, name, *args):
        if name == 'guide':
            raise ValueError('no such thing')
        return one(place, name, *args)

    monkeypatch.setattr(real['run'], 'one', fails)
    out = folder.parent / 'results'
    ask = ['--set', folder, '--seeds', 0, '--epochs', 2, '--only', 'guide', 'gist']
    with pytest.raises(SystemExit, match='2 trainings failed, see above: own guide seed 0'):
        run(real, monkeypatch, *ask, '--results', out)
    assert 'ValueError: no such thing' in capsys.readouterr().out
    assert json.loads((out / 'own_minilm.jsonl').read_text())['method'] == 'gist'


def test_every_method_has_a_config_and_a_control_on_its_sets(real):
    methods = real['methods'].METHODS
    for name, method in methods.items():
        assert (ROOT / config_file(method.config)).is_file(), name
        if method.control:
            assert {*method.sets} <= {*methods[method.control].sets}, name


def test_permuted_weights_are_the_same_ones_elsewhere(real):
    weights, positives = torch.rand(6, 6), torch.eye(6, dtype=torch.bool)
    found = real['towers'].permuted(weights, positives)
    assert torch.equal(found[positives], weights[positives])
    assert torch.equal(found[~positives].sort()[0], weights[~positives].sort()[0])
    assert not torch.equal(found, weights)


def test_agreement_with_people_by_hand(real):
    judged = real['judged']
    crowd = judged.Judged(
        torch.tensor([0, 0, 1]), torch.tensor([1, 2, 0]), torch.tensor([1.0, 0, 0])
    )
    scores = torch.tensor([[0.9, 0.3, 0.5], [0.1, 0.8, 0.2]])
    found = judged.agreement(scores, torch.tensor([0, 1]), crowd, crowd)
    assert found['auc'] == pytest.approx(50)  # .3 above .1, below .5
    assert found['extra_ap'] == pytest.approx(50)  # second of two
    assert found['map'] == pytest.approx(100 * (1 + 2 / 3) / 2)  # own first, the other third
    assert found['judged_p1'] == pytest.approx(100)


def test_shares_of_images_are_what_each_of_them_changes(real):
    """Leaving an image out changes a figure by its share, but for terms of second order."""
    judged, draw = real['judged'], torch.Generator().manual_seed(0)
    images, captions = 60, 2
    own = torch.arange(images).repeat_interleave(captions)
    scores = torch.rand(len(own), images, generator=draw)
    pairs = [(t, v) for t in range(len(own)) for v in range(images) if own[t] != v]
    some = [pairs[n] for n in torch.randperm(len(pairs), generator=draw)[:1500].tolist()]
    rows, columns = torch.tensor(some).t()
    values = (scores[rows, columns] + torch.rand(1500, generator=draw)).double() / 2

    def figures(kept):
        crowd = judged.Judged(rows[kept], columns[kept], values[kept])
        return judged.agreement(scores, own, crowd, crowd), crowd

    everything, crowd = figures(torch.ones(1500).bool())
    found = judged.shares(scores, own, crowd, crowd, everything)
    for name in ('auc', 'map', 'expert_rho'):
        left = [figures(own[rows] != image)[0][name] for image in range(images)]
        changes = everything[name] - np.array(left)
        assert np.corrcoef(changes, found[name])[0, 1] > 0.99, name
        assert changes.std() == pytest.approx(found[name].std(), rel=0.1), name
        stored = real['measure'].unpacked(real['measure'].packed(found[name]))
        assert stored == pytest.approx(found[name], abs=1e-2), name


def test_verdicts_by_the_rule(real):  # two seeds say nothing
    def rows(method, gains):
        for seed, gain in enumerate(gains):
            figures = dict(rsum=100.0 + gain, t2v_R1=1.0, v2t_R1=1.0)
            kind = dict(set='F', text='minilm', method=method, seed=seed, rate=1e-3, val=1.0)
            yield dict(kind, best=figures, last=figures)

    table = real['tables'].Table(
        [
            *rows('infonce', [0, 1, 2, 3, 4]),
            *rows('dvtr', [-9.0, -8.1, -7.0, -6.1, -5.0]),
            *rows('guide', [0.1, 1.0, 2.1, 3.0, 4.1]),
            *rows('hardness', [9, -7, 12, -3, 14]),
            *rows('gist', [1, 2]),
        ],
        'F',
        'minilm',
    )
    assert table.verdicts() == {
        'dvtr': 'loses',
        'guide': 'nothing',
        'hardness': 'not resolved',
    }
    shown = real['tables'].short_table([table]).splitlines()
    assert '| DVTR as shipped | 5 | **-9.0**±0.1 ▼ | **-9.0**±0.1 ▼ |' in shown
    assert '| guide: MiniLM of captions | 5 | +0.1±0.1 ○ | +0.1±0.1 ○ |' in shown
    assert sum('hardness' in line and '▲' not in line and '▼' not in line for line in shown) == 1


def test_intervals_over_images_are_those_of_their_shares(real):
    packed = real['measure'].packed

    def row(method, auc, moved):
        names = ('auc', 'expert_rho', 'map')
        figures = dict.fromkeys(names, auc)
        shares = {name: packed(np.array(moved)) for name in names}
        best = dict(rsum=1.0, people=figures, shares=shares)
        kind = dict(set='F', text='minilm', seed=0, rate=1e-3, val=1.0)
        return dict(kind, method=method, best=best, last=best)

    rows = [
        row('infonce', 80.0, [0.0, 0.0, 0.0, 0.0]),
        row('dvtr', 82.0, [0.5, -0.5, 0.5, -0.5]),  # a deviation of 1
        row('guide', 81.0, [0.5, -0.5, 0.5, -0.5]),
    ]
    people = importlib.import_module('people_tables')
    shown = people.people_by_items(real['tables'].Table(rows, 'F', 'minilm')).splitlines()
    assert shown[2:] == ['| DVTR as shipped | 1 | **+2.0**±2.0 | **+2.0**±2.0 | **+2.0**±2.0 |']


def test_what_was_made_again_is_compared_with_the_same_training_alone(real):
    def of(seed, rsum):
        figures = dict(rsum=rsum)
        kind = dict(set='F', text='minilm', method='dvtr', seed=seed, rate=1e-3)
        return dict(kind, best=figures, last=figures)

    known = [of(0, 100.0), of(1, 90.0)]
    table = real['tables'].again_table(known, [of(0, 101.0), of(1, 88.0), of(2, 0.0)])
    assert table.splitlines()[2].startswith('| Flickr8k images | 3 | 2 | -0.5±')
    assert table.endswith(' 2.0 |')


def test_rows_of_which_a_printed_line_is_left_are_counted(real):
    def row(method, seed, rsum, **more):
        figures = dict(rsum=rsum, t2v_R1=1.0, v2t_R1=2.0, **more)
        kind = dict(set='F', text='words', method=method, seed=seed, rate=2e-3)
        return dict(kind, best=figures, last=figures)

    rows = [row('infonce', seed, 100.0 + seed) for seed in (10, 11, 12)]
    rows += [row('ncl', seed, 105.0 + seed) for seed in (10, 11, 12)]
    rows[-1] = row('ncl', 12, 117.0, raw=dict(rsum=90.0))
    table = real['tables'].Table(rows, 'F', 'words')
    assert table.listed() == ['ncl'] and table.change('ncl', 'rsum').mean == pytest.approx(5)
    assert [*table.figures('ncl_raw', 'best')] == [12]


def recipe_rows(seeds=(20, 21, 22)):
    """Figures of InfoNCE and a student, on F over MiniLM and over words, by hand."""
    for text, gain in (('minilm', 20.0), ('words', -3.0)):
        for n, seed in enumerate(seeds):
            for method, more in (('infonce', 0.0), ('student', gain + n)):

                def figures(rsum, n=n):
                    return dict(rsum=rsum, t2v_R1=10.0 + n, v2t_R1=12.0)

                best = dict(figures(100.0 + more), transforms={})
                best['transforms']['unbalanced_sinkhorn'] = figures(105.0 + more)
                yield dict(
                    set='F',
                    text=text,
                    method=method,
                    seed=seed,
                    rate=1e-3,
                    val=1.0,
                    best=best,
                    last=figures(98.0 + more),
                )


def test_the_recipe_is_compared_with_the_best_epoch_of_infonce(real, tmp_path):
    tables, picture = real['tables'], importlib.import_module('recipe_picture')
    rows = [*recipe_rows(), *(dict(row, seed=3) for row in recipe_rows((20,)))]
    taught = tables.taught_tables(rows)
    # differences 20, 21, 22: t of 2 degrees of freedom is 4.303, standard error 1 / sqrt(3)
    half = 4.303 / 3**0.5
    minilm, words = tables.recipe_tables(taught).split('\n\n**')
    assert 'words from scratch' in words and 'words' not in minilm
    line = next(x for x in minilm.splitlines() if x.startswith('| student of three |'))
    cells = [x.strip() for x in line.strip('|').split('|')]
    assert cells[1:4] == ['128', '3', '11.0 / 12.0']
    assert cells[4:] == [
        f'{100 + gain:.1f} (**+{gain:.1f}**±{half:.1f})' for gain in (21.0, 19.0, 26.0)
    ]
    assert '| 98.0 (**-2.0**±0.0) |' in minilm
    short = tables.short_recipe(taught).splitlines()
    assert len(short) == 6 and '11.0 / 12.0; 121.0 (**+21.0**' in short[4]
    assert picture.draw(taught, tmp_path / 'a.png').stat().st_size > 5000
    assert tables.change_over_infonce(taught[1], 'student').mean == pytest.approx(-2.0)
    assert tables.change_over_infonce(taught[1], 'wide') is None


def test_further_sets_are_differences_by_seed(real):
    tables = real['tables']
    rows = [
        dict(row, set=name, seed=row['seed'] - 20)
        for name, (text, _) in tables.FURTHER.items()
        for row in recipe_rows()
        if row['text'] == text
    ]
    half = f'{4.303 / 3**0.5:.1f}'
    lines = tables.further_table(rows).splitlines()
    assert [line.split(' | ')[1:] for line in lines[2:]] == [
        ['100.0 / 98.0', f'**+21.0**±{half}', f'**+21.0**±{half}', '3 |'],
        ['100.0 / 98.0', f'-2.0±{half}', f'-2.0±{half}', '3 |'],
    ]


def test_auto_is_what_one_search_of_the_vectors_gives(real):
    """Scores of both directions by the transform that the bank chooses; hubs among the items."""
    random = torch.Generator().manual_seed(0)
    hub, sides = torch.randn(16, generator=random) / 4, {}
    for part, count in (('bank', 300), ('test', 40)):
        own = torch.randn(count, 16, generator=random)
        items = own + 2 * hub * torch.rand(count, 1, generator=random)
        texts = own + hub + torch.randn(count, 16, generator=random)
        for side, x in (('text', texts), ('video', items)):
            sides[part, side] = torch.nn.functional.normalize(x, dim=1)
    ask, find = sides['test', 'text'], sides['test', 'video']
    bank = real['measure'].Bank(sides['bank', 'text'] @ find.t(), sides['bank', 'video'] @ ask.t())
    both, said = real['measure'].chosen_alone(
        lambda part, side: sides[part, side], torch.arange(300), ask @ find.t(), bank
    )
    assert said['t2v'] != 'raw'
    pairs = sides['bank', 'text'], sides['bank', 'video']
    found = mmvtr.retrieve(ask, find, k=40, bank=pairs, transform='auto')
    assert torch.equal(both.t2v.argsort(1, descending=True), torch.as_tensor(found.ids))
