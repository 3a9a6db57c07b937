"""A BackdoorRetriever through training, evaluation and the hooks that read its scores."""

import logging
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from mmengine.config import Config
from torch import nn
from torch.nn.functional import normalize
from torch.nn.parallel import DistributedDataParallel

from mmvtr.apis import encode_set, vectors
from mmvtr.cli import read_fusion
from mmvtr.engine.hooks.members import MembersHook, fuse_config
from mmvtr.engine.hooks.query_queue import Queries, QueryQueueHook
from mmvtr.engine.hooks.result_hooks import ModalityGapHook
from mmvtr.engine.hooks.score_transforms import SinkhornHook
from mmvtr.engine.loops.evaluation import Evaluation
from mmvtr.engine.loops.evaluation_loop import relation_of
from mmvtr.functional.transforms.score_transforms import sinkhorn_scores
from mmvtr.models.backdoor import BackdoorRetriever
from mmvtr.models.losses.matrix import ContrastiveLoss
from mmvtr.models.retriever import VideoTextRetriever
from mmvtr.models.similarities.cosine import CosineSimilarity
from mmvtr.storage.weights import read_checkpoint
from mmvtr.structures import Embedding
from tests.test_engine.test_evaluation_loop import (
    DIM,
    FakeDataset,
    Masks,
    collate,
    log_of,
    make_runner,
)

METRICS = [dict(type='RetrievalMetric', recall_at=(1, 2))]


class Linear(nn.Module):
    """Vectors [N, DIM] to vectors, one map a side."""

    dim = 3
    level_names = ('global',)

    def __init__(self):
        super().__init__()
        self.video, self.text = (nn.Linear(DIM, self.dim) for _ in range(2))

    def encode_video(self, video, frame_mask):
        return {'global': Embedding(self.video(video))}

    def encode_text(self, text, text_mask):
        return {'global': Embedding(self.text(text))}


def retriever(seed):
    torch.manual_seed(seed)
    return VideoTextRetriever(
        encoder=Linear(),
        similarity=CosineSimilarity(),
        losses=dict(nce=ContrastiveLoss()),
        data_preprocessor=Masks(),
    )


def backdoor(**kwargs):
    return BackdoorRetriever(members=[retriever(0), retriever(1)], **kwargs)


def evaluation_of(model):
    """The set of the loop's tests as the loop would hand it over."""
    dataset = FakeDataset()
    loader = dict(dataset=dataset, batch_size=3, collate_fn=dict(type=collate))
    encoded = encode_set(model.eval(), loader)
    texts, videos = encoded['text'], encoded['video']
    with torch.no_grad():
        matrices = model.score(texts.levels, videos.levels)
    matrices['temperature'] = model.temperature().detach()
    relation = relation_of(dataset, texts, videos)
    return Evaluation(model, torch.device('cpu'), texts, videos, matrices, relation)


def test_each_member_stands_beside_the_fused_result(tmp_path):
    model = backdoor(fusion=(3, 1))
    model.seen += torch.tensor([30, 12])
    runner = make_runner(
        tmp_path / 'both', model, evaluator=METRICS, custom_hooks=[dict(type='MembersHook')]
    )
    numbers = runner.test()
    for k in range(2):
        alone = make_runner(tmp_path / f'alone{k}', retriever(k), evaluator=METRICS).test()
        assert {name: numbers[f'member_{k}/{name}'] for name in alone} == pytest.approx(alone)
        assert numbers[f'member_{k}/transductive'] == 0
    fused = make_runner(tmp_path / 'fused', backdoor(fusion=(3, 1)), evaluator=METRICS).test()
    assert {name: numbers[name] for name in fused} == pytest.approx(fused)
    log = log_of(tmp_path / 'both')
    assert 'raw member_0 member_1' in log
    assert 'member_0: alone, weight 0.75; trained on 30 items of environment 0' in log
    assert 'member_1: alone, weight 0.25; trained on 12 items of environment 1' in log


def test_a_column_for_each_member():
    evaluation = evaluation_of(backdoor())
    MembersHook(origins=['a.pth', 'b.pth']).after_scoring(None, evaluation)
    for k in range(2):
        t2v, v2t = evaluation.transformed[f'member_{k}']
        assert t2v is evaluation.matrices[f'scores_{k}']
        assert v2t is t2v
    assert evaluation.notes['member_1'] == 'alone, weight 0.5; b.pth'


