"""Tensors in, tensors out: the equations of the papers.  Knows only torch.

Rows are texts (or queries), columns videos (or the gallery).  All of it by name, as in
``from mmvtr.functional import contrastive``; a name is loaded when it is first asked for.

Losses:

    contrastive             InfoNCE, debiased (DVTR), SupCon and ARL's contrast of a score matrix
    ranking                 margin ranking: triplet, debiased, hardest or random negatives, ARL's
    bernoulli               binary cross-entropy of match logits (DVTR)
    bernoulli_sum           the same, summed, from pairs
    multi_instance          contrast of the samples of texts and videos (UATVR)
    soft_contrast           soft contrastive loss of two sets of samples (PCME)
    kl_to_unit              KL of a Gaussian to N(0, I) (UATVR)
    text_frame              texts against the frames of their own video, as matrices (ARL)
    TextFrame               both directions of it
    Side                    arguments of contrastive and ranking
    apply_strategy          what the losses make of ambiguous pairs (ARL)
    adaptive_margin         margins from dissimilarities (CMGSD)
    dissimilarities         how unlike the owners of each row and column are (CMGSD)
    text_dissimilarities    the same of texts alone (CMGSD)
    standard                mean and deviation of dissimilarities (CMGSD)
    Standard                these two
    standard_of_products    the same from vectors, without the matrix
    margins_by              margins of some texts by the mean and deviation of all
    several_hinges          ranking with several margins at once (CMGSD)
    token_contrast          words of interest against videos, by weight (TACo)
    hard_negatives          the best-scored candidates of each text and video (TACo)
    smooth_l1               distance of two score matrices (TeachText)
    soft_label_contrastive  some rows with hard labels, the others with soft ones (DL-DKD++)
    item_draws              a number for each item of an epoch
    frame_divergence        how far a text's look at frames is from the teacher's (DL-DKD)
    falling                 weights that fall from epoch to epoch (DL-DKD)
    epoch_at                the epoch of a share of the training
    mean_products           mean of the teachers' inner products (TeachText)
    highest                 the best-scored candidates of each row
    masked_mean             mean where a mask is true

Similarities:

    inner_products          tiles of the inner products of embeddings
    squared_distances       squared Euclidean distances of all pairs
    token_scores            words against frames, all pairs (UATVR, WTI, ColBERT)
    paired_token_scores     the same of some videos of each text
    sentence_frame_scores   sentences against frames, by softmax or the best frame (X-CLIP)
    token_weights           softmax over valid tokens
    token_matches           which words and frames carry token_scores (UATVR)
    Partners                weight, best value and partner of each token
    below_shortlist         a re-ranked shortlist above the other columns
    best_frames             the best frame of each video for a text, and its cosine (ARL)
    paired_best_frames      the same of chosen pairs
    BestFrames              scores and places of best frames
    matched_frames          the best valid frame of each row of scores (ARL)
    sample_scores           inner products or cosines of all samples
    over_samples            a matrix repeated for all pairs of samples
    clip_pooling            matrices that average frames to K clips (MS-SL)
    proposal_pooling        the matrix that averages clips to proposals (MS-SL)
    proposal_windows        where proposals begin and end (MS-SL)

Normalisation and test-time transforms:

    sinkhorn                biases that give each query and item its share (NCL)
    sinkhorn_by_rows        the same from strips of rows, over processes
    column_biases           biases of further columns for fixed row biases
    Biases                  of rows and of columns
    sinkhorn_scores         scores with the biases of a bank (NCL)
    inverted_softmax        inverted softmax, in log form
    qb_norm                 dynamic inverted softmax (QB-Norm)
    activation_set          the items that bank queries find (QB-Norm)
    dual_softmax            dual softmax (CAMoE)
    csls                    cross-domain similarity local scaling
    local_scaling           a part of it, of either sign
    hedged_scaling          two of these in one list
    expected_truth          how surely a text holds, by what texts imply each other
    sure_first              what surely holds first, the rest by scores
    first_places            one order first, then another
    unbalanced_sinkhorn     Sinkhorn whose items need not be found evenly
    as_tiles                column tiles of a stored matrix
    Tiles                   a matrix made on demand, tile by tile

Uncertainty:

    wasserstein2            squared 2-Wasserstein distance of all pairs (DVTR)
    kl_divergence           KL of two Gaussians, row by row (DVTR)
    geometric_sigma         an item's spread (UATVR)
    sample                  reparameterised samples
    bounded                 a clamp that can come back
    mean_sample_cosine      mean cosine of all sample pairs
    mean_unit_sample        mean direction of an item's samples (DVTR)
    mean_sample_dot         mean inner product of all sample pairs (DVTR)
    log_mean_sigmoid        log of a mean of sigmoids, finite also where they underflow
    match_log_probability   log p and log(1 - p) of a match (PCME)
    dataset_uncertainty     mean cosine of each text and frame with the other side (ARL)
    mean_cosines            the same of some embeddings
    Uncertainty             of texts and of frames
    UnitMean                mean of unit vectors, met in parts
    PairMoments             moments of pairs of unit vectors, met in parts
    pair_uncertainty        of each text and video (ARL)
    frame_uncertainty       of each text and frame (ARL)
    Moments                 mean and deviation of numbers met in parts, and a threshold
    own_positive            a threshold relative to a text's own positive
    ambiguous_set           pairs that are neither match nor negative (ARL)
    risk_coverage           mean risk of the least uncertain items
    rejection_ratio         what an uncertainty gains of the possible
    spearman                rank correlation

Probabilities:

    Calibration             from scores to P(match), with bounds, thresholds and abstention
    fit_calibration         by Platt's line or isotonic, from judged pairs
    fit_to_pairs            the same, or a temperature, from a bank with its own pairs
    isotonic                the rising function nearest to what was seen
    between_knots           lines between knots
    reliability             what is said against what comes true
    Reliability             both by bins, the calibration error and its noise

Relevance and classes:

    class_relevance         mean IoU of the classes of verbs and nouns (EPIC-KITCHENS-100)
    class_overlap           whether a class of every kind is shared (EgoVLP)
    intersection_over_union of sets against sets

Ranks and metrics:

    ranks                   rank of each query's best match, ties at their mean rank
    rank_counts             what stands above and beside it
    RankCounts              these counts
    caption_max             best score of any caption of a video (CLIP4Clip)
    recall_at               share of queries whose rank is at most k
    median_rank             of known ranks
    mean_rank               of known ranks
    expected_recall_at      if ties fall at random
    expected_median_rank    if ties fall at random
    expected_mean_rank      if ties fall at random
    average_precision       of each query
    precision_at_1          whether the first candidate is a match
    precision_at            share of matches, or of judged candidates, among the first k
    r_precision             the same at as many places as there are matches
    map_at_r                AP of so many places (ECCV Caption)
    bpref                   how few candidates judged wrong stand above the matches
    condensed               scores of the list without some candidates
    untied                  scores without ties, by any rule
    ndcg_at_k               discounted gain of the first k candidates
    auc                     area under the ROC curve
    graded_values           nDCG and AP of graded relevance (EPIC-KITCHENS-100)
    graded_chance           their expectation over all orders
    Graded                  values of each query
    mean_over_queries       with or without the queries that have no match

Hubness, modality gap and length bias:

    retrieval_mass          summed retrieval probability of each item (NCL)
    relative_mass           the same, 1 = a fair share
    normalisation_error     its mean distance from 1 (NCL)
    error_rates_by_mass     false negatives and positives by mass (NCL)
    ErrorRates              these rates
    k_occurrence            how many queries have an item among their k best
    generality              among how many items a query divides itself
    skewness                third standardised moment
    modality_gap            mean cosines within and between the modalities (NCL)
    ModalityGap             these cosines, and the gap
    nearer_to_train         whether a length is nearer to the train mean than to the test mean
    mean_of_top             mean value of the first k videos
    chance_of_top           how often random videos are nearer to the train mean
    length_correlation      of ranks with distances in length
"""

