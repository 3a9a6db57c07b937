import pytest
import torch

from mmvtr.models import MixupDataPreprocessor, MixupSupervision, Target
from mmvtr.models.mixup import mixed_videos
from mmvtr.registry import MODELS
from mmvtr.structures import cat_levels

LENGTHS = (3, 2, 3, 1, 3)


def batch():
    videos = [torch.full((n, 2), float(10**i)) for i, n in enumerate(LENGTHS)]
    ids = torch.arange(len(videos))
    return dict(
        inputs=dict(video=videos, text=[torch.ones(4, dtype=torch.long)] * 5),
        data_samples=dict(video_idx=ids, text_videos=ids[:, None]),
    )


def build(**kwargs):
    return MODELS.build(dict(type='MixupDataPreprocessor', **kwargs))


def test_frames_are_mixed_where_both_have_one():
    mixing = build(mixed=1.0, alpha=2.0)
    found = mixing(batch(), training=True)
    share, away = found['data_samples']['video_mix'].unbind(1)
    assert away.tolist() == [4, 2, 0, -2, -4] and ((share > 0) & (share < 1)).all()
    for i, n in enumerate(LENGTHS):
        j = 4 - i
        for f in range(n):
            mixed = share[i] * 10**i + (1 - share[i]) * 10**j if f < LENGTHS[j] else 10.0**i
            torch.testing.assert_close(found['inputs']['video'][i, f, 0], torch.as_tensor(mixed))
    assert not found['inputs']['video'][1, 2].any()


def test_draws_depend_on_the_step_alone_and_evaluation_is_not_mixed():
    one, other = build(mixed=0.5), build(mixed=0.5)
    steps = [one(batch(), training=True)['data_samples']['video_mix'] for _ in range(20)]
    assert not torch.equal(steps[0], steps[1])
    alone = torch.stack(steps)[..., 0] == 1
    assert 0.3 < alone.float().mean() < 0.7
    other.load_state_dict({**other.state_dict(), 'step': torch.tensor(7)})
    assert torch.equal(other(batch(), training=True)['data_samples']['video_mix'], steps[7])
    found = other(batch())
    assert found['data_samples']['video_mix'][:, 0].tolist() == [1] * 5 and other.step == 8
    assert found['inputs']['video'][0].unique().tolist() == [1.0]


def test_labels_of_two_processes():
    """The displacement of the partner holds in the joint batch, too."""
    supervision = MixupSupervision(smoothing=0.01)
    mixes = [build(mixed=1.0)(batch(), training=True) for _ in range(2)]
    levels = [supervision.own_levels(*m.values(), torch.device('cpu'))[1] for m in mixes]
    target, logs = supervision({}, cat_levels(levels), Target(torch.eye(10).bool()))
    labels, positives = target.extras['labels'], target.positives
    assert torch.equal(positives, torch.eye(10).bool())
    for v in range(10):
        share = mixes[v // 5]['data_samples']['video_mix'][v % 5, 0].item()
        partner = 5 * (v // 5) + 4 - v % 5
        for t in range(10):
            own, other = (0.99 if t == c else 0.01 for c in (v, partner))
            assert labels[t, v].item() == pytest.approx(share * own + (1 - share) * other, abs=1e-6)
    assert 0 < logs['mix'] < 1


def test_pixels_and_features():
    video, mask = torch.rand(2, 3, 3, 4, 4), torch.ones(2, 3).bool()
    found = mixed_videos(video, mask, torch.tensor([0.25, 1.0]), torch.tensor([1, 0]))
    torch.testing.assert_close(found[0], 0.25 * video[0] + 0.75 * video[1])
    assert torch.equal(found[1], video[1])


@pytest.mark.parametrize('more', ['video_expert', 'video_vectors', 'video_frame_vectors'])
def test_what_would_stay_as_it_is_is_refused_in_training(more):
    data = batch()
    if more == 'video_expert':
        data['inputs'][more] = [torch.zeros(3, dtype=torch.long)] * 5
    else:
        data['data_samples'][more] = dict(clip=torch.zeros(5, 1, 4))
    with pytest.raises(ValueError, match=f'mixes frames alone.*{more}'):
        build()(data, training=True)
    assert len(build()(data)['inputs']['video']) == 5


def test_what_is_refused():
    for kwargs, said in ((dict(alpha=0.0), 'alpha'), (dict(mixed=1.1), 'mixed must lie')):
        with pytest.raises(ValueError, match=said):
            build(**kwargs)
    with pytest.raises(ValueError, match='as uint8'):
        MixupDataPreprocessor(normalise=False)
    with pytest.raises(ValueError, match='smoothing'):
        MixupSupervision(smoothing=0.5)
    with pytest.raises(ValueError, match='MixupDataPreprocessor'):
        MixupSupervision().sees(MODELS.build(dict(type='VideoTextDataPreprocessor')))
    MixupSupervision().sees(build())
