"""Official Collaborative Experts under our names: the golden scores, losses and gradients."""

import re
import runpy
import sys

import numpy as np
import pytest
import torch
from mmengine.runner import load_checkpoint
from torch import nn

from children import ROOT
from mmvtr.functional import margin_ranking
from mmvtr.models.retriever import VideoTextRetriever
from mmvtr.models.similarities.mmt import ExpertSimilarity
from mmvtr.structures import Embedding
from official_checkpoints.ce import NINE
from official_checkpoints.conversion import convert_checkpoint, official_retriever
from tests.test_models.test_encoders.test_ce import rows_of

MODES = ('eval', 'train')
#: Largest deviation of a score from the released code, whose loop is followed.
CLOSE = dict(rtol=0, atol=1e-6)


class FirstWord(nn.Module):
    """Stands for the NetVLAD over words of a file that begins behind it."""

    def forward(self, words, mask):
        return words[:, 0]


def goldens(shared, name):
    """Contents of ``NAME.npz`` and of ``NAME_*.npz``, by name; there is at least one."""
    found, folder = {}, shared / 'golden'
    for path in [*folder.glob(f'{name}.npz'), *sorted(folder.glob(f'{name}_*.npz'))]:
        with np.load(path) as data:
            found[path.stem] = {key: data[key] for key in data.files}
    assert found, name
    return found


def state_of(data, prefix=''):
    return {prefix + k[2:]: torch.from_numpy(x) for k, x in data.items() if k.startswith('w.')}


def words_alone(width):
    """A NetVLAD over words that converts, and of which nothing is read."""
    return {
        'text_pooling.clusters': torch.zeros(width, 1),
        'text_pooling.clusters2': torch.zeros(1, width, 1),
        **{
            f'text_pooling.batch_norm.{name}': torch.zeros(1)
            for name in ('weight', 'bias', 'running_mean', 'running_var')
        },
        'text_pooling.batch_norm.num_batches_tracked': torch.tensor(0),
    }


def told_of(data):
    """Settings that a file states."""
    stated = str(data['config'][0]) if 'config' in data else ''
    return dict(re.findall(r"(\w+)='?([\w-]*)'?", stated))


def module_of(data):
    """The retriever of a ``ce_module_*`` file and its settings."""
    told = told_of(data)
    state = {**state_of(data, 'ce.'), **words_alone(data['text'].shape[-1])}
    retriever = official_retriever(
        state,
        'ce',
        experts=[str(name) for name in data['experts']],
        gating=told['use_ce'] or None,
        include_self=told['include_self'] != '0',
        max_tokens=dict(text=1),
    )
    retriever.encoder.text_pool = FirstWord()
    return retriever, told


def levels_of(retriever, data):
    """Texts and videos of a file; ``x.<expert>`` is [V, w] or [V, rows, w]."""
    there = torch.from_numpy(data['available']) > 0
    given = [torch.from_numpy(data[f'x.{name}']) for name in data['experts']]
    given = [x if x.dim() == 3 else x[:, None] for x in given]
    videos = [[(e, x[v]) for e, x in enumerate(given) if there[v, e]] for v in range(len(there))]
    text = torch.from_numpy(data['text'])
    text = text[:, 0] if text.dim() == 4 else text
    mask = torch.ones(text.shape[:2], dtype=torch.bool)
    encoder = retriever.encoder
    return encoder.encode_text(text, mask), encoder.encode_video(**rows_of(videos))


def deviations(texts, videos, data, mode):
    """Vectors of each expert, against ours without weights and without those that are missing."""
    there = torch.from_numpy(data['available']) > 0
    for e, name in enumerate(map(str, data['experts'])):
        phi = torch.from_numpy(data[f'{mode}.text.{name}'])[:, 0]
        psi = torch.from_numpy(data[f'{mode}.video.{name}'])
        width = phi.shape[1]
        mine = nn.functional.normalize(texts['global'].tokens[:, e], dim=-1)
        torch.testing.assert_close(mine[:, :width], phi, rtol=0, atol=1e-5)
        own = videos['global'].tokens[there[:, e], e]
        torch.testing.assert_close(own[:, :width], psi[there[:, e]], rtol=0, atol=1e-5)
        assert (own[:, width:] == 0).all() and (mine[:, width:] == 0).all()


