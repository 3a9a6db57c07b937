"""Cases of similarities of words and frames, and of their pooled vectors."""

from __future__ import annotations

from functools import partial
from types import SimpleNamespace

from torch import Tensor

import mmvtr.functional as f
from gpu_check.cases.case import Case, called, make


def of_tokens(x: SimpleNamespace) -> list[Case]:
    """Return cases of words against frames."""
    case, own = partial(called, x), partial(make, x)
    tokens = 'words word_mask frames frame_mask'

    def of_sides(i: SimpleNamespace) -> tuple[tuple[Tensor, Tensor], ...]:
        found = f.token_matches(i.words, i.word_mask, i.frames, i.frame_mask)
        return tuple((side.share, side.partner) for side in found.values())

    return [
        case(
            'token_scores',
            f'{tokens} word_weights=word_weights frame_weights=frame_weights',
            entries=900,
        ),
        case('token_scores/official_mask', tokens, official_mask=True),
        case('paired_token_scores', f'{tokens} columns'),
        case('sentence_frame_scores', 'texts frames frame_mask', temperature=0.1, entries=900),
        case('sentence_frame_scores/best', 'texts frames frame_mask', temperature=0),
        case('token_weights', 'word_weights word_mask'),
        own('token_matches', tokens, of_sides),
    ]


def of_frames(x: SimpleNamespace) -> list[Case]:
    """Return cases of frames, clips and samples, and of shortlists."""
    case, own = partial(called, x), partial(make, x)
    return [
        own(
            'below_shortlist',
            'scores columns',
            lambda i: f.below_shortlist(i.scores, i.columns, i.scores.gather(1, i.columns)),
            low=False,
        ),
        case('best_frames', 'texts frames frame_mask', entries=900),
        case('paired_best_frames', 'texts frames frame_mask rows pair_videos', low=False),
        case('matched_frames', 'pair_scores pair_mask'),
        case('sample_scores', 'text_samples video_samples', normalise=True),
        case('over_samples', 'scores', text_samples=2, video_samples=3),
        own(
            'clip_pooling',
            'frame_mask frames',
            lambda i: f.clip_pooling(i.frame_mask, 4, dtype=i.frames.dtype),
        ),
        case('squared_distances', 'texts videos'),
    ]
