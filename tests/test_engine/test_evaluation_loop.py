"""The loop against the metrics called by hand, in one process and in two with odd shares."""

import json
import logging
import os

import numpy as np
import pytest
import torch
import torch.distributed as dist
import torch.multiprocessing as mp
from mmengine.hooks import Hook
from mmengine.model import BaseDataPreprocessor, BaseModel
from mmengine.runner import Runner
from torch import nn

import children  # noqa: F401 - the server that forks the processes has imported all
from mmvtr.datasets import PairValues, VideoTextDataset
from mmvtr.datasets.videos.missing import LeftOut
from mmvtr.engine.loops.evaluation import to_cpu
from mmvtr.engine.loops.evaluation_loop import (
    RetrievalLoop,
    TwoPassLoader,
    span,
)
from mmvtr.evaluation import (
    JudgedMetric,
    MomentRatioMetric,
    RetrievalMetric,
    SemanticMetric,
    SoftPositiveMetric,
    evaluate,
)
from mmvtr.models.retriever import VideoTextRetriever
from mmvtr.models.similarities.cosine import CosineSimilarity
from mmvtr.structures import Embedding, Relation

OWNERS = [[0], [1], [1], [2], [0, 2], [4], [0]]  # 7 texts, 5 videos; video 3 has no text
DIM = 6


class Halves(torch.utils.data.Dataset):
    def __init__(self, items):
        self.items = items

    def __len__(self):
        return len(self.items)

    def __getitem__(self, i):
        return self.items[i]


class FakeDataset:
    """What the loop asks of a VideoTextDataset; videos and texts are random vectors."""

    def __init__(self, broken=(), with_truth=True):
        generator = torch.Generator().manual_seed(0)
        self.vectors = dict(
            video=torch.randn(5, DIM, generator=generator),
            text=torch.randn(7, DIM, generator=generator),
        )
        self.broken = broken
        self.with_truth = with_truth
        self.videos = [dict(num_frames=10 * v, actions=[(v, 0)]) for v in range(5)]
        self.texts = [dict(actions=[(t, 1), (t, 2)]) for t in range(7)]

    def view(self, kind):
        ids = [f'{kind}{i}' for i in range(len(self.vectors[kind]))]
        items = [dict(kind=kind, i=i, id=ids[i], x=x) for i, x in enumerate(self.vectors[kind])]
        if kind == 'video':
            for v in self.broken:
                items[v] = dict(kind=kind, broken=(f'video{v}', 'no stream'))
        return Halves(items)

    def positives(self):
        matches = np.zeros((7, 5), dtype=bool)
        for t, owners in enumerate(OWNERS):
            matches[t, owners] = True
        return matches

    def truth(self):
        also = np.eye(7, 5, dtype=bool)
        return self.positives() | also if self.with_truth else None

    def relevance(self):
        return self.truth() * 0.5 + self.positives() * 0.5 if self.with_truth else None

    def lengths(self, unit):
        assert unit == 'frames'
        return np.array([video['num_frames'] for video in self.videos], dtype=float)

    def moment_ratio(self):
        return np.linspace(0.1, 0.7, 7)

    def judgments(self):
        return None

    def protocol(self):
        return dict(dataset='FakeDataset', split='test', ids_sha='0a1b2c3d')


def collate(items):
    """As collate_retrieval: indices, ids, and no input of a kind that is absent."""
    whole = [item for item in items if 'broken' not in item]
    kind = items[0]['kind']
    return dict(
        inputs={kind: torch.stack([item['x'] for item in whole])} if whole else {},
        data_samples={
            f'{kind}_idx': torch.tensor([item['i'] for item in whole], dtype=torch.int64),
            f'{kind}_ids': [item['id'] for item in whole],
            'broken': [item['broken'] for item in items if 'broken' in item],
        },
    )


class Masks(BaseDataPreprocessor):
    """Adds the masks: texts of two tokens, video v of the batch of v + 1 frames."""

    def forward(self, data, training=False):
        inputs = dict(data['inputs'])
        if 'text' in inputs:
            inputs['text_mask'] = torch.ones(len(inputs['text']), 2, dtype=torch.bool)
        if 'video' in inputs:
            inputs['frame_mask'] = torch.arange(3).expand(len(inputs['video']), 3) < 3
        return dict(inputs=inputs, data_samples=data['data_samples'])


