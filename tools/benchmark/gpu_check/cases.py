"""One case or more for each function of ``mmvtr.functional`` that takes tensors.

Inputs come from a generator of a fixed seed, in float64 and rounded to float32, so that every
device and precision computes from the same numbers.
"""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, Callable, NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor

import mmvtr.functional as f

T, V, S, D, LENGTH, FRAMES = 24, 20, 5, 32, 8, 6
TAU = 0.07

#: Names of the front door that take no tensor, or only hold some.
WITHOUT_CASE = {
    'BestFrames',
    'Biases',
    'ErrorRates',
    'Graded',
    'ModalityGap',
    'Partners',
    'RankCounts',
    'Side',
    'Standard',
    'TextFrame',
    'Tiles',
    'Uncertainty',
    'epoch_at',
    'falling',
    'proposal_pooling',
    'proposal_windows',
}


class Case(NamedTuple):
    """A function with inputs.

    Attributes:
        name: the function's, and behind a slash which of its ways.
        call: from inputs by name to a tensor, or tuples and dicts of some.
        inputs: float64, integer and bool tensors by name, on the CPU.
        low: whether training meets it under autocast.
        differentiable: whether gradients are compared, too.
        reference: float64; float32 where random numbers are drawn in the precision of the inputs.
    """

    name: str
    call: Callable[[SimpleNamespace], Any]
    inputs: dict[str, Tensor]
    low: bool = True
    differentiable: bool = True
    reference: torch.dtype = torch.float64

    @property
    def function(self) -> str:
        return self.name.partition('/')[0]


def cases(seed: int = 0) -> list[Case]:
    """All of them."""
    x = _inputs(torch.Generator().manual_seed(seed))
    groups = (
        _losses,
        _taught,
        _similarities,
        _transforms,
        _uncertainty,
        _ranks,
        _hubness_and_lengths,
    )
    return [case for group in groups for case in group(x)]


def random_generator() -> torch.Generator:
    """On the CPU, as all of the project's: draws then do not depend on the device."""
    return torch.Generator().manual_seed(1)


def _inputs(generator: torch.Generator) -> SimpleNamespace:
    def normal(*shape: int) -> Tensor:
        return torch.randn(*shape, generator=generator).double()

    def rounded(x: Tensor) -> Tensor:
        return x.float().double()

    def share(*shape: int) -> Tensor:
        return torch.rand(*shape, generator=generator).double()

    def mask(items: int, length: int) -> Tensor:
        count = torch.randint(1, length + 1, (items, 1), generator=generator)
        return torch.arange(length) < count

    own = torch.randint(V, (T,), generator=generator)
    positives = F.one_hot(own, V).bool()
    positives[0, (own[0] + 1) % V] = True
    return SimpleNamespace(
        scores=rounded(normal(T, V) / 4 + positives.double() / 4),
        bank=rounded(normal(30, V) / 4),
        positives=positives,
        weights=share(T, V),
        text_cosines=rounded(_cosines(T, generator)),
        video_cosines=rounded(_cosines(V, generator)),
        ambiguous=(share(T, V) < 0.2) & ~positives,
        relevance=share(T, V).round(decimals=1).float().double(),
        texts=rounded(F.normalize(normal(T, D), dim=1)),
        videos=rounded(F.normalize(normal(V, D), dim=1)),
        words=rounded(F.normalize(normal(T, LENGTH, D), dim=2)),
        word_mask=mask(T, LENGTH),
        frames=rounded(F.normalize(normal(V, FRAMES, D), dim=2)),
        frame_mask=mask(V, FRAMES),
        word_weights=share(T, LENGTH),
        frame_weights=share(V, FRAMES),
        text_samples=normal(T, S, D) / 6,
        video_samples=normal(V, S, D) / 6,
        log_std_t=rounded(normal(T, D) / 4 - 1),
        log_std_v=rounded(normal(V, D) / 4 - 1),
        columns=torch.stack([torch.randperm(V, generator=generator)[:4] for _ in range(T)]),
        rows=torch.randint(T, (40,), generator=generator),
        pair_videos=torch.randint(V, (40,), generator=generator),
        pair_scores=rounded(normal(T, FRAMES)),
        pair_mask=mask(T, FRAMES),
        own=own,
        text_u=share(T),
        frame_u=share(V, FRAMES),
        best=torch.randint(FRAMES, (T, V), generator=generator),
        uncertainty=share(T, V),
        risk=share(T).round(decimals=1).float().double(),
        ranks=torch.randint(1, 30, (T,), generator=generator).double(),
        text_verbs=torch.randint(0, 5, (T, 2), generator=generator),
        video_verbs=torch.randint(-1, 5, (V, 3), generator=generator),
        text_nouns=torch.randint(0, 9, (T, 1), generator=generator),
        video_nouns=torch.randint(0, 9, (V, 2), generator=generator),
        lengths=share(V) * 100,
        train=share(T) * 100,
        test=share(T) * 100,
        draws=torch.rand(V, generator=torch.Generator().manual_seed(1)).double(),
        pair_teacher=rounded(
            torch.randn(T, FRAMES, generator=torch.Generator().manual_seed(2)).double()
        ),
        text_marginals=F.normalize(share(30) + 0.1, p=1, dim=0),
    )


