"""Losses for sentence-transformers: against its own losses, the mmengine path, and themselves."""

from types import SimpleNamespace

import pytest
import torch
from torch import nn

pytest.importorskip('sentence_transformers', reason="needs the extra 'sentence-transformers'")

from sentence_transformers.sentence_transformer.losses import (  # noqa: E402
    CachedMultipleNegativesRankingLoss,
    GISTEmbedLoss,
    MatryoshkaLoss,
    MultipleNegativesRankingLoss,
)
from torch.optim import SGD  # noqa: E402

import tiny_embedders  # noqa: E402
from mmvtr.models import (  # noqa: E402
    ContrastiveLoss,
    CosineSimilarity,
    DVTRSupervision,
    RelativeScoreSupervision,
    Temperature,
    VideoTextRetriever,
)
from mmvtr.models.heads import HierarchicalGaussianHead  # noqa: E402
from mmvtr.sentence_transformers import (  # noqa: E402
    DebiasedContrastiveLoss,
    NormalizedContrastiveLoss,
    contrastive,
)
from mmvtr.structures import Embedding  # noqa: E402

TEXTS, VIDEOS, _ = tiny_embedders.pairs(10)
#: No two alike: of equal scores rounding would choose.
SENTENCES = sorted({*tiny_embedders.pairs(40)[0]})[:20:2]


class Vectors(nn.Module):
    """What a loss takes for an embedder: a vector for each id, looked up."""

    def __init__(self, count=24, dim=12, seed=0):
        super().__init__()
        torch.manual_seed(seed)
        self.table = nn.Embedding(count, dim)
        self.tokenizer = SimpleNamespace(batch_decode=None)

    def get_embedding_dimension(self):
        return self.table.embedding_dim

    def __getitem__(self, number):
        return self.table

    def forward(self, features):
        return dict(features, sentence_embedding=self.table(features['input_ids'][:, 0]))


def ids(*columns):
    return [dict(input_ids=torch.tensor(column)[:, None]) for column in columns]


def gradients(model):
    return [None if p.grad is None else p.grad.clone() for p in model.parameters()]


def value_and_gradients(loss, columns, labels=None):
    loss.zero_grad()
    value = loss([dict(column) for column in columns], labels)
    (2 * value).backward()
    return value.detach(), gradients(loss)


def assert_same(one, other, **tolerance):
    torch.testing.assert_close(one[0], other[0], **tolerance)
    torch.testing.assert_close(one[1], other[1], **tolerance)


PAIRS = ids(range(8), range(8, 16))
WITH_NEGATIVES = ids(range(8), range(8, 16), range(16, 24))


@pytest.mark.parametrize('columns', [PAIRS, WITH_NEGATIVES])
def test_without_labels_it_is_the_ranking_loss_of_sentence_transformers(columns):
    model = Vectors()
    ours = DebiasedContrastiveLoss(model, direction='t2v', temperature=0.07)
    theirs = MultipleNegativesRankingLoss(model, scale=1 / 0.07)
    assert_same(value_and_gradients(ours, columns), value_and_gradients(theirs, columns))


def test_both_directions_are_its_symmetric_loss():
    model = Vectors()
    theirs = MultipleNegativesRankingLoss(
        model, directions=('query_to_doc', 'doc_to_query'), partition_mode='per_direction'
    )
    ours = DebiasedContrastiveLoss(model, temperature=0.05)
    assert_same(value_and_gradients(ours, PAIRS), value_and_gradients(theirs, PAIRS))


