"""Steps of UATVR, ARL, HGR and a student on stored features beside the same maths by hand.

An anchor has the retriever's initial weights, in torch's own layers, and all else written out: both
begin with the same loss.
"""

from __future__ import annotations

import copy
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from mmengine.optim import OptimWrapper
from torch import Tensor, nn
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence

from cpu_rows.steps import DIM, FRAMES, SAMPLES, WORDS, Bare, collated, contrast, retriever
from cpu_rows.timing import Row, beside

TEACHERS, SOFT, WEIGHT, TAU = 3, 4.0, 4.0, 0.05
HEADS, VERBS, NOUNS, VOCABULARY = 4, 4, 6, 1_000

FEATURES = dict(
    frames=dict(type='mmvtr.FeatureFrames', in_dim=DIM, dim=DIM),
    text=dict(type='mmvtr.FeatureWords', in_dim=DIM),
)
UATVR = dict(
    encoder=dict(
        FEATURES, type='mmvtr.UATVR', max_frames=FRAMES, max_words=WORDS, temporal_layers=1
    ),
    similarity=dict(type='mmvtr.TokenSimilarity'),
    heads=dict(type='mmvtr.GaussianHead'),
    head_reads='local',
    detach_heads=False,
    objectives=dict(
        dua=dict(type='mmvtr.MultiInstanceContrast', num_samples=SAMPLES, loss_weight=1e-2),
        kl=dict(type='mmvtr.KLToUnit', loss_weight=1e-4),
    ),
)
#: Without dropout, so that losses can be compared; after the warm-up.
ARL = dict(
    encoder=dict(
        type='mmvtr.TwoBranches',
        encoder=dict(
            FEATURES, type='mmvtr.ARLEncoder', dim=384, heads=HEADS, dropout=0.0,
            max_frames=FRAMES, max_words=WORDS,
        ),
    ),
    similarity=dict(type='mmvtr.BestFrameSimilarity', levels=('a', 'b')),
    supervision=dict(type='mmvtr.ARLSupervision', dim=384, warmup=0.0),
    losses=dict(
        nce=dict(type='mmvtr.ContrastiveLoss', reads=('a', 'b'), form='own_pair'),
        triplet=dict(type='mmvtr.RankingLoss', reads=('a', 'b'), margin=0.2, average='anchors'),
    ),
)  # fmt: skip
HGR = dict(
    encoder=dict(
        type='mmvtr.HGREncoder',
        frames=dict(type='mmvtr.FeatureFrames', in_dim=DIM),
        text=dict(type='mmvtr.WordVectors', words=VOCABULARY),
        dim=DIM,
        dropout=0.0,
        graph_dropout=0.0,
    ),
    similarity=dict(type='mmvtr.HGRSimilarity'),
    losses=dict(
        triplet=dict(
            type='mmvtr.RankingLoss', margin=0.2, negatives='hardest', loss_weight=2.0
        )
    ),
)  # fmt: skip


def papers(quick: bool, repeats: int) -> list[Row]:
    """A step of each: forward, backward, AdamW."""
    rows = []
    for size in (16,) if quick else (128, 512):
        data = features(size)
        for name, more, bare in (('UATVR', UATVR, BareUATVR), ('ARL', ARL, BareARL)):
            rows += _beside_bare(f'{name}, {size:,} pairs', Step(more, data), bare, repeats)
        if size < 512:  # where its dense form would take 12 GB
            step = Step(HGR, graphs(size))
            rows += _beside_bare(f'HGR, {size:,} pairs', step, BareHGR, repeats)
        with tempfile.TemporaryDirectory() as folder:
            student, alone = Step(taught(folder, size), data), Step({}, data)
            rows += _beside_bare(f'a student, {size:,} pairs', student, BareStudent, repeats)
            work = f'a step of a student of {TEACHERS}, {size:,} pairs of features'
            rows += beside(work, student, {'without teachers': alone}, repeats)
    return rows


class Step:
    """A step of the retriever; call: the loss before it."""

    def __init__(self, more: dict[str, Any], data: dict[str, Any]) -> None:
        torch.manual_seed(0)
        self.data, self.model = data, retriever(more)
        begin = getattr(self.model.supervision, 'init_weights', None)
        if begin is not None:
            begin()
        if hasattr(self.model.supervision, 'branches'):
            after_warmup(self.model.supervision)
        self.optimizer = OptimWrapper(torch.optim.AdamW(self.model.parameters(), 1e-5))

    def __call__(self) -> float:
        return self.model.train_step(copy.copy(self.data), self.optimizer)['loss'].item()