def _cosines(count: int, generator: torch.Generator) -> Tensor:
    unit = F.normalize(torch.randn(count, D, generator=generator).double(), dim=1)
    return unit @ unit.T


def _case(name: str, x: SimpleNamespace, keys: str, call: Callable, **how: Any) -> Case:
    return Case(name, call, {key: getattr(x, key) for key in keys.split()}, **how)


def _losses(x: SimpleNamespace) -> list[Case]:
    scored = 'scores positives'
    float32 = dict(low=False, reference=torch.float32)
    found = [
        _case(
            'contrastive',
            x,
            f'{scored} weights',
            lambda i: f.contrastive(i.scores, i.positives, temperature=TAU, weights=i.weights),
        ),
        _case(
            'contrastive/own_pair',
            x,
            f'{scored} weights ambiguous',
            lambda i: f.contrastive(
                i.scores,
                i.positives,
                temperature=TAU,
                weights=i.weights,
                ambiguous=i.ambiguous,
                form='own_pair',
            ),
        ),
        _case(
            'contrastive/outer_sum',
            x,
            scored,
            lambda i: f.contrastive(i.scores, i.positives, temperature=TAU, form='outer_sum'),
        ),
        _case(
            'ranking/ambiguous',
            x,
            f'{scored} weights ambiguous',
            lambda i: f.ranking(
                i.scores,
                i.positives,
                weights=i.weights,
                ambiguous=i.ambiguous,
                average='anchors',
            ),
        ),
        _case(
            'ranking/random',
            x,
            scored,
            lambda i: f.ranking(
                i.scores,
                i.positives,
                negatives='random',
                positive='mean',
                pool=5,
                generator=random_generator(),
            ),
            **float32,
        ),
        _case(
            'soft_label_contrastive',
            x,
            f'{scored} weights text_u draws',
            lambda i: f.soft_label_contrastive(
                i.scores / TAU,
                i.positives,
                i.weights,
                alpha=0.6,
                beta=0.7,
                draws=(i.text_u, i.draws),
            ),
        ),
        _case(
            'item_draws',
            x,
            'own',
            lambda i: f.item_draws(i.own, seed=3, epoch=7),
            low=False,
            differentiable=False,
        ),
        _case(
            'frame_divergence',
            x,
            'pair_scores pair_teacher pair_mask',
            lambda i: f.frame_divergence(i.pair_scores, i.pair_teacher, i.pair_mask),
        ),
        _case('bernoulli', x, scored, lambda i: f.bernoulli(i.scores, i.positives)),
        _case(
            'bernoulli_sum',
            x,
            scored,
            lambda i: f.bernoulli_sum(i.scores, i.positives.nonzero(as_tuple=True)),
        ),
        _case(
            'multi_instance',
            x,
            'text_samples video_samples positives weights',
            lambda i: f.multi_instance(
                i.text_samples, i.video_samples, i.positives, temperature=TAU, weights=i.weights
            ),
        ),
        _case(
            'soft_contrast',
            x,
            'text_samples video_samples positives',
            lambda i: f.soft_contrast(
                i.text_samples, i.video_samples, i.positives, slope=2.0, bias=2.0
            ),
        ),
        _case(
            'match_log_probability',
            x,
            'text_samples video_samples',
            lambda i: f.match_log_probability(i.text_samples, i.video_samples, slope=2.0, bias=2.0),
        ),
        _case('log_mean_sigmoid', x, 'texts', lambda i: f.log_mean_sigmoid(i.texts, (1,))),
        _case('kl_to_unit', x, 'texts log_std_t', lambda i: f.kl_to_unit(i.texts, i.log_std_t)),
        _case('text_frame', x, 'pair_scores pair_mask own', _text_frame),
        _case(
            'apply_strategy',
            x,
            'positives ambiguous weights',
            lambda i: f.apply_strategy('ignore', i.positives, i.ambiguous, i.weights)['weights'],
        ),
        _case(
            'dissimilarities',
            x,
            'text_cosines video_cosines positives',
            lambda i: f.dissimilarities(i.text_cosines, i.video_cosines, i.positives),
        ),
        _case(
            'adaptive_margin',
            x,
            'weights positives',
            lambda i: f.adaptive_margin(i.weights, ~i.positives, alpha=0.2, beta=0.1),
        ),
        _case('highest', x, f'{scored} ambiguous', lambda i: f.highest(i.scores, ~i.positives, 3)),
        _case('masked_mean', x, 'scores ambiguous', lambda i: f.masked_mean(i.scores, i.ambiguous)),
    ]
    for negatives in ('all', 'hardest', 'semi_hard'):
        found.append(
            _case(
                f'ranking/{negatives}',
                x,
                f'{scored} weights',
                lambda i, negatives=negatives: f.ranking(
                    i.scores, i.positives, weights=i.weights, negatives=negatives
                ),
            )
        )
    return found


