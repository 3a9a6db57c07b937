import math

import pytest
import torch
from torch import nn

from mmvtr.datasets import collate_retrieval
from mmvtr.engine.loops.evaluation import encode_batch
from mmvtr.models.annotation import match
from mmvtr.models.data_preprocessor import VideoTextDataPreprocessor, pad
from mmvtr.models.losses.matrix import ContrastiveLoss
from mmvtr.models.losses.ranking import RankingLoss
from mmvtr.models.retriever import VideoTextRetriever
from mmvtr.models.similarities.cosine import CosineSimilarity
from mmvtr.models.supervisions.dvtr import DVTRSupervision
from mmvtr.models.temperature import Temperature
from mmvtr.structures import Embedding, cat_levels
from tests.test_dist import make_batch, make_model

ALL = slice(0, 5), slice(0, 7)


def test_match_knows_siblings_and_second_copies():
    _, samples = make_batch(*ALL)
    positives = match(samples, torch.device('cpu'))
    expected = [
        [video in row for video in samples['video_idx'].tolist()]
        for row in samples['text_videos'].tolist()
    ]
    assert positives.tolist() == expected
    assert positives[0].tolist() == [True, False, False, True, False]
    assert not positives[6].any()  # its video is not in the batch


def test_three_modes():
    model, batch = make_model(literal=False), make_batch(*ALL)
    texts, videos = model(*batch, mode='tensor')
    assert texts['global'].mean.shape == (7, 8) and videos['gaussian'].log_std.shape == (5, 8)
    samples = model(*batch, mode='predict')
    matrices = model.score(texts, videos)
    assert set(matrices) == {'scores', 'global', 'aligned', 'eta'}
    torch.testing.assert_close(torch.stack([s.scores for s in samples]), matrices['scores'])
    assert samples[2].text_id == '2' and samples[2].video_ids == ['3', '1', '4', '3', '9']
    losses = model(*batch, mode='loss')
    assert {'loss_contrastive', 'loss_triplet', 'loss_match', 'loss_align'} <= set(losses)
    with pytest.raises(ValueError, match='mode must be'):
        model(*batch, mode='train')


class CountedSupervision(DVTRSupervision):
    made = 0

    def matrices(self, texts, videos):
        self.made += 1
        return super().matrices(texts, videos)


def test_matrices_of_the_supervision_are_made_where_they_are_read():
    model, batch = make_model(literal=False), make_batch(*ALL)
    model.supervision = counted = CountedSupervision().double()
    texts, videos = model(*batch, mode='tensor')
    assert 'eta' not in model.score(texts, videos, ['scores', 'aligned'])
    model(*batch, mode='predict')
    assert counted.made == 0
    assert 'eta' in model.score(texts, videos, ['scores', 'eta']) and counted.made == 1
    assert 'eta' in model.score(texts, videos) and counted.made == 2


def gradients(model, batch):
    model.zero_grad()
    losses = model(*batch, mode='loss')
    sum(v for k, v in losses.items() if 'loss' in k).backward()
    return {n for n, p in model.named_parameters() if p.grad is not None and p.grad.any()}


@pytest.mark.parametrize('literal', [False, True])
def test_stages_of_algorithm_1(literal):
    model, batch = make_model(literal), make_batch(*ALL)
    model.encoder.aligned.weight.requires_grad_(False)
    model._trainable.discard('encoder.aligned.weight')
    names = {n for n, _ in model.named_parameters()}
    heads = {n for n in names if n.startswith(('heads.', 'supervision.'))}
    read_by_heads = {n for n in names if n.startswith(('encoder.video', 'encoder.text'))}

    model.stage = 'uncertainty'
    assert gradients(model, batch) == heads | (read_by_heads if literal else set())
    model.stage = 'retrieval'
    assert gradients(model, batch) == names - heads - {'encoder.aligned.weight'}
    model.stage = None
    assert gradients(model, batch) == names - {'encoder.aligned.weight'}  # frozen stays frozen
    with pytest.raises(ValueError, match='stage must be'):
        model.stage = 'both'


def test_sound_heads_never_move_the_encoders():
    model, batch = make_model(literal=False), make_batch(*ALL)
    losses = model(*batch, mode='loss')
    (losses['loss_match'] + losses['loss_align']).backward()
    assert all(p.grad is None for p in model.encoder.parameters())


def test_nan_names_the_loss_and_the_batch():
    model, (inputs, samples) = make_model(literal=False), make_batch(*ALL)
    inputs['text'][3] = math.nan
    with pytest.raises(FloatingPointError, match='loss_contrastive.*texts 0, 1, 2, 3, 4 ...'):
        model(inputs, samples, mode='loss')


def test_loss_that_reads_an_unknown_matrix():
    model = make_model(literal=False)
    model.losses['contrastive'].reads = ('local',)
    with pytest.raises(KeyError, match="reads \\['local'\\], the model offers"):
        model(*make_batch(*ALL), mode='loss')