@pytest.mark.parametrize(
    'strategy, margin',
    [
        ('relative', 1e-3),
        pytest.param('absolute', 0.0, marks=pytest.mark.nightly),
        pytest.param('absolute', 1e-3, marks=pytest.mark.nightly),
    ],
)
def test_a_guide_of_texts_is_that_of_gistembed(tmp_path, strategy, margin):
    model = tiny_embedders.text_model(tmp_path / 'student')
    guide = tiny_embedders.text_model(tmp_path / 'guide', tiny_embedders.WORDS[::-1], seed=3)
    theirs = GISTEmbedLoss(
        model, guide, temperature=0.05, margin_strategy=strategy, margin=margin,
        contrast_anchors=False, contrast_positives=False,
    )  # fmt: skip
    ours = DebiasedContrastiveLoss(
        model, guide=guide, guide_strategy=strategy, guide_margin=margin, direction='t2v'
    )
    plain = DebiasedContrastiveLoss(model, direction='t2v')
    columns = [model.preprocess(SENTENCES), model.preprocess(SENTENCES[5:] + SENTENCES[:5])]
    found, expected = (value_and_gradients(one, columns) for one in (ours, theirs))
    torch.testing.assert_close(found[0], expected[0])
    named = dict(model.named_parameters())
    for name, gradient in zip(named, found[1]):
        torch.testing.assert_close(gradient, expected[1][[*named].index(name)])
    assert 0 < ours.figures['guided_per_text'] < 9
    assert value_and_gradients(plain, columns)[0] > found[0]


def test_hardness_is_that_of_sentence_transformers():
    model = Vectors()
    theirs = MultipleNegativesRankingLoss(
        model, scale=1 / 0.07, hardness_mode='in_batch_negatives', hardness_strength=9.0
    )
    hardness = dict(type='HardnessSupervision', alpha=9.0)
    ours = DebiasedContrastiveLoss(model, supervision=hardness, direction='t2v', temperature=0.07)
    found = value_and_gradients(ours, PAIRS)
    assert_same(found, value_and_gradients(theirs, PAIRS))
    plain = DebiasedContrastiveLoss(model, direction='t2v', temperature=0.07)
    assert not torch.isclose(found[0], value_and_gradients(plain, PAIRS)[0], rtol=1e-2)


def test_a_self_mask_and_hardness_are_multiplied():
    model = Vectors()
    parts = dict(
        mask=dict(type='GuideSupervision', guide='scores', rule='self', margin=0.02),
        hardness=dict(type='HardnessSupervision', alpha=3.0),
    )
    both = dict(type='CombinedSupervision', parts=parts, combine='product')
    loss = DebiasedContrastiveLoss(model, supervision=both, direction='t2v', temperature=0.1)
    unit = nn.functional.normalize(model.table.weight.detach(), dim=1).double()
    sims = unit[:8] @ unit[8:16].T
    own = sims.diagonal()[:, None]
    kept = ~(sims > own + 0.02)
    exp = (sims / 0.1 + 3 * sims * ~torch.eye(8).bool()).exp() * kept
    expected = -(exp.diagonal() / exp.sum(1)).log().mean()
    assert loss(PAIRS, None).item() == pytest.approx(expected.item(), rel=1e-5)
    assert loss.figures['mask_guided_per_text'].item() == (~kept).sum().item() / 8 > 0


def test_a_guide_of_other_words_judges_videos_by_their_texts(tmp_path):
    """Where GISTEmbed ends with a KeyError: it looks for the words of a video."""
    model = tiny_embedders.video_model(tmp_path / 'student')
    guide = tiny_embedders.text_model(tmp_path / 'guide', tiny_embedders.WORDS[::-1])
    columns = [model.preprocess(TEXTS), model.preprocess(VIDEOS)]
    with pytest.raises(KeyError):
        GISTEmbedLoss(model, guide)([dict(column) for column in columns], None)
    # The guide's own cosines of the texts say who is spared.
    vectors = torch.as_tensor(guide.encode(TEXTS, normalize_embeddings=True))
    margin = float((1 - vectors @ vectors.T).flatten().quantile(0.6))
    spared = (vectors @ vectors.T > 1 - margin).logical_and(~torch.eye(10).bool())
    ours = DebiasedContrastiveLoss(model, guide=guide, guide_margin=margin)
    value, _ = value_and_gradients(ours, columns)
    t, v = (torch.as_tensor(model.encode(x, normalize_embeddings=True)) for x in (TEXTS, VIDEOS))
    logits = (t @ v.T / 0.05).masked_fill(spared, -torch.inf)
    expected = -(logits.log_softmax(1).diag() + logits.log_softmax(0).diag()).mean() / 2
    torch.testing.assert_close(value, expected)
    assert ours.figures['guided_per_text'] == spared.sum() / 10 > 0


