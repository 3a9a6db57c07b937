"""TeachText: the teachers' scores of a joint batch, and a student that follows them."""

import copy

import numpy as np
import pytest
import torch
import torch.distributed as dist
import torch.multiprocessing as mp
from mmengine.config import Config
from torch import nn
from torch.nn.parallel import DistributedDataParallel

import children  # noqa: F401 - the server that forks the processes has imported all
from mmvtr.functional.losses.ranking import margin_ranking
from mmvtr.models.blocks import whole_needed
from mmvtr.models.losses.distillation import DistillationLoss, KLDistillationLoss
from mmvtr.models.losses.matrix import ContrastiveLoss, MatrixLoss
from mmvtr.models.retriever import VideoTextRetriever
from mmvtr.models.similarities.cosine import CosineSimilarity
from mmvtr.models.supervisions.teachers import FrozenTeachers, StoredTeachers
from mmvtr.models.target import Annotation, Target
from mmvtr.models.temperature import Temperature
from mmvtr.registry import MODELS
from mmvtr.storage.arrays import write_arrays
from mmvtr.structures import Embedding, of_side

T, V = 7, 5
OWNERS = [0, 0, 1, 2, 3, 4, 4]


@MODELS.register_module()
class LinearOfTeachers(nn.Module):
    """An item's numbers, mapped; with dropout, which a teacher must not have."""

    dim = 6
    level_names = ('global',)

    def __init__(self):
        super().__init__()
        self.video, self.text = nn.Linear(4, 6), nn.Linear(4, 6)
        self.dropout = nn.Dropout(0.0)

    def encode_video(self, video, frame_mask):
        return {'global': Embedding(self.dropout(self.video(video.mean(1))))}

    def encode_text(self, text, text_mask):
        return {'global': Embedding(self.dropout(self.text(text.mean(1))))}


def make_model(supervision=None, seed=0, dropout=0.0, loss=None, **options):
    torch.manual_seed(seed)
    losses = dict(nce=ContrastiveLoss())
    if supervision is not None:
        losses['distillation'] = loss or DistillationLoss(bend=0.1, loss_weight=3.0)
    model = VideoTextRetriever(
        encoder=LinearOfTeachers(),
        similarity=CosineSimilarity(),
        temperature=Temperature(init=0.2, learnable=True),
        supervision=supervision,
        losses=losses,
        **options,
    ).double()
    model.encoder.dropout.p = dropout
    return model


def two_teachers():
    return FrozenTeachers(members=[make_model(seed=5, dropout=0.9), make_model(seed=6)])


SUPERVISIONS = dict(
    stored=lambda: StoredTeachers(teachers=('one', 'two')),
    frozen=two_teachers,
)


#: Teachers of a divergence: by logits, and by the softmaxes of each.
DIVERGENCES = dict(
    stored=lambda: StoredTeachers(teachers=('one', 'two'), temperatures=(0.5, 2.0)),
    softmaxes=lambda: StoredTeachers(
        teachers=('one', 'two'), temperatures=(0.5, 2.0), average='softmaxes'
    ),
    frozen=lambda: FrozenTeachers(
        members=[make_model(seed=5, dropout=0.9), make_model(seed=6)],
        temperatures='own',
        average='softmaxes',
    ),
)


def make_student(kind, **options):
    loss = KLDistillationLoss(temperature=2.0, loss_weight=3.0)
    return make_model(DIVERGENCES[kind](), loss=loss, **options)


def sixteenths(x):
    """In float32, of which products and sums lose nothing."""
    return (8 * x).round().float() / 16


def make_batch(videos=slice(0, V), texts=slice(0, T)):
    generator = torch.Generator().manual_seed(1)

    def draw(*shape):
        return torch.randn(*shape, generator=generator, dtype=torch.float64)

    video, text = draw(V, 2, 4), draw(T, 3, 4)
    stored = {
        side: dict(one=sixteenths(draw(count, 2, 3)), two=sixteenths(draw(count, 1, 5)))
        for side, count in (('text', T), ('video', V))
    }
    inputs = dict(
        video=video[videos],
        frame_mask=torch.ones(V, 2, dtype=torch.bool)[videos],
        text=text[texts],
        text_mask=torch.ones(T, 3, dtype=torch.bool)[texts],
    )
    if not len(inputs['video']):
        del inputs['video'], inputs['frame_mask']
    if not len(inputs['text']):
        del inputs['text'], inputs['text_mask']
    samples = dict(
        video_idx=torch.arange(V)[videos],
        text_videos=torch.tensor(OWNERS)[texts, None],
        video_ids=[f'v{i}' for i in range(V)][videos],
        text_ids=[f't{i}' for i in range(T)][texts],
    )
    for side, rows in (('text', texts), ('video', videos)):
        if len(samples[f'{side}_ids']):  # an empty batch knows of none
            samples[f'{side}_vectors'] = {k: x[rows] for k, x in stored[side].items()}
    return inputs, samples


