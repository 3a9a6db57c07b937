"""Several retrievers as one: what is added in evaluation, and who learns in training."""

import copy

import pytest
import torch
import torch.distributed as dist
import torch.multiprocessing as mp
from mmengine.model import MMDistributedDataParallel
from mmengine.optim import OptimWrapper
from torch import nn

from mmvtr.engine.hooks.step_hooks import ProgressHook
from mmvtr.engine.optimizers import BertAdam
from mmvtr.functional.uncertainty.gaussian import geometric_sigma
from mmvtr.models.backdoor import BackdoorRetriever, FusedSimilarity, of_member
from mmvtr.models.losses.matrix import ContrastiveLoss
from mmvtr.models.losses.ranking import RankingLoss
from mmvtr.models.retriever import VideoTextRetriever
from mmvtr.models.similarities.best_frame import BestFrameSimilarity
from mmvtr.models.similarities.cosine import CosineSimilarity
from mmvtr.models.similarities.token import TokenSimilarity
from mmvtr.models.supervisions.arl import ARLSupervision
from mmvtr.models.temperature import Temperature
from mmvtr.registry import MODELS
from mmvtr.structures import Embedding, take


@MODELS.register_module()
class BackdoorTestEncoder(nn.Module):
    """Linear towers on [N, L, 3]; two levels of ``dim``, the first with tokens."""

    level_names = ('global', 'aligned')

    def __init__(self, dim=4):
        super().__init__()
        self.dim = dim
        self.video, self.text, self.aligned = (nn.Linear(3, dim) for _ in range(3))

    def _levels(self, tower, x, mask):
        tokens = tower(x) * mask[..., None]
        mean = tokens.sum(1) / mask.sum(1, keepdim=True).clamp_min(1)
        aligned = mean + self.aligned(x).sum(1)
        return {'global': Embedding(mean, tokens, mask), 'aligned': Embedding(aligned)}

    def encode_video(self, video, frame_mask):
        return self._levels(self.video, video, frame_mask)

    def encode_text(self, text, text_mask):
        return self._levels(self.text, text, text_mask)


def retriever(seed=0, dim=4, levels=('global', 'aligned'), **kwargs):
    """float64, with random parts in its losses."""
    torch.manual_seed(seed)
    parts = dict(
        encoder=BackdoorTestEncoder(dim),
        similarity=CosineSimilarity(levels=levels, weights=[3, 1][: len(levels)]),
        temperature=Temperature(init=0.07 + 0.01 * seed, learnable=True),
        losses=dict(nce=ContrastiveLoss(), triplet=RankingLoss(negatives='random', margin=0.5)),
    )
    return VideoTextRetriever(**{**parts, **kwargs}).double()


def backdoor(*members, **kwargs):
    return BackdoorRetriever(members=members or [retriever(0), retriever(1)], **kwargs).double()


def batch(environment, seed=0, rows=slice(None), broken=False):
    """5 texts and 4 videos of one environment; text 1 shares the video of text 0."""
    generator = torch.Generator().manual_seed(seed)
    video = torch.randn(4, 3, 3, generator=generator, dtype=torch.float64)[rows]
    text = torch.randn(5, 2, 3, generator=generator, dtype=torch.float64)[rows]
    text_videos = torch.tensor([[0], [0], [1], [2], [3]])[rows]
    inputs = dict(
        video=video,
        frame_mask=torch.ones(video.shape[:2], dtype=torch.bool),
        text=text,
        text_mask=torch.ones(text.shape[:2], dtype=torch.bool),
    )
    samples = dict(
        video_idx=torch.arange(4)[rows],
        text_idx=torch.arange(5)[rows],
        text_videos=text_videos,
        video_ids=[f'v{i}' for i in range(len(video))],
        text_ids=[f't{i}' for i in range(len(text))],
        environment=torch.full((len(video),), environment),
    )
    return inputs, samples


def nothing():
    """What the collation and the preprocessor make of a batch of broken videos."""
    empty = torch.empty(0, dtype=torch.long)
    samples = dict(video_idx=empty, text_idx=empty, text_videos=torch.empty(0, 0).long())
    return {}, dict(samples, video_ids=[], text_ids=[])


def total(losses):
    return sum(value for name, value in losses.items() if 'loss' in name)


def step(model, optimizer, *data):
    optimizer.zero_grad()
    losses = model(*data, mode='loss')
    total(losses).backward()
    optimizer.step()
    return losses


