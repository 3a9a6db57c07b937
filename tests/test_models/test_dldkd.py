"""DL-DKD: the official numbers, a teacher of frames, and processes with unequal shares."""

import math
import re

import numpy as np
import pytest
import torch
import torch.distributed as dist
import torch.multiprocessing as mp
from torch.nn.parallel import DistributedDataParallel

import children  # noqa: F401 - the server that forks the processes has imported all
from mmvtr.datasets.sampling.collate import collate_retrieval
from mmvtr.datasets.videos.feature_transforms import LoadFrameVectors
from mmvtr.models.losses.distillation import FrameDistillation, SoftLabelContrastiveLoss
from mmvtr.models.losses.ranking import RankingLoss
from mmvtr.models.retriever import VideoTextRetriever
from mmvtr.models.similarities.best_frame import BestFrameSimilarity
from mmvtr.models.supervisions.stored_vectors import StoredFrameTeacher
from mmvtr.models.target import LocalBatch, Target
from mmvtr.registry import MODELS
from mmvtr.utils import register_all_modules

BRANCHES = ('inherit', 'explore')


def make_encoder(dim=12, widths=(10, 9), positions=(6, 5), heads=4):
    register_all_modules()
    inner = dict(
        type='DLDKDEncoder',
        frames=dict(type='FeatureFrames', in_dim=widths[0]),
        text=dict(type='FeatureWords', in_dim=widths[1]),
        dim=dim,
        heads=heads,
        dropout=0.0,
        max_frames=positions[0],
        max_words=positions[1],
    )
    return MODELS.build(dict(type='TwoBranches', encoder=inner, names=BRANCHES))


def make_model(seed=0, encoder=None, losses=None, **distillation):
    torch.manual_seed(seed)
    how = dict(reads=BRANCHES, margin=0.2, loss_weight=2.0, negatives='hardest')
    soft = dict(epochs=10, rate=80.0, loss_weight=0.04, rows='drawn')
    return VideoTextRetriever(
        encoder=encoder or make_encoder(),
        similarity=BestFrameSimilarity(levels=BRANCHES, weights=(0.7, 0.3), dots=True),
        temperature=dict(type='Temperature', init=1.0),
        supervision=StoredFrameTeacher(epochs=10),
        losses=losses
        or dict(
            t2v=RankingLoss(direction='t2v', **how),
            v2t=RankingLoss(direction='v2t', positive='mean', **how),
            inherit_nce=SoftLabelContrastiveLoss(reads=('inherit_dot',), **soft),
            explore_nce=SoftLabelContrastiveLoss(reads=('explore_dot',), follows='self', **soft),
        ),
        objectives=dict(distillation=FrameDistillation(epochs=10, **distillation)),
    )


# -- the official numbers ----------------------------------------------------------------------

#: Official names of a branch's parts, and ours.
PARTS = {
    'query_pos_embed.position_embeddings': 'words.position',
    'query_pos_embed.LayerNorm': 'words.position_norm',
    'query_input_proj.LayerNorm': 'words.project.0',
    'query_input_proj.net.1': 'words.project.2',
    'query_encoder': 'words.blocks.0',
    'modular_vector_mapping': 'word_pooling.score',
    'visual_pos_embed.position_embeddings': 'video.position',
    'visual_pos_embed.LayerNorm': 'video.position_norm',
    'visual_input_proj.LayerNorm': 'video.project.0',
    'visual_input_proj.net.1': 'video.project.2',
    'visual_encoder': 'video.blocks.0',
    'out_mapping_linear': 'mapping',
}
LAYER = {'self': '', 'output.dense': 'output', 'output.LayerNorm': 'norm'}


def renamed(official):
    found = {}
    for key, value in official.items():
        branch = 'explore' if key.startswith('exp_') else 'inherit'
        key = key.removeprefix('exp_')
        part = next(name for name in PARTS if key.startswith(f'{name}.'))
        rest = key[len(part) + 1 :]
        for theirs, ours in LAYER.items():
            if part.endswith('encoder') and rest.startswith(f'{theirs}.'):
                rest = f'{ours}.{rest[len(theirs) + 1 :]}'.lstrip('.')
        found[f'{branch}.{PARTS[part]}.{rest}'] = value
    return found