@pytest.mark.parametrize('size', [None, 3])
def test_a_student_of_two_teachers(tmp_path, size):
    """Of other words and widths; in parts as well, and beside a supervision."""
    model = tiny_embedders.text_model(tmp_path / 'model')
    one, two = (
        tiny_embedders.text_model(tmp_path / f'{n}', tiny_embedders.WORDS[::-1], seed=n)
        for n in (3, 4)
    )
    columns = [model.preprocess(SENTENCES[half::2]) for half in (0, 1)]
    how = dict(teachers=[one, two], teacher_temperatures=[0.1, 0.5])
    loss = DebiasedContrastiveLoss(
        model, **how, distillation=dict(temperature=2.0, loss_weight=3.0), mini_batch_size=size
    )
    value, grads = value_and_gradients(loss, columns)
    plain = value_and_gradients(DebiasedContrastiveLoss(model), columns)
    expected = 0.0
    with torch.no_grad():
        teacher = 0.0
        for known, by in zip((one, two), (0.1, 0.5)):
            t, v = (
                torch.as_tensor(known.encode(SENTENCES[half::2], normalize_embeddings=True))
                for half in (0, 1)
            )
            teacher = teacher + t @ v.T / by / 2
        t, v = (
            nn.functional.normalize(model(dict(column))['sentence_embedding'], dim=1)
            for column in columns
        )
        for dim in (0, 1):
            p, q = ((x / 2).softmax(dim) for x in (teacher, t @ v.T / 0.05))
            expected += 3 * 4 * (p * (p / q).log()).sum(dim).mean() / 2
    torch.testing.assert_close(value - plain[0], expected, rtol=1e-4, atol=1e-5)
    assert expected > 0.01 and not torch.equal(grads[0], plain[1][0])
    both = DebiasedContrastiveLoss(model, supervision='DVTRSupervision', **how)
    both([dict(column) for column in columns], None)
    assert {'own_eta_negative', 'teach_teacher_match', 'loss_distillation'} <= {*both.figures}
    picture = dict(columns[1], pixel_values=torch.zeros(5, 3))
    with pytest.raises(ValueError, match='a teacher reads texts, and column 1 has none'):
        loss([dict(columns[0]), picture], None)


def test_a_guide_can_stand_beside_a_supervision(tmp_path):
    model = tiny_embedders.video_model(tmp_path / 'student')
    guide = tiny_embedders.text_model(tmp_path / 'guide', tiny_embedders.WORDS[::-1])
    columns = [model.preprocess(TEXTS), model.preprocess(VIDEOS)]
    loss = DebiasedContrastiveLoss(
        model, supervision='DVTRSupervision', guide=guide, mini_batch_size=3
    )
    assert value_and_gradients(loss, columns)[0].isfinite()
    assert {'own_eta_negative', 'guide_guided_per_text'} <= {*loss.figures}


def test_labels_say_which_rows_belong_together():
    labels = torch.tensor([0, 1, 0, 2, 2, 2, 3, 1])
    model = Vectors()
    loss = DebiasedContrastiveLoss(model, direction='t2v', temperature=0.1)
    unit = nn.functional.normalize(model.table.weight.detach(), dim=1)
    t, v, hard = unit.split(8)
    exp = (t @ v.T / 0.1).double().exp()
    own = labels[:, None] == labels
    expected = -((exp * own).sum(1) / exp.sum(1)).log().mean()
    assert loss(PAIRS, labels).item() == pytest.approx(expected.item(), rel=1e-5)
    # A hard negative is nobody's document, though its row has a label.
    far = torch.cat([v, hard])
    exp = (t @ far.T / 0.1).double().exp()
    expected = -((exp[:, :8] * own).sum(1) / exp.sum(1)).log().mean()
    assert loss(WITH_NEGATIVES, labels).item() == pytest.approx(expected.item(), rel=1e-5)