def _beside_bare(name: str, step: Step, bare: type[BareCopy], repeats: int) -> list[Row]:
    return beside(f'a step of {name} of features', step, {'bare PyTorch': bare(step)}, repeats,
                  lambda a, b: f'losses within {abs(a - b) / abs(b):.1g}')  # fmt: skip


def features(size: int) -> dict[str, Any]:
    return collated(torch.randn(size, FRAMES, DIM), torch.randn(size, WORDS, DIM))


def graphs(size: int) -> dict[str, Any]:
    """Texts of 4 to 12 words with two verbs and three nouns each."""
    lengths = torch.arange(size) % (13 - 4) + 4
    data = collated(torch.randn(size, FRAMES, DIM), torch.randint(1, VOCABULARY, (size, 12)))
    phrases = torch.zeros(size, VERBS + NOUNS, 12, dtype=torch.bool)
    edges = torch.zeros(size, *(1 + VERBS + NOUNS,) * 2, dtype=torch.bool)
    for place, word in ((0, 1), (1, 2), (VERBS, 0), (VERBS + 1, 2), (VERBS + 2, 3)):
        phrases[:, place, word] = True
    edges[:, 1:3, 0] = True
    for verb, noun in ((1, 5), (1, 6), (2, 7)):
        edges[:, verb, noun] = edges[:, noun, verb] = True
    data['inputs'].update(
        text_words=lengths,
        text_verbs=phrases[:, :VERBS],
        text_nouns=phrases[:, VERBS:],
        text_roles=torch.randint(0, 16, (size, VERBS + NOUNS)),
        text_edges=edges,
    )
    return data


def after_warmup(supervision: nn.Module) -> None:
    """Means beside which about half of all pairs pass tau_u = 0."""
    supervision.ready.fill_(True)
    for branch in supervision.branches.values():
        branch.text_mean.normal_(std=0.01)
        branch.frame_mean.normal_(std=0.01)


def taught(folder: str, size: int, dim: int = DIM) -> dict[str, Any]:
    """Parts of a student, and the files of its teachers."""
    rng, names = np.random.default_rng(0), [f'teacher{n}' for n in range(TEACHERS)]
    for name in names:
        (Path(folder) / name).mkdir()
        for side in ('text', 'video'):
            vectors = rng.standard_normal((size, dim), dtype='float32')
            vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
            ids = np.array([str(i) for i in range(size)])
            np.savez(Path(folder) / name / f'{side}.npz', ids=ids, vectors=vectors)
    where = {name: str(Path(folder) / name) for name in names}
    loss = dict(type='mmvtr.KLDistillationLoss', temperature=SOFT, loss_weight=WEIGHT)
    return dict(
        supervision=dict(
            type='mmvtr.StoredTeachers', teachers=where, temperatures=[TAU] * TEACHERS
        ),
        losses=dict(contrastive=dict(type='mmvtr.ContrastiveLoss'), distillation=loss),
    )


# -- by hand ---------------------------------------------------------------------------------------


class BareCopy(Bare):
    """A copy of a retriever's layers."""

    def __init__(self, step: Step) -> None:
        self.model, self.inputs = copy.deepcopy(step.model), step.data['inputs']
        self.encoder, self.own = self.model.encoder, torch.arange(len(self.inputs['video']))
        self.optimizer = torch.optim.AdamW(self.model.parameters(), 1e-5)

    def contrast(self, scores: Tensor) -> Tensor:
        return contrast(scores / self.model.temperature())


def unit(x: Tensor) -> Tensor:
    return F.normalize(x, dim=-1)


def mean_of_units(x: Tensor) -> Tensor:
    return unit(unit(x).mean(1))