@pytest.fixture(scope='module')
def golden(shared):
    with np.load(shared / 'golden/dldkd.npz', allow_pickle=False) as arrays:
        return {name: torch.from_numpy(arrays[name]) for name in arrays.files}


@pytest.fixture(scope='module')
def official(golden):
    """Our model with the official weights, its levels with the teacher's, and the target."""
    model = make_model(encoder=make_encoder(heads=2))
    weights = {k[2:]: x for k, x in golden.items() if k.startswith('w.')}
    model.encoder.load_state_dict(renamed(weights))
    masks = golden['video_mask'].bool(), golden['text_mask'].bool()
    inputs = dict(
        video=golden['videos'],
        frame_mask=masks[0],
        text=golden['texts'],
        text_mask=masks[1],
    )
    samples = dict(
        text_idx=torch.arange(8),
        video_idx=torch.arange(4),
        text_videos=golden['labels'][:, None],
        text_ids=[f't{i}' for i in range(8)],
        video_ids=[f'v{i}' for i in range(4)],
        text_vectors=dict(clip=golden['teacher_texts'][:, None]),
        video_frame_vectors=dict(clip=[x[m] for x, m in zip(golden['teacher_videos'], masks[0])]),
    )
    texts, videos = model.encode_text(inputs), model.encode_video(inputs)
    own = model.supervision.own_levels(inputs, samples, torch.device('cpu'))
    texts.update(own[0]), videos.update(own[1])
    target = Target(golden['labels'][:, None] == torch.arange(4))
    return model, texts, videos, model.supervision(texts, videos, target)[0], inputs, samples


def close(found, expected):
    torch.testing.assert_close(found, expected.reshape(found.shape), rtol=1e-5, atol=1e-5)


def test_official_branches_and_scores(golden, official):
    model, texts, videos, target, *_ = official
    matrices = model.similarity(texts, videos)
    mask = golden['video_mask'].bool()
    for name in BRANCHES:
        close(texts[name].mean, golden[f'{name}.text'])
        close(videos[name].tokens[mask], golden[f'{name}.video'][mask])
        close(matrices[name], golden[f'{name}.cos_max'])
        close(matrices[f'{name}_dot'], golden[f'{name}.dot_max'])
    close(matrices['scores'], 0.7 * golden['inherit.cos_max'] + 0.3 * golden['explore.cos_max'])
    close(target.extras['teacher'], golden['teacher.dot_max'])


def test_official_losses(golden, official):
    model, texts, videos, target, *_ = official
    matrices = model.similarity(texts, videos)
    for name in BRANCHES:
        for key in [k for k in golden if k.startswith(f'nce_soft.{name}.')]:
            alpha, beta = map(float, re.findall(r'=(\d\.\d)', key))
            loss = SoftLabelContrastiveLoss(
                follows='teacher' if name == 'inherit' else 'self',
                fall='constant',
                rows='first',
                reads=('x',),
                alpha=alpha,
                beta=beta,
            )
            scores = matrices[f'{name}_dot'].detach().requires_grad_()
            value = loss({'x': scores}, target, 1.0)
            if key.endswith('.grad'):
                close(torch.autograd.grad(value, scores)[0], golden[key])
            else:
                close(value, golden[key])
        triplets = [
            RankingLoss(
                reads=(name,),
                margin=0.2,
                negatives='hardest',
                direction=direction,
                positive=positive,
            )
            for direction, positive in (('t2v', 'own'), ('v2t', 'mean'))
        ]
        found = sum(loss(matrices, target, 1.0) for loss in triplets)
        close(found, golden[f'triplet.{name}.hardest'])
    found = FrameDistillation()(texts, videos, target)
    assert found['weight'].item() == pytest.approx(0.1 * 0.95**119, rel=1e-5)
    close(found['loss'] / found['weight'], golden['kl_frames_tau0.2_sum'])


def test_the_official_total(golden, official):
    model, *_, inputs, samples = official
    for name in ('inherit_nce', 'explore_nce'):
        loss = model.losses[name]
        loss.rows, loss.fall = 'first', 'constant'
    model.objectives['distillation'].fall = 'constant'
    losses = model(inputs, samples, mode='loss')
    parts = dict(
        loss_inherit_nce='inher_nce', loss_explore_nce='explore_nce', distillation_loss='kl'
    )
    for ours, theirs in parts.items():
        close(losses[ours], golden[f'part.{theirs}'])
    total = sum(value for name, value in losses.items() if 'loss' in name)
    close(total, golden['total_soft_alpha0.8_beta0.8'])


