"""The stronger set, its bound, eta of judged pairs, their tables and pictures: on a tiny set."""

import importlib
import json

import numpy as np
import pytest


@pytest.fixture
def scripts(real, monkeypatch, tmp_path):
    """The scripts by name, whose results go to a folder of the test."""
    monkeypatch.setattr(real['run'], 'RESULTS', tmp_path / 'results')
    names = ('stronger', 'bound', 'eta', 'stronger_tables', 'pictures', 'shares')
    found = {name: importlib.import_module(name) for name in names}
    for name in ('bound', 'eta'):
        out = tmp_path / 'results/stronger' / found[name].OUT.name
        monkeypatch.setattr(found[name], 'OUT', out)
    for name in ('stronger_tables', 'pictures'):
        monkeypatch.setattr(found[name], 'STORED', tmp_path / 'results/stronger')
    return {**real, **found}


@pytest.fixture
def strong(scripts, folder, monkeypatch):
    """S made of the tiny set, with three classes."""
    raw = scripts['sets'].of_folder(folder)
    monkeypatch.setitem(scripts['sets'].SETS, 'M', lambda: raw)
    draw = np.random.default_rng(1)
    classes = dict(
        weight=draw.normal(size=(3, 12)).astype('f4'),
        bias=np.zeros(3, 'f4'),
        names=draw.normal(size=(3, 12)).astype('f4'),
    )
    return scripts['stronger'].prepare_strong(classes)


def test_the_stronger_set_is_made_trained_and_tested(scripts, strong, monkeypatch):
    run, stronger = scripts['run'], scripts['stronger']
    schedule = scripts['training'].Schedule(30, batch=18, looks=2)
    place = stronger.strong_place(strong, schedule)
    assert place.about['width'] == 24  # features and names, no PCA
    row = run.one(place, 'infonce', 0, 1e-3)
    assert row['last']['t2v_R5'] > 100 * 5 / 9 + 20  # chance: 5 of 9 items
    (run.RESULTS / 'stronger').mkdir(parents=True)
    stronger.keep_ranks('infonce', place)
    with np.load(run.RESULTS / 'stronger/infonce_ranks.npz') as stored:
        assert stored['t2v'].shape == stored['first'].shape == (18,) and stored['v2t'].shape == (9,)
        assert 100 * (stored['t2v'] == 1).mean() == pytest.approx(row['last']['t2v_R1'])


def test_linear_maps_bring_a_video_and_its_texts_together(scripts):
    draw, turn = np.random.default_rng(0), np.random.default_rng(1)
    hidden = draw.normal(size=(200, 4))
    to_video, to_text = turn.normal(size=(4, 12)), turn.normal(size=(4, 10))
    videos = hidden @ to_video + 0.1 * draw.normal(size=(200, 12))
    texts = np.repeat(hidden, 2, 0) @ to_text + 0.1 * draw.normal(size=(400, 10))
    names = [f'v{n}' for n in range(200)]

    def first(owners):
        maps = scripts['stronger'].linear_maps(
            dict(zip(names, videos[:100])), [names[n] for n in owners], texts[:200]
        )
        shown, asked = videos[100:] @ maps['video'], (texts[200:] - maps['mean']) @ maps['text']
        ranks = scripts['bound'].ranks_of(asked, shown, np.arange(100).repeat(2))
        return (ranks == 1).mean()

    assert first(np.arange(100).repeat(2)) > 0.6  # of 100 unseen videos
    assert first(draw.permutation(100).repeat(2)) < 0.1


def test_names_of_what_is_seen_in_a_frame(scripts):
    classes = dict(
        weight=np.array([[99.0, 0], [0, 99.0]]), bias=np.zeros(2), names=np.array([[1.0], [5.0]])
    )
    frames = np.array([[1.0, 0], [0, 1.0], [0, 1.0], [0, 1.0]])
    assert scripts['stronger'].names_seen(frames, classes) == pytest.approx(4)  # (1 + 3 * 5) / 4