# ruff: noqa: F401 - imports for type checkers and editors, which do not run what is below them

from __future__ import annotations

import sys
from importlib import import_module
from types import ModuleType
from typing import TYPE_CHECKING

from mmvtr.moved import FUNCTIONS, name_now

if TYPE_CHECKING:
    from mmvtr.functional.adaptive_margin import (
        Standard,
        adaptive_margin,
        dissimilarities,
        margins_by,
        standard,
        standard_of_products,
        text_dissimilarities,
    )
    from mmvtr.functional.ambiguity import (
        Moments,
        ambiguous_set,
        apply_strategy,
        frame_uncertainty,
        own_positive,
        pair_uncertainty,
    )
    from mmvtr.functional.best_frames import BestFrames, best_frames, paired_best_frames
    from mmvtr.functional.calibration import Calibration
    from mmvtr.functional.calibration_fits import fit_calibration, fit_to_pairs
    from mmvtr.functional.class_relevance import (
        class_overlap,
        class_relevance,
        intersection_over_union,
    )
    from mmvtr.functional.contrastive import contrastive
    from mmvtr.functional.dataset_uncertainty import (
        PairMoments,
        Uncertainty,
        UnitMean,
        dataset_uncertainty,
        mean_cosines,
    )
    from mmvtr.functional.distillation import mean_products, smooth_l1
    from mmvtr.functional.first_places import expected_truth, first_places, sure_first
    from mmvtr.functional.frame_distillation import frame_divergence
    from mmvtr.functional.gaussian import (
        bounded,
        geometric_sigma,
        kl_divergence,
        kl_to_unit,
        mean_sample_cosine,
        mean_sample_dot,
        mean_unit_sample,
        sample,
        squared_distances,
        wasserstein2,
    )
    from mmvtr.functional.graded_relevance import (
        Graded,
        graded_chance,
        graded_values,
        mean_over_queries,
    )
    from mmvtr.functional.hubness import (
        ErrorRates,
        error_rates_by_mass,
        generality,
        k_occurrence,
        normalisation_error,
        relative_mass,
        retrieval_mass,
        skewness,
    )
    from mmvtr.functional.isotonic import between_knots, isotonic
    from mmvtr.functional.judged import (
        bpref,
        condensed,
        map_at_r,
        precision_at,
        r_precision,
        untied,
    )
    from mmvtr.functional.length_bias import (
        chance_of_top,
        length_correlation,
        mean_of_top,
        nearer_to_train,
    )
    from mmvtr.functional.modality_gap import ModalityGap, modality_gap
    from mmvtr.functional.multi_instance import multi_instance, over_samples, sample_scores
    from mmvtr.functional.pairwise import bernoulli, bernoulli_sum, masked_mean
    from mmvtr.functional.proposals import clip_pooling, proposal_pooling, proposal_windows
    from mmvtr.functional.ranking import ranking
    from mmvtr.functional.ranks import (
        RankCounts,
        caption_max,
        expected_mean_rank,
        expected_median_rank,
        expected_recall_at,
        mean_rank,
        median_rank,
        rank_counts,
        ranks,
        recall_at,
    )
    from mmvtr.functional.relevance import auc, average_precision, ndcg_at_k, precision_at_1
    from mmvtr.functional.reliability import Reliability, reliability
    from mmvtr.functional.risk_coverage import rejection_ratio, risk_coverage, spearman
    from mmvtr.functional.schedules import epoch_at, falling
    from mmvtr.functional.score_transforms import (
        activation_set,
        csls,
        dual_softmax,
        hedged_scaling,
        inverted_softmax,
        local_scaling,
        qb_norm,
        sinkhorn_scores,
        unbalanced_sinkhorn,
    )
    from mmvtr.functional.selection import highest
    from mmvtr.functional.several_hinges import several_hinges
    from mmvtr.functional.sinkhorn import Biases, column_biases, sinkhorn, sinkhorn_by_rows
    from mmvtr.functional.soft_contrast import (
        log_mean_sigmoid,
        match_log_probability,
        soft_contrast,
    )
    from mmvtr.functional.soft_labels import item_draws, soft_label_contrastive
    from mmvtr.functional.text_frame import Side, TextFrame, matched_frames, text_frame
    from mmvtr.functional.tiles import Tiles, as_tiles, inner_products
    from mmvtr.functional.token_contrast import hard_negatives, token_contrast
    from mmvtr.functional.token_interaction import (
        below_shortlist,
        paired_token_scores,
        sentence_frame_scores,
        token_scores,
        token_weights,
    )
    from mmvtr.functional.token_matches import Partners, token_matches

