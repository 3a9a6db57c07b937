"""In sentence-transformers' own trainer: text-text, text-video, and two processes."""

import logging

import numpy as np
import pytest
import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel

st = pytest.importorskip('sentence_transformers', reason="needs the extra 'sentence-transformers'")
pytest.importorskip('accelerate', reason="needs the extra 'sentence-transformers'")
pytest.importorskip('datasets', reason="needs the extra 'sentence-transformers'")

import datasets  # noqa: E402

import mmvtr  # noqa: E402
import tiny_embedders  # noqa: E402
from children import MP, free_port  # noqa: E402
from mmvtr.functional import ranks, recall_at, sinkhorn  # noqa: E402
from mmvtr.sentence_transformers import (  # noqa: E402
    DebiasedContrastiveLoss,
    DebiasedEvaluator,
    LossCallback,
    NormalizedContrastiveLoss,
    contrastive,
    pairs_dataset,
    with_labels,
)

TEXTS, VIDEOS, LABELS = tiny_embedders.pairs(48)


def arguments(folder, **more):
    return st.SentenceTransformerTrainingArguments(
        output_dir=str(folder),
        per_device_train_batch_size=16,
        learning_rate=3e-3,
        report_to=[],
        disable_tqdm=True,
        use_cpu=True,
        **{'max_steps': 40, 'save_strategy': 'no', 'logging_steps': 1, **more},
    )


def losses_of(trainer):
    return [row['loss'] for row in trainer.state.log_history if 'loss' in row]


def train(model, data, loss, args, **more):
    trainer = st.SentenceTransformerTrainer(
        model, args, train_dataset=data, loss=loss, callbacks=[LossCallback(loss)], **more
    )
    trainer.train()
    return trainer


@pytest.mark.parametrize('size', [8, pytest.param(None, marks=pytest.mark.nightly)])
def test_texts_and_videos_train(tmp_path, size):
    model = tiny_embedders.video_model(tmp_path / 'model')
    data = pairs_dataset(TEXTS, VIDEOS, LABELS)
    torch.manual_seed(0)
    loss = DebiasedContrastiveLoss(
        model, supervision=dict(type='DVTRSupervision', ramp=(0.0, 0.5)), mini_batch_size=size
    )
    # Of a single token attention has nothing to learn.
    own = [p for name, p in loss.named_parameters() if 'model' not in name and 'attent' not in name]
    before = [p.clone() for p in own]
    trainer = train(model, data, loss, arguments(tmp_path / 'run'))
    found = losses_of(trainer)
    assert np.mean(found[-5:]) < np.mean(found[:5]) - 0.2
    assert loss.supervision.progress == pytest.approx(39 / 40)
    rows = [row for row in trainer.state.log_history if 'loss' in row]
    assert len(rows) == 40 and all(0 <= row['eta_negative'] <= 1 for row in rows)
    assert rows[-1]['eta_negative'] == pytest.approx(float(loss.figures['eta_negative']), abs=1e-4)
    assert len(own) > 10  # heads and supervision train with it
    assert not any(torch.equal(a, b) for a, b in zip(before, own))


def test_texts_and_texts_train_with_ids_and_the_queue_is_saved(tmp_path, caplog):
    model = tiny_embedders.text_model(tmp_path / 'model')
    names = [f'video{label}' for label in LABELS]
    data = datasets.Dataset.from_dict(dict(video_id=names, a=TEXTS, b=[t[::1] for t in TEXTS]))
    data = with_labels(data, 'video_id')
    assert data.column_names == ['a', 'b', 'label']
    expected = [names.index(name) for name in names]
    assert [[*dict.fromkeys(expected)][n] for n in data['label']] == expected
    loss = NormalizedContrastiveLoss(model, queue=100)
    with caplog.at_level(logging.WARNING):
        train(
            model, data, loss,
            arguments(tmp_path / 'run', max_steps=6, save_strategy='steps', save_steps=6),
        )  # fmt: skip
    assert 'queue=100 is longer than the data: it keeps 48' in caplog.text
    folder = tmp_path / 'run/checkpoint-6'
    assert loss.bank().shape == (48, 16)
    again = st.SentenceTransformer(str(folder), device='cpu')
    evaluate = DebiasedEvaluator(TEXTS[:9], TEXTS[9:18], bank=folder)
    assert evaluate(again) == DebiasedEvaluator(TEXTS[:9], TEXTS[9:18], bank=loss)(model)
    corpus = again.encode(TEXTS[9:18])
    found = mmvtr.Debiaser.load(folder, corpus)
    expected = mmvtr.fit(corpus, loss.bank(), 'sinkhorn')
    for name, value in expected.options_.items():
        torch.testing.assert_close(found.options_[name], value)
    np.testing.assert_allclose(found.scores(corpus), expected.scores(corpus), atol=1e-5)
    mmvtr.fit(None, loss.bank(), 'nnn', neighbours=3).save(folder)  # in its place
    assert mmvtr.Debiaser.load(folder, corpus).transform_ == 'nnn'
    with pytest.raises(ValueError, match='bank texts have width 16, the videos 5'):
        mmvtr.Debiaser.load(folder, corpus[:, :5])