def test_only_training_items_say_what_is_standard(scripts):
    items = dict(a=np.array([1.0]), b=np.array([3.0]), test=np.array([100.0]))
    found = scripts['stronger'].standardised(items, ['a', 'b'])
    assert [float(x[0]) for x in found.values()] == pytest.approx([-1, 1, 98], rel=1e-3)


def test_the_bound_asks_no_test_video(scripts, strong, monkeypatch):
    bound, raw = scripts['bound'], scripts['sets'].SETS['M']()
    monkeypatch.setattr(bound, 'GALLERY', 12)  # 9 of val, 3 of the 18 to train
    monkeypatch.setattr(bound, 'CAPTIONS', 1)
    blind = [row for row in raw.rows if row.split != 'test']
    text = 'a text that nobody else has'
    more = [row._replace(text_id=f'{row.text_id}+', text=text) for row in blind]
    vectors = {**raw.sentences, **{row.text_id: raw.sentences[row.text_id[:-1]] for row in more}}
    monkeypatch.setitem(
        scripts['sets'].SETS, 'M', lambda: raw._replace(rows=blind + more, sentences=vectors)
    )
    bound.main()
    found = json.loads(bound.OUT.read_text())
    assert [row['videos'] for row in found['curve']] == [2, 4, 9]
    assert all(row['queries'] == 12 for row in found['curve']) and found['captions']['R1'] > 50
    assert found['frames'][0]['queries'] == 12  # all have two frames
    assert found['frames'][2] == dict(least=8, most=99, queries=0, R1=None, R5=None, R10=None)


def test_ranks_and_recalls_by_hand(scripts):
    bound = scripts['bound']
    videos = np.eye(3)
    texts = np.array([[9.0, 1, 0], [2, 1, 0], [1, 2, 3]])
    assert bound.ranks_of(texts, videos, np.array([0, 1, 0])).tolist() == [1, 2, 3]
    assert bound.recalls(np.array([1, 2, 6, 11])) == dict(queries=4, R1=25.0, R5=50.0, R10=75.0)


def test_eta_of_judged_pairs_is_of_the_copy(scripts, folder, monkeypatch):
    eta, raw = scripts['eta'], scripts['sets'].of_folder(folder)
    monkeypatch.setitem(scripts['sets'].SETS, 'F', lambda: raw)
    monkeypatch.setitem(scripts['run'].SCHEDULES, 'F', scripts['training'].Schedule(24, batch=6))
    monkeypatch.setattr(eta, 'shared', lambda: None)
    crowd = {('item3#0', 'item7'): 1.0, ('item3#0', 'item11'): 0.0}
    expert = {('item3#0', 'item7'): 4.0, ('item7#1', 'item3'): 1.5, ('item0#0', 'item3'): 2.0}
    monkeypatch.setattr(eta, 'crowd_pairs', lambda _: crowd)
    monkeypatch.setattr(eta, 'expert_pairs', lambda _: expert)
    eta.main()
    with np.load(eta.OUT) as stored:
        pairs = list(zip(stored['text'].tolist(), stored['image'].tolist()))
        assert pairs == [('item3#0', 'item11'), ('item3#0', 'item7'), ('item7#1', 'item3')]
        assert ((stored['eta'] >= 0) & (stored['eta'] <= 1)).all()
        assert np.isnan(stored['crowd']).tolist() == [False, False, True]
        assert np.isnan(stored['expert']).tolist() == [True, False, False]