def run(model, batch):
    module = getattr(model, 'module', model)
    losses = model(*batch, mode='loss')
    sum(value for name, value in losses.items() if 'loss' in name).backward()
    grads = {name: p.grad for name, p in module.named_parameters()}
    return {name: value.detach() for name, value in losses.items()}, grads


def same(found, expected):
    for mine, theirs in zip(found, expected):
        assert mine.keys() == theirs.keys()
        for name, x in theirs.items():
            within = 1e-6 if x.dtype == torch.float32 else 1e-12  # figures of stored teachers
            torch.testing.assert_close(mine[name], x, rtol=0, atol=within, msg=name)


def by_loops(kind, batch):
    """The teachers' matrix, number by number."""
    inputs, samples = batch
    matrix = torch.zeros(T, V, dtype=torch.float64)
    if kind == 'frozen':
        for seed in (5, 6):
            teacher = make_model(seed=seed).eval()
            texts, videos = teacher.encode_text(inputs), teacher.encode_video(inputs)
            for t in range(T):
                for v in range(V):
                    pair = texts['global'].mean[t], videos['global'].mean[v]
                    matrix[t, v] += torch.cosine_similarity(*pair, dim=0) / 2
        return matrix.detach()
    for name in ('one', 'two'):
        texts, videos = (samples[f'{side}_vectors'][name] for side in ('text', 'video'))
        for t in range(T):
            for v in range(V):
                rows = zip(texts[t].double(), videos[v].double())
                matrix[t, v] += sum(a @ b for a, b in rows) / 2
    return matrix


@pytest.mark.parametrize('kind', SUPERVISIONS)
def test_the_loss_of_a_student_equals_loops(kind):
    batch = make_batch()
    model = make_model(SUPERVISIONS[kind]())
    losses, grads = run(model, batch)
    teacher = by_loops(kind, batch)
    texts, videos = model.encode_text(batch[0]), model.encode_video(batch[0])
    scores = model.similarity(texts, videos)['scores']
    total = 0.0
    for distance in (scores - teacher).abs().detach().flatten().tolist():
        total += distance**2 / 0.2 if distance < 0.1 else distance - 0.05
    within = dict(rel=1e-12 if kind == 'frozen' else 1e-6)  # figures in float32
    assert losses['loss_distillation'].item() == pytest.approx(3 * total / T / V, rel=1e-12)
    positives = torch.tensor(OWNERS)[:, None] == torch.arange(V)
    assert losses['teacher_match'].item() == pytest.approx(
        teacher[positives].mean().item(), **within
    )
    assert losses['teacher_other'].item() == pytest.approx(
        teacher[~positives].mean().item(), **within
    )
    assert all(grad.abs().max() > 0 for name, grad in grads.items() if 'encoder' in name)


@pytest.mark.parametrize('kind', DIVERGENCES)
def test_the_divergence_of_a_student_equals_softmaxes(kind):
    inputs, samples = batch = make_batch()
    model = make_student(kind)
    losses, grads = run(model, batch)
    texts, videos = model.encode_text(inputs), model.encode_video(inputs)
    student = model.similarity(texts, videos)['scores'] / 0.2
    if kind == 'frozen':
        members = [make_model(seed=seed).eval() for seed in (5, 6)]
        teachers = [
            m.similarity(m.encode_text(inputs), m.encode_video(inputs))['scores'] / 0.2
            for m in members
        ]
    else:
        stored = [[samples[f'{side}_vectors'][n] for side in ('text', 'video')] for n in SHARES]
        teachers = [
            torch.einsum('ted,ved->tv', t.double(), v.double()) / SHARES[name]
            for name, (t, v) in zip(SHARES, stored)
        ]
    if kind == 'stored':
        teachers = [sum(teachers) / 2]
    expected = 0.0
    for teacher in teachers:
        for dim in (0, 1):
            p, q = ((x / 2).softmax(dim) for x in (teacher, student))
            expected += (p * (p / q).log()).sum(dim).mean() / 2 / len(teachers)
    assert losses['loss_distillation'].item() == pytest.approx(3 * 4 * expected.item(), rel=1e-6)
    assert grads['temperature.log_scale'].abs() > 0