def test_the_evaluator_is_scores_by_hand(tmp_path):
    model = tiny_embedders.video_model(tmp_path)
    queries, corpus, bank = TEXTS[:10], VIDEOS[:12], TEXTS[12:]
    relevant = [[i, i + 1] if i % 3 == 0 else i for i in range(10)]
    q, c, b = (
        torch.as_tensor(model.encode(x, normalize_embeddings=True)) for x in (queries, corpus, bank)
    )
    positives = torch.zeros(10, 12).bool()
    for row, found in enumerate(relevant):
        positives[row, found] = True
    texts = [*dict.fromkeys(bank)]  # one asked n times weighs 1 / n
    weights = torch.tensor([1 / bank.count(text) for text in texts])
    rows = b[[bank.index(text) for text in texts]]
    columns = sinkhorn(rows @ c.T, temperature=0.02, row_marginals=weights / weights.sum()).columns
    expected = dict(raw=q @ c.T, debiased=q @ c.T + columns)
    evaluate = DebiasedEvaluator(
        queries, corpus, relevant, bank=bank, temperature=0.02, name='test', ks=(1, 3)
    )
    found = evaluate(model)
    for name, scores in expected.items():
        for k in (1, 3):
            value = float(recall_at(ranks(scores, positives), k))
            assert found[f'test_{name}_recall@{k}'] == pytest.approx(value)
    assert evaluate.primary_metric == 'test_debiased_recall@1'
    assert found['test_raw_median_rank'] != found['test_debiased_median_rank']
    for vectors in (3 * b, (3 * b).numpy(), (3 * b).double().numpy()):
        again = DebiasedEvaluator(
            queries, corpus, relevant, bank=vectors, temperature=0.02, name='test', ks=(1, 3)
        )
        assert again(model) == pytest.approx(found)
    raw = DebiasedEvaluator(queries, corpus, relevant)(model)
    assert not any('debiased' in name for name in raw)


@pytest.mark.parametrize(
    ('more', 'primary'),
    [
        (dict(bank=TEXTS[12:], name='debiased'), 'debiased_debiased_recall@1'),
        (dict(bank=TEXTS[12:], ks=(5, 3)), 'debiased_recall@3'),
        (dict(name='dev'), 'dev_raw_recall@1'),
    ],
)
def test_the_primary_metric_is_known_before_a_call_and_is_among_the_figures(
    tmp_path, more, primary
):
    evaluate = DebiasedEvaluator(TEXTS[:10], TEXTS[10:20], **more)
    assert evaluate.primary_metric == primary
    assert primary in evaluate(tiny_embedders.text_model(tmp_path))
    assert evaluate.primary_metric == primary


def test_the_trainer_chooses_its_best_model_by_the_primary_metric(tmp_path, caplog):
    """From a loss whose queue is empty before the first step."""
    model = tiny_embedders.text_model(tmp_path / 'model')
    data = pairs_dataset(TEXTS, TEXTS[1:] + TEXTS[:1], LABELS)
    loss = NormalizedContrastiveLoss(model, queue=20)
    dev = DebiasedEvaluator(TEXTS[:12], TEXTS[12:24], bank=loss, name='dev')
    own = arguments(
        tmp_path / 'run', max_steps=6, save_strategy='steps', save_steps=2,
        eval_strategy='steps', eval_steps=2, eval_on_start=True,
        load_best_model_at_end=True, metric_for_best_model=dev.primary_metric,
    )  # fmt: skip
    with caplog.at_level(logging.WARNING):
        trainer = train(model, data, loss, own, evaluator=dev)
    assert caplog.text.count('dev: the loss has no bank yet') == 1
    key = 'eval_dev_debiased_recall@1'
    seen = {row['step']: row[key] for row in trainer.state.log_history if key in row}
    assert [*seen] == [0, 2, 4, 6] and trainer.args.greater_is_better
    assert trainer.state.best_metric == max(seen[step] for step in (2, 4, 6))
    best = next(step for step in (2, 4, 6) if seen[step] == trainer.state.best_metric)
    assert trainer.state.best_model_checkpoint.endswith(f'checkpoint-{best}')


