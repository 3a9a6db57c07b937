"""SSB's bottleneck and captioning loss against loops in float64, and batches without a support."""

import pytest
import torch

from mmvtr.models.losses import captioning
from mmvtr.models.losses.captioning import CrossCaptioning, bottleneck
from mmvtr.models.target import LocalBatch, Target
from mmvtr.registry import MODELS
from mmvtr.structures import Embedding

T5 = dict(
    model_type='t5',
    vocab_size=30,
    d_model=12,
    d_kv=4,
    d_ff=16,
    num_layers=2,
    num_heads=2,
    dropout_rate=0.0,
)
WORDS, FRAMES = (4, 2, 6, 3), (5, 2, 4)
#: Texts 0 and 3 tell of video 0; video 2 is another copy of video 0; text 2 tells of all three.
POSITIVES = torch.tensor(
    [[True, False, True], [False, True, False], [True, True, True], [True, False, True]]
)


def lengths(*values):
    return torch.arange(max(values)) < torch.tensor(values)[:, None]


def objective(**kwargs):
    torch.manual_seed(0)
    settings = dict(dim=8, temperature=0.3, loss_weight=2.0, **kwargs)
    return MODELS.build(dict(type='CrossCaptioning', decoder=T5, **settings)).double()


def local_batch(positives=POSITIVES):
    """Embeddings that are not unit vectors, with rubbish at the padding."""
    torch.manual_seed(1)
    mask, words = lengths(*FRAMES), lengths(*WORDS)
    tokens = torch.randn(3, 5, 8, dtype=torch.float64)
    videos = Embedding(torch.randn(3, 8).double(), tokens.requires_grad_(), mask)
    videos.mean.requires_grad_()
    texts = Embedding(torch.randn(4, 8).double().requires_grad_())
    inputs = dict(text=torch.randint(2, 30, (4, 6)), text_mask=words)
    return LocalBatch(inputs, {'global': texts}, {'global': videos}, positives)


def run(module, batch):
    return module(batch.texts, batch.videos, Target(batch.positives), batch)['loss']


def is_member(support, own):
    return dict(cross=not own, identity=own, full=True)[support]


def mix(batch, t, support, temperature):
    """Frames [F, D] and mask of the bottleneck of text t by loops; None without a support set."""
    query, videos = batch.texts['global'].mean[t], batch.videos['global']
    members = [v for v in range(3) if is_member(support, bool(batch.positives[t, v]))]
    if not members:
        return None
    scores = {}
    for v in members:
        key = videos.mean[v]
        scores[v] = ((query @ key) / query.norm() / key.norm() / temperature).exp()
    frames = torch.zeros(5, 8, dtype=torch.float64)
    valid = torch.zeros(5, dtype=torch.bool)
    for v in members:
        for f in range(FRAMES[v]):
            frames[f] += scores[v] / sum(scores.values()) * videos.tokens[v, f]
            valid[f] = True
    return frames, valid


def surprise(module, frames, valid, words):
    """-log p of each word: the decoder is asked anew for every prefix, and sees no padding."""
    memory, terms = module.projection(frames[valid])[None], []
    for i in range(len(words)):
        prefix = torch.cat([torch.zeros(1, dtype=torch.long), words[:i]])[None]
        states = module.t5.decoder(
            input_ids=prefix, encoder_hidden_states=memory, use_cache=False
        ).last_hidden_state[0, -1]
        logits = module.t5.shared.weight @ states * 12**-0.5
        terms.append(logits.exp().sum().log() - logits[words[i]])
    return terms


@pytest.mark.parametrize('support', ['cross', 'identity', 'full'])
def test_bottleneck_against_loops(support):
    batch = local_batch()
    members = objective(support=support).members(batch.positives)
    some = members.any(1)
    frames, mask = bottleneck(
        batch.texts['global'].mean[some], batch.videos['global'], members[some], temperature=0.3
    )
    expected = [mix(batch, t, support, 0.3) for t in range(4)]
    assert some.tolist() == [e is not None for e in expected]
    assert some.all() == (support != 'cross')  # text 2 has no other video
    for row, valid, e in zip(frames, mask, [e for e in expected if e is not None]):
        torch.testing.assert_close(row, e[0])
        assert torch.equal(valid, e[1])