class BareUATVR(BareCopy):
    """Eq. 4-6, 8, 9, 11 and 12, dense."""

    step = 0

    def loss(self) -> Tensor:
        e = self.encoder
        frames = self.mixed(e.frames.projection(self.inputs['video']), e.frame_extra)
        words = self.mixed(self.inputs['text'], e.word_extra)
        cosines = torch.einsum('tld,vfd->tlvf', unit(words[:, 1:]), unit(frames))
        scores = (cosines.max(3).values.mean(1) + cosines.max(1).values.mean(2)) / 2
        noise, total = torch.Generator().manual_seed(self.step), self.contrast(scores)
        self.step += 1
        samples = []
        for side, tokens in (('text', words[:, 1:WORDS]), ('video', frames[:, :FRAMES])):
            head, x = self.model.heads[side], mean_of_units(tokens)
            mean, log_std = unit(head.norm(head.mean(x))), head.log_std(x).clamp(-7, 7)
            eps = torch.randn(len(x), SAMPLES, DIM, generator=noise)
            samples.append(unit(mean[:, None] + log_std.exp()[:, None] * eps).flatten(0, 1))
            kl = 0.5 * (mean.square() + (2 * log_std).exp() - 1).sum(1) - log_std.sum(1)
            total = total + 1e-4 * kl.mean()
        logits = samples[0] @ samples[1].t() / 0.05
        blocks = self.own.repeat_interleave(SAMPLES)
        matched = logits.masked_fill(blocks[:, None] != blocks, -torch.inf)
        each = [(logits.logsumexp(dim) - matched.logsumexp(dim)).mean() for dim in (0, 1)]
        return total + 1e-2 * sum(each) / 2

    def mixed(self, x: Tensor, extra: nn.Module) -> Tensor:
        """A transformer over tokens and extra tokens, and a residual connection of the former."""
        (block,) = self.encoder.transformer.resblocks
        y = torch.cat([x + extra.position[: x.shape[1]], extra.tokens.expand(len(x), -1, -1)], 1)
        z = block.ln_1(y)
        y = y + block.attn(z, z, z, need_weights=False)[0]
        y = y + block.mlp(block.ln_2(y))
        return y + F.pad(x, (0, 0, 0, extra.count))


class BareARL(BareCopy):
    """Eq. 2-13 with one text a video: nothing is compared with a frame."""

    def loss(self) -> Tensor:
        one, other = (self.branch(name) for name in ('a', 'b'))
        own, tau = torch.eye(len(self.own), dtype=torch.bool), self.model.temperature()
        total = 0
        for (scores, _, of_frames, _), (_, found, _, near) in ((one, other), (other, one)):
            for x, a in ((scores, found), (scores.t(), found.t())):
                total = total + (own_pair(x / tau, own, a) + hinges(x, own, a)) / 2
            best = F.one_hot(of_frames.argmax(1), FRAMES).bool()
            total = total + 0.05 * own_pair(of_frames / 0.07, best, near)
            total = total + hinges(of_frames, best, near)
        return total / 2

    def branch(self, name: str) -> tuple[Tensor, ...]:
        """Scores of pairs, ambiguous pairs, scores of own frames, ambiguous frames."""
        part, known = getattr(self.encoder, name), self.model.supervision.branches[name]
        words = self.tokens(part.words, self.inputs['text'])
        frames = self.tokens(part.video, self.encoder.frames.projection(self.inputs['video']))
        weights = part.word_pooling.score(words).softmax(1)
        texts, frames = unit((weights * words).sum(1)), unit(frames)
        scores, best = torch.einsum('td,vfd->tvf', texts, frames).max(2)
        of_frames = torch.einsum('td,tfd->tf', texts, frames)
        with torch.no_grad():
            u_texts, u_frames = texts @ known.frame_mean, frames @ known.text_mean
            u = (u_texts[:, None] + u_frames[self.own, best]) / 2
            found = (scores > scores.diagonal()[:, None]) & (u > known.tau_u)
            top = scores.masked_fill(~found, -torch.inf).argmax(1)
            found &= F.one_hot(top, len(top)).bool()
            near = of_frames > of_frames.amax(1, keepdim=True) - 0.05
            near &= (u_texts[:, None] + u_frames) / 2 > known.tau_u
        return scores, found, of_frames, near

    @staticmethod
    def tokens(layers: nn.Module, x: Tensor) -> Tensor:
        x = layers.project(x) + layers.position.weight[: x.shape[1]]
        x, (block,) = layers.position_norm(x), layers.blocks
        q, k, v = (
            linear(x).unflatten(-1, (HEADS, -1)).transpose(1, 2)
            for linear in (block.query, block.key, block.value)
        )
        mixed = F.scaled_dot_product_attention(q, k, v).transpose(1, 2).flatten(2)
        return block.norm(x + block.output(mixed))


def own_pair(logits: Tensor, own: Tensor, ambiguous: Tensor) -> Tensor:
    matched = logits.masked_fill(~(own | ambiguous), -torch.inf)
    return (logits.logsumexp(1) - matched.logsumexp(1)).mean()