SUPERVISIONS = {
    'none': lambda: {},
    'dvtr': lambda: dict(supervision=DVTRSupervision(num_samples=3, sharpness=2.0)),
    'relative': lambda: dict(supervision=dict(type='RelativeScoreSupervision', softness=0.3)),
}


def seeded(kind, model, **more):
    torch.manual_seed(5)
    return kind(model, **more)


@pytest.mark.parametrize('kind', [DebiasedContrastiveLoss, NormalizedContrastiveLoss])
@pytest.mark.parametrize('name', SUPERVISIONS)
@pytest.mark.parametrize('rows', [3, 1024])
def test_in_parts_and_in_blocks_it_is_the_same(kind, name, rows, monkeypatch):
    """Values and gradients, the loss's own weights included, whatever the backward is scaled by."""
    labels = torch.tensor([0, 1, 0, 2, 2, 2, 3, 1])
    model = Vectors()
    whole, parts = (
        seeded(kind, model, mini_batch_size=size, **SUPERVISIONS[name]()) for size in (None, 3)
    )
    expected = value_and_gradients(whole, WITH_NEGATIVES, labels)
    monkeypatch.setattr(contrastive, 'ROWS', rows)
    found = value_and_gradients(parts, WITH_NEGATIVES, labels)
    assert_same(found, expected, rtol=1e-4, atol=1e-6)
    if name == 'dvtr':
        assert all(g is not None for g in expected[1])
        assert len(expected[1]) > 5  # heads, slope and bias


def test_the_cached_form_is_that_of_sentence_transformers(tmp_path):
    model = tiny_embedders.video_model(tmp_path)
    columns = [model.preprocess(TEXTS), model.preprocess(VIDEOS)]
    theirs = CachedMultipleNegativesRankingLoss(model, mini_batch_size=4)
    ours = DebiasedContrastiveLoss(model, mini_batch_size=4, direction='t2v')
    assert_same(value_and_gradients(ours, columns), value_and_gradients(theirs, columns))
    with torch.no_grad():
        torch.testing.assert_close(ours(columns, None), theirs(columns, None))


@pytest.mark.parametrize('size', [None, 4])
def test_it_goes_into_a_matryoshka_loss(tmp_path, size):
    model = tiny_embedders.text_model(tmp_path)
    columns = [model.preprocess(TEXTS), model.preprocess(TEXTS[::-1])]
    ours = DebiasedContrastiveLoss(model, mini_batch_size=size, direction='t2v')
    theirs = MultipleNegativesRankingLoss(model)
    found, expected = (
        value_and_gradients(MatryoshkaLoss(model, one, [16, 4]), columns) for one in (ours, theirs)
    )
    assert_same(found, expected)


@pytest.mark.parametrize('size', [None, 4])
def test_in_a_matryoshka_loss_the_queue_is_of_the_full_width(size):
    model = Vectors()
    loss = NormalizedContrastiveLoss(model, queue=11, mini_batch_size=size)
    MatryoshkaLoss(model, loss, [12, 4, 8])(PAIRS, None).backward()
    unit = nn.functional.normalize(model.table.weight.detach(), dim=1)
    torch.testing.assert_close(loss.bank(), unit[:8])  # once, not at each width


def test_vectors_wider_than_the_model_says_are_refused(monkeypatch):
    model = Vectors()
    monkeypatch.setattr(model, 'get_embedding_dimension', lambda: 5)
    with pytest.raises(ValueError, match='vectors have 12 numbers, but the queue has 5'):
        NormalizedContrastiveLoss(model, queue=11)(PAIRS, None)


def test_heads_go_into_no_matryoshka_loss():
    model = Vectors()
    loss = DebiasedContrastiveLoss(model, supervision='DVTRSupervision')
    with pytest.raises(ValueError, match='4 numbers, but the Gaussian heads .* width 12: a Matr'):
        MatryoshkaLoss(model, loss, [12, 4])(PAIRS, None)