def test_tables_of_stored_results_by_hand(scripts, tmp_path):
    stored, tables = tmp_path / 'results/stronger', scripts['stronger_tables']
    stored.mkdir(parents=True)
    row = dict(queries=8, R1=1.0, R5=2.0, R10=3.0)
    found = dict(
        curve=[dict(videos=393, **row)],
        frames=[dict(least=a, most=b, **row) for a, b in ((2, 2), (4, 6), (8, 99))],
        captions=row,
    )
    (stored / 'bound.json').write_text(json.dumps(found))
    lines = tables.bound().splitlines()
    assert '| trained on 393 videos | 8 | 1.0 | 2.0 | 3.0 |' in lines
    for shown in ('2 frames', '4 to 6 frames', '8 and more frames'):
        assert any(f'of these, {shown} |' in line for line in lines), shown
    np.savez(
        stored / 'eta.npz',
        eta=[0.1, 0.2, 0.3, 0.9, 0.8],
        expert=[4, 3.6, 4.4, 1, np.nan],
        crowd=[1, 1, 0, 0, np.nan],
    )
    lines = tables.eta().splitlines()
    assert "| experts' mean grade near 4 | 3 | 0.15 | 0.20 | 0.25 |" in lines
    assert '| the crowd says yes | 2 | 0.12 | 0.15 | 0.18 |' in lines


def test_captions_that_moved_most(scripts):
    before, after = np.array([10.0, 100, 7, 2, 9]), np.array([1.0, 50, 7, 40, 90])
    texts = ['up', 'twice', 'still', 'down', 'tenfold']
    found = scripts['pictures'].moved_most(before, after, texts, count=1)
    assert [tuple(x) for x in found] == [('up', 10, 1), ('down', 2, 40)]
    same = scripts['pictures'].moved_most(before, after, ['a'] * 5, count=2)
    assert len(same) == 2  # a caption once among those that rose, once among those that fell


def test_cards_show_what_is_stored(scripts, monkeypatch, tmp_path):
    pictures = scripts['pictures']
    monkeypatch.setattr(pictures, 'IMAGES', tmp_path)
    figure, axes = pictures.sheet('ncl', 'Hubs', (1, 1))
    pictures.draw_moved(axes[0], [pictures.Moved('a red dog', 1200, 3)])
    pictures.draw_hubs(axes[1], np.array([0, 0, 0, 1]), np.array([0, 1, 2, 3]), 'NCL')
    assert {'1,200 → 3', 'a red dog'} == {text.get_text() for text in axes[0].texts}
    labels = axes[1].get_legend_handles_labels()[1]
    assert labels == ['InfoNCE: 50 % never first', 'NCL: 0 % never first']
    assert pictures.save(figure, 'ncl').stat().st_size > 1000
    figure, axes = pictures.sheet('dvtr_early', 'Eta', (1, 1))
    pictures.draw_eta(axes[1], np.array([0.9, 0.7, 0.2, 0.1]), np.array([1.0, 1.3, 3, 4]))
    ticks = [tick.get_text() for tick in axes[1].get_xticklabels()]
    assert ticks == ['1\n2 pairs', '2\n0 pairs', '3\n1 pairs', '4\n1 pairs']


def test_identical_captions_of_other_videos_are_counted(scripts):
    sets = scripts['sets']
    said = [('v0', 'A dog!'), ('v0', 'a cat'), ('v1', 'a dog'), ('v2', 'a bird')]
    rows = [sets.Row(video, text, str(n), 'test') for n, (video, text) in enumerate(said)]
    vectors = dict(zip('0123', np.eye(4)[[0, 1, 0, 3]]))
    identical, near = scripts['shares'].of_captions(sets.Raw({}, rows, vectors, {}), 'tiny')
    assert identical['share'] == near['share'] == pytest.approx(2 / (4 * 2))  # v0-v1 and v1-v0


@pytest.mark.parametrize('name', ['shares', 'eta', 'bound'])
def test_missing_data_are_named_in_one_sentence(scripts, monkeypatch, tmp_path, name):
    monkeypatch.setattr(scripts['sets'], 'ROOT', tmp_path)
    monkeypatch.delenv('MMVTR_SHARED', raising=False)
    with pytest.raises(SystemExit, match='^error: no data/real_features .*MMVTR_SHARED=FOLDER'):
        scripts['sets'].in_a_sentence(scripts[name].main)