class FakeModel(BaseModel):
    """Cosine of fixed vectors; counts the items it sees, and whether tokens reach the score."""

    def __init__(self, nan_at=None, needs_tokens=False):
        super().__init__(Masks())
        self.scale = nn.Parameter(torch.ones(()))
        self.similarity = nn.Identity()
        self.similarity.needs_tokens, self.similarity.levels = needs_tokens, ('global',)
        self.temperature = lambda: torch.tensor(0.05)
        self.nan_at = nan_at
        self.seen = dict(video=0, text=0, tiles=[])

    def _encode(self, kind, inputs):
        self.seen[kind] += len(inputs[kind])
        x = self.scale * inputs[kind]
        mask = inputs['frame_mask' if kind == 'video' else 'text_mask']
        return {'global': Embedding(x, x[:, None].expand(-1, mask.shape[1], -1), mask)}

    def encode_video(self, inputs):
        return self._encode('video', inputs)

    def encode_text(self, inputs):
        return self._encode('text', inputs)

    def score(self, texts, videos, names=None):
        texts, videos = texts['global'], videos['global']
        self.seen['tiles'].append(len(texts.mean))
        self.asked = names
        self.seen['tokens'] = texts.tokens is not None and videos.tokens is not None
        scores = texts.mean @ videos.mean.t()
        if self.nan_at is not None:
            scores[self.nan_at[0] % len(scores), self.nan_at[1]] = torch.nan
        return {'scores': scores, 'eta': torch.sigmoid(-scores), 'other': scores}

    def forward(self, inputs, data_samples=None, mode='tensor'):
        return {'loss': self.scale.square()}


METRICS = [
    dict(type='RetrievalMetric', recall_at=(1, 2)),
    dict(type='SemanticMetric', k=3),
    dict(type='SoftPositiveMetric'),
    dict(type='MomentRatioMetric', recall_at=(1, 2)),
]


def make_runner(work_dir, model=None, dataset=None, evaluator=METRICS, **kwargs):
    loader = dict(dataset=dataset or FakeDataset(), batch_size=2, collate_fn=dict(type=collate))
    kwargs.setdefault('test_dataloader', loader)
    kwargs.setdefault('test_cfg', dict(type='RetrievalLoop', tile_rows=3))
    return Runner(
        model=model or FakeModel(),
        work_dir=str(work_dir),
        test_evaluator=evaluator,
        default_scope='mmvtr',
        experiment_name=f'loop_{os.path.basename(work_dir)}',
        log_level='INFO',
        **kwargs,
    )


def by_hand(dataset=None):
    dataset = dataset or FakeDataset()
    scores = dataset.vectors['text'] @ dataset.vectors['video'].t()
    known = dataset.positives(), dataset.truth(), dataset.relevance()
    ratio = torch.tensor(dataset.moment_ratio())
    relation = Relation(*map(torch.tensor, known), moment_ratio=ratio)
    metrics = [RetrievalMetric(recall_at=(1, 2)), SemanticMetric(k=3), SoftPositiveMetric()]
    metrics.append(MomentRatioMetric(recall_at=(1, 2)))
    return evaluate(metrics, {'scores': scores, 'eta': torch.sigmoid(-scores)}, relation)


def log_of(work_dir):
    (path,) = work_dir.glob('*/*.log')
    return path.read_text()


def test_the_loop_gives_what_the_metrics_give(tmp_path):
    model = FakeModel()
    runner = make_runner(tmp_path, model)
    metrics = runner.test()
    expected = by_hand()
    assert metrics == pytest.approx(expected.values)
    assert runner.test_loop.report.ceiling == pytest.approx(expected.ceiling)
    assert all(type(value) is float for value in metrics.values())
    assert model.seen == dict(video=5, text=7, tiles=[3, 3, 1], tokens=False)
    log = log_of(tmp_path)
    assert 'results on test' in log and 'video to caption' in log
    assert 'set FakeDataset test | ids 0a1b2c3d | texts 7 | videos 5' in log
    assert 'captions a video 0-3 (mean 1.6)' in log and 'frames a video 3 |' in log