def test_cosine_similarity():
    texts = {k: Embedding(torch.randn(3, 4)) for k in ('a', 'b')}
    videos = {k: Embedding(torch.randn(2, 4)) for k in ('a', 'b')}
    out = CosineSimilarity(levels=('a', 'b'), weights=(3, 1))(texts, videos)
    for t in range(3):
        for v in range(2):
            cosine = [
                torch.cosine_similarity(texts[k].mean[t], videos[k].mean[v], dim=0) for k in 'ab'
            ]
            torch.testing.assert_close(out['b'][t, v], cosine[1])
            torch.testing.assert_close(out['scores'][t, v], 0.75 * cosine[0] + 0.25 * cosine[1])
    half = {k: e.map(lambda x: x.bfloat16()) for k, e in texts.items()}
    with torch.autocast('cpu', torch.bfloat16):
        assert CosineSimilarity(levels=('a',))(half, videos)['scores'].dtype == torch.float32
    with pytest.raises(ValueError, match='one weight per level'):
        CosineSimilarity(levels=('a', 'b'), weights=(1,))


def test_temperature_is_clamped():
    temperature = Temperature(init=0.02, learnable=True)
    assert temperature().item() == pytest.approx(0.02)
    temperature.log_scale.data.fill_(10.0)
    assert temperature().item() == pytest.approx(0.01)
    assert not Temperature().log_scale.requires_grad


def test_temperature_comes_back_from_its_minimum():
    """CLIP ends at the minimum, so a fine-tuning that starts there must be able to leave it."""
    temperature = Temperature(init=0.01, learnable=True)
    with torch.no_grad():
        temperature.log_scale += 1e-4  # a step too far
    temperature().backward()  # descending lowers the temperature: no way
    assert temperature.log_scale.grad == 0
    (-temperature()).backward()
    assert temperature.log_scale.grad > 0


def test_temperature_refuses_an_initial_value_below_its_minimum():
    with pytest.raises(ValueError, match='init >= minimum'):
        Temperature(init=0.001)


def test_preprocessor_pads_and_normalises():
    preprocessor = VideoTextDataPreprocessor(mean=(10, 20, 30), std=(2, 4, 5))
    frames = [
        torch.full((2, 3, 4, 4), 30, dtype=torch.uint8),
        torch.full((1, 3, 4, 4), 10, dtype=torch.uint8),
    ]
    words = [torch.tensor([5, 6]), torch.tensor([7, 8, 9]), torch.tensor([1])]
    batch = preprocessor(dict(inputs=dict(video=frames, text=words), data_samples={}))['inputs']
    assert batch['video'][0, 0, :, 0, 0].tolist() == [10.0, 2.5, 0.0]
    assert batch['frame_mask'].tolist() == [[True, True], [True, False]]
    assert batch['text'].tolist() == [[5, 6, 0], [7, 8, 9], [1, 0, 0]]
    assert batch['text_mask'].tolist() == [[1, 1, 0], [1, 1, 1], [1, 0, 0]]
    features = preprocessor(dict(inputs=dict(video=[torch.ones(3, 7)]), data_samples={}))
    assert features['inputs']['video'].shape == (1, 3, 7) and 'text' not in features['inputs']
    with pytest.raises(ValueError, match='3 frames or words, but at most 2'):
        pad(words, 2)


def test_cat_levels_pads_tokens():
    def part(n, length):
        return {
            'g': Embedding(
                torch.ones(n, 2), torch.ones(n, length, 2), torch.ones(n, length, dtype=torch.bool)
            )
        }

    joint = cat_levels([part(2, 3), part(1, 5)])['g']
    assert joint.tokens.shape == (3, 5, 2) and joint.mask.sum(1).tolist() == [3, 3, 5]


def test_a_batch_of_broken_videos_has_zero_losses_and_zero_gradients():
    """From the collation to the gradients, as one process of several may meet it."""
    clip = dict(
        embed_dim=8,
        vision_cfg=dict(layers=1, width=8, head_width=4, patch_size=8, image_size=8),
        text_cfg=dict(context_length=8, vocab_size=10, width=8, heads=2, layers=1),
    )
    towers = dict(
        frames=dict(type='mmvtr.OpenCLIPFrames', model=clip),
        text=dict(type='mmvtr.OpenCLIPText', model=clip),
    )
    model = VideoTextRetriever(
        encoder=dict(type='mmvtr.CLIP2Video', **towers, temporal_layers=1),
        similarity=CosineSimilarity(levels=('global', 'aligned')),
        heads=dict(type='mmvtr.HierarchicalGaussianHead'),
        supervision=DVTRSupervision(),
        losses=dict(nce=ContrastiveLoss(reads=('global', 'aligned')), triplet=RankingLoss()),
        data_preprocessor=dict(type='mmvtr.VideoTextDataPreprocessor'),
    )
    batch = collate_retrieval([dict(broken=('video7', 'cut short'))])
    assert batch['inputs'] == {}
    losses = model(**model.data_preprocessor(batch, training=True), mode='loss')
    total = sum(value for name, value in losses.items() if 'loss' in name)
    total.backward()
    assert total.item() == 0
    assert all(p.grad is not None and not p.grad.any() for p in model.encoder.parameters())