def _text_frame(i: SimpleNamespace) -> tuple[Tensor, Tensor]:
    sides = f.text_frame(i.pair_scores, i.pair_mask, i.own)
    return tuple(
        f.contrastive(**side._asdict(), form='own_pair', temperature=0.5, direction=direction)
        for side, direction in zip(sides, ('t2v', 'v2t'))
    )


def _taught(x: SimpleNamespace) -> list[Case]:
    """Teachers, and margins by what is usual."""
    scored, tokens = 'scores positives', 'words word_weights frames frame_mask positives'

    def standard(i: SimpleNamespace) -> tuple[Tensor, Tensor]:
        return tuple(f.standard(1 - i.scores, ~i.positives))

    def by(i: SimpleNamespace) -> Tensor:
        found = f.standard(1 - i.scores, ~i.positives)
        return f.margins_by(found, 1 - i.scores, alpha=0.2, beta=0.1)

    def hinges(i: SimpleNamespace) -> Tensor:
        two = ((1.0, 0.2), (0.5, i.weights))
        return f.several_hinges(i.scores, i.positives, two)

    def of_products(i: SimpleNamespace) -> tuple[Tensor, Tensor]:
        pairs = i.positives.nonzero(as_tuple=True)
        return tuple(f.standard_of_products(i.texts, i.videos, pairs))

    def words(i: SimpleNamespace) -> Tensor:
        given = i.words, i.word_weights, i.frames, i.frame_mask, i.positives
        return f.token_contrast(*given, temperature=TAU)

    exact = dict(low=False, differentiable=False)
    return [
        _case('smooth_l1', x, 'scores weights', lambda i: f.smooth_l1(i.scores, i.weights)),
        _case('mean_products', x, 'texts videos', lambda i: f.mean_products([i.texts], [i.videos])),
        _case('several_hinges', x, f'{scored} weights', hinges),
        _case('standard', x, scored, standard),
        _case('standard_of_products', x, 'texts videos positives', of_products, low=False),
        _case('margins_by', x, scored, by, low=False),
        _case(
            'text_dissimilarities',
            x,
            'text_cosines positives',
            lambda i: f.text_dissimilarities(i.text_cosines, i.positives),
        ),
        _case('token_contrast', x, tokens, words),
        _case(
            'hard_negatives',
            x,
            scored,
            lambda i: f.hard_negatives(i.scores, ~i.positives, 3),
            **exact,
        ),
    ]