def test_tokens_travel_only_where_the_similarity_reads_them(tmp_path):
    model = FakeModel(needs_tokens=True)
    assert make_runner(tmp_path, model).test() == pytest.approx(by_hand().values)
    assert model.seen['tokens']


def test_the_model_is_told_which_matrices_are_read(tmp_path):
    for metrics, names in ((METRICS, ['eta', 'scores']), (METRICS[:1], ['scores'])):
        model = FakeModel()
        make_runner(tmp_path / str(len(metrics)), model, evaluator=metrics).test()
        assert model.asked == names


@pytest.mark.parametrize('amp', [True, 'bf16', 'fp16'])
def test_under_autocast_the_scores_stay_float32(tmp_path, amp):
    cfg = dict(type='RetrievalLoop', amp=amp)
    assert make_runner(tmp_path, test_cfg=cfg).test() == pytest.approx(by_hand().values)


@pytest.mark.parametrize(
    ('amp', 'dtype'),
    [(True, torch.bfloat16), ('bf16', torch.bfloat16), ('fp16', torch.float16), (False, None)],
)
def test_what_is_encoded_in_low_precision(tmp_path, amp, dtype):
    model, seen = FakeModel(), []
    encode = model.encode_text

    def spied(inputs):
        seen.append(torch.get_autocast_dtype('cpu') if torch.is_autocast_enabled('cpu') else None)
        return encode(inputs)

    model.encode_text = spied
    make_runner(tmp_path, model, test_cfg=dict(type='RetrievalLoop', amp=amp)).test()
    assert set(seen) == {dtype}


def test_an_unknown_precision(tmp_path):
    with pytest.raises(ValueError, match=r"amp must be one of \['bf16', 'fp16'\], not 'fp8'"):
        make_runner(tmp_path, test_cfg=dict(type='RetrievalLoop', amp='fp8')).test()


def test_broken_videos_leave_the_gallery_and_are_named(tmp_path):
    metrics = make_runner(tmp_path, dataset=FakeDataset(broken=(0, 1, 4))).test()
    dataset = FakeDataset()
    keep = [2, 3]
    scores = dataset.vectors['text'] @ dataset.vectors['video'][keep].t()
    positives, truth = (torch.tensor(x)[:, keep] for x in (dataset.positives(), dataset.truth()))
    relation = Relation(positives, truth)
    expected = RetrievalMetric(recall_at=(1, 2))({'scores': scores}, relation)
    assert metrics['retrieval/t2v_MnR'] == expected['t2v_MnR']
    log = log_of(tmp_path)
    assert '3 broken videos are left out of the gallery' in log
    assert 'video4: no stream' in log
    assert 'broken and left out 3 videos (video0, video1, video4): not the whole set' in log
    assert 'on 2 of 5 clips and 2 of 7 texts\n' in log


def test_broken_and_missing_videos_add_up(tmp_path):
    """Of a set of 9 clips and 12 texts 4 are gone, with 5 texts, and 3 cannot be read."""
    dataset = FakeDataset(broken=(0, 1, 4))
    dataset.left_out = LeftOut(('p', 'q', 'r', 's'), 5, 9, 12)
    metrics = make_runner(tmp_path, dataset=dataset).test()
    sizes = {key: value for key, value in metrics.items() if key.startswith('set/')}
    assert sizes == {
        'set/videos': 2,
        'set/videos_broken': 3,
        'set/videos_missing': 4,
        'set/texts': 2,
        'set/texts_without_video': 10,
    }
    log = log_of(tmp_path)
    assert 'results on test\n\non 2 of 9 clips and 2 of 12 texts\n' in log
    assert '| tested on 2 of 9 clips and 2 of 12 texts |' in log
    assert 'missing and left out 4 videos (p, q, r, ...): not the whole set' in log
    (scalars,) = tmp_path.glob('*/*.json')
    assert json.loads(scalars.read_text())['set/videos_missing'] == 4
    whole = make_runner(tmp_path / 'whole').test()
    assert not any(key.startswith('set/') for key in whole)
    assert ' clips and ' not in log_of(tmp_path / 'whole')