# -- against the path of mmengine ------------------------------------------------------------------


class Tables(nn.Module):
    """An encoder for VideoTextRetriever that looks up the same vectors."""

    dim = 12
    level_names = ('global',)

    def __init__(self, model):
        super().__init__()
        self.table = nn.Embedding.from_pretrained(model.table.weight.clone(), freeze=False)

    def _levels(self, numbers):
        unit = nn.functional.normalize(self.table(numbers[:, 0]), dim=1)
        return {'global': Embedding(unit, unit[:, None], torch.ones(len(unit), 1).bool())}

    def encode_video(self, video, frame_mask):
        return self._levels(video)

    def encode_text(self, text, text_mask):
        return self._levels(text)


@pytest.mark.parametrize('name', SUPERVISIONS)
def test_ten_steps_are_those_of_the_mmengine_path(name):
    student = Vectors()
    labels = torch.tensor([0, 1, 0, 2, 2, 2, 3, 1])
    given = SUPERVISIONS[name]().get('supervision')
    ours = DebiasedContrastiveLoss(student, supervision=given, temperature=0.05)
    heads = dict(type='HierarchicalGaussianHead') if name == 'dvtr' else None
    theirs = VideoTextRetriever(
        encoder=Tables(student),
        similarity=CosineSimilarity(),
        losses=dict(contrastive=ContrastiveLoss()),
        temperature=Temperature(init=0.05),
        heads=heads,
        supervision={
            'none': lambda: None,
            'dvtr': lambda: DVTRSupervision(num_samples=3, sharpness=2.0),
            'relative': lambda: RelativeScoreSupervision(softness=0.3),
        }[name](),
    )
    if heads:
        for side, own in (('text', 'text'), ('video', 'document')):
            assert isinstance(ours.heads[own], HierarchicalGaussianHead)
            ours.heads[own].load_state_dict(theirs.heads[side].state_dict())
    one, other = SGD(ours.parameters(), 0.1), SGD(theirs.parameters(), 0.1)
    for step in range(10):
        order = torch.randperm(8, generator=torch.Generator().manual_seed(step))
        columns = [dict(input_ids=column['input_ids'][order]) for column in PAIRS]
        loss = ours(columns, labels[order])
        inputs = dict(
            text=columns[0]['input_ids'], video=columns[1]['input_ids'], text_mask=None,
            frame_mask=None,
        )  # fmt: skip
        samples = dict(
            text_videos=labels[order][:, None], video_idx=labels[order], text_ids=[], video_ids=[]
        )
        found = theirs(inputs, samples, mode='loss')
        expected = sum(value for key, value in found.items() if 'loss' in key)
        assert loss.item() == pytest.approx(expected.item(), abs=1e-6)
        for optimizer, value in ((one, loss), (other, expected)):
            optimizer.zero_grad()
            value.backward()
            optimizer.step()
    torch.testing.assert_close(student.table.weight, theirs.encoder.table.weight)


# -- the queue -------------------------------------------------------------------------------------


def test_the_queue_holds_the_last_queries():
    model = Vectors()
    loss = NormalizedContrastiveLoss(model, queue=11)
    assert loss.bank() is None
    for columns in (PAIRS, ids(range(8, 16), range(8))):
        loss(columns, None)
    bank = loss.bank()
    unit = nn.functional.normalize(model.table.weight.detach(), dim=1)
    rows = {tuple(row.tolist()) for row in bank}
    assert rows == {tuple(row.tolist()) for row in torch.cat([unit[5:8], unit[8:16]])}
    loss.eval()
    loss(ids(range(16, 24), range(8)), None)
    torch.testing.assert_close(loss.bank(), bank)
    loss.shorten(4)
    assert loss.bank() is None and loss.queue.size == 4
    loss.train()
    with torch.no_grad():
        loss(PAIRS, None)
    assert loss.bank() is None  # of an evaluation during the training


# -- bad input -------------------------------------------------------------------------------------