SHARES = dict(one=0.5, two=2.0)


@pytest.mark.parametrize('options', [dict(block_rows=3), dict(micro_batch=2)], ids=str)
@pytest.mark.parametrize('kind', DIVERGENCES)
def test_a_student_in_parts_equals_a_student_at_once(kind, options):
    model = make_student(kind, **options)
    assert not whole_needed(model)
    same(run(model, make_batch()), run(make_student(kind), make_batch()))


def test_stored_vectors_teach_as_frozen_models_do():
    """Logits as tools/export_teacher.py stores them: in float32 to 1e-5; float16 is coarser."""
    inputs, samples = make_batch()
    members = [make_model(seed=seed).eval() for seed in (5, 6)]

    def stored(kind):
        for side in ('text', 'video'):
            encoded = [getattr(m, f'encode_{side}')(inputs) for m in members]
            by = [m.temperature() if side == 'text' else 1.0 for m in members]
            samples[f'{side}_vectors'] = {
                f'm{n}': (m.similarity.flat(levels) / by[n])[:, None].detach().to(kind)
                for n, (m, levels) in enumerate(zip(members, encoded))
            }
        model = make_model(StoredTeachers(teachers=('m0', 'm1')), loss=KLDistillationLoss())
        return run(model, (inputs, samples))

    frozen = FrozenTeachers(members=members, temperatures='own')
    expected = run(make_model(frozen, loss=KLDistillationLoss()), make_batch())
    for kind, within in ((torch.float32, 1e-5), (torch.float16, 1e-2)):
        for mine, theirs in zip(stored(kind), expected):
            for name, x in theirs.items():
                torch.testing.assert_close(mine[name].to(x), x, rtol=0, atol=within, msg=name)


def write_folders(folder):
    """The vectors of the batch, each id once, in another order."""
    _, samples = make_batch()
    for name in ('one', 'two'):
        (folder / name).mkdir()
        for side in ('text', 'video'):
            ids, rows = samples[f'{side}_ids'][::-1], samples[f'{side}_vectors'][name].flip(0)
            write_arrays(folder / name / f'{side}.npz', ids=np.array(ids), vectors=rows.numpy())
    return {name: str(folder / name) for name in ('one', 'two')}


def test_vectors_of_a_folder_are_those_of_the_pipelines(tmp_path):
    folders = write_folders(tmp_path)
    for videos, texts in ((slice(0, V), slice(0, T)), (slice(0, 2), slice(0, 0))):
        inputs, samples = make_batch(videos, texts)
        expected = run(make_student('stored'), (inputs, samples)) if len(samples['text_ids']) else 0
        bare = {key: x for key, x in samples.items() if not key.endswith('_vectors')}
        loss = KLDistillationLoss(temperature=2.0, loss_weight=3.0)
        model = make_model(StoredTeachers(teachers=folders, temperatures=(0.5, 2.0)), loss=loss)
        model.init_weights()
        if expected:
            same(run(model, (inputs, bare)), expected)
        else:
            assert model(inputs, bare, mode='loss')['loss_distillation'] == 0


@pytest.mark.parametrize(
    ('arrays', 'message'),
    [
        (dict(ids=['t0'], vectors=np.ones((2, 3), 'f4')), r'ids \[1\] and vectors \[2, 3\], exp'),
        (dict(ids=['t0', 't0'], vectors=np.ones((2, 3), 'f2')), "the id 't0' comes twice"),
        (dict(ids=['t0', 't1'], vectors=np.ones((2, 3), int)), 'vectors must be float, not int64'),
        (dict(ids=['a', 'b'], vectors=np.array([[1.0], [np.nan]])), "of 'b' is not finite"),
        (dict(ids=['a', 'b']), "has no array 'vectors'"),
    ],
)
def test_folders_that_are_refused(tmp_path, arrays, message):
    folders = write_folders(tmp_path)
    write_arrays(tmp_path / 'two/text.npz', **{key: np.array(x) for key, x in arrays.items()})
    with pytest.raises(ValueError, match=f'two/text.npz.*{message}'):
        StoredTeachers(teachers=folders).init_weights()