def test_a_nan_names_its_ids(tmp_path):
    runner = make_runner(tmp_path, FakeModel(nan_at=(2, 3)))
    with pytest.raises(ValueError, match="is NaN for text 'text2' and video 'video3'"):
        runner.test()


def test_bad_input(tmp_path):
    with pytest.raises(ValueError, match='take sampler out'):
        TwoPassLoader(dict(dataset=FakeDataset(), batch_size=1, sampler=dict(type='x')))
    with pytest.raises(KeyError, match="metrics and hooks read .'uncertainty'., the model gives"):
        reads = dict(type='SoftPositiveMetric', reads=('uncertainty',))
        make_runner(tmp_path, evaluator=reads).test()


def test_an_empty_gallery_is_an_error(tmp_path):
    with pytest.raises(ValueError, match='no readable video'):
        make_runner(tmp_path, dataset=FakeDataset(broken=range(5))).test()


class Recorder(Hook):
    def __init__(self):
        self.calls = []

    def _record(self, name):
        self.calls.append(name)


for stage in ('val', 'val_epoch', 'test', 'test_epoch'):
    for moment in ('before', 'after'):
        name = f'{moment}_{stage}'
        setattr(Recorder, name, lambda self, runner, metrics=None, name=name: self._record(name))


def train_parts(**kwargs):
    return dict(
        train_dataloader=dict(
            dataset=Halves([dict(kind='text', i=0, id='a', x=torch.zeros(DIM))] * 4),
            sampler=dict(type='DefaultSampler'),
            batch_size=2,
            collate_fn=dict(type=collate),
        ),
        train_cfg=dict(by_epoch=True, max_epochs=2),
        optim_wrapper=dict(optimizer=dict(type='SGD', lr=0.1)),
        val_dataloader=dict(dataset=FakeDataset(), batch_size=2, collate_fn=dict(type=collate)),
        val_cfg=dict(type='RetrievalLoop'),
        val_evaluator=dict(type='RetrievalMetric'),
        **kwargs,
    )


def test_val_and_test_in_a_runner_with_the_best_checkpoint_saved(tmp_path):
    recorder = Recorder()
    best = dict(type='CheckpointHook', save_best='retrieval/rsum', rule='greater')
    runner = make_runner(
        tmp_path,
        default_hooks=dict(checkpoint=best),
        custom_hooks=[recorder],
        **train_parts(),
    )
    runner.train()
    runner.test()
    epoch = ['before_val', 'before_val_epoch', 'after_val_epoch', 'after_val']
    assert recorder.calls == 2 * epoch + [call.replace('val', 'test') for call in epoch]
    assert list(tmp_path.glob('best_retrieval_rsum_epoch_1.pth'))
    scalars = [json.loads(x) for x in next(tmp_path.glob('*/vis_data/scalars.json')).open()]
    assert any('retrieval/t2v_R1' in line for line in scalars)
    assert isinstance(runner.val_loop, RetrievalLoop) and runner.val_loop.mode == 'val'
    assert 'results on val' in log_of(tmp_path)


class Captions(VideoTextDataset):
    """A real dataset of precomputed features in memory, videos of 1 to 4 frames."""

    def __init__(self, **kwargs):
        self.vectors = FakeDataset().vectors
        super().__init__([self.frames], [self.words], **kwargs)

    def load_annotations(self):
        videos = [dict(video_id=f'video{v}', path='', v=v) for v in range(5)]
        texts = [
            dict(text_id=f'text{t}', text='a b', video_idx=owners, t=t)
            for t, owners in enumerate(OWNERS)
        ]
        return videos, texts

    def frames(self, results):
        v = results['v']
        return dict(results, features=self.vectors['video'][v].repeat(1 + v % 4, 1).numpy())

    def words(self, results):
        return dict(results, token_ids=np.full(1 + results['t'] % 3, results['t']))