@pytest.mark.parametrize('mode', MODES)
def test_official_modules(shared, mode):
    """Every mode, MoEE too: vectors, weights, scores, the loss and all gradients."""
    for name, data in goldens(shared, 'ce_module').items():
        retriever, told = module_of(data)
        retriever.train(mode == 'train')
        texts, videos = levels_of(retriever, data)
        deviations(texts, videos, data, mode)
        weights = texts['global'].tokens.norm(dim=-1)
        expected = torch.from_numpy(data[f'{mode}.weights'])[:, 0]
        torch.testing.assert_close(weights, expected, rtol=0, atol=1e-5, msg=name)
        scores = retriever.similarity(texts, videos)['scores']
        expected = torch.from_numpy(data[f'{mode}.sims'])
        torch.testing.assert_close(scores, expected, **CLOSE, msg=name)
        if mode == 'train':
            loss = margin_ranking(scores, torch.eye(len(scores)).bool(), margin=0.2)
            assert loss.item() == pytest.approx(data['train.loss_m0.2'].item(), abs=1e-6), name
            loss.backward()
            norms = dict(zip(map(str, data['train.grad_norms_names']), data['train.grad_norms']))
            assert check_gradients(retriever, norms, told) == len(norms), name


def check_gradients(retriever, norms, told):
    """Norms by official name against those of our parameters; gives how many there are."""
    renamed = {
        'moe_fc': 'weigh',
        'dim_reduce': 'gating.reduce',
        'g_reason_1': 'gating.first',
    }
    moee = told['use_ce'] == ''
    rules = [
        (r'text_GU\.(\d+)\.fc', r'phrases.\1.linear'),
        (r'text_GU\.(\d+)\.cg\.fc', r'phrases.\1.gate'),
        (r'text_GU\.(\d+)\.cg\.batch_norm', r'phrases.\1.norm'),
        (r'video_dim_reduce\.(\d+)\.fc', r'project.\1'),
        (r'video_GU\.(\d+)\.fc', r'project.\1.linear'),
        (r'video_GU\.(\d+)\.cg\.fc', r'project.\1.gate' if moee else r'gating.gates.\1.linear'),
        (
            r'video_GU\.(\d+)\.cg\.batch_norm',
            r'project.\1.norm' if moee else r'gating.gates.\1.norm_opinion',
        ),
        (r'video_GU\.(\d+)\.cg\.batch_norm2', r'gating.gates.\1.norm_own'),
        (r'g_reason_unshared_weights\.(\d+)\.g_reason_1_specific', r'gating.own.\1.0'),
        (r'g_reason_unshared_weights\.(\d+)\.g_reason_2_specific', r'gating.own.\1.2'),
    ]
    parameters = dict(retriever.encoder.named_parameters())
    scale = float(max(norms.values()))
    for official, norm in norms.items():
        base, _, last = official.rpartition('.')
        stack = re.fullmatch(r'(g_reason_shared|h_reason)\.(\d+)', base)
        if stack:
            room = dict(g_reason_shared='deeper', h_reason='after')[stack[1]]
            number = int(stack[2])
            ours = f'gating.{room}.{"linears" if number % 3 else "norms"}.{number // 3}'
        else:
            ours = renamed.get(base)
            ours = ours or next(re.sub(a, b, base) for a, b in rules if re.fullmatch(a, base))
        found = float(parameters[f'{ours}.{last}'].grad.norm())
        assert found == pytest.approx(float(norm), rel=1e-4, abs=1e-6 * scale), official
    return len([p for p in parameters.values() if p.grad is not None])


@pytest.mark.parametrize('mode', MODES)
def test_official_network(shared, mode):
    for name, data in goldens(shared, 'ce_net').items():
        lengths = {
            key[2:]: x.shape[1] for key, x in data.items() if key.startswith('x.') and x.ndim == 3
        }
        told = told_of(data)
        settings = dict(
            experts=[str(n) for n in data['experts']],
            gating=told.get('use_ce') or None,
            include_self=told.get('include_self') != '0',
            max_tokens=dict(text=data['text'].shape[-2], **lengths),
        )
        retriever = official_retriever(state_of(data), 'ce', **settings).train(mode == 'train')
        texts, videos = levels_of(retriever, data)
        deviations(texts, videos, data, mode)
        scores = retriever.similarity(texts, videos)['scores']
        expected = torch.from_numpy(data[f'{mode}.sims'])
        torch.testing.assert_close(scores, expected, **CLOSE, msg=name)
        converted = convert_checkpoint(state_of(data), 'ce', **settings)
        assert set(converted) - set(retriever.state_dict()) == {'losses.ranking.step'}