def test_a_folder_without_a_file_or_without_an_item(tmp_path):
    folders = write_folders(tmp_path)
    write_arrays(tmp_path / 'two/text.npz', ids=np.array(['t0']), vectors=np.ones((1, 5), 'f2'))
    with pytest.raises(ValueError, match=r"two/text.npz: no vector of 't1' \(6 of 7 in this batch"):
        make_model(StoredTeachers(teachers=folders))(*make_batch(), mode='loss')
    (tmp_path / 'one/video.npz').unlink()
    with pytest.raises(FileNotFoundError, match='one/video.npz'):
        make_model(StoredTeachers(teachers=folders)).init_weights()


def test_batches_without_a_text_or_a_video():
    for videos, texts in ((slice(0, 0), slice(0, 0)), (slice(0, 2), slice(0, 0))):
        models = {kind: make_model(make()) for kind, make in SUPERVISIONS.items()}
        models.update({f'kl {kind}': make_student(kind) for kind in DIVERGENCES})
        for kind, model in models.items():
            losses = model(*make_batch(videos, texts), mode='loss')
            assert losses['loss_distillation'].item() == 0, kind


def test_frozen_teachers_stay_out_of_the_model():
    """No optimizer, no checkpoint, no gradient, no dropout: and they still follow their model."""
    plain, model = make_model(), make_model(two_teachers())
    assert model.state_dict().keys() == plain.state_dict().keys()
    assert len([*model.parameters()]) == len([*plain.parameters()])
    model.train()
    members = model.supervision.members
    before = [copy.deepcopy(member.state_dict()) for member in members]
    first, again = (run(model, make_batch())[0]['teacher_match'] for _ in range(2))
    assert first == again and not any(member.training for member in members)
    assert not any(p.requires_grad or p.grad is not None for m in members for p in m.parameters())
    for member, state in zip(members, before):
        same([member.state_dict()], [state])
    assert model.float().supervision.members[0].encoder.video.weight.dtype == torch.float32
    assert copy.deepcopy(model).supervision.members[0] is not members[0]


def test_teachers_that_encode_an_item_once():
    """Levels are those of each batch, of items in any order, and only new ones are encoded."""
    members = [make_model(seed=5, dropout=0.9), make_model(seed=6)]
    each = FrozenTeachers(members=members)
    once = FrozenTeachers(members=members, encode_once=True)
    encoded = []

    def counted(levels):
        def encode(side, inputs):
            encoded.append((side, len(inputs[side])))
            return levels(side, inputs)

        return encode

    expected = each._encode
    once._encode = counted(once._encode)
    for videos, texts, rows in (
        (slice(0, 2), slice(0, 3), [('text', 3), ('video', 2)]),
        (slice(1, V), slice(0, T), [('text', T - 3), ('video', V - 2)]),
        (slice(0, V), slice(0, T), [('text', T), ('video', V)]),  # all are known: looked at once
        (slice(0, V), slice(1, T), []),
    ):
        inputs, samples = make_batch(videos, texts)
        found = once.own_levels(inputs, samples, torch.device('cpu'))
        assert encoded == rows
        encoded.clear()
        for side, levels in zip(('text', 'video'), found):
            for name, level in expected(side, of_side(inputs, side)).items():
                assert torch.equal(levels[name].mean, level.mean)
    student = make_model(FrozenTeachers(members=members, encode_once=True))
    for _ in range(3):
        student.zero_grad()
        found = run(student, make_batch())
    same(found, run(make_model(two_teachers()), make_batch()))


def test_an_input_that_changes_is_not_encoded_once():
    once = FrozenTeachers(members=[make_model(seed=5)], encode_once=True)
    inputs, samples = make_batch()
    once.own_levels(inputs, samples, torch.device('cpu'))
    inputs['text'][1] = torch.randn(3, 4, dtype=torch.float64)
    with pytest.raises(ValueError, match="the text 't1' has another input than before"):
        once.own_levels(inputs, samples, torch.device('cpu'))