class Encoder(nn.Module):
    """Mean of the frames; a table of text vectors."""

    def encode_video(self, video, frame_mask):
        mask = frame_mask[..., None].float()
        return {'global': Embedding((video * mask).sum(1) / mask.sum(1), video, frame_mask)}

    def encode_text(self, text, text_mask):
        return {'global': Embedding(FakeDataset().vectors['text'][text[:, 0]])}


def test_with_the_real_dataset_and_model(tmp_path):
    """The same videos and texts through the library's own dataset, collation and retriever."""
    judged = PairValues(['text0', 'text3'], ['video0', 'video1'], np.array([0.0, 1.0]))
    model = VideoTextRetriever(
        encoder=Encoder(),
        similarity=CosineSimilarity(),
        losses={},
        data_preprocessor=dict(type='VideoTextDataPreprocessor'),
    )
    runner = make_runner(
        tmp_path,
        model,
        test_dataloader=dict(dataset=Captions(judgments=judged), batch_size=2, num_workers=1),
        evaluator=[dict(type='RetrievalMetric', recall_at=(1, 2)), dict(type='JudgedMetric')],
    )
    metrics = runner.test()
    dataset = FakeDataset()
    text, video = (nn.functional.normalize(dataset.vectors[k], dim=1) for k in ('text', 'video'))
    relation = Relation(torch.tensor(dataset.positives()))
    expected = RetrievalMetric(recall_at=(1, 2))({'scores': text @ video.t()}, relation)
    expected = {f'retrieval/{k}': x for k, x in expected.items()}
    ids = {f'{k}_ids': [f'{k}{i}' for i in range(len(v))] for k, v in dataset.vectors.items()}
    own = JudgedMetric(judged)({'scores': text @ video.t()}, relation._replace(**ids))
    expected.update({f'judged/{k}': x for k, x in own.items()})
    assert metrics == pytest.approx(expected) and expected['judged/t2v_queries'] == 2
    assert 'frames a video 1-4 (mean 2.2)' in log_of(tmp_path)


def worker(rank, folder):
    logging.disable(logging.INFO)
    dist.init_process_group('gloo', f'file://{folder}/store', rank=rank, world_size=2)
    model = FakeModel()
    metrics = make_runner(folder, model, dataset=FakeDataset(broken=(1,))).test()
    torch.save((metrics, model.seen), f'{folder}/{rank}.pth')
    with pytest.raises(ValueError, match='is NaN for text'):  # found on rank 0, raised on both
        make_runner(folder + '/nan', FakeModel(nan_at=(1, 1))).test()
    dist.destroy_process_group()


def test_two_processes_equal_one(tmp_path):
    expected = make_runner(tmp_path, dataset=FakeDataset(broken=(1,))).test()
    mp.start_processes(worker, (str(tmp_path),), nprocs=2, start_method='forkserver')
    (first, seen_0), (second, seen_1) = (torch.load(tmp_path / f'{r}.pth') for r in (0, 1))
    assert first == second == expected
    assert [seen_0['video'], seen_1['video']] == [3, 1]  # videos 0 2 4, and 3 (1 is broken)
    assert [seen_0['text'], seen_1['text']] == [4, 3]
    assert [seen_0['tiles'], seen_1['tiles']] == [[3, 3], [1]]


def test_a_copy_for_the_cpu_keeps_nothing_else_alive():
    view = torch.zeros(4, 100, 8, dtype=torch.bfloat16)[:, 0]
    copy = to_cpu(view)
    assert copy.dtype == torch.float32 and copy.untyped_storage().nbytes() == 4 * 8 * 4
    assert to_cpu(torch.ones(2, dtype=torch.bool)).dtype == torch.bool


def test_span():
    assert span(torch.tensor([12, 12])) == '12'
    assert span(torch.tensor([1, 2, 4])) == '1-4 (mean 2.3)'


def test_a_shortlist_reports_text_queries_only(tmp_path):
    model = FakeModel()
    model.similarity.exact = False
    metrics = make_runner(tmp_path, model).test()
    assert 'retrieval/t2v_R1' in metrics
    assert not [key for key in metrics if not key.partition('/')[2].startswith('t2v_')]
    assert 'The similarity ranks a shortlist for each text' in log_of(tmp_path)