def test_what_cannot_be_is_refused(tmp_path):
    model = Vectors()
    loss = DebiasedContrastiveLoss(model)
    for labels in (torch.rand(8), torch.zeros(8, 2).long(), torch.zeros(7).long()):
        with pytest.raises(ValueError, match='one whole number per row'):
            loss(PAIRS, labels)
    with pytest.raises(ValueError, match='labels must be 0 or more, not -2'):
        loss(PAIRS, torch.arange(8) - 2)
    with pytest.raises(ValueError, match='two columns or more'):
        loss(PAIRS[:1], None)
    with pytest.raises(ValueError, match="'v2t' leaves no weights for a loss with direction='t2v'"):
        DebiasedContrastiveLoss(model, direction='t2v', weighted='v2t')
    for wrong in (dict(temperature=0.0), dict(mini_batch_size=0), dict(weighted='both ways')):
        with pytest.raises(ValueError, match=next(iter(wrong))):
            DebiasedContrastiveLoss(model, **wrong)
    with pytest.raises(ValueError, match='reads more than the vectors'):
        DebiasedContrastiveLoss(model, supervision=dict(type='StoredTeachers', teachers=['a']))
    with pytest.raises(ValueError, match='queue must be at least 1, not 0'):
        NormalizedContrastiveLoss(model, queue=0)
    guide = tiny_embedders.text_model(tmp_path / 'guide')
    student = tiny_embedders.video_model(tmp_path / 'student')
    for wrong in (dict(guide_margin=-0.1), dict(guide_strategy='none')):
        with pytest.raises(ValueError, match='margin|strategy'):
            DebiasedContrastiveLoss(student, guide=guide, **wrong)
    swapped = [student.preprocess(VIDEOS), student.preprocess(TEXTS)]
    with pytest.raises(ValueError, match='make the texts the first one'):
        DebiasedContrastiveLoss(student, guide=guide)(swapped, None)


@pytest.mark.parametrize(
    'labels, said',
    [
        ([1] * 8, 'all rows have one label'),
        ([0] * 8, 'all rows have one label'),
        ([0, 1] * 4, '8 rows have 2 labels: 4 documents match each text'),
        ([3, 3, 3, 3, 3, 3, 3, 7], '8 rows have 2 labels'),
    ],
)
@pytest.mark.parametrize('size', [None, 4])
def test_labels_that_are_no_ids_are_warned_of_once(labels, said, size):
    loss = DebiasedContrastiveLoss(Vectors(), mini_batch_size=size)
    with pytest.warns(UserWarning, match=said) as found:
        for _ in range(3):
            loss(PAIRS, torch.tensor(labels))
    assert len(found) == 1


@pytest.mark.parametrize(
    'labels', [None, [*range(8)], [0, 0, 0, 1, 1, 2, 2, 2], [0] * 4 + [5, 6, 7, 8]]
)
@pytest.mark.filterwarnings('error')
def test_labels_that_are_ids_are_not(labels):
    loss = DebiasedContrastiveLoss(Vectors())
    loss(PAIRS, None if labels is None else torch.tensor(labels))


@pytest.mark.parametrize('size', [None, 4])
def test_a_guide_that_spares_everything_is_warned_of(size):
    """Its cosines lie within the margin, as those of many encoders do."""
    model = Vectors()
    model.tokenizer.batch_decode = lambda ids, **how: [str(row) for row in ids.tolist()]
    near = 1 + 0.01 * torch.arange(24.0)
    guide = SimpleNamespace(
        encode=lambda texts, **how: torch.stack([near[: len(texts)], near.flip(0)[: len(texts)]], 1)
    )
    loss = DebiasedContrastiveLoss(model, guide=guide, guide_margin=0.1, mini_batch_size=size)
    with pytest.warns(
        UserWarning, match='no gradient for 10 steps. (GuideSupervision gives every|Look at)'
    ):
        for _ in range(10):
            loss(PAIRS, None).backward()
    assert loss.figures['guided_per_text'] == 7