def hinges(scores: Tensor, own: Tensor, ambiguous: Tensor) -> Tensor:
    lead = scores - scores[own][:, None]
    kinds = (0.2, ~own & ~ambiguous), (0.1, ~own & ambiguous)
    means = [((m + lead).clamp_min(0) * kind).sum(1) / kind.sum(1).clamp_min(1)
             for m, kind in kinds]  # fmt: skip
    return sum(means).mean()


class BareHGR(BareCopy):
    """Words, graph and attended frames of all pairs, dense."""

    def loss(self) -> Tensor:
        texts, videos = self.texts(), self.videos()
        scores = unit(texts[0]) @ unit(videos[0]).t()
        for (nodes, there), frames in zip(texts[1:], videos[1:]):
            scores = scores + self.attended(nodes, there, frames)
        scores = scores / 3
        own = torch.eye(len(scores), dtype=torch.bool)
        others = scores.masked_fill(own, -torch.inf)
        return sum((0.2 + others.amax(dim) - scores.diagonal()).clamp_min(0).mean()
                   for dim in (0, 1))  # fmt: skip

    def videos(self) -> list[Tensor]:
        e = self.encoder
        sentence, *others = (e.maps[name](self.inputs['video']) for name in e.level_names)
        return [(e.frame_pooling.score(sentence).softmax(1) * sentence).sum(1), *others]

    def texts(self) -> list[Any]:
        e, x = self.encoder, {name.removeprefix('text_'): v for name, v in self.inputs.items()}
        words = pack_padded_sequence(
            e.text.table(x['text']), x['words'], batch_first=True, enforce_sorted=False
        )
        words, _ = pad_packed_sequence(e.rnn(words)[0], batch_first=True)
        words = words.unflatten(-1, (2, -1)).mean(2)
        padding = torch.arange(words.shape[1]) >= x['words'][:, None]
        weights = e.word_pooling.score(words).masked_fill(padding[..., None], -torch.inf)
        sentence = (weights.softmax(1) * words).sum(1)
        members = torch.cat([x['verbs'], x['nouns']], 1)
        there = members.any(2)
        phrases = words[:, None].masked_fill(~members[..., None], -1e30).max(2).values
        phrases = phrases.masked_fill(~there[..., None], 0) * e.roles(x['roles'])
        nodes, graph = torch.cat([sentence[:, None], phrases], 1), e.graph
        logits = graph.query(nodes) @ graph.key(nodes).mT / (DIM // 2) ** 0.5
        weights = logits.masked_fill(~x['edges'], -1e30).softmax(-1).masked_fill(~x['edges'], 0)
        nodes = graph.norm(nodes + graph.context(weights @ nodes))
        verbs, nouns = nodes[:, 1 : 1 + VERBS], nodes[:, 1 + VERBS :]
        return [nodes[:, 0], (verbs, there[:, :VERBS]), (nouns, there[:, VERBS:])]

    @staticmethod
    def attended(nodes: Tensor, there: Tensor, frames: Tensor) -> Tensor:
        owner, place = there.nonzero(as_tuple=True)
        phrases = unit(nodes[owner, place])
        cosines = torch.einsum('pd,vfd->pvf', phrases, unit(frames))
        weights = (4 * unit(cosines.clamp_min(0))).softmax(-1)
        vectors = unit(torch.einsum('pvf,vfd->pvd', weights, frames))
        found = torch.einsum('pd,pvd->pv', phrases, vectors)
        sums = found.new_zeros(len(nodes), len(frames)).index_add(0, owner, found)
        return sums / there.sum(1, keepdim=True)


class BareStudent(BareCopy):
    """InfoNCE and the divergence from the mean of the teachers' logits."""

    def __init__(self, step: Step) -> None:
        super().__init__(step)
        stored = self.model.supervision.stored
        self.teachers = [
            [stored(side)[name].values[:, 0] for side in ('text', 'video')]
            for name in stored('text')
        ]

    def loss(self) -> Tensor:
        videos = mean_of_units(self.encoder.frames.projection(self.inputs['video']))
        scores = mean_of_units(self.inputs['text']) @ videos.t()
        logits = scores / self.model.temperature() / SOFT
        teacher = sum(t[self.own] @ v[self.own].t() for t, v in self.teachers)
        teacher = teacher / (TEACHERS * TAU * SOFT)
        ways = [
            F.kl_div(q.log_softmax(1), p.log_softmax(1), reduction='batchmean', log_target=True)
            for q, p in ((logits, teacher), (logits.t(), teacher.t()))
        ]
        return self.contrast(scores) + WEIGHT * SOFT**2 * sum(ways) / 2