def _similarities(x: SimpleNamespace) -> list[Case]:
    tokens = 'words word_mask frames frame_mask'

    def all_tokens(i: SimpleNamespace) -> tuple[Tensor, ...]:
        return i.words, i.word_mask, i.frames, i.frame_mask

    def of_sides(found: dict) -> tuple:
        return tuple((side.share, side.partner) for side in found.values())

    return [
        _case(
            'token_scores',
            x,
            f'{tokens} word_weights frame_weights',
            lambda i: f.token_scores(
                *all_tokens(i),
                word_weights=i.word_weights,
                frame_weights=i.frame_weights,
                entries=900,
            ),
        ),
        _case(
            'token_scores/official_mask',
            x,
            tokens,
            lambda i: f.token_scores(*all_tokens(i), official_mask=True),
        ),
        _case(
            'paired_token_scores',
            x,
            f'{tokens} columns',
            lambda i: f.paired_token_scores(*all_tokens(i), i.columns),
        ),
        _case(
            'sentence_frame_scores',
            x,
            'texts frames frame_mask',
            lambda i: f.sentence_frame_scores(
                i.texts, i.frames, i.frame_mask, temperature=0.1, entries=900
            ),
        ),
        _case(
            'sentence_frame_scores/best',
            x,
            'texts frames frame_mask',
            lambda i: f.sentence_frame_scores(i.texts, i.frames, i.frame_mask, temperature=0),
        ),
        _case(
            'token_weights',
            x,
            'word_weights word_mask',
            lambda i: f.token_weights(i.word_weights, i.word_mask),
        ),
        _case('token_matches', x, tokens, lambda i: of_sides(f.token_matches(*all_tokens(i)))),
        _case(
            'below_shortlist',
            x,
            'scores columns',
            lambda i: f.below_shortlist(i.scores, i.columns, i.scores.gather(1, i.columns)),
            low=False,
        ),
        _case(
            'best_frames',
            x,
            'texts frames frame_mask',
            lambda i: tuple(f.best_frames(i.texts, i.frames, i.frame_mask, entries=900)),
        ),
        _case(
            'paired_best_frames',
            x,
            'texts frames frame_mask rows pair_videos',
            lambda i: tuple(
                f.paired_best_frames(i.texts, i.frames, i.frame_mask, i.rows, i.pair_videos)
            ),
            low=False,
        ),
        _case(
            'matched_frames',
            x,
            'pair_scores pair_mask',
            lambda i: f.matched_frames(i.pair_scores, i.pair_mask),
        ),
        _case(
            'sample_scores',
            x,
            'text_samples video_samples',
            lambda i: f.sample_scores(i.text_samples, i.video_samples, normalise=True),
        ),
        _case('over_samples', x, 'scores', lambda i: f.over_samples(i.scores, 2, 3)),
        _case(
            'clip_pooling',
            x,
            'frame_mask frames',
            lambda i: f.clip_pooling(i.frame_mask, 4, dtype=i.frames.dtype),
        ),
        _case(
            'squared_distances',
            x,
            'texts videos',
            lambda i: f.squared_distances(i.texts, i.videos),
        ),
    ]