def encoded(model, seed=0):
    return model(batch(0, seed)[0], mode='tensor')


# -- evaluation --------------------------------------------------------------------------------


@pytest.mark.parametrize('fusion, weights', [('sum', (0.5, 0.5)), ((3, 1), (0.75, 0.25))])
def test_fused_scores_are_the_mean_of_the_members_own(fusion, weights):
    members = [retriever(0, dim=4), retriever(1, dim=6, levels=('global',))]
    model = backdoor(*members, fusion=fusion)
    alone = [member.score(*encoded(member)) for member in members]
    matrices = model.score(*encoded(model))
    for k in range(2):
        torch.testing.assert_close(matrices[f'scores_{k}'], alone[k]['scores'])
    for name in ('scores', 'global'):
        expected = weights[0] * alone[0][name] + weights[1] * alone[1][name]
        torch.testing.assert_close(matrices[name], expected)
    assert set(matrices) == {'scores', 'global', 'scores_0', 'scores_1'}  # 'aligned' is of one only
    torch.testing.assert_close(model.similarity(*encoded(model)), matrices)
    assert model.temperature().item() == pytest.approx((0.07 + 0.08) / 2)


def test_one_inner_product_of_concatenated_vectors():
    model = backdoor(retriever(0, dim=4), retriever(1, dim=6, levels=('global',)), fusion=(2, 3))
    texts, videos = encoded(model)
    texts = take(texts, slice(1, 4))
    flat = model.similarity.flat
    assert flat(texts).shape == (3, 4 + 4 + 6) and flat(videos).shape == (4, 14)
    expected = model.score(texts, videos)['scores']
    torch.testing.assert_close(flat(texts) @ flat(videos).t(), expected)
    assert model.similarity.levels == ('0.global', '0.aligned', '1.global')
    assert not model.similarity.needs_tokens and model.similarity.exact


def test_a_member_that_compares_tokens():
    members = [retriever(0), retriever(1, similarity=TokenSimilarity())]
    model = backdoor(*members)
    similarity = model.similarity
    assert similarity.needs_tokens and not hasattr(similarity, 'flat') and similarity.exact
    texts, videos = encoded(model)
    assert texts['0.global'].tokens is None and texts['1.global'].tokens is not None
    alone = [member.score(*encoded(member))['scores'] for member in members]
    torch.testing.assert_close(model.score(texts, videos)['scores'], sum(alone) / 2)
    members[1].similarity.exact = False
    assert not model.similarity.exact


def test_heads_and_supervisions_speak_through_it():
    kwargs = dict(
        heads=dict(type='mmvtr.HierarchicalGaussianHead'),
        supervision=dict(type='mmvtr.DVTRSupervision'),
    )
    members = [retriever(0, **kwargs), retriever(1, dim=6, **kwargs)]
    model = backdoor(*members)
    texts, videos = encoded(model)
    alone = [member(batch(0)[0], mode='tensor') for member in members]
    etas = [member.score(*levels)['eta'] for member, levels in zip(members, alone)]
    torch.testing.assert_close(model.score(texts, videos)['eta'], sum(etas) / 2)
    torch.testing.assert_close(model.score(texts, videos, ['eta'])['eta'], sum(etas) / 2)
    assert 'eta' not in model.score(texts, videos, ['scores', 'scores_1'])
    # The Gaussian of both: the geometric mean over all 10 dimensions.
    logs = [geometric_sigma(levels[0]['gaussian'].log_std).log() for levels in alone]
    expected = ((4 * logs[0] + 6 * logs[1]) / 10).exp()
    torch.testing.assert_close(geometric_sigma(texts['gaussian'].log_std), expected)
    samples = model(*batch(0), mode='predict')
    torch.testing.assert_close(torch.stack([sample.text_sigma for sample in samples]), expected)


def test_predictions():
    model = backdoor()
    samples = model(*batch(0), mode='predict')
    assert [sample.text_id for sample in samples] == ['t0', 't1', 't2', 't3', 't4']
    assert samples[0].video_ids == ['v0', 'v1', 'v2', 'v3']
    rows = torch.stack([sample.scores for sample in samples])
    torch.testing.assert_close(rows, model.score(*encoded(model))['scores'])


def test_levels_of_a_member_are_found_by_the_whole_number():
    items = {name: Embedding(torch.ones(1, 1)) for name in ('1.a', '11.a', '1.1.b', 'gaussian')}
    assert set(of_member(items, 1)) == {'a', '1.b'} and set(of_member(items, 11)) == {'a'}