def test_members_from_config_and_checkpoint(tmp_path):
    cfg = dict(
        type='mmvtr.VideoTextRetriever',
        encoder=dict(type='LinearOfTeachers'),
        similarity=dict(type='CosineSimilarity'),
        losses=dict(nce=dict(type='ContrastiveLoss')),
    )
    Config(dict(model=cfg)).dump(tmp_path / 'config.py')
    torch.manual_seed(3)
    teacher = MODELS.build(cfg)
    torch.save(dict(state_dict=teacher.state_dict()), tmp_path / 'teacher.pth')
    member = dict(config=str(tmp_path / 'config.py'), checkpoint=str(tmp_path / 'teacher.pth'))
    state = torch.random.get_rng_state()
    model = make_model(FrozenTeachers(members=[member]))
    torch.random.set_rng_state(state)
    model.init_weights()  # what a Runner calls before the first step
    torch.testing.assert_close(torch.random.get_rng_state(), state)
    same([model.supervision.members[0].state_dict()], [teacher.state_dict()])

    def begin(**changes):
        make_model(FrozenTeachers(members=[{**member, **changes}])).init_weights()

    with pytest.raises(FileNotFoundError, match='nowhere.pth'):
        begin(checkpoint=str(tmp_path / 'nowhere.pth'))
    with pytest.raises(FileNotFoundError, match='teacher 0: no such config: .*nowhere.py'):
        begin(config=str(tmp_path / 'nowhere.py'))
    other = {name.replace('video', 'clip'): x for name, x in teacher.state_dict().items()}
    torch.save(dict(state_dict=other), tmp_path / 'other.pth')
    with pytest.raises(
        RuntimeError, match='(?s)other.pth does not fit this .*missing .2.: encoder'
    ):
        begin(checkpoint=str(tmp_path / 'other.pth'))


SPLITS = [
    (slice(0, 3), slice(0, 2)),
    (slice(3, 3), slice(2, 2)),  # all videos of this process are broken
    (slice(3, 5), slice(2, 7)),
]


def joint_models():
    return {
        **{kind: make_model(make()) for kind, make in SUPERVISIONS.items()},
        **{f'kl {kind}': make_student(kind) for kind in DIVERGENCES},
        **{f'blocks {kind}': make_student(kind, block_rows=2) for kind in DIVERGENCES},
    }


def worker(rank, folder):
    dist.init_process_group('gloo', init_method=f'file://{folder}/store', rank=rank, world_size=3)
    try:
        results = {}
        for kind, model in joint_models().items():
            model = DistributedDataParallel(model, find_unused_parameters=True)
            results[kind] = run(model, make_batch(*SPLITS[rank]))
        torch.save(results, f'{folder}/rank{rank}.pt')
        dist.barrier()
    finally:
        dist.destroy_process_group()


def test_processes_with_unequal_shares_equal_one(tmp_path):
    mp.start_processes(worker, args=(str(tmp_path),), nprocs=3, start_method='forkserver')
    for rank in range(3):
        results = torch.load(tmp_path / f'rank{rank}.pt', weights_only=False)
        assert len(results) == 8
        for kind, model in joint_models().items():
            same(results[kind], run(model, make_batch()))


def test_the_official_numbers(shared):
    """Teachers' matrix, distillation and its gradient of the official trainer."""
    with np.load(shared / 'golden/teachtext_distillation.npz') as arrays:
        golden = {name: torch.from_numpy(x) for name, x in arrays.items() if x.dtype.kind == 'f'}
        experts = arrays['experts'].tolist()
    names = [f'teacher{n}' for n in range(3)]
    samples = {'text_ids': [*'abcde'], 'video_ids': [*'vwxyz']}
    for side in ('text', 'video'):
        samples[f'{side}_vectors'] = {
            name: torch.stack([golden[f'{name}.{side}.{e}'].view(5, 8) for e in experts], 1)
            for name in names
        }
    supervision = StoredTeachers(teachers=names)
    levels = supervision.own_levels({}, samples, torch.device('cpu'))
    target, _ = supervision(*levels, Target(torch.eye(5, dtype=torch.bool)))
    close = dict(rtol=1e-5, atol=1e-5)
    torch.testing.assert_close(target.extras['teacher'], golden['teacher_matrix'], **close)
    student = golden['student'].requires_grad_()
    loss = DistillationLoss()({'scores': student}, target, 0.07)
    torch.testing.assert_close(loss, golden['distil_loss'], **close)
    torch.testing.assert_close(
        torch.autograd.grad(loss, student)[0], golden['distil_grad'], **close
    )
    total = loss + margin_ranking(student, target.positives, margin=0.0938)
    torch.testing.assert_close(total, golden['total'], **close)


class LossOfSomebody(ContrastiveLoss):
    """Does not say which slots it reads."""


def unread(supervision, *losses):
    return VideoTextRetriever(
        encoder=nn.Identity(),
        similarity=CosineSimilarity(),
        supervision=supervision,
        losses={str(n): loss for n, loss in enumerate(losses)},
    )


#: What lies beside the slots, and is read by a loss.
BESIDE = ('relevant', 'teacher', 'hinges', 'draws', 'directions', 'labels', 'hubness')