def test_transforms_with_a_bank_and_the_modality_gap(tmp_path):
    """NCL's normalisation of the fused scores, from a bank of levels of both members."""
    model = backdoor(fusion=(2, 3))
    evaluation = evaluation_of(model)
    torch.manual_seed(5)
    with torch.no_grad():
        inputs = model.data_preprocessor(
            dict(inputs=dict(text=torch.randn(9, DIM), video=torch.randn(9, DIM)), data_samples={})
        )['inputs']
        banks = dict(text=model.encode_text(inputs), video=model.encode_video(inputs))
    index = torch.arange(9)
    torch.save({k: Queries(b, index, index).state() for k, b in banks.items()}, tmp_path / 'bank')
    runner = SimpleNamespace(logger=logging.getLogger('members'), hooks=[])
    hook = SinkhornHook(queries='bank', bank_file=str(tmp_path / 'bank'), temperature=0.1)
    hook.after_scoring(runner, evaluation)

    def flat(levels):
        parts = [normalize(levels[f'{k}.global'].mean, dim=1) for k in range(2)]
        return torch.cat([parts[0] * 0.4**0.5, parts[1] * 0.6**0.5], 1)

    texts, videos = flat(evaluation.texts.levels), flat(evaluation.videos.levels)
    bank = flat(banks['text'])
    own = texts @ videos.t()
    expected = sinkhorn_scores(own, bank @ videos.t(), temperature=0.1)
    expected = expected - (expected - own).mean()  # biases have mean 0
    torch.testing.assert_close(evaluation.transformed['sinkhorn'].t2v, expected)
    torch.testing.assert_close(vectors(model, evaluation.texts.levels), texts)
    ModalityGapHook().after_scoring(runner, evaluation)
    cross = float((texts @ videos.t()).mean())
    assert evaluation.numbers['modality_gap/cross'] == pytest.approx(cross, abs=1e-6)


# -- training by a Runner ----------------------------------------------------------------------