# -- training ----------------------------------------------------------------------------------


@pytest.mark.parametrize('kind', [torch.optim.AdamW, BertAdam])
def test_only_the_member_of_the_batch_changes(kind):
    """Weight decay and momentum would move the others, if their gradients were zero."""
    model = backdoor()
    optimizer = kind(model.parameters(), lr=0.1, weight_decay=0.5)
    step(model, optimizer, *batch(0))
    step(model, optimizer, *batch(1))  # both have momentum now
    for environment in (1, 0, 0):
        before = copy.deepcopy(model.members)
        losses = step(model, optimizer, *batch(environment))
        assert losses['environment'] == environment
        for k in range(2):
            pairs = list(zip(before[k].parameters(), model.members[k].parameters()))
            assert all(torch.equal(*pair) != (k == environment) for pair in pairs)
            assert all((new.grad is not None) == (k == environment) for _, new in pairs)


def test_interleaved_training_is_two_trainings():
    """Exactly: losses, weights, and the numbers that draw negatives."""
    model, alone = backdoor(), [retriever(0), retriever(1)]
    wrapper, *own = (
        OptimWrapper(
            torch.optim.AdamW(module.parameters(), lr=0.05, weight_decay=0.3),
            clip_grad=dict(max_norm=0.5),
        )
        for module in (model, *alone)
    )
    for seed, k in enumerate((0, 1, 1, 0, 1, 1, 0)):
        losses = model(*batch(k, seed), mode='loss')
        wrapper.update_params(total(losses))
        expected = alone[k](*batch(k, seed), mode='loss')
        own[k].update_params(total(expected))
        assert torch.equal(total(losses), total(expected))
    for k in range(2):
        states = model.members[k].state_dict(), alone[k].state_dict()
        assert states[0].keys() == states[1].keys()
        assert all(torch.equal(states[0][name], states[1][name]) for name in states[0])
    assert [int(member.losses['triplet'].step) for member in model.members] == [3, 4]


def test_a_joint_batch_without_videos_moves_nobody():
    model = backdoor()
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.1, weight_decay=0.5)
    step(model, optimizer, *batch(0))
    before = copy.deepcopy(model.state_dict())
    losses = step(model, optimizer, *nothing())
    assert total(losses) == 0
    assert all(torch.equal(before[name], value) for name, value in model.state_dict().items())


def test_stage_and_progress_reach_the_members():
    members = [
        retriever(k, supervision=ARLSupervision(dim=4, levels=('global', 'aligned')))
        for k in range(2)
    ]
    model = backdoor(*members)
    assert model.stage is None and model.objectives == []
    model.stage = 'retrieval'
    assert [member.stage for member in members] == ['retrieval'] * 2 and model.stage == 'retrieval'

    class Runner:
        iter, max_iters = 3, 4

    Runner.model = model
    ProgressHook().before_train_iter(Runner, 0)
    assert [member.supervision.progress for member in members] == [0.75] * 2
    members[1].objectives['kl'] = nn.Identity()
    assert model.objectives == ['kl']


# -- the prior ---------------------------------------------------------------------------------


def test_prior_weights_are_shares_of_the_items_trained_on():
    model = backdoor(fusion='prior')
    for environment, rows in ((0, slice(0, 4)), (1, slice(0, 2)), (0, slice(0, 1))):
        model(*batch(environment, rows=rows), mode='loss')
    model.eval()
    model(*batch(1), mode='loss')  # not trained on
    assert model.seen.tolist() == [5, 2]
    assert model.weights == pytest.approx([5 / 7, 2 / 7])
    matrices = model.score(*encoded(model))
    expected = (5 * matrices['scores_0'] + 2 * matrices['scores_1']) / 7
    torch.testing.assert_close(matrices['scores'], expected)


def test_a_prior_without_counts():
    with pytest.raises(RuntimeError, match='none are counted: train this model, or give'):
        backdoor(fusion='prior')(*batch(0), mode='predict')


def test_checkpoints_are_plain_and_hold_the_counts(tmp_path):
    model = backdoor(fusion='prior')
    model(*batch(1), mode='loss')
    torch.save(model.state_dict(), tmp_path / 'model.pth')
    weights = torch.load(tmp_path / 'model.pth', weights_only=True)
    assert not [name for name in weights if not name.startswith(('members.', 'seen'))]
    again = backdoor(retriever(2), retriever(3), fusion='prior')
    again.load_state_dict(weights, strict=True)
    assert again.weights == [0, 1]
    torch.testing.assert_close(again.score(*encoded(again)), model.score(*encoded(model)))
    # A member's part is a retriever's own checkpoint.
    part = {name[10:]: value for name, value in weights.items() if name.startswith('members.1.')}
    retriever(4).load_state_dict(part, strict=True)