def test_each_loss_says_what_it_reads():
    kinds = [MODELS.get(f'mmvtr.{name}') for name in MODELS.module_dict]
    losses = [kind for kind in kinds if issubclass(kind, MatrixLoss)]
    own = [kind for kind in losses if kind.__module__.startswith('mmvtr.')]
    assert len(own) >= 7
    for kind in own:
        slots = vars(kind).get('slots')
        assert slots is not None and {*slots} <= {*Target._fields, *Annotation._fields, *BESIDE}, (
            kind
        )
        read = {*slots, 'positives', 'ambiguous', 'columns'}  # which may be refused
        assert not issubclass(kind, ContrastiveLoss) or {*ContrastiveLoss.slots} <= read, kind


def test_what_is_wrong_is_said():
    for bad, message in (
        (dict(type='StoredTeachers', teachers=[]), r'a list of different names, not \[\]'),
        (dict(type='StoredTeachers', teachers='one'), "different names, not 'one'"),
        (dict(type='FrozenTeachers', members=[]), 'FrozenTeachers needs members'),
        (dict(type='FrozenTeachers', members=[dict(config='x')]), 'member 0 must be dict'),
        (dict(type='DistillationLoss', bend=0.0), 'bend must be positive, not 0.0'),
        (dict(type='KLDistillationLoss', temperature=0), 'temperature must be positive .*, not 0'),
        (
            dict(type='StoredTeachers', teachers=['one'], temperatures=[1, 1]),
            '2 temperatures for 1 teachers',
        ),
        (
            dict(type='StoredTeachers', teachers=['one'], temperatures=[-1]),
            r'temperatures\[0\] must be positive',
        ),
        (dict(type='StoredTeachers', teachers=['one'], average='x'), 'average must be one of'),
        (
            dict(type='FrozenTeachers', members=[nn.Identity()], temperatures='x'),
            'temperatures must be one of',
        ),
    ):
        with pytest.raises(ValueError, match=message):
            MODELS.build({**bad, 'type': f'mmvtr.{bad["type"]}'})
    for teachers in (make() for make in SUPERVISIONS.values()):
        with pytest.raises(ValueError, match='fills target.teacher, .* add a DistillationLoss'):
            unread(teachers, ContrastiveLoss())
        unread(teachers, ContrastiveLoss(), DistillationLoss())
        unread(teachers, ContrastiveLoss(), LossOfSomebody())  # may read what it likes
        unread(teachers)  # without losses nothing is trained
    inputs, samples = make_batch()
    del samples['video_vectors']['two']
    with pytest.raises(ValueError, match=r"'two' of videos, .* \['one'\]: add dict\(type"):
        make_model(SUPERVISIONS['stored']())(inputs, samples, mode='loss')
    inputs, samples = make_batch()
    samples['video_vectors']['two'] = torch.zeros(V, 1, 4, dtype=torch.float64)
    with pytest.raises(ValueError, match="'two': texts have 5 numbers, videos 4"):
        make_model(SUPERVISIONS['stored']())(inputs, samples, mode='loss')
    model = make_model(SUPERVISIONS['stored']())
    model.supervision = None
    with pytest.raises(ValueError, match='reads the teacher beside the target'):
        model(*make_batch(), mode='loss')
    shortlisted = make_model()
    shortlisted.similarity.shortlist = 5
    with pytest.raises(ValueError, match='teacher 0 ranks a shortlist of 5'):
        FrozenTeachers(members=[shortlisted]).init_weights()


def test_a_teacher_of_frames_normalised_otherwise_is_refused():
    def seeing(mean, supervision=None):
        model = make_model(supervision)
        preprocessor = dict(type='mmvtr.VideoTextDataPreprocessor', mean=mean, std=[60.0] * 3)
        model.data_preprocessor = MODELS.build(preprocessor)
        return model

    for mean, refused in (([110.0] * 3, False), ([127.5] * 3, True)):
        teachers = FrozenTeachers(members=[seeing(mean)])
        teachers.sees(seeing([110.0] * 3).data_preprocessor)
        if refused:
            message = r'member 0 was trained on frames of mean \[127.5.*, and would see the student'
            with pytest.raises(ValueError, match=message):
                teachers.init_weights()
        else:
            teachers.init_weights()
    told = []
    teachers = FrozenTeachers(members=[make_model()])
    teachers.sees = told.append
    student = make_model(teachers)
    assert told == [student.data_preprocessor]