def _transforms(x: SimpleNamespace) -> list[Case]:
    found = [
        _case('sinkhorn', x, 'scores', lambda i: tuple(f.sinkhorn(i.scores, temperature=TAU))),
        _case(
            'sinkhorn/marginals',
            x,
            'bank text_marginals',
            lambda i: tuple(f.sinkhorn(i.bank, temperature=TAU, row_marginals=i.text_marginals)),
            low=False,
        ),
        _case(
            'sinkhorn_by_rows',
            x,
            'scores',
            lambda i: tuple(f.sinkhorn_by_rows(lambda: i.scores.split(7), temperature=TAU)),
            low=False,
        ),
        _case(
            'column_biases',
            x,
            'bank text_marginals',
            lambda i: f.column_biases(i.bank, i.text_marginals, temperature=TAU),
        ),
        _case(
            'as_tiles',
            x,
            'scores',
            lambda i: f.as_tiles(i.scores, entries=100).per_column(lambda tile: tile.sum(0)),
        ),
        _case(
            'inner_products',
            x,
            'texts videos',
            lambda i: torch.cat([x for _, x in f.inner_products(i.texts, i.videos).parts()], 1),
        ),
        _case('csls', x, 'scores bank', lambda i: f.csls(i.scores, i.bank, k=3), low=False),
        _case(
            'local_scaling',
            x,
            'scores bank',
            lambda i: f.local_scaling(i.scores, i.bank, strength=-0.2, share=0.3),
            low=False,
        ),
        _case('activation_set', x, 'bank', lambda i: f.activation_set(i.bank, k=2), low=False),
    ]
    plain = (
        'sinkhorn_scores',
        'unbalanced_sinkhorn',
        'inverted_softmax',
        'qb_norm',
        'dual_softmax',
    )
    for name in plain:
        found.append(
            _case(
                name,
                x,
                'scores bank',
                lambda i, name=name: getattr(f, name)(i.scores, i.bank, temperature=TAU),
                low=False,
            )
        )
    return found


def _uncertainty(x: SimpleNamespace) -> list[Case]:
    float32 = dict(low=False, reference=torch.float32)
    gaussians = 'texts log_std_t videos log_std_v'
    return [
        _case(
            'wasserstein2',
            x,
            gaussians,
            lambda i: f.wasserstein2(i.texts, i.log_std_t, i.videos, i.log_std_v),
        ),
        _case(
            'kl_divergence',
            x,
            gaussians,
            lambda i: f.kl_divergence(i.texts[:V], i.log_std_t[:V], i.videos, i.log_std_v),
        ),
        _case('geometric_sigma', x, 'log_std_t', lambda i: f.geometric_sigma(i.log_std_t)),
        _case(
            'sample',
            x,
            'texts log_std_t',
            lambda i: f.sample(i.texts, i.log_std_t, S, random_generator()),
            **float32,
        ),
        _case(
            'mean_unit_sample',
            x,
            'texts log_std_t',
            lambda i: f.mean_unit_sample(
                i.texts, i.log_std_t, S, random_generator(), entries=3 * S * D
            ),
            **float32,
        ),
        _case('bounded', x, 'log_std_t', lambda i: f.bounded(i.log_std_t, -1.25, -0.75)),
        _case(
            'mean_sample_cosine',
            x,
            'text_samples video_samples',
            lambda i: f.mean_sample_cosine(i.text_samples[:V], i.video_samples),
        ),
        _case(
            'mean_sample_dot',
            x,
            'text_samples video_samples',
            lambda i: f.mean_sample_dot(i.text_samples[:V], i.video_samples),
        ),
        _case(
            'dataset_uncertainty',
            x,
            'texts frames frame_mask',
            lambda i: tuple(f.dataset_uncertainty(i.texts, i.frames, i.frame_mask)),
            low=False,
        ),
        _case(
            'mean_cosines',
            x,
            'texts videos',
            lambda i: f.mean_cosines(i.texts, i.videos[0]),
            low=False,
        ),
        _case('UnitMean', x, 'frames frame_mask', _unit_mean, low=False, differentiable=False),
        _case('PairMoments', x, 'texts videos', _pair_moments, low=False, differentiable=False),
        _case('Moments', x, 'scores', _moments, low=False, differentiable=False),
        _case(
            'pair_uncertainty',
            x,
            'text_u frame_u best',
            lambda i: f.pair_uncertainty(i.text_u, i.frame_u, i.best),
        ),
        _case(
            'frame_uncertainty',
            x,
            'text_u frame_u',
            lambda i: f.frame_uncertainty(i.text_u[:V], i.frame_u),
        ),
        _case(
            'own_positive',
            x,
            'scores positives',
            lambda i: f.own_positive(i.scores, i.positives, slack=0.125),
        ),
        _case(
            'ambiguous_set',
            x,
            'scores uncertainty positives',
            lambda i: f.ambiguous_set(
                i.scores, i.uncertainty, i.positives, tau_s=0.125, tau_u=0.25, cap=3
            ),
        ),
        _case(
            'risk_coverage',
            x,
            'text_u risk',
            lambda i: f.risk_coverage(i.text_u, i.risk),
            low=False,
        ),
        _case(
            'rejection_ratio',
            x,
            'text_u risk',
            lambda i: f.rejection_ratio(i.text_u, i.risk),
            low=False,
        ),
        _case('spearman', x, 'text_u risk', lambda i: f.spearman(i.text_u, i.risk), low=False),
    ]


