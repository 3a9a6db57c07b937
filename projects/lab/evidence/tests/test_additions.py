"""What the papers add to a student: targets and weights, and a training of each on a tiny set."""

import importlib
import math

import pytest
import torch


@pytest.fixture
def additions(real, folder, monkeypatch):
    """The script, with a place of the tiny set and short trainings."""
    found = importlib.import_module('additions')
    made = real['sets'].prepare('own', real['sets'].of_folder(folder), folder / 'made')
    place = real['run'].Place('own', made, 'minilm')
    place.schedule = real['training'].Schedule(2, batch=8, looks=1)
    monkeypatch.setattr(found, 'PLACE', place, raising=False)
    return found


def test_eta_is_one_less_the_odds_over_the_best_own_pair(additions):
    x = torch.randn(4, 3, dtype=torch.float64) * 5
    positives = torch.tensor([[1, 0, 0], [0, 1, 0], [1, 0, 0], [0, 0, 1]]).bool()
    found = additions.eta(x, positives)
    for t in range(4):
        for v in range(3):
            p = [[math.exp(x[a, b] / 4) for b in range(3)] for a in range(4)]
            own_t = max(p[t][b] for b in range(3) if positives[t, b])
            own_v = max(p[a][v] for a in range(4) if positives[a, v])
            expected = max(1 - p[t][v] / max(own_t, own_v), 0.02)
            assert found[t, v].item() == pytest.approx(expected, rel=1e-9)


def test_three_judges_are_less_sure_where_they_disagree(additions):
    registry = importlib.import_module('mmvtr.registry')
    target = importlib.import_module('mmvtr.models.target').Target
    structures = importlib.import_module('mmvtr.structures')
    prefix = importlib.import_module('mmvtr.models.supervisions.stored_vectors').PREFIX
    draw = torch.Generator().manual_seed(0)
    names = ['member0', 'member1', 'member2']
    sides = [
        {
            prefix + n: structures.Embedding(torch.randn(4, 1, 6, generator=draw)[:, 0])
            for n in names
        }
        for _ in range(2)
    ]
    each = torch.stack([sides[0][prefix + n].mean @ sides[1][prefix + n].mean.t() for n in names])
    known = target(torch.eye(4).bool())
    for judges in (1, 3):
        module = registry.MODELS.build(
            dict(type='TeachersEta', teachers=names, judges=judges, average='scores')
        )
        made, _ = module.block(tuple(sides), slice(None), known)
        some = each[:judges]
        spread = (some - some.mean(0)).square().mean(0).sqrt()
        assert torch.allclose(made.weights, additions.eta(some.mean(0) - spread, known.positives))
        assert torch.allclose(made.extras['teacher'], each.mean(0), atol=1e-5)


def test_balanced_logits_have_equal_sums(additions):
    logits = torch.randn(30, 20, dtype=torch.float64)
    texts, videos = additions.balanced(logits, rounds=300)
    mass = (logits + texts[:, None] + videos).exp()
    assert torch.allclose(mass.sum(0), torch.ones(20, dtype=torch.float64))
    assert torch.allclose(mass.sum(1), mass.sum(1).mean().expand(30))


def test_crossed_logits_are_of_members_that_have_not_seen_the_item(additions, real, monkeypatch):
    place, data = (
        additions.PLACE,
        real['reading'].dataset(additions.PLACE.folder, 'train', 'minilm'),
    )
    seen, models = [], []

    def fit(place, name, config, some, rate, seed):
        seen.append({*some.videos_with_text})
        model = importlib.import_module('mmvtr.registry').MODELS.build(config)
        models.append(model)
        return real['training'].Trained(model, model.state_dict(), [], 0.0)

    monkeypatch.setattr(real['run'], 'fit', fit)
    made = additions.crossed(place, data, 1e-3, [5, 6, 7])
    vectors = [
        made.everything()['data_samples'][f'{x}_vectors']['joined'][:, 0] for x in ('text', 'video')
    ]
    found = vectors[0] @ vectors[1].t()
    everything = real['reading'].whole(data)
    each = [
        (lambda t, v: t @ v.t())(*additions.logits_of(model.eval(), everything)) for model in models
    ]
    lacks = [
        next(k for k in range(3) if v not in seen[k]) for v in range(len(data.videos))
    ]  # one each
    assert sum(map(len, seen)) == 2 * len(data.videos)
    for t in range(0, len(data.texts), 5):
        for v in range(0, len(data.videos), 3):
            a, b = lacks[data.texts[t]['video_idx'][0]], lacks[v]
            assert found[t, v].item() == pytest.approx(
                (each[a][t, v].item() + each[b][t, v].item()) / 2, abs=1e-4
            )


@pytest.mark.parametrize(
    'name',
    ['student_eta_three', 'student_eta_one', 'student_crossed', 'student_debiased', 'student_ncl'],
)
def test_each_variant_is_trained_and_judged_on_val(additions, name):
    row = additions.on_val(additions.PLACE, name, 0)
    assert 0 < row['val'] <= 600 and 0 < row['bank'] <= 600
