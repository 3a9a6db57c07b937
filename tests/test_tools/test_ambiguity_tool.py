"""tools/analysis_tools/ambiguity.py: its numbers on a small corpus, its pictures, bad input."""

import json
import re
import runpy
import sys

import matplotlib.image
import numpy as np
import pytest
import torch
from torch.nn.functional import cosine_similarity as cos

import toy  # noqa: F401 - registers the towers
from children import ROOT
from mmvtr.apis import load_retriever
from mmvtr.datasets import PlantedDataset, collate_retrieval

TOOL = 'analysis_tools/ambiguity.py'
KNOBS = dict(num_train=12, num_val=1, num_test=2, captions=2, general=0.6, untrimmed=3)

CONFIG = """
default_scope = 'mmvtr'
custom_imports = dict(imports=['toy'], allow_failed_imports=False)
model = dict(
    type='VideoTextRetriever',
    data_preprocessor=dict(type='VideoTextDataPreprocessor'),
    encoder=dict(
        type='TwoBranches',
        encoder=dict(
            type='ARLEncoder',
            frames=dict(type='ToyFrames'),
            text=dict(type='ToyWords'),
            dim=8,
            heads=2,
            max_frames=6,
            max_words=200,
        ),
    ),
    similarity=dict(type='BestFrameSimilarity', levels=('a', 'b')),
    supervision={supervision},
    losses=dict(nce=dict(type='ContrastiveLoss', reads=('a', 'b'))),
)
loader = dict(batch_size=5, collate_fn=dict(type='mmvtr.collate_retrieval'))
dataset = dict(
    type='PlantedDataset',
    data_root='{root}',
    **{knobs},
    video_pipeline=[dict(type='LoadVideo', sampling='uniform', num_frames=6)],
    text_pipeline=[dict(type='ToySay')],
)
train_dataloader = dict(
    **loader,
    sampler=dict(type='EpochSampler'),
    dataset=dict(**dataset, split='train', epoch_unit='video_with_all_texts'),
)
test_dataloader = dict(**loader, dataset=dict(**dataset, split='test'))
"""
SUPERVISION = dict(type='ARLSupervision', dim=8, rule='mean', cap=None, u_spread=0.0)


@pytest.fixture(scope='module')
def tool():
    return runpy.run_path(str(ROOT / 'tools' / TOOL))


@pytest.fixture(scope='module')
def root(tmp_path_factory):
    """The corpus is made here, once."""
    folder = tmp_path_factory.mktemp('corpora')
    PlantedDataset([], [], split='train', data_root=str(folder), **KNOBS)
    return folder


@pytest.fixture
def run(tool, root, tmp_path, monkeypatch, capsys):
    """What the tool prints and writes, and the model."""

    def call(*arguments, supervision=SUPERVISION, ready=True):
        monkeypatch.chdir(tmp_path)
        content = CONFIG.format(root=root, knobs=KNOBS, supervision=supervision)
        (tmp_path / 'config.py').write_text(content)
        model, _ = load_retriever('config.py', None, random_weights=True, device='cpu')
        if ready:
            model.supervision.ready.fill_(True)
            for level, branch in model.supervision.branches.items():
                branch.text_mean.copy_(torch.linspace(-0.3, 0.4, 8))
                branch.frame_mean.copy_(torch.linspace(0.5, -0.2, 8))
                _, s, u, _ = by_loops(model, level, root)
                branch.tau_s.fill_(s.mean())
                branch.tau_u.fill_(u.mean())
        torch.save(dict(state_dict=model.state_dict()), 'weights.pth')
        arguments = ('config.py', 'weights.pth', '--out', 'out', *arguments)
        monkeypatch.setattr(sys, 'argv', [TOOL, *arguments])
        capsys.readouterr()
        tool['main']()
        return capsys.readouterr().out, tmp_path / 'out', model

    return call


def by_loops(model, level, root):
    """s, u and the matched frame of every pair of the training set, one at a time."""
    pipelines = [dict(type='LoadVideo', sampling='uniform', num_frames=6)], [dict(type='ToySay')]
    dataset = PlantedDataset(*pipelines, split='train', data_root=str(root), **KNOBS)
    branch = model.supervision.branches[level]

    def encoded(kind, item):
        inputs = model.data_preprocessor(collate_retrieval([item]), False)['inputs']
        return getattr(model, f'encode_{kind}')(inputs)[level]

    with torch.no_grad():
        texts = [encoded('text', dataset.load_text(t)).mean[0] for t in range(len(dataset.texts))]
        videos = [encoded('video', dataset.load_video(v)).tokens[0] for v in range(12)]
    s, u, at = np.zeros((3, len(texts), 12))
    for t, text in enumerate(texts):
        for v, frames in enumerate(videos):
            scores = [float(cos(text, frame, 0)) for frame in frames]
            at[t, v] = int(np.argmax(scores))
            best = frames[int(at[t, v])]
            of_text = float(text / text.norm() @ branch.frame_mean)
            of_frame = float(best / best.norm() @ branch.text_mean)
            s[t, v], u[t, v] = max(scores), (of_text + of_frame) / 2
    return dataset, s, u, at


def numbers(printed, kind):
    """The row of a kind: how many, mean s and u, and the three percentages."""
    found = re.search(
        rf'^{kind} +([\d,]+) +(\S+) \+- (\S+) +(\S+) \+- (\S+) +(\S+) % +(\S+) % +(\S+) %',
        printed,
        re.M,
    )
    return [float(x.replace(',', '')) for x in found.groups()]