# -- distillation over frames ------------------------------------------------------------------

T, V = 7, 5
OWNERS = [0, 0, 1, 2, 3, 4, 4]
FRAMES = [4, 1, 3, 6, 2]


def make_batch(videos=slice(0, V), texts=slice(0, T)):
    generator = torch.Generator().manual_seed(1)

    def draw(*shape):
        return torch.randn(*shape, generator=generator, dtype=torch.float64)

    video, text, teacher = draw(V, 6, 10), draw(T, 5, 9), draw(V, 6, 7).float()
    sentences = draw(T, 1, 7).float()
    longest = max(FRAMES[videos], default=0)
    inputs = dict(
        video=video[videos, :longest],
        frame_mask=(torch.arange(6) < torch.tensor(FRAMES)[:, None])[videos, :longest],
        text=text[texts],
        text_mask=torch.ones(T, 5, dtype=torch.bool)[texts],
    )
    samples = dict(
        video_idx=torch.arange(V)[videos],
        text_idx=torch.arange(T)[texts],
        text_videos=torch.tensor(OWNERS)[texts, None],
        video_ids=[f'v{i}' for i in range(V)][videos],
        text_ids=[f't{i}' for i in range(T)][texts],
    )
    if samples['video_ids']:
        rows = [x[:n] for x, n in zip(teacher, FRAMES)][videos]
        samples['video_frame_vectors'] = dict(clip=rows)
    else:
        del inputs['video'], inputs['frame_mask']
    if samples['text_ids']:
        samples['text_vectors'] = dict(clip=sentences[texts])
    else:
        del inputs['text'], inputs['text_mask']
    return inputs, samples


@pytest.mark.parametrize('entries', [1, 2**23])
def test_distillation_against_loops(entries):
    model = make_model(entries=entries, reduction='mean').double()
    model.objectives['distillation'].progress = 0.35  # epoch 3 of 10
    inputs, samples = make_batch()
    losses = model(inputs, samples, mode='loss')
    texts, videos = model.encode_text(inputs), model.encode_video(inputs)
    total = 0.0
    for t, v in enumerate(OWNERS):
        pairs = (
            (
                samples['text_vectors']['clip'][t, 0].double(),
                samples['video_frame_vectors']['clip'][v].double(),
            ),
            (texts['inherit'].mean[t], videos['inherit'].tokens[v, : FRAMES[v]]),
        )
        q, p = (
            [math.exp(torch.cosine_similarity(one, x, dim=0).item() / 0.2) for x in frames]
            for one, frames in pairs
        )
        q, p = [x / sum(q) for x in q], [x / sum(p) for x in p]
        total += sum(a * math.log(a / b) for a, b in zip(q, p))
    expected = 0.1 * 0.95**3 * total / T
    assert losses['distillation_loss'].item() == pytest.approx(expected, rel=1e-5)
    losses['distillation_loss'].backward()
    moved = {name for name, p in model.encoder.named_parameters() if p.grad is not None}
    assert moved and not any(name.startswith('explore') for name in moved)


def run(model, batch):
    losses = model(*batch, mode='loss')
    sum(value for name, value in losses.items() if 'loss' in name).backward()
    module = getattr(model, 'module', model)
    grads = {n: p.grad for n, p in module.named_parameters() if p.requires_grad}
    return {name: value.detach() for name, value in losses.items()}, grads


SPLITS = [(slice(0, 2), slice(0, 2)), (slice(2, 5), slice(2, 7))]
EMPTY = [(slice(0, 5), slice(0, 7)), (slice(5, 5), slice(7, 7))]


def worker(rank, folder):
    dist.init_process_group('gloo', init_method=f'file://{folder}/store', rank=rank, world_size=2)
    try:
        results = []
        for splits in (SPLITS, EMPTY):
            model = make_model().double()
            model = DistributedDataParallel(model, find_unused_parameters=True)
            for part in model.modules():
                if hasattr(part, 'progress'):
                    part.progress = 0.5
            results.append(run(model, make_batch(*splits[rank])))
        torch.save(results, f'{folder}/rank{rank}.pt')
        dist.barrier()
    finally:
        dist.destroy_process_group()