def test_what_the_evaluator_cannot_do_is_refused(tmp_path):
    for wrong, reason in [
        (dict(queries=[]), 'there are 0 queries and 3 items'),
        (dict(corpus=['a'] * 4), 'there are 3 queries and 4 items: give'),
        (dict(relevant=[0, 1]), 'relevant is for 2 queries'),
        (dict(relevant=[0, 1, 3]), 'query 2 belongs to .3.: positions are 0 to 2'),
        (dict(bank=[]), 'the bank is empty'),
        (dict(ks=()), 'ks must be ranks'),
        (dict(transform='magic'), "transform must be 'auto', None or one of"),
    ]:
        given = dict(queries=['a'] * 3, corpus=['b'] * 3)
        with pytest.raises(ValueError, match=reason):
            DebiasedEvaluator(**given | wrong)
    model = tiny_embedders.text_model(tmp_path)
    with pytest.raises(ValueError, match='bank texts have width'):
        DebiasedEvaluator(TEXTS[:3], TEXTS[3:6], bank=torch.rand(5, 7))(model)
    with pytest.raises(FileNotFoundError, match='Debiaser.save writes it'):
        DebiasedEvaluator(TEXTS[:3], TEXTS[3:6], bank=tmp_path)(model)
    with pytest.raises(ValueError, match='has its own transform and options'):
        DebiasedEvaluator(TEXTS[:3], TEXTS[3:6], bank=tmp_path, transform='nnn')
    for wrong in (torch.rand(0, 3), torch.full((2, 3), torch.nan)):
        with pytest.raises(ValueError, match='bank texts'):
            mmvtr.fit(None, wrong)
    with pytest.raises(ValueError, match='equally many, not .2, 1.'):
        pairs_dataset(['a', 'b'], ['c'])
    data = datasets.Dataset.from_dict(dict(a=['x']))
    with pytest.raises(KeyError, match="no column 'id'"):
        with_labels(data, 'id')


def test_documents_are_read_when_they_are_asked_for():
    asked = []

    def read(name):
        asked.append(name)
        return np.full(3, ord(name))

    data = pairs_dataset(['x', 'y', 'z'], ['a', 'b', 'c'], ids=[7, None, 7], read=read)
    assert not asked
    assert data[1]['document'].tolist() == [98] * 3 and asked == ['b']
    assert [row['label'] for row in data] == [0, 1, 0]
    assert asked == ['b', 'a', 'b', 'c']
    assert pairs_dataset(['x'], ['a']).column_names == ['text', 'document']


# -- two processes ---------------------------------------------------------------------------------


def batch_of(model, rows):
    documents = VIDEOS if model.supports('video') else TEXTS[::-1]
    return (
        [model.preprocess([side[i] for i in rows]) for side in (TEXTS, documents)],
        torch.tensor([LABELS[i] for i in rows]),
    )


def loss_of(model, size):
    torch.manual_seed(4)
    return NormalizedContrastiveLoss(
        model, supervision='DVTRSupervision', mini_batch_size=size, gather_across_devices=True
    )


def gradients(model, loss):
    found = {f'model.{name}': p.grad for name, p in model.named_parameters()}
    own = {f'own.{i}': p.grad for i, p in enumerate(loss._own_parameters())}
    return {name: g for name, g in {**found, **own}.items() if g is not None}


def one_of_two(rank, port, folder, size, rows):
    dist.init_process_group('gloo', init_method=f'tcp://127.0.0.1:{port}', rank=rank, world_size=2)
    model = st.SentenceTransformer(str(folder / 'saved'), device='cpu')
    contrastive.ROWS = 3  # in one process below the whole matrix
    loss = loss_of(model, size)
    if rank == 1:
        for parameter in loss._own_parameters():  # as of another seed
            parameter.data.add_(1.0)
    loss.model = DistributedDataParallel(model, find_unused_parameters=True)
    columns, labels = batch_of(model, rows[rank])
    value = loss(columns, labels)
    value.backward()
    found = dict(value=value.detach(), bank=loss.bank(), **gradients(model, loss))
    torch.save(found, folder / f'{rank}.pt')
    apart(model)
    dist.destroy_process_group()


def apart(model):
    """Weights of a loss's own would drift apart where each process has its own batch."""
    columns, labels = batch_of(model, range(4))
    loss = DebiasedContrastiveLoss(model, supervision='DVTRSupervision')
    with pytest.raises(ValueError, match='set gather_across_devices=True'):
        loss(columns, labels)
    DebiasedContrastiveLoss(model)(columns, labels)


@pytest.mark.parametrize(
    'make, size',
    [
        pytest.param('text_model', None, marks=pytest.mark.nightly),
        pytest.param('text_model', 2, marks=pytest.mark.nightly),
        ('video_model', 2),
    ],
)
def test_two_processes_are_one_with_the_joint_batch(tmp_path, make, size):
    """Two towers take gradient caching: DistributedDataParallel looks for unused weights in the
    last forward pass alone, and would miss those of the other tower."""
    model = getattr(tiny_embedders, make)(tmp_path / 'model')
    model.save(str(tmp_path / 'saved'))
    rows = [range(6), range(6, 11)]
    children = [
        MP.Process(target=one_of_two, args=(rank, port, tmp_path, size, rows))
        for port in [free_port()]
        for rank in range(2)
    ]
    for child in children:
        child.start()
    for child in children:
        child.join(120)
        assert child.exitcode == 0
    loss = loss_of(model, size)
    columns, labels = batch_of(model, range(11))
    value = loss(columns, labels)
    value.backward()
    expected = dict(value=value.detach(), bank=loss.bank(), **gradients(model, loss))
    for rank in range(2):
        found = torch.load(tmp_path / f'{rank}.pt')
        assert {*found} == {*expected}
        for name in expected:
            torch.testing.assert_close(found[name], expected[name], rtol=1e-3, atol=1e-5, msg=name)