# -- two processes -----------------------------------------------------------------------------

FIRST, REST, NONE = slice(0, 3), slice(3, 5), slice(5, 5)
#: Environment, and the rows of either process: unequal, one without items, none at all.
STEPS = [
    (0, FIRST, REST),
    (1, FIRST, REST),
    (1, slice(0, 5), NONE),
    (0, NONE, slice(0, 5)),
    (None, NONE, NONE),
    (1, slice(0, 1), slice(1, 5)),
    (0, FIRST, REST),
]


def train(model, ranks):
    """Some steps on the rows of ``ranks``; their losses and what is left."""
    optimizer = OptimWrapper(torch.optim.AdamW(model.parameters(), lr=0.05, weight_decay=0.5))
    bare = getattr(model, 'module', model)
    history = []
    for seed, (environment, *rows) in enumerate(STEPS):
        mine = slice(0, 5) if len(ranks) > 1 else rows[ranks[0]]
        empty = environment is None or mine == NONE
        data = nothing() if empty else batch(environment, seed, rows=mine)
        losses = model(*data, mode='loss')
        optimizer.backward(total(losses))
        grads = {n: p.grad.clone() for n, p in bare.named_parameters() if p.grad is not None}
        optimizer.step()
        optimizer.zero_grad()
        history.append(({name: value.detach() for name, value in losses.items()}, grads))
    return history, bare.state_dict()


def worker(rank, folder):
    torch.set_num_threads(1)
    dist.init_process_group('gloo', init_method=f'file://{folder}/store', rank=rank, world_size=2)
    try:
        model = MMDistributedDataParallel(backdoor(), find_unused_parameters=True)
        history, state = train(model, [rank])
        errors = []
        for environments in ((0, 1), (0, 2)):  # pure in either process, mixed or too many jointly
            try:
                model.module(*batch(environments[rank]), mode='loss')
            except ValueError as error:
                errors.append(str(error))
        torch.save((history, state, errors), f'{folder}/rank{rank}.pt')
        dist.barrier()
    finally:
        dist.destroy_process_group()


def test_two_processes_equal_one(tmp_path):
    expected_history, expected = train(backdoor(), [0, 1])
    mp.start_processes(worker, (str(tmp_path),), nprocs=2, start_method='forkserver')
    for rank in range(2):
        history, state, errors = torch.load(tmp_path / f'rank{rank}.pt')
        for (losses, grads), (expected_losses, expected_grads) in zip(history, expected_history):
            torch.testing.assert_close(losses, expected_losses)
            assert grads.keys() == expected_grads.keys()
            torch.testing.assert_close(grads, expected_grads)
        torch.testing.assert_close(state, dict(expected))
        assert state['seen'].tolist() == [12, 12]
        assert 'this one has [0, 1]' in errors[0] and 'this one has [0, 2]' in errors[1]
    used = [{name.split('.')[1] for name in grads} for _, grads in expected_history]
    assert used == [{'0'}, {'1'}, {'1'}, {'0'}, set(), {'1'}, {'0'}]


# -- bad input ---------------------------------------------------------------------------------


def test_mixed_batch_and_batch_of_unknown_environment():
    inputs, samples = batch(0)
    samples['environment'] = torch.tensor([1, 0, 0, 1])
    model = backdoor()
    with pytest.raises(ValueError, match=r'over all processes, this one has \[0, 1\]'):
        model(inputs, samples, mode='loss')
    del samples['environment']
    with pytest.raises(ValueError, match="has no 'environment' of its videos"):
        model(inputs, samples, mode='loss')
    assert not model.seen.any()


@pytest.mark.parametrize('environment', [-1, 2])
def test_environment_without_a_member(environment):
    with pytest.raises(ValueError, match=f'environment {environment} has no member: there are 2'):
        backdoor()(*batch(environment), mode='loss')


def test_what_it_cannot_do():
    model = backdoor()
    with pytest.raises(ValueError, match="mode must be one of .*'loss', 'predict', 'tensor'"):
        model(*batch(0), mode='train')
    with pytest.raises(RuntimeError, match='no train queue of queries that all members encoded'):
        model.watchers.append(print)