def test_processes_with_unequal_shares_equal_one(tmp_path):
    mp.start_processes(worker, args=(str(tmp_path),), nprocs=2, start_method='forkserver')
    model = make_model().double()
    for part in model.modules():
        if hasattr(part, 'progress'):
            part.progress = 0.5
    expected = run(model, make_batch())
    assert all(loss > 0 for name, loss in expected[0].items() if 'loss' in name)
    for rank in range(2):
        for found in torch.load(tmp_path / f'rank{rank}.pt', weights_only=False):
            for mine, theirs in zip(found, expected):
                assert mine.keys() == theirs.keys()
                for name, x in theirs.items():
                    torch.testing.assert_close(mine[name], x, rtol=1e-6, atol=1e-9, msg=name)


def test_the_teacher_is_resampled_to_the_students_frames(tmp_path):
    rows = np.arange(12, dtype=np.float32).reshape(6, 2)
    np.save(tmp_path / 'v.npy', rows)
    load = LoadFrameVectors(dict(clip=str(tmp_path)))
    load.check([dict(video_id='v')])
    for count, expected in ((6, rows), (3, rows.reshape(3, 2, 2).mean(1)), (12, None)):
        results = load(dict(video_id='v', features=np.zeros((count, 4), np.float32)))
        found = results['video_frame_vectors']['clip']
        assert found.dtype == np.float32 and found.shape == (count, 2)
        if count == 3:  # the very last row is left out, as in MS-SL's code
            expected[-1] = rows[4]
        if expected is not None:
            np.testing.assert_array_equal(found, expected)
    with pytest.raises(ValueError, match='must come after LoadFeatures and PoolFeatures'):
        load(dict(video_id='v'))
    with pytest.raises(KeyError, match="frame vectors 'clip'"):
        load.check([dict(video_id='w')])
    video = dict(video_idx=0, video_id='v', frames=torch.zeros(2, 4))
    stored = dict(clip=torch.ones(2, 2))
    batch = collate_retrieval([dict(video=dict(video, frame_vectors=stored), texts=[])])
    assert torch.equal(batch['data_samples']['video_frame_vectors']['clip'][0], stored['clip'])


def test_what_is_wrong_is_said():
    model = make_model().double()
    inputs, samples = make_batch()
    samples['video_frame_vectors']['clip'][3] = torch.zeros(5, 7)
    with pytest.raises(ValueError, match="'v3' has 5 frames of teacher 'clip' and 6 of the stud"):
        model(inputs, samples, mode='loss')
    inputs, samples = make_batch()
    samples['text_vectors']['clip'] = torch.zeros(T, 1, 4)
    with pytest.raises(ValueError, match='texts have 4 numbers, videos 7'):
        model(inputs, samples, mode='loss')
    inputs, samples = make_batch()
    del samples['video_frame_vectors']
    with pytest.raises(ValueError, match='of frames, but the training set has'):
        model(inputs, samples, mode='loss')
    model.supervision = None
    with pytest.raises(ValueError, match='reads the teacher beside the target'):
        model(*make_batch(), mode='loss')
    levels = {'inherit': None}
    with pytest.raises(ValueError, match="reads the frame level 'vectors.clip'"):
        FrameDistillation()(levels, levels, Target(torch.eye(2).bool()), LocalBatch)
    for kind, bad, message in (
        (FrameDistillation, dict(temperature=0), 'temperature must be positive, not 0'),
        (FrameDistillation, dict(reduction='max'), "must be one of ..sum', 'mean'., not 'max'"),
        (FrameDistillation, dict(fall='sudden'), "not 'sudden'"),
        (SoftLabelContrastiveLoss, dict(follows='me'), "follows must be one of .* not 'me'"),
        (SoftLabelContrastiveLoss, dict(alpha=0.1, alpha_floor=0.2), '0 <= floor <= alpha <= 1'),
        (StoredFrameTeacher, dict(scale=0), 'scale must be positive, not 0'),
    ):
        with pytest.raises(ValueError, match=message):
            kind(**bad)
    with pytest.raises(ValueError, match="two names that are not taken, got .'training', 'b'"):
        MODELS.build(dict(type='TwoBranches', encoder={}, names=('training', 'b')))