class PureBatches(torch.utils.data.Dataset):
    """Batches of 3 texts and their videos, ready made, of environments 0 and 1 in turn."""

    def __len__(self):
        return 6

    def __getitem__(self, key):
        generator = torch.Generator().manual_seed(key)
        video = torch.randn(3, DIM, generator=generator)
        samples = dict(
            text_idx=torch.arange(3),
            video_idx=torch.arange(3),
            text_videos=torch.arange(3)[:, None],
            text_ids=list('abc'),
            video_ids=list('abc'),
            broken=[],
            environment=torch.full((3,), key % 3 // 2),  # 0, 0, 1, 0, 0, 1
        )
        return dict(inputs=dict(video=video, text=video.flip(0)), data_samples=samples)


def training(work_dir, model):
    train = dict(
        dataset=PureBatches(),
        batch_size=1,
        sampler=dict(type='DefaultSampler', shuffle=False),
        collate_fn=dict(type=lambda items: items[0]),
    )
    return make_runner(
        work_dir,
        model,
        evaluator=METRICS,
        train_dataloader=train,
        train_cfg=dict(by_epoch=True, max_epochs=2),
        optim_wrapper=dict(optimizer=dict(type='AdamW', lr=0.1)),
        val_dataloader=dict(dataset=FakeDataset(), batch_size=2, collate_fn=dict(type=collate)),
        val_cfg=dict(type='RetrievalLoop'),
        val_evaluator=METRICS,
        default_hooks=dict(
            checkpoint=dict(type='PlainCheckpointHook', save_best='retrieval/rsum', rule='greater'),
            logger=dict(type='LoggerHook', interval=1),
        ),
        custom_hooks=[dict(type='MembersHook')],
    )


def test_a_training_with_the_prior(tmp_path):
    model = backdoor(fusion='prior')
    training(tmp_path, model).train()
    assert model.seen.tolist() == [24, 12]
    log = log_of(tmp_path)
    assert 'weight 0.6667; trained on 24 items of environment 0' in log
    assert 'environment: 1.0000' in log and 'member_1/retrieval/t2v_R1: ' in log
    weights = read_checkpoint(tmp_path / 'epoch_2.pth')['state_dict']
    assert all(torch.equal(weights[name], value) for name, value in model.state_dict().items())


# -- several checkpoints of a config -----------------------------------------------------------


def test_a_config_of_several_members():
    cfg = Config(dict(model=dict(type='VideoTextRetriever', encoder=dict(type='X'))))
    fuse_config(cfg, ['a', 'b', 'c'], read_fusion(None))
    assert cfg.model.type == 'mmvtr.BackdoorRetriever' and cfg.model.fusion == 'sum'
    assert [member.encoder.type for member in cfg.model.members] == ['X'] * 3
    assert cfg.custom_hooks == [dict(type='mmvtr.MembersHook', origins=['a', 'b', 'c'])]
    cfg = Config(dict(model=dict(type='Y'), custom_hooks=[dict(type='H')]))
    fuse_config(cfg, ['a', 'b'], read_fusion(['.7', '.3']))
    assert cfg.model.fusion == [0.7, 0.3]
    assert [hook.type for hook in cfg.custom_hooks] == ['H', 'mmvtr.MembersHook']


def test_words_that_are_no_fusion():
    assert read_fusion(['sum']) == 'sum'
    with pytest.raises(ValueError, match="must be 'sum' or weights, not 'prior'"):
        read_fusion(['prior'])
    with pytest.raises(ValueError, match='one non-negative weight per member, 2 in all'):
        fuse_config(Config(dict(model={})), ['a', 'b'], [1.0])


# -- bad input ---------------------------------------------------------------------------------


def test_a_model_without_members():
    with pytest.raises(TypeError, match='VideoTextRetriever has no members'):
        MembersHook().before_test(SimpleNamespace(model=retriever(0)))


def test_distributed_training_must_look_for_unused_parameters():
    wrapped = DistributedDataParallel.__new__(DistributedDataParallel)
    nn.Module.__init__(wrapped)
    wrapped.module = retriever(0)
    for wrapped.find_unused_parameters in (True, False):
        runner = SimpleNamespace(model=wrapped)
        if wrapped.find_unused_parameters:
            MembersHook().before_train(runner)
            continue
        with pytest.raises(ValueError, match='set `find_unused_parameters = True`'):
            MembersHook().before_train(runner)


@pytest.mark.parametrize('environments', [[0, 0], [0, 1, 2], [1, 2], None])
def test_members_without_an_environment_and_environments_without_a_member(environments):
    """Before the first step: a member that never learns would spoil the sum unseen."""

    def runner(found):
        found = None if found is None else np.array(found)
        loader = SimpleNamespace(dataset=SimpleNamespace(environments=found))
        return SimpleNamespace(model=backdoor(), train_dataloader=loader)

    MembersHook().before_train(runner([1, 0, 0, 1]))
    with pytest.raises(
        ValueError, match=r'2 members learn .* are .*--cfg-options parts=M sets both'
    ):
        MembersHook().before_train(runner(environments))


def starting(path, iteration=0):
    """A backdoor after MembersHook has begun its training from a checkpoint."""
    logger = logging.getLogger('members')
    loader = SimpleNamespace(dataset=SimpleNamespace())
    runner = SimpleNamespace(
        model=backdoor(), train_dataloader=loader, iter=iteration, logger=logger
    )
    MembersHook(init_from=str(path)).before_train(runner)
    return runner.model


def test_all_members_start_from_one_plain_model(tmp_path):
    trained, path = retriever(7), tmp_path / 'full.pth'
    torch.save(dict(state_dict=trained.state_dict()), path)
    model = starting(path)
    for member in model.members:
        for name, value in trained.state_dict().items():
            assert torch.equal(member.state_dict()[name], value)
    first, second = (member.encoder.video.weight for member in model.members)
    assert first.data_ptr() != second.data_ptr()
    resumed, untouched = starting(path, iteration=3), backdoor()
    for name, value in untouched.state_dict().items():
        assert torch.equal(resumed.state_dict()[name], value)


def test_a_start_from_another_model_or_none(tmp_path):
    with pytest.raises(FileNotFoundError, match='checkpoint nowhere.pth does not exist'):
        starting('nowhere.pth')
    weights = retriever(7).state_dict()
    weights['strange'] = weights.pop('encoder.video.bias')
    torch.save(weights, tmp_path / 'other.pth')
    with pytest.raises(RuntimeError, match='(?s)other.pth does not fit.*video.bias.*strange'):
        starting(tmp_path / 'other.pth')


def test_a_queue_of_train_queries_is_refused():
    runner = SimpleNamespace(model=backdoor(), iter=0)
    with pytest.raises(RuntimeError, match="write a bank .* set queries='bank'"):
        QueryQueueHook().before_train(runner)


def test_hooks_of_one_training_leave_or_are_refused():
    hooks = [dict(type='mmvtr.AmbiguityHook'), dict(type='QueryQueueHook', size=8)]
    cfg = Config(dict(model=dict(type='x'), custom_hooks=hooks))
    fuse_config(cfg, ['a.pth', 'b.pth'])
    assert [hook.type for hook in cfg.custom_hooks] == ['mmvtr.MembersHook']
    for name, key in (('SinkhornHook', 'queries'), ('SureFirstHook', 'written')):
        queue = {'type': name, key: 'train_queue'}
        with pytest.raises(ValueError, match=f'{name} needs a train queue'):
            fuse_config(Config(dict(model=dict(type='x'), custom_hooks=[queue])), ['a', 'b'])