def test_both_copies_of_the_own_video_stay_out():
    batch = local_batch()
    frames, mask = bottleneck(
        batch.texts['global'].mean[:1], batch.videos['global'], ~POSITIVES[:1], temperature=0.3
    )
    torch.testing.assert_close(frames[0, :2], batch.videos['global'].tokens[1, :2])
    assert torch.equal(mask[0], lengths(2, 5)[0])


@pytest.mark.parametrize('training', [True, False])
@pytest.mark.parametrize('support', ['cross', 'identity', 'full'])
def test_loss_against_loops(support, training):
    module, batch = objective(support=support).train(training), local_batch()
    terms = []
    for t, n in enumerate(WORDS):
        mixed = mix(batch, t, support, 0.3)
        if mixed is not None:
            terms += surprise(module, *mixed, batch.inputs['text'][t, :n])
    assert len(terms) == sum(WORDS) - (6 if support == 'cross' else 0)
    torch.testing.assert_close(run(module, batch), 2.0 * sum(terms) / len(terms))


def test_gradient_reaches_videos_texts_and_decoder():
    module, batch = objective(), local_batch()
    run(module, batch).backward()
    text, video = batch.texts['global'].mean.grad, batch.videos['global']
    # Text 1 weighs two videos; 0 and 3 have but one, whose weight is 1; 2 has none.
    assert text[1].abs().max() > 1e-6 and text[[0, 2, 3]].abs().max() < 1e-12
    assert video.mean.grad[[0, 2]].abs().amin(1).min() > 0
    assert torch.equal(video.tokens.grad.any(-1), video.mask)
    for name, p in module.named_parameters():
        assert p.grad is not None and p.grad.any(), name


def test_gradient_of_the_bottleneck():
    batch = local_batch()
    videos = batch.videos['global']

    def mixed(query, key, tokens):
        return bottleneck(
            query, videos._replace(mean=key, tokens=tokens), ~POSITIVES[:2], temperature=0.3
        )[0]

    query = batch.texts['global'].mean[:2].detach().requires_grad_()
    assert torch.autograd.gradcheck(mixed, (query, videos.mean, videos.tokens))


def test_padding_never_matters():
    module, batch = objective(support='full').eval(), local_batch()
    videos, inputs = batch.videos['global'], batch.inputs
    wide = videos._replace(
        tokens=torch.cat([videos.tokens, torch.zeros(3, 2, 8)], 1),
        mask=torch.cat([videos.mask, torch.zeros(3, 2, dtype=torch.bool)], 1),
    )
    text = torch.cat(
        [torch.where(inputs['text_mask'], inputs['text'], 0), torch.full((4, 3), 9)], 1
    )
    padded = LocalBatch(
        dict(text=text, text_mask=torch.cat([inputs['text_mask'], torch.zeros(4, 3) > 0], 1)),
        batch.texts,
        {'global': wide},
        batch.positives,
    )
    torch.testing.assert_close(run(module, padded), run(module, batch), atol=1e-6, rtol=0)


@pytest.mark.parametrize(
    'support, positives',
    [('cross', torch.ones(4, 3)), ('identity', torch.zeros(4, 3))],
    ids=['one video', 'no own video'],
)
def test_no_support_set_gives_zero_with_a_graph(support, positives):
    module, batch = objective(support=support), local_batch(positives > 0)
    loss = run(module, batch)
    assert loss == 0
    loss.backward()
    assert all(p.grad is not None and not p.grad.any() for p in module.parameters())


def test_empty_batches_give_zero_with_a_graph():
    module = objective()
    full, none = local_batch(), Embedding(torch.zeros(0, 8), torch.zeros(0, 1, 8), lengths(1)[:0])
    for batch in (
        full._replace(inputs={}, texts={'global': none}, positives=POSITIVES[:0]),
        full._replace(videos={'global': none}, positives=POSITIVES[:, :0]),
    ):
        loss = run(module, batch)
        loss.backward()
        assert loss == 0 and all(p.grad is not None for p in module.parameters())