def test_the_gating_is_told_by_the_tensors(shared):
    """All but ``pairwise-star``, whose tensors are those of ``pairwise``."""
    for name, data in goldens(shared, 'ce_module').items():
        mode = told_of(data)['use_ce']
        if mode in ('', 'pairwise-star') or 'noself' in name:
            continue
        state = {**state_of(data, 'ce.'), **words_alone(data['text'].shape[-1])}
        names = [str(name) for name in data['experts']]
        found = official_retriever(state, 'ce', experts=names, max_tokens=dict(text=1))
        assert found.encoder.gating.mode == mode, name


@torch.no_grad()
def test_gating_all_at_once_differs_from_the_released_loop(shared):
    """By what CollaborativeGating's docstring says."""
    data = goldens(shared, 'ce_module_pairwise')['ce_module_pairwise']
    retriever = module_of(data)[0].eval()
    retriever.encoder.gating.sequential = False
    scores = retriever.similarity(*levels_of(retriever, data))['scores']
    apart = (scores - torch.from_numpy(data['eval.sims'])).abs().max()
    assert 1e-4 < apart < 2e-3


def test_official_scores_and_loss(shared):
    """Captions [B, caps] are texts; the scores have unit vectors, weights and missing experts."""
    for data in goldens(shared, 'ce_similarity_loss').values():
        weights = torch.from_numpy(data['weights']).flatten(0, 1)
        there = torch.from_numpy(data['available']) > 0
        sides = dict(text=[], video=[])
        for side, vectors in sides.items():
            for name in data['experts']:
                x = torch.from_numpy(data[f'{side}.{name}'])
                vectors.append(x.flatten(0, 1) if side == 'text' else x)
            widest = max(x.shape[1] for x in vectors)
            vectors[:] = [nn.functional.pad(x, (0, widest - x.shape[1])) for x in vectors]
        words = weights[..., None] * torch.stack(sides['text'], 1)
        vectors = torch.stack(sides['video'], 1)
        texts = {'global': Embedding(words.sum(1), words, torch.ones_like(weights).bool())}
        videos = {'global': Embedding(vectors.sum(1), vectors, there)}
        scores = ExpertSimilarity()(texts, videos)['scores']
        expected = torch.from_numpy(data['sims.keep_missing=0.indep'])
        torch.testing.assert_close(scores, expected, rtol=0, atol=1e-5)
        average = scores.view(len(there), -1, len(there)).mean(1)
        expected = torch.from_numpy(data['sims.keep_missing=0.avg'])
        torch.testing.assert_close(average, expected, rtol=0, atol=1e-5)
        for key in data:
            found = re.fullmatch(r'loss\.margin([\d.]+)\.fix_norm=(\d)', key)
            if found:
                check_loss(data, key, float(found[1]), found[2] == '1')


def check_loss(data, key, margin, fixed):
    """``fix_norm`` is our mean; without it B constants a direction are in a mean over B B."""
    scores = torch.from_numpy(data['sims.keep_missing=0.avg']).requires_grad_()
    count = len(scores)
    loss = margin_ranking(scores, torch.eye(count).bool(), margin=margin)
    if not fixed:
        loss = loss * (count - 1) / count + margin / count
    assert loss.item() == pytest.approx(data[key].item(), abs=1e-6)
    loss.backward()
    expected = torch.from_numpy(data[key.replace('loss.', 'grad.', 1)])
    torch.testing.assert_close(scores.grad, expected, rtol=0, atol=1e-6)


# -- keys --------------------------------------------------------------------------------------