def _unit_mean(i: SimpleNamespace) -> tuple[Tensor, Tensor]:
    met = f.UnitMean(D, device=i.frames.device)
    against = i.frames[0, 0].double()
    return met.add(i.frames, i.frame_mask, against=against), met.mean


def _pair_moments(i: SimpleNamespace) -> Tensor:
    met = f.PairMoments(D, device=i.texts.device)
    met.add(i.texts[:V], i.videos)
    return torch.tensor(met.uncertainty(i.texts[0].double(), i.videos[0].double()))


def _moments(i: SimpleNamespace) -> Tensor:
    met = f.Moments(device=i.scores.device)
    met.add(i.scores)
    return torch.tensor([met.threshold(), met.threshold(spread=1.0)])


def _ranks(x: SimpleNamespace) -> list[Case]:
    scored, graded = 'scores positives', 'scores relevance'

    def counts(i: SimpleNamespace) -> Any:
        return f.rank_counts(i.scores, i.positives, tile=100)

    def classes(i: SimpleNamespace) -> tuple[dict, dict]:
        return (
            dict(verb=i.text_verbs, noun=i.text_nouns),
            dict(verb=i.video_verbs, noun=i.video_nouns),
        )

    kinds = 'text_verbs text_nouns video_verbs video_nouns'
    makers: list[tuple[str, str, Callable]] = [
        ('ranks', scored, lambda i: f.ranks(i.scores, i.positives)),
        ('ranks/videos_ask', scored, lambda i: f.ranks(i.scores, i.positives, dim=0, tile=100)),
        ('rank_counts', scored, lambda i: tuple(counts(i))),
        ('caption_max', scored, lambda i: f.caption_max(i.scores, i.positives)),
        ('recall_at', 'ranks', lambda i: f.recall_at(i.ranks, 5)),
        ('median_rank', 'ranks', lambda i: f.median_rank(i.ranks)),
        ('mean_rank', 'ranks', lambda i: f.mean_rank(i.ranks)),
        ('expected_recall_at', scored, lambda i: f.expected_recall_at(counts(i), 5)),
        ('expected_median_rank', scored, lambda i: f.expected_median_rank(counts(i))),
        ('expected_mean_rank', scored, lambda i: f.expected_mean_rank(counts(i))),
        ('average_precision', scored, lambda i: f.average_precision(i.scores, i.positives)),
        ('precision_at_1', scored, lambda i: f.precision_at_1(i.scores, i.positives)),
        ('precision_at', scored, lambda i: f.precision_at(i.scores, i.positives, 5)),
        ('r_precision', scored, lambda i: f.r_precision(i.scores, i.positives)),
        ('map_at_r', scored, lambda i: f.map_at_r(i.scores, i.positives)),
        (
            'bpref',
            f'{scored} ambiguous',
            lambda i: f.bpref(i.scores, i.positives, i.ambiguous | i.positives),
        ),
        (
            'condensed',
            f'{scored} ambiguous',
            lambda i: f.ranks(f.condensed(i.scores, ~i.ambiguous), i.positives),
        ),
        (
            'untied',
            f'{scored} relevance',
            lambda i: f.ranks(f.untied(i.relevance, i.scores), i.positives),
        ),
        ('ndcg_at_k', graded, lambda i: f.ndcg_at_k(i.scores, i.relevance, k=5)),
        (
            'auc',
            scored,
            lambda i: f.auc(i.scores[i.positives], i.scores[~i.positives]),
        ),
        ('graded_values', graded, lambda i: tuple(f.graded_values(i.scores, i.relevance))),
        ('graded_chance', graded, lambda i: tuple(f.graded_chance(i.relevance))),
        (
            'mean_over_queries',
            'risk',
            lambda i: f.mean_over_queries(i.risk.log(), without_match='left_out'),
        ),
        ('class_relevance', kinds, lambda i: f.class_relevance(*classes(i))),
        ('class_overlap', kinds, lambda i: f.class_overlap(*classes(i))),
        (
            'intersection_over_union',
            kinds,
            lambda i: f.intersection_over_union(i.text_verbs, i.video_verbs),
        ),
    ]
    how = dict(low=False, differentiable=False)
    return [_case(name, x, keys, call, **how) for name, keys, call in makers]


