"""All figures of the papers that are drawn from data, by name."""

from __future__ import annotations

from typing import Any, Callable, Iterator, NamedTuple

from mmvtr.figures import arl, by_tool, causal, dvtr, ncl, uatvr


class Figure(NamedTuple):
    """How a figure is made.

    Attributes:
        paper: and its number there.
        shows: what is seen.
        needs: of config, model and command line.
        make: of an :class:`~mmvtr.figures.study.Asked`, or with ``by_tool`` of a
            :class:`~mmvtr.figures.by_tool.Line`; gives (name, figure) pairs.
        by_tool: whether a tool of its own makes it.
    """

    paper: str
    shows: str
    needs: str
    make: Callable[[Any], Iterator[tuple[str, Any]]]
    by_tool: bool = False


#: Name of the command line -> figure.
FIGURES: dict[str, Figure] = {
    'dvtr3': Figure(
        'DVTR Fig. 3',
        'scores of ten pairs of texts and videos, before and after',
        '--against for the model before',
        dvtr.similarity_matrices,
    ),
    'dvtr4': Figure(
        'DVTR Fig. 4',
        'loss of each negative of a query against its eta; how eta is spread',
        "a supervision that weighs negatives; --split train for the paper's set",
        dvtr.calibration,
    ),
    'dvtr5': Figure(
        'DVTR Fig. 5',
        'best videos of texts, with the uncertainty of each pair',
        'a DVTRSupervision or PCMESupervision',
        dvtr.text_queries,
    ),
    'dvtr6': Figure(
        'DVTR Fig. 6',
        'best texts of videos, with the uncertainty of each pair',
        'a DVTRSupervision or PCMESupervision',
        dvtr.video_queries,
    ),
    'ncl2': Figure(
        'NCL Fig. 2',
        'normalisation errors, raw and after the transforms of the config',
        'nothing; --against for a baseline beside',
        ncl.normalisation_errors,
    ),
    'ncl3': Figure(
        'NCL Fig. 3',
        'false negatives and positives by the summed retrieval probability of an item',
        'nothing; of --against where it is given',
        ncl.errors_by_mass,
    ),
    'ncl5': Figure(
        'NCL Fig. 5',
        'R@1 after a transform from smaller and smaller query queues',
        'a QueryQueueHook and a transform that reads it',
        ncl.queue_sizes,
    ),
    'ncl6': Figure(
        'NCL Fig. 6',
        'texts that only normalised scores get right, with their summed probabilities',
        '--against, or a test-time transform',
        ncl.examples,
    ),
    'ncl7': Figure(
        'NCL Fig. 7',
        'texts and videos in two dimensions, by PCA or t-SNE',
        'scores that are inner products; no checkpoint = as the config builds it',
        ncl.space,
    ),
    'ncl8': Figure(
        'NCL Fig. 8',
        'mean cosines within and between the modalities',
        'scores that are inner products; --against as-built for before training',
        ncl.similarities,
    ),
    'ncl_d': Figure(
        'NCL Appendix D (Eq. 24-28)',
        'how often items are found, by the bias that the modality gap gives them',
        'scores that are inner products; --against as-built for before training',
        ncl.implicit_biases,
    ),
    'uatvr3': Figure(
        'UATVR Fig. 3',
        'R@1 and mean sigma over the epochs',
        'heads, and a checkpoint of each epoch',
        uatvr.sigma_and_recall,
    ),
    'uatvr4': Figure(
        'UATVR Fig. 4',
        'what frames and extra tokens of a video carry for several texts',
        'a TokenSimilarity and words',
        uatvr.extra_tokens,
    ),
    'uatvr5': Figure(
        'UATVR Fig. 5',
        'first hits of a baseline and of the model, and what carries them',
        'a TokenSimilarity and words; --against for the baseline',
        uatvr.hits_and_tokens,
    ),
    'arl4': Figure(
        'ARL Fig. 4',
        'similarity and uncertainty of annotated and other pairs',
        'an ARLSupervision after its warm-up',
        arl.distributions,
        True,
    ),
    'arl5': Figure(
        'ARL Fig. 5',
        'texts with the videos that are ambiguous for them',
        'an ARLSupervision after its warm-up',
        arl.ambiguous_videos,
        True,
    ),
    'causal2': Figure(
        'frame length, Fig. 2 and 6 to 10',
        'mean lengths of actions in train and test',
        'sets with verb and noun classes; no checkpoint',
        by_tool.lengths,
        True,
    ),
    'causal5': Figure(
        'frame length, Fig. 5',
        'relevance of the 50 best hits where it rises most',
        '--against; a set whose relevance is known',
        causal.gains,
    ),
    'causal11': Figure(
        'frame length, Fig. 11',
        'relevance of the 50 best hits where it falls most',
        '--against; a set whose relevance is known',
        causal.losses,
    ),
    'causal_b': Figure(
        'frame length, Appendix B',
        'failures that may come from lengths, and which remain',
        '--against; lengths and classes of train and test',
        causal.remaining_failures,
    ),
    'cost': Figure(
        'frame length, Tab. 5; UATVR, Tab. 2; ARL, Tab. 3',
        'parameters, GFLOPs and time of a training step',
        'nothing; no checkpoint, no data',
        by_tool.cost,
        True,
    ),
}