def made_up(experts=9, pooled=()):
    """An official state dict, hand-made: D = 4, word vectors of 3, rows of 2."""
    torch.manual_seed(0)

    def linear(name, n_in, n_out):
        return {f'{name}.weight': torch.randn(n_out, n_in), f'{name}.bias': torch.randn(n_out)}

    def norm(name, dim):
        state = nn.BatchNorm1d(dim).state_dict()
        return {f'{name}.{key}': x for key, x in state.items()}

    state = {**words_alone(3), **linear('ce.moe_fc', 3, experts), **linear('ce.g_reason_1', 8, 4)}
    for i in range(experts):
        width = 4 if i in pooled else 2
        state.update(linear(f'ce.video_dim_reduce.{i}.fc', width, 4))
        state.update(linear(f'ce.video_GU.{i}.cg.fc', 4, 4))
        state.update(norm(f'ce.video_GU.{i}.cg.batch_norm', 4))
        state.update(norm(f'ce.video_GU.{i}.cg.batch_norm2', 4))
        state.update(linear(f'ce.text_GU.{i}.fc', 3, 4))
        state.update(linear(f'ce.text_GU.{i}.cg.fc', 4, 4))
        state.update(norm(f'ce.text_GU.{i}.cg.batch_norm', 4))
    for i, name in enumerate(NINE):
        if i in pooled:
            state[f'pooling.{name}.clusters'] = torch.randn(2, 2)
            state[f'pooling.{name}.clusters2'] = torch.randn(1, 2, 2)
            state.update(norm(f'pooling.{name}.batch_norm', 2))
    return state


def test_the_nine_experts_need_no_names():
    state = made_up(pooled=(0, 5, 8))
    encoder = official_retriever(state, 'ce').encoder
    assert list(encoder.experts) == sorted(NINE)
    assert encoder.padded == dict(text=37, audio=29, ocr=49, speech=32)
    assert encoder.gating.sequential and encoder.gating.include_self
    assert len(convert_checkpoint(state, 'ce')) == len(state) + 2  # the temperature, and a step


def test_keys_that_are_refused():
    state = made_up()
    with pytest.raises(ValueError, match='not a ce checkpoint that we know:\n  unknown: ce.other'):
        official_retriever({**state, 'ce.other': torch.zeros(1)}, 'ce')
    for key in ('ce.video_GU.3.cg.batch_norm2.bias', 'ce.moe_fc.weight', 'text_pooling.clusters2'):
        less = {name: x for name, x in state.items() if name != key}
        with pytest.raises(ValueError, match=f'missing: {key}'):
            official_retriever(less, 'ce')
    wrong = {**state, 'ce.text_GU.1.fc.weight': torch.zeros(4, 5)}
    with pytest.raises(ValueError, match=r'shapes: ce.text_GU.1.fc.weight \[4, 5\], not \[4, 3\]'):
        official_retriever(wrong, 'ce')


def test_the_tool_takes_names(tmp_path, monkeypatch):
    state, tool = made_up(2, pooled=(0,)), str(ROOT / 'tools/model_converters/convert.py')
    torch.save(state, tmp_path / 'official.pth')
    files = [str(tmp_path / 'official.pth'), str(tmp_path / 'ours.pth')]
    monkeypatch.setattr(sys, 'argv', ['convert.py', 'ce', *files, '--experts', 'rgb', 'audio'])
    runpy.run_path(tool, run_name='__main__')
    settings = dict(clusters=dict(audio=2), text_clusters=1, dim=4, g_layers=1)
    text = dict(type='FeatureWords', in_dim=3)
    retriever = VideoTextRetriever(
        encoder=dict(type='CEEncoder', text=text, experts=dict(rgb=2, audio=2), **settings),
        similarity=ExpertSimilarity(),
        losses=dict(ranking=dict(type='RankingLoss')),
    )
    load_checkpoint(retriever, str(tmp_path / 'ours.pth'), strict=True)
    assert torch.equal(retriever.encoder.weigh.weight, state['ce.moe_fc.weight'])
    monkeypatch.setattr(sys, 'argv', ['convert.py', 'uatvr', *files, '--experts', 'rgb'])
    with pytest.raises(SystemExit):
        runpy.run_path(tool, run_name='__main__')


def test_experts_that_do_not_fit_the_tensors():
    with pytest.raises(
        ValueError, match='the ce checkpoint has 2 experts, but does not hold their names'
    ):
        official_retriever(made_up(2), 'ce')
    with pytest.raises(ValueError, match="it has .'pooling.audio'., the experts are"):
        official_retriever(made_up(2, pooled=(0,)), 'ce', experts=['face', 'rgb'])