def _hubness_and_lengths(x: SimpleNamespace) -> list[Case]:
    makers: list[tuple[str, str, Callable]] = [
        ('retrieval_mass', 'scores', lambda i: f.retrieval_mass(i.scores, temperature=TAU)),
        ('relative_mass', 'scores', lambda i: f.relative_mass(i.scores, temperature=TAU, dim=0)),
        (
            'normalisation_error',
            'scores',
            lambda i: f.normalisation_error(i.scores, temperature=TAU),
        ),
        (
            'error_rates_by_mass',
            'scores positives',
            lambda i: tuple(f.error_rates_by_mass(i.scores, i.positives, temperature=TAU)),
        ),
        ('generality', 'scores', lambda i: f.generality(i.scores, temperature=TAU)),
        ('k_occurrence', 'scores', lambda i: f.k_occurrence(i.scores, k=3)),
        ('skewness', 'lengths', lambda i: f.skewness(i.lengths)),
        ('modality_gap', 'texts videos', lambda i: tuple(f.modality_gap(i.texts, i.videos))),
        (
            'nearer_to_train',
            'lengths train test',
            lambda i: f.nearer_to_train(i.lengths, i.train[:, None], i.test[:, None]),
        ),
        ('mean_of_top', 'scores lengths', lambda i: f.mean_of_top(i.scores, i.lengths, k=3)),
        (
            'chance_of_top',
            'lengths train test',
            lambda i: f.chance_of_top(i.lengths, i.train, i.test, k=3, draws=300),
        ),
        (
            'length_correlation',
            'scores lengths train positives',
            lambda i: f.length_correlation(i.scores, i.lengths, i.train, ~i.positives),
        ),
    ]
    how = dict(low=False, differentiable=False)
    return [_case(name, x, keys, call, **how) for name, keys, call in makers]