class ExtraEncoder(nn.Module):
    """Means of features, weighed by what else is known; remembers what it was called with."""

    dim = 2
    level_names = ('global',)

    def __init__(self):
        super().__init__()
        self.scale = nn.Parameter(torch.ones(()))
        self.calls = []

    def encode_video(self, video, frame_mask, *, expert=None, has=None):
        self.calls.append(dict(expert=expert, has=has))
        weight = 1 if expert is None else expert * has[:, None]
        return {'global': Embedding(self.scale * video.sum(1) * weight)}

    def encode_text(self, text, text_mask, **extra):
        self.calls.append(extra)
        return {'global': Embedding(self.scale * text.sum(1))}


def extra_items(with_extra=True):
    """Two videos, with two and one texts."""
    videos = [
        dict(video_idx=v, video_id=f'v{v}', frames=torch.full((1 + v, 2), 1.0)) for v in range(2)
    ]
    texts = [
        dict(text_idx=t, text_id=f't{t}', tokens=torch.ones(1, 2), video_idx=[t // 2])
        for t in range(3)
    ]
    for v, video in enumerate(videos if with_extra else ()):
        video['extra'] = dict(expert=torch.tensor([1.0 + v, 2.0]), has=torch.tensor(v == 0))
    for t, text in enumerate(texts if with_extra else ()):
        text['extra'] = dict(graph=torch.eye(2) * t)
    return [dict(video=videos[0], texts=texts[:2]), dict(video=videos[1], texts=texts[2:])]


def extra_model():
    return VideoTextRetriever(
        encoder=ExtraEncoder(),
        similarity=CosineSimilarity(),
        losses=dict(nce=ContrastiveLoss()),
        data_preprocessor=dict(type='mmvtr.VideoTextDataPreprocessor'),
    )


def test_extras_reach_the_encoder_by_name():
    model = extra_model()
    data = model.data_preprocessor(collate_retrieval(extra_items()))
    _, videos = model(data['inputs'], mode='tensor')
    of_text, of_video = model.encoder.calls
    assert of_text.keys() == {'graph'}, 'the mask is an argument of its own'
    assert torch.equal(of_text['graph'], torch.eye(2) * torch.arange(3.0)[:, None, None])
    assert of_video['expert'].tolist() == [[1, 2], [2, 2]]
    assert of_video['has'].tolist() == [True, False]
    assert videos['global'].mean.tolist() == [[1, 2], [0, 0]]
    loss = model(**data, mode='loss')['loss_nce']
    loss.backward()
    assert torch.isfinite(loss) and len(model.encoder.calls) == 4


def test_extras_reach_the_encoder_in_an_evaluation():
    model, items = extra_model(), extra_items()
    videos = collate_retrieval([item['video'] for item in items])
    encoded = encode_batch(model, 'video', videos, amp=False)
    assert encoded.levels['global'].mean.tolist() == [[1, 2], [0, 0]]
    encode_batch(model, 'text', collate_retrieval(items[1]['texts']), amp=False)
    assert model.encoder.calls[1]['graph'].tolist() == [[[2, 0], [0, 2]]]


def test_encoders_need_no_extras():
    model = extra_model()
    data = model.data_preprocessor(collate_retrieval(extra_items(with_extra=False)))
    _, videos = model(data['inputs'], mode='tensor')
    assert model.encoder.calls == [{}, dict(expert=None, has=None)]
    assert videos['global'].mean.tolist() == [[1, 1], [2, 2]]


def test_the_supervision_and_the_losses_get_relevance_and_overlap():
    class Watch(nn.Module):
        def __init__(self):
            super().__init__()
            self.targets = []

    class Supervision(Watch):
        def forward(self, texts, videos, target):
            self.targets.append(target)
            return target, {}

    class Loss(Watch):
        def forward(self, matrices, target, temperature):
            self.targets.append(target)
            return matrices['scores'].sum()

    inputs, samples = make_batch(*ALL)
    sets = torch.arange(7)[:, None] % 3
    samples['text_classes'] = dict(verb=sets, noun=sets)
    samples['video_classes'] = dict(verb=sets[:5], noun=torch.zeros(5, 0, dtype=torch.int64))
    model = make_model(literal=False)
    model.supervision = Supervision()
    model.losses = nn.ModuleDict(dict(watch=Loss()))
    model(inputs, samples, mode='loss')
    (target,), (again,) = model.supervision.targets, model.losses['watch'].targets
    assert target is again
    assert torch.equal(target.known.relevance, 0.5 * (sets == sets[:5].t()).float())
    assert target.known.overlap.shape == (7, 5) and not target.known.overlap.any()
    assert torch.equal(target.positives, match(samples, torch.device('cpu')))
    for name in ('text_classes', 'video_classes'):
        del samples[name]
    model(inputs, samples, mode='loss')
    assert model.supervision.targets[1].known.relevance is None
    assert model.supervision.targets[1].known.overlap is None
