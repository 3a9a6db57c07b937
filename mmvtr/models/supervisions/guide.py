"""Guides that find false negatives among unannotated videos (GISTEmbed; Solatorio, 2024)."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Callable, Optional, Sequence

import torch
import torch.nn.functional as F
from torch import Tensor

from mmvtr.functional.losses.negative_weights import check_rule, guide_weights, hardness_weights
from mmvtr.functional.values import check_one_of, check_range, product
from mmvtr.models.blocks import BlockSupervision, Pairs
from mmvtr.models.embedders.sentence_transformer import load_embedder
from mmvtr.models.similarities.cosine import CosineSimilarity
from mmvtr.models.supervisions.columns import (
    ColumnSupervision,
    Entries,
    check_kinds,
    columns_of,
    cosines_of,
)
from mmvtr.models.supervisions.stored_vectors import (
    PREFIX,
    check_widths,
    read_level,
    stored_levels,
)
from mmvtr.models.target import Filled, Target, known_of
from mmvtr.registry import MODELS
from mmvtr.storage.arrays import load_h5py, name_in_hdf5
from mmvtr.structures import Levels, take

#: Sources of a guide's scores.
GUIDES = ('vectors', 'agreement', 'scores')


@MODELS.register_module()
class GuideSupervision(BlockSupervision):
    """Supervision with weight 0 for videos that a guide scores about as high as a text's own.

        w_tv = 0 where g_tv > b_t, else 1       b_t by the rule: see :func:`.guide_weights`

    g are the scores of a guide other than the model, or of the model itself:

    - ``'vectors'``: cosines of stored vectors, such as a frozen sentence encoder's.  If only one
      side has vectors, ``by`` names it, and an item of the other side is represented by its own
      partners in the batch: with ``by='texts'`` two texts are compared, with ``'videos'`` two
      videos.  g_t is then 1 for a text with one partner, and the margin is the allowed
      dissimilarity of two items.
    - ``'agreement'``: how well the text agrees with the captions of the video (``Annotation``).
    - ``'scores'``: the model's own cosines, without gradient here; with ``rule='self'`` that is the
      self-mask of Qwen3-Embedding.

    g_t is the best score of the text with an own video.  Both directions have the same weights,
    with the text's bar; with ``bar_of='anchor'`` videos have their own bars, and weights are by
    direction.  Logs ``guided_per_text``, the number of videos that a text loses as negatives
    (weights below 1/2).

    With ``treat='positive'`` the videos that a guide finds become soft positives y = 1 - w beside
    the annotated ones, instead of a weight (ours).  With ``rule='threshold'`` y is P(match) of a
    calibrated guide.

    With ``columns`` the model's own cosines of texts with texts, and of videos with videos, are in
    the denominators too, unless the guide's score of the same items is above the bar of the anchor
    (GISTEmbed's ``contrast_anchors`` and ``contrast_positives``).  As there, a pair of an own text
    and video is never excluded.

    Args:
        guide: ``'vectors'``, ``'agreement'``, ``'scores'``, an encoder or a file.
        rule: ``'threshold'``, ``'absolute'``, ``'relative'``, ``'share'`` or ``'self'``.
        margin: in the guide's unit, or a share of g_t.
        softness: in the guide's unit; above 0 weights are a sigmoid around the bar (ours).
        bar_of: ``'text'``, or ``'anchor'`` of either direction.
        columns: kinds of :class:`.ColumnSupervision`, for a guide by vectors or scores.
        treat: an entry above the bar is ``'ignore'``: not a negative, or ``'positive'``.
        name: name of the vectors in the pipelines of the training set
            (``dict(type='LoadVectors', side=..., stores={name: path})``).
        by: None: both sides have vectors; ``'texts'`` or ``'videos'``: only these have.  The
            vectors of an encoder and of a file are of texts.
        levels: levels of the model's own scores.

    Raises:
        ValueError: an argument outside of its range, ``'self'`` with a guide other than the model,
            an encoder or a file with ``by='videos'``; in training: the batch lacks the vectors,
            captions or the agreement, or vectors of texts and of videos differ in length.

    Example:
        A sentence encoder compares the captions. ::

            guide = 'sentence-transformers/all-MiniLM-L6-v2'
            supervision = dict(type='GuideSupervision', guide=guide, margin=0.3)
    """

    def __init__(
        self,
        *,
        guide: str = 'vectors',
        rule: str = 'absolute',
        margin: float = 0.0,
        softness: float = 0.0,
        bar_of: str = 'text',
        columns: Sequence[str] = (),
        treat: str = 'ignore',
        name: str = 'guide',
        by: Optional[str] = None,
        levels: Sequence[str] = ('global',),
    ) -> None:
        super().__init__()
        self._reader = None
        if guide not in GUIDES:
            try:
                self._reader = reader_of(guide)
            except ValueError as error:
                choices = f'{[*GUIDES]}, an encoder or a file'
                raise ValueError(f'guide must be one of {choices}: {error}') from None
            if by == 'videos':
                raise ValueError(f'the guide {guide[:80]!r} compares captions: leave by={by!r} out')
            by = 'texts'
        check_one_of((None, 'texts', 'videos'), by=by)
        check_rule(rule, margin, softness)
        check_one_of(('ignore', 'positive'), treat=treat)
        check_one_of(('text', 'anchor'), bar_of=bar_of)
        if treat == 'positive' and (bar_of == 'anchor' or columns):
            raise ValueError(
                "treat='positive' makes positives for both directions: leave bar_of and columns out"
            )
        check_kinds(columns)
        if columns and guide == 'agreement':
            raise ValueError('the agreement compares texts with videos: it cannot judge columns')
        if rule == 'self' and guide != 'scores':
            raise ValueError(f"rule='self' reads the model's own scores, not those of {guide!r}")
        self.guide = guide
        self.rule = rule
        self.margin = margin
        self.softness = softness
        self.bar_of = bar_of
        self.kinds = tuple(columns)
        self.treat = treat
        self.fills = 'weights' if treat == 'ignore' else 'positives'  # target.py: check_read
        self.name = name
        self.by = by
        self.similarity = CosineSimilarity(levels=levels)

    @property
    def whole(self) -> str:
        if self.kinds:
            return ColumnSupervision.whole
        return "bar_of='anchor' is over all texts of the batch" if self.bar_of == 'anchor' else ''

    @property
    def own_levels(self) -> Callable[..., tuple[Levels, Levels]]:
        """Function that returns further levels of this process' items; missing for a guide without
        vectors."""
        if self.guide in ('agreement', 'scores'):
            raise AttributeError(f'a guide by {self.guide} reads no vectors', name='own_levels')
        return self._own_levels

    def _own_levels(
        self, inputs: dict[str, Tensor], data_samples: dict, device: torch.device
    ) -> tuple[Levels, Levels]:
        reader = type(self).__name__
        if self._reader is not None:
            return read_level(self.name, self._reader(data_samples, device), device), {}
        return tuple(
            stored_levels(data_samples, side, [self.name], device, reader)
            if self.by in (None, f'{side}s')
            else {}
            for side in ('text', 'video')
        )

    def begin(self, texts: Levels, videos: Levels, pairs: Pairs) -> Any:
        """Return the guide's unit vectors of both sides (None for the agreement), and the model's
        (None without columns)."""
        model = None
        if self.kinds:
            model = tuple(self.similarity.prepare(side) for side in (texts, videos))
        return self._guides(texts, videos, pairs), model

    @torch.no_grad()
    def _guides(self, texts: Levels, videos: Levels, pairs: Pairs) -> Any:
        if self.guide == 'agreement':
            return None
        if self.guide == 'scores':
            return tuple(self.similarity.prepare(side) for side in (texts, videos))
        level = f'{PREFIX}{self.name}'
        t, v = (side[level].mean.float() if level in side else None for side in (texts, videos))
        if self.by == 'texts':
            v = pairs.means(t, of='texts').nan_to_num(0.0)
        elif self.by == 'videos':
            t = pairs.means(v, of='videos').nan_to_num(0.0)
        check_widths(t, v, f'vectors {self.name!r}')
        return tuple(F.normalize(x, dim=1) for x in (t, v))

    def block(self, begun: Any, rows: slice, target: Target) -> Filled:
        """Return the target of the texts ``rows`` with weights, and sums."""
        guides, model = begun
        with torch.no_grad():
            scores = self._scores(guides, rows, target)
            best = dict(
                t2v=_best(scores, target.positives), v2t=_best(scores.t(), target.positives.t())
            )
            weights = self._weights(scores, best['t2v'])
        excluded = (weights < 0.5) & ~target.positives
        sums = dict(excluded=excluded.sum().to(scores.dtype), texts=scores.new_tensor(len(scores)))
        if self.treat == 'positive':
            return target._replace(positives=(1 - weights).masked_fill(target.positives, 1.0)), sums
        if self.kinds:

            def judged(way: str, entries: Entries) -> Tensor:
                return self._weights(self._among(guides, entries), best[way][entries.anchor])

            scored = cosines_of(self.similarity, model)
            columns = columns_of(target.positives, self.kinds, scored, judged)
            target = target._replace(columns=columns)
        if self.bar_of == 'anchor':
            weights = dict(t2v=weights, v2t=self._weights(scores.t(), best['v2t']).t())
        return target.weigh(weights), sums

    def finish(self, begun: Any, sums: dict[str, Tensor]) -> dict[str, Tensor]:
        """Turn sums over all blocks into the figure for the log."""
        return {'guided_per_text': sums['excluded'] / sums['texts'].clamp_min(1)}

    def _weights(self, scores: Tensor, best: Tensor) -> Tensor:
        options = dict(rule=self.rule, margin=self.margin, softness=self.softness)
        return guide_weights(scores, best, **options)

    @torch.no_grad()
    def _among(self, guides: Any, entries: Entries) -> Tensor:
        """Return the guide's scores of the items that columns compare, float [M, N]."""
        if self.guide == 'scores':
            return cosines_of(self.similarity, guides)(entries)
        return product(guides[entries.side][entries.rows], guides[entries.against].T)

    def _scores(self, begun: Any, rows: slice, target: Target) -> Tensor:
        """Return the guide's scores of the texts ``rows``, float [R, V]."""
        if self.guide == 'agreement':
            return known_of(target, 'agreement', self)
        texts, videos = begun
        if self.guide == 'scores':
            return self.similarity.compare(take(texts, rows), videos)['scores']
        return product(texts[rows], videos.T)


def _best(scores: Tensor, positives: Tensor) -> Tensor:
    """Return the best score of each row with a positive, -inf if it has none: [N, M] -> [N]."""
    if not scores.numel():
        return scores.new_full((len(scores),), -torch.inf)
    return scores.masked_fill(~positives, -torch.inf).amax(1)


@MODELS.register_module()
class HardnessSupervision(BlockSupervision):
    """Weight e^(alpha s) of a negative, with s the model's own cosine without its gradient.

    See :func:`.hardness_weights`.  Unannotated true pairs are among the hardest negatives: with a
    guide or a self-mask, ``CombinedSupervision(combine='product')`` weights the remaining ones
    (like RzenEmbed).  Logs ``hardness``, the mean weight of a negative.

    Args:
        alpha: per unit of cosine; .5 in LLaVE's code, 9 in its paper (per sentence-transformers).
        over: None, or the anchors whose negatives have a mean weight of 1 (HN-NCE): ``'t2v'``
            texts, ``'v2t'`` videos, ``'both'`` either in its own direction.
        levels: the levels whose cosines are averaged.

    Raises:
        ValueError: an ``alpha`` that is not finite, an unknown ``over``.
    """

    fills = 'weights'  # models/target.py: check_read
    #: Its weights are not shares of 1: their minimum or maximum with others would be meaningless.
    exceeds_one = True

    def __init__(
        self, *, alpha: float = 5.0, over: Optional[str] = None, levels: Sequence[str] = ('global',)
    ) -> None:
        super().__init__()
        check_range('(-inf, inf)', alpha=alpha)
        check_one_of((None, 't2v', 'v2t', 'both'), over=over)
        self.alpha = alpha
        self.over = over
        self.similarity = CosineSimilarity(levels=levels)

    @property
    def whole(self) -> str:
        texts = self.over in ('v2t', 'both')
        return f'over={self.over!r} is over all texts of the batch' if texts else ''

    @torch.no_grad()
    def begin(self, texts: Levels, videos: Levels, pairs: Pairs) -> tuple[Levels, Levels]:
        """Return the unit vectors of both sides by level."""
        return self.similarity.prepare(texts), self.similarity.prepare(videos)

    @torch.no_grad()
    def block(self, begun: tuple[Levels, Levels], rows: slice, target: Target) -> Filled:
        """Return the target of the texts ``rows`` with weights, and sums."""
        texts, videos = begun
        scores = self.similarity.compare(take(texts, rows), videos)['scores']
        options = dict(alpha=self.alpha, over='t2v' if self.over == 'both' else self.over)
        weights = hardness_weights(scores, target.positives, **options)
        sums = dict(
            hardness=weights.masked_fill(target.positives, 0.0).sum(),
            negatives=(~target.positives).sum().to(weights.dtype),
        )
        if self.over == 'both':
            options.update(over='v2t')
            weights = dict(t2v=weights, v2t=hardness_weights(scores, target.positives, **options))
        return target.weigh(weights), sums

    def finish(self, begun: tuple[Levels, Levels], sums: dict[str, Tensor]) -> dict[str, Tensor]:
        """Turn sums over all blocks into the figure for the log."""
        return {'hardness': sums['hardness'] / sums['negatives'].clamp_min(1)}


#: Function from the data samples of a process and the device of its model to vectors of its texts,
#: float [T, D], or None without texts.
Reader = Callable[[dict[str, Any], torch.device], Optional[Tensor]]


class EncodedCaptions:
    """Caption vectors by a frozen sentence-transformers encoder; each caption is encoded once.

    It is not a module: its weights are not trained and not in the checkpoint.  It is loaded with
    the first captions, and runs on the model's device; vectors are kept on the CPU.

    Args:
        name: name on the hub, or a local folder.

    Raises:
        ImportError, RuntimeError: (with the first captions) see
            :class:`~mmvtr.models.SentenceTransformerEncoder`.
    """

    def __init__(self, name: str) -> None:
        self.name = name
        self._encoder: Any = None
        self._known: dict[str, Tensor] = {}

    @torch.no_grad()
    def __call__(self, data_samples: dict[str, Any], device: torch.device) -> Optional[Tensor]:
        """Return the vectors of ``text_captions``, float32 [T, D].

        Raises:
            ValueError: the batch has texts without captions.
        """
        captions = data_samples.get('text_captions', [])
        if len(captions) != len(data_samples['text_ids']):
            raise ValueError(
                f'a guide of captions ({self.name[:80]!r}) reads data_samples["text_captions"], '
                'which collate_retrieval makes from datasets of this package'
            )
        new = [caption for caption in dict.fromkeys(captions) if caption not in self._known]
        if new:
            if self._encoder is None:
                self._encoder = load_embedder(self.name).to(device)
            with torch.autocast(device.type, enabled=False):  # kept for the whole training
                vectors = self._encoder.encode(new, convert_to_tensor=True, show_progress_bar=False)
            self._known.update(zip(new, vectors.clone().float().cpu()))
        return torch.stack([self._known[x] for x in captions]) if captions else None


class StoredCaptions:
    """Vectors of an hdf5 file by text id, a dataset [D] or [E, D] for each id (averaged).

    Args:
        path: path of the file.

    Raises:
        ImportError: h5py is not installed.
        FileNotFoundError: (with the first texts) the file does not exist.
    """

    def __init__(self, path: str) -> None:
        self.path = Path(path)
        self._known: dict[str, Tensor] = {}

    def __call__(self, data_samples: dict[str, Any], device: torch.device) -> Optional[Tensor]:
        """Return the vectors of ``text_ids``, float32 [T, D].

        Raises:
            ValueError: a text that is not in the file.
        """
        ids = data_samples['text_ids']
        new = [name for name in ids if name not in self._known]
        if new:
            with load_h5py(self.path).File(self.path, 'r') as file:
                for name in new:
                    key = name_in_hdf5(str(name), 'text')
                    if key not in file:
                        raise ValueError(f'{self.path}: no vector of text {str(name)[:80]!r}')
                    vector = torch.from_numpy(file[key][()]).float()
                    self._known[name] = vector.reshape(-1, vector.shape[-1]).mean(0)
        return torch.stack([self._known[name] for name in ids]) if ids else None


def reader_of(guide: str) -> Reader:
    """Return a reader by name: a ``.h5`` or ``.hdf5`` file, else an encoder (``OWNER/NAME``).

    Raises:
        ValueError: it is neither.

    Example:
        ::

            >>> reader_of('data/own/minilm.h5').path.name
            'minilm.h5'
            >>> reader_of('sentence-transformers/all-MiniLM-L6-v2').name
            'sentence-transformers/all-MiniLM-L6-v2'
    """
    if Path(guide).suffix in ('.h5', '.hdf5'):
        return StoredCaptions(guide)
    if '/' in guide:
        return EncodedCaptions(guide)
    raise ValueError(f'neither a .h5 file of vectors nor an encoder (OWNER/NAME): {guide[:80]!r}')