def test_table_of_each_branch(run, root):
    printed, _, model = run()
    for level, part in zip('ab', printed.split('branch ')[1:]):
        dataset, s, u, _ = by_loops(model, level, root)
        own, truth = dataset.positives(), dataset.truth()
        high = s > s.mean(), u > u.mean()
        found = high[0] & high[1] & ~own
        kinds = {'paired': own, 'unpaired, true': truth & ~own, 'unpaired, false': ~truth & ~own}
        assert 0 < found.sum() < (~own).sum() and all(kind.any() for kind in kinds.values())
        for name, kind in kinds.items():
            count, mean_s, std_s, mean_u, std_u, *shares = numbers(part, name)
            assert count == kind.sum()
            stated = [mean_s, std_s, mean_u, std_u]
            expected = [x for values in (s, u) for x in (values[kind].mean(), values[kind].std())]
            assert stated == pytest.approx(expected, abs=6e-4)
            expected = [100 * x[kind].mean() for x in (*high, found)]
            assert shares == pytest.approx(expected, abs=6e-3)


@pytest.mark.nightly
def test_frames_of_ambiguous_videos(run, monkeypatch):
    """ARL Fig. 5 by the tool of all figures, which asks this one."""
    _, out, _ = run()
    figures = runpy.run_path(str(ROOT / 'projects/lab/figures.py'))
    given = ['config.py', 'weights.pth', '--figure', 'arl4', 'arl5', '--queries', '2']
    monkeypatch.setattr(sys, 'argv', ['figures.py', *given, '--out', str(out)])
    figures['main']()
    assert {'ambiguity_a.png', 'ambiguity_b.png', 'arl5_0.png', 'arl5_1.png'} <= {
        path.name for path in out.iterdir()
    }
    picture = matplotlib.image.imread(out / 'arl5_0.png')[..., :3]
    assert (np.ptp(picture[:, 300:], axis=-1) > 0.4).sum() > 500  # coloured shapes


def test_texts_and_their_ambiguous_videos(run, root):
    _, out, model = run('--texts', '5')
    found = json.loads((out / 'ambiguous.json').read_text())
    assert len(found) == 5
    facts = {level: by_loops(model, level, root) for level in 'ab'}
    dataset = facts['a'][0]
    rows = {text['text_id']: t for t, text in enumerate(dataset.texts)}
    columns = {video['video_id']: v for v, video in enumerate(dataset.videos)}
    for entry in found:
        t = rows[entry['text_id']]
        assert entry['text'] == dataset.texts[t]['text'] and entry['ambiguous']
        own = [columns[video['video_id']] for video in entry['annotated']]
        assert own == dataset.texts[t]['video_idx']
        ambiguous = set()
        for _, s, u, _ in facts.values():
            above = (s[t] > s.mean()) & (u[t] > u.mean())
            ambiguous |= set(np.flatnonzero(above).tolist()) - set(own)
        assert {columns[video['video_id']] for video in entry['ambiguous']} == ambiguous
        for video in entry['ambiguous']:
            v = columns[video['video_id']]
            assert video['holds'] == dataset.truth()[t, v]
            length = dataset.videos[v]['duration']
            for level, (_, s, u, at) in facts.items():
                assert video[level]['s'] == pytest.approx(s[t, v], abs=1e-4)
                assert video[level]['u'] == pytest.approx(u[t, v], abs=1e-4)
                begin = at[t, v] / 6 * length
                assert video[level]['seconds'] == pytest.approx(
                    [begin, begin + length / 6], abs=2e-3
                )


def test_pictures(run):
    _, out, _ = run('--videos', '7')
    for level in 'ab':
        picture = matplotlib.image.imread(out / f'ambiguity_{level}.png')[..., :3]
        assert picture.shape[1] == 900 and picture.std() > 0.05
    found = json.loads((out / 'ambiguous.json').read_text())
    videos = {video['video_id'] for entry in found for video in entry['ambiguous']}
    assert 0 < len(videos) <= 7


@pytest.mark.nightly
def test_some_videos_with_all_their_texts(run):
    printed, _, _ = run('--videos', '7')
    counts = [numbers(printed, kind)[0] for kind in ('paired', 'unpaired, true', 'unpaired, false')]
    assert counts[0] == 7 * KNOBS['captions'] and sum(counts) == 7 * counts[0]
    again, _, _ = run('--videos', '7')
    other, _, _ = run('--videos', '7', '--seed', '1')
    assert printed == again != other


def test_own_videos_are_the_rule(run):
    """tau_s of the checkpoint then is no threshold, and the output says so."""
    printed, _, _ = run(supervision=dict(type='ARLSupervision', dim=8))
    assert re.search(r"'a': tau_s 0.\d{4} \(the rule here is the own video", printed)


@pytest.mark.parametrize(
    'how, message',
    [
        (dict(ready=False), 'weights.pth was saved in the warm-up'),
        (dict(supervision=None, ready=False), 'model.supervision must be an ARLSupervision'),
    ],
)
def test_models_without_sets(run, how, message):
    with pytest.raises(SystemExit, match=message):
        run(**how)


def test_no_videos(run):
    with pytest.raises(SystemExit, match='0 videos are too few'):
        run('--videos', '0')