#: The names of each module.
_NAMES = {
    'adaptive_margin': 'Standard adaptive_margin dissimilarities margins_by standard '
    'standard_of_products text_dissimilarities',
    'ambiguity': (
        'Moments ambiguous_set apply_strategy frame_uncertainty own_positive pair_uncertainty'
    ),
    'best_frames': 'BestFrames best_frames paired_best_frames',
    'calibration': 'Calibration',
    'calibration_fits': 'fit_calibration fit_to_pairs',
    'class_relevance': 'class_overlap class_relevance intersection_over_union',
    'contrastive': 'contrastive',
    'dataset_uncertainty': 'PairMoments Uncertainty UnitMean dataset_uncertainty mean_cosines',
    'distillation': 'mean_products smooth_l1',
    'first_places': 'expected_truth first_places sure_first',
    'frame_distillation': 'frame_divergence',
    'gaussian': (
        'bounded geometric_sigma kl_divergence kl_to_unit mean_sample_cosine '
        'mean_unit_sample '
        'mean_sample_dot sample squared_distances wasserstein2'
    ),
    'graded_relevance': 'Graded graded_chance graded_values mean_over_queries',
    'hubness': (
        'ErrorRates error_rates_by_mass generality k_occurrence normalisation_error '
        'relative_mass retrieval_mass skewness'
    ),
    'isotonic': 'between_knots isotonic',
    'judged': 'bpref condensed map_at_r precision_at r_precision untied',
    'length_bias': 'chance_of_top length_correlation mean_of_top nearer_to_train',
    'modality_gap': 'ModalityGap modality_gap',
    'multi_instance': 'multi_instance over_samples sample_scores',
    'pairwise': 'bernoulli bernoulli_sum masked_mean',
    'proposals': 'clip_pooling proposal_pooling proposal_windows',
    'ranking': 'ranking',
    'ranks': (
        'RankCounts caption_max expected_mean_rank expected_median_rank '
        'expected_recall_at mean_rank median_rank rank_counts ranks recall_at'
    ),
    'relevance': 'auc average_precision ndcg_at_k precision_at_1',
    'reliability': 'Reliability reliability',
    'risk_coverage': 'rejection_ratio risk_coverage spearman',
    'schedules': 'epoch_at falling',
    'score_transforms': 'activation_set csls dual_softmax hedged_scaling inverted_softmax '
    'local_scaling qb_norm sinkhorn_scores unbalanced_sinkhorn',
    'selection': 'highest',
    'several_hinges': 'several_hinges',
    'sinkhorn': 'Biases column_biases sinkhorn sinkhorn_by_rows',
    'soft_contrast': 'log_mean_sigmoid match_log_probability soft_contrast',
    'soft_labels': 'item_draws soft_label_contrastive',
    'text_frame': 'Side TextFrame matched_frames text_frame',
    'tiles': 'Tiles as_tiles inner_products',
    'token_contrast': 'hard_negatives token_contrast',
    'token_interaction': (
        'below_shortlist paired_token_scores sentence_frame_scores token_scores token_weights'
    ),
    'token_matches': 'Partners token_matches',
}
_HOME = {name: module for module, names in _NAMES.items() for name in names.split()}
__all__ = sorted(_HOME)


class _FrontDoor(ModuleType):
    """Loads a name when it is first asked for, and keeps functions from hiding behind modules.

    Some functions are called like their module.  Python binds a submodule to its package when it
    loads it; not here where a function has that name.  So ``mmvtr.functional.ranks`` is the
    function, whatever was imported before, and ``from mmvtr.functional.ranks import RankCounts``
    reads the module, which ``importlib.import_module('mmvtr.functional.ranks')`` returns.
    """

    def __getattr__(self, name: str) -> object:
        name = name_now(FUNCTIONS, name)
        if name not in _HOME:
            message = f'module {__name__!r} has no attribute {name!r}'
            raise AttributeError(message, name=name, obj=self)
        value = getattr(import_module(f'{__name__}.{_HOME[name]}'), name)
        setattr(self, name, value)
        return value

    def __setattr__(self, name: str, value: object) -> None:
        if not (name in _HOME and isinstance(value, ModuleType)):
            super().__setattr__(name, value)

    def __dir__(self) -> list[str]:
        return sorted({*super().__dir__(), *__all__})


sys.modules[__name__].__class__ = _FrontDoor
