"""Similarities of words and frames, and of what they are pooled to."""

from __future__ import annotations

from types import SimpleNamespace

from torch import Tensor

import mmvtr.functional as f
from gpu_check.cases.case import Case, make


def of_tokens(x: SimpleNamespace) -> list[Case]:
    """Words against frames."""
    tokens = 'words word_mask frames frame_mask'

    def all_tokens(i: SimpleNamespace) -> tuple[Tensor, ...]:
        return i.words, i.word_mask, i.frames, i.frame_mask

    def of_sides(found: dict) -> tuple:
        return tuple((side.share, side.partner) for side in found.values())

    return [
        make(
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
        make(
            'token_scores/official_mask',
            x,
            tokens,
            lambda i: f.token_scores(*all_tokens(i), official_mask=True),
        ),
        make(
            'paired_token_scores',
            x,
            f'{tokens} columns',
            lambda i: f.paired_token_scores(*all_tokens(i), i.columns),
        ),
        make(
            'sentence_frame_scores',
            x,
            'texts frames frame_mask',
            lambda i: f.sentence_frame_scores(
                i.texts, i.frames, i.frame_mask, temperature=0.1, entries=900
            ),
        ),
        make(
            'sentence_frame_scores/best',
            x,
            'texts frames frame_mask',
            lambda i: f.sentence_frame_scores(i.texts, i.frames, i.frame_mask, temperature=0),
        ),
        make(
            'token_weights',
            x,
            'word_weights word_mask',
            lambda i: f.token_weights(i.word_weights, i.word_mask),
        ),
        make('token_matches', x, tokens, lambda i: of_sides(f.token_matches(*all_tokens(i)))),
    ]


def of_frames(x: SimpleNamespace) -> list[Case]:
    """Frames, clips and samples; shortlists."""
    return [
        make(
            'below_shortlist',
            x,
            'scores columns',
            lambda i: f.below_shortlist(i.scores, i.columns, i.scores.gather(1, i.columns)),
            low=False,
        ),
        make(
            'best_frames',
            x,
            'texts frames frame_mask',
            lambda i: tuple(f.best_frames(i.texts, i.frames, i.frame_mask, entries=900)),
        ),
        make(
            'paired_best_frames',
            x,
            'texts frames frame_mask rows pair_videos',
            lambda i: tuple(
                f.paired_best_frames(i.texts, i.frames, i.frame_mask, i.rows, i.pair_videos)
            ),
            low=False,
        ),
        make(
            'matched_frames',
            x,
            'pair_scores pair_mask',
            lambda i: f.matched_frames(i.pair_scores, i.pair_mask),
        ),
        make(
            'sample_scores',
            x,
            'text_samples video_samples',
            lambda i: f.sample_scores(i.text_samples, i.video_samples, normalise=True),
        ),
        make('over_samples', x, 'scores', lambda i: f.over_samples(i.scores, 2, 3)),
        make(
            'clip_pooling',
            x,
            'frame_mask frames',
            lambda i: f.clip_pooling(i.frame_mask, 4, dtype=i.frames.dtype),
        ),
        make(
            'squared_distances',
            x,
            'texts videos',
            lambda i: f.squared_distances(i.texts, i.videos),
        ),
    ]