@pytest.mark.parametrize(
    'kwargs, message',
    [
        (dict(members=[]), 'needs members, or copies of one member'),
        (dict(member=dict(type='x')), 'takes members, or copies of one member, not both'),
        (dict(members=None, member=dict(type='x'), copies=0), 'copies must be at least 1, not 0'),
        (dict(members=None, member=nn.Identity()), 'give built models as `members`'),
        (dict(fusion='mean'), "must be 'sum', 'prior' or weights, not 'mean'"),
        (dict(fusion=(1, 2, 3)), r'per member, 2 in all, .* got \[1, 2, 3\]'),
        (dict(fusion=(2, -1)), r'one non-negative weight per member'),
        (dict(fusion=(0, 0)), r'with a positive sum'),
        (dict(fusion=()), r'one non-negative weight per member'),
    ],
)
def test_settings_that_do_not_fit(kwargs, message):
    with pytest.raises(ValueError, match=message):
        BackdoorRetriever(**{'members': [retriever(0), retriever(1)], **kwargs})


def test_shortlists_are_refused():
    member = retriever(1, similarity=TokenSimilarity(shortlist=3))
    with pytest.raises(ValueError, match='member 1 ranks a shortlist of 3'):
        backdoor(retriever(0), member)


def config(**kwargs):
    return dict(
        type='mmvtr.VideoTextRetriever',
        encoder=dict(type='BackdoorTestEncoder'),
        similarity=dict(type='mmvtr.CosineSimilarity'),
        losses=dict(),
        data_preprocessor=dict(type='mmvtr.VideoTextDataPreprocessor', **kwargs),
    )


def test_copies_of_one_config_begin_differently_and_share_the_preprocessor():
    one = config(max_frames=7)
    model = MODELS.build(dict(type='mmvtr.BackdoorRetriever', members=[one] * 2))
    first, second = (dict(member.named_parameters()) for member in model.members)
    assert first.keys() == second.keys()
    assert not torch.equal(first['encoder.video.weight'], second['encoder.video.weight'])
    assert model.data_preprocessor.max_frames == 7
    with pytest.raises(ValueError, match='need one data_preprocessor, got .*9'):
        BackdoorRetriever(members=[one, config(max_frames=9)])
    given = BackdoorRetriever(
        members=[one, config(max_frames=9)],
        data_preprocessor=dict(type='mmvtr.VideoTextDataPreprocessor', max_frames=5),
    )
    assert given.data_preprocessor.max_frames == 5


def test_copies_of_a_member():
    one = config(max_frames=7)
    for copies in (1, 2, 3):
        model = MODELS.build(dict(type='mmvtr.BackdoorRetriever', member=one, copies=copies))
        assert len(model.members) == len(model.seen) == copies
        starts = {member.encoder.video.weight.sum().item() for member in model.members}
        assert len(starts) == copies and model.data_preprocessor.max_frames == 7


def test_members_match_at_one_frame():
    """Of largest weighted mean of all cosines: members of one level and of two."""
    torch.manual_seed(0)
    mask = torch.arange(5) < torch.tensor([5, 2, 4])[:, None]
    shares = {'0.a': 0.4 * 0.75, '0.b': 0.4 * 0.25, '1.global': 0.6}
    texts = {name: Embedding(torch.randn(6, 4)) for name in shares}
    videos = {name: Embedding(torch.randn(3, 4), torch.randn(3, 5, 4), mask) for name in shares}
    parts = [BestFrameSimilarity(levels=('a', 'b'), weights=(3, 1)), BestFrameSimilarity()]
    similarity = FusedSimilarity(parts, [0.4, 0.6])
    rows, columns = torch.arange(6), torch.tensor([0, 2, 1, 0, 2, 0])
    cosines = sum(
        share * torch.cosine_similarity(texts[name].mean[:, None], videos[name].tokens[columns], -1)
        for name, share in shares.items()
    )
    expected = cosines.masked_fill(~mask[columns], -9).argmax(1)
    assert similarity.paired_matches(texts, videos, rows, columns).frame.equal(expected)
    curve = similarity.frame_scores(texts, videos)[rows, columns]
    torch.testing.assert_close(curve, cosines.masked_fill(~mask[columns], -torch.inf))
    for name in ('paired_matches', 'frame_scores'):
        assert not hasattr(FusedSimilarity([*parts, CosineSimilarity()], [1, 1, 1]), name)