def test_mean_over_processes_is_that_of_all_tokens(monkeypatch):
    """Two processes, of texts 0 and 1, and of 2 and 3; identity, as supports are local."""
    module, batch = objective(support='identity'), local_batch()
    whole = run(module, batch)
    parts = []
    for own in (slice(0, 2), slice(2, 4)):
        other = sum(WORDS) - sum(WORDS[own])
        monkeypatch.setattr(captioning, 'world_size', lambda: 2)
        monkeypatch.setattr(captioning, 'gather_rows', lambda x: torch.cat([x, x * 0 + other]))  # noqa: B023
        part = LocalBatch(
            {name: x[own] for name, x in batch.inputs.items()},
            {'global': Embedding(batch.texts['global'].mean[own])},
            batch.videos,
            POSITIVES[own],
        )
        parts.append(run(module, part))
    torch.testing.assert_close(sum(parts) / 2, whole)


def test_under_autocast():
    module, batch = objective(), local_batch()
    exact = run(module, batch)
    module.float()
    halves = [
        {'global': side['global'].map(lambda x: x.float() if x.is_floating_point() else x)}
        for side in (batch.texts, batch.videos)
    ]
    batch = batch._replace(texts=halves[0], videos=halves[1])
    with torch.autocast('cpu', torch.bfloat16):
        rough = run(module, batch)
    assert rough.dtype == torch.float32
    torch.testing.assert_close(rough.double(), exact, atol=0.05, rtol=0)
    rough.backward()
    assert all(p.grad.isfinite().all() for p in module.parameters())


def learn(module, batch, parameters, lr):
    optimizer = torch.optim.Adam(parameters, lr=lr)
    for _ in range(40):
        optimizer.zero_grad()
        run(module, batch).backward()
        optimizer.step()


def test_texts_move_to_the_other_videos_that_help_to_say_them():
    """Six videos of two kinds, whose captions differ by kind: no label says which are alike.

    The decoder first learns to caption and is then held, lest it learns to read the weights.
    """
    module, kind = objective(support='identity'), torch.tensor([0, 1, 0, 1, 0, 1])
    shown, said = torch.randn(2, 5, 8).double(), torch.tensor([[3, 4, 5, 6], [7, 8, 9, 10]])
    texts, videos = torch.randn(6, 8).double().requires_grad_(), torch.randn(6, 8).double()
    own = torch.eye(6, dtype=torch.bool)
    batch = LocalBatch(
        dict(text=said[kind], text_mask=torch.ones(6, 4, dtype=torch.bool)),
        {'global': Embedding(texts)},
        {'global': Embedding(videos, shown[kind], torch.ones(6, 5, dtype=torch.bool))},
        own,
    )
    alike = kind[:, None] == kind

    def lead_of_the_alike():
        cosine = torch.nn.functional.cosine_similarity(texts[:, None], videos[None], dim=-1)
        return cosine[alike & ~own].mean() - cosine[~alike].mean()

    learn(module, batch, module.parameters(), lr=0.02)
    before = lead_of_the_alike()
    module.support = 'cross'
    learn(module, batch, [texts], lr=0.05)
    assert lead_of_the_alike() > before + 0.15


def test_pretrained_decoder_from_a_folder(tmp_path):
    from transformers import AutoConfig, T5ForConditionalGeneration

    t5 = T5ForConditionalGeneration(AutoConfig.for_model(**T5))
    t5.save_pretrained(tmp_path)
    module = CrossCaptioning(str(tmp_path), dim=8)
    assert module.t5.encoder is None and module.t5.lm_head.weight is module.t5.shared.weight
    for name, p in module.t5.decoder.named_parameters():
        assert torch.equal(p, t5.decoder.get_parameter(name)), name


def test_bad_input():
    with pytest.raises(ValueError, match=r"one of \['cross', 'identity', 'full'\], not 'hybrid'"):
        objective(support='hybrid')
    with pytest.raises(ValueError, match='temperature must be positive, not 0'):
        CrossCaptioning(T5, dim=8, temperature=0)
    with pytest.raises(RuntimeError, match="cannot load '/no/such/t5'"):
        CrossCaptioning('/no/such/t5', dim=8)
    batch = local_batch()
    batch.inputs['text'][1, 0] = 30
    with pytest.raises(ValueError, match='CrossCaptioning: token id 30 in text 1'):
        run(objective(), batch)
