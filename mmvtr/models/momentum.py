"""A retriever with momentum encoders and memory banks of keys (HiT, Liu et al., ICCV 2021).

As in MoCo, query encoders are trained and key encoders are their moving averages.  A query is
compared with keys: those of its own pairs and those of earlier batches, in a bank per modality.
"""

from __future__ import annotations

from copy import deepcopy
from typing import Any, NamedTuple, Optional

import torch
from torch import Tensor, nn

from mmvtr.dist import gather_levels
from mmvtr.errors import UserError
from mmvtr.functional.values import check_range
from mmvtr.models.annotation import JointIds
from mmvtr.models.bank import GAUSSIAN, NOBODY, MemoryBank
from mmvtr.models.retriever import VideoTextRetriever, text_levels, video_levels
from mmvtr.models.target import LocalBatch, Matrices, Target, Targets
from mmvtr.registry import MODELS
from mmvtr.structures import Levels, cat_levels, drop_tokens


class Candidates(NamedTuple):
    """N items of a batch followed by the K rows of a bank.

    Attributes:
        keys: levels that queries are compared with.
        judged: their Gaussians, which a supervision reads; empty without a supervision.
        video: int64 [N + K], the training video of each; -1 for empty rows.
        old: bool [N + K], True for rows of the bank.
    """

    keys: Levels
    judged: Levels
    video: Tensor
    old: Tensor


@MODELS.register_module()
class MomentumRetriever(VideoTextRetriever):
    """Retriever that compares texts with keys of videos and vice versa, each with a bank of K more.


    A loss reads matrices of one direction, ``'<level>_t2v'`` float [T, V + K] and
    ``'<level>_v2t'`` float [T + K, V]: first the keys of the batch's videos (texts), then those of
    the bank.  Positives are the keys of annotated partners.  Weight 0 is given to empty rows of the
    bank, to those of the query's own video (by id: captions of a video are not its negatives) and,
    unless ``in_batch``, to the keys of the batch that are no partner.  So HiT's four terms are two
    :class:`~mmvtr.models.losses.ContrastiveLoss`, one per direction.

    The keys enter the banks after the comparison, those of all processes in the order of ranks, so
    that all processes have the same banks.  Key encoders use no dropout (ours).  They
    :meth:`follow` after each step of the optimizer, which requires a MomentumHook.

    A supervision is trained on the batch, and weighs the wide matrices by its method
    ``weigh(texts, videos, same, rows=, columns=)``, for all texts and all videos of batch and bank:
    the partners of an item in a bank are the items of its video there and in the batch.  For an
    item in a bank it reads the Gaussian that the item had when it entered, from query encoder and
    head (ours: the match probability is trained on these).

    Evaluation, inference and export use the query encoders only.  ``micro_batch`` divides the
    queries; keys need no activations.

    Args:
        bank_size: K (our choice: HiT's is not known).
        momentum: m of ``key = m key + (1 - m) query`` (our choice: MoCo's).
        in_batch: whether other keys of the batch are negatives too (MoCo: no).
        **kwargs: see :class:`VideoTextRetriever`; no ``block_rows`` and no ``objectives``.

    Raises:
        ValueError: a bank_size below 1, a momentum outside [0, 1), a similarity that reads tokens,
            a supervision without ``weigh`` or without heads, ``block_rows``, ``objectives``; (in
            training) a text of several videos.
        RuntimeError: (in training) the encoder was updated, but not its key encoder.
    """

    no_blocks = 'the matrices of a MomentumRetriever have the columns of a bank'

    def __init__(
        self,
        *,
        bank_size: int = 4096,
        momentum: float = 0.999,
        in_batch: bool = False,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        check_range('[0, 1)', momentum=momentum)
        if self.similarity.needs_tokens:
            raise ValueError(
                f'{type(self.similarity).__name__} reads tokens, but a bank remembers one vector a '
                'level: MomentumRetriever takes a CosineSimilarity or the like'
            )
        judge = self.supervision
        if judge is not None and not (hasattr(judge, 'weigh') and len(self.heads)):
            raise ValueError(
                f'{type(judge).__name__} cannot weigh the items of a bank: that takes heads and a '
                'method weigh(texts, videos, same, rows=, columns=), as DVTRSupervision has'
            )
        if len(self.objectives):
            raise ValueError(
                f'objectives {[*self.objectives]} read a target of the batch alone, but the '
                'matrices of a MomentumRetriever have the columns of a bank: leave them out'
            )
        self.momentum = momentum
        self.in_batch = in_batch
        widths = dict.fromkeys(self.similarity.levels, self.encoder.dim)
        gaussian = None if judge is None else self.encoder.dim
        self.banks = nn.ModuleDict(
            {side: MemoryBank(bank_size, widths, gaussian=gaussian) for side in ('text', 'video')}
        )
        self.key_encoder = deepcopy(self.encoder).requires_grad_(False).eval()
        self.register_load_state_dict_post_hook(_start_keys_of_a_part)
        self._encoder_version: Optional[int] = None
        self._followed = False

    def init_weights(self) -> None:
        """Initialise as in mmengine; if ``init_cfg`` sets weights, key encoders start from them."""
        first = not self.is_init
        super().init_weights()
        if first and self.init_cfg:
            self.start_keys()

    @torch.no_grad()
    def start_keys(self) -> None:
        """Copy the query encoders into the key encoders."""
        self.key_encoder.load_state_dict(self.encoder.state_dict())

    def train(self, mode: bool = True) -> 'MomentumRetriever':
        super().train(mode)
        self.key_encoder.eval()
        return self

    @torch.no_grad()
    def follow(self) -> None:
        """Move the key encoders towards the query encoders; call after each optimizer step."""
        for key, query in zip(self.key_encoder.parameters(), self.encoder.parameters()):
            key.lerp_(query, 1 - self.momentum)
        for key, query in zip(self.key_encoder.buffers(), self.encoder.buffers()):
            key.copy_(query)
        self._followed = True

    # -- training -------------------------------------------------------------------------

    def _compared(
        self, texts: Levels, videos: Levels, target: Targets, joint: JointIds, local: LocalBatch
    ) -> tuple[Matrices, dict[str, Target]]:
        """Return wide matrices and a target for each, and push the keys into the banks."""
        self._check_followed()
        video_of_texts, video_of_videos = _owners(joint)
        text_keys, video_keys = self._keys(local.inputs)
        items = dict(
            text=(text_keys, texts, video_of_texts), video=(video_keys, videos, video_of_videos)
        )
        wide_texts, wide_videos = (self._candidates(side, *items[side]) for side in items)
        t2v = self._target(wide_texts, wide_videos, rows=slice(len(video_of_texts)))
        v2t = self._target(wide_texts, wide_videos, columns=slice(len(video_of_videos)))
        directions = dict(
            t2v=(self.similarity(texts, wide_videos.keys), t2v),
            v2t=(self.similarity(wide_texts.keys, videos), v2t),
        )
        if self.training:
            for side, (keys, queries, video) in items.items():
                self.banks[side].push({**keys, **self._judged(queries)}, video)
        matrices, targets = {}, {}
        for direction, (compared, single) in directions.items():
            matrices.update({f'{name}_{direction}': matrix for name, matrix in compared.items()})
            targets.update({f'{name}_{direction}': single for name in compared})
        return matrices, targets

    def _keys(self, inputs: dict[str, Tensor]) -> tuple[Levels, Levels]:
        """Return the key encoders' levels of the texts and videos of all processes."""
        with torch.no_grad():
            levels = (text_levels(self.key_encoder, inputs), video_levels(self.key_encoder, inputs))
            read = ({name: side[name] for name in self.similarity.levels} for side in levels)
            texts, videos = (gather_levels(drop_tokens(side)) for side in read)
        return texts, videos

    def _judged(self, queries: Levels) -> Levels:
        """Return the queries' own level that a bank stores: their detached Gaussians."""
        if self.supervision is None:
            return {}
        if self.teacher is not None:
            queries = self.teacher.seen(queries)
        return {GAUSSIAN: queries[GAUSSIAN].map(Tensor.detach)}

    def _candidates(self, side: str, keys: Levels, queries: Levels, video: Tensor) -> Candidates:
        """Join the batch and the bank of a modality."""
        bank = self.banks[side]
        old = torch.arange(len(video) + bank.size, device=video.device) >= len(video)
        judged = self._judged(queries)
        return Candidates(
            cat_levels([keys, bank.levels]),
            cat_levels([judged, bank.levels]) if judged else {},
            torch.cat([video, bank.video]),
            old,
        )

    def _target(
        self,
        texts: Candidates,
        videos: Candidates,
        *,
        rows: slice = slice(None),
        columns: slice = slice(None),
    ) -> Target:
        """Make the target of a wide matrix: some texts (videos) against all videos (texts).

        Args:
            texts, videos: candidates of the batch and of the banks.
            rows, columns: rows and columns of the matrix, R texts and C videos.

        Returns:
            positives bool [R, C] and weights float [R, C].
        """
        same = texts.video[rows, None] == videos.video[columns]
        old = texts.old[rows, None] | videos.old[columns]
        there = (texts.video[rows, None] != NOBODY) & (videos.video[columns] != NOBODY)
        weights = torch.where(old, there & ~same, self.in_batch).to(torch.get_default_dtype())
        if self.supervision is not None:
            of_one = (texts.video[:, None] == videos.video) & (videos.video != NOBODY)
            weights = weights * self.judge.weigh(
                texts.judged, videos.judged, of_one, rows=rows, columns=columns
            )
        return Target(same & ~old, weights=weights)

    def _check_followed(self) -> None:
        """Raise RuntimeError if the key encoder has never followed, which would go unnoticed.

        Once it has followed, there is no check: an EMAHook, too, swaps the encoder's weights.
        """
        version = sum(p._version for p in self.encoder.parameters())
        moved = self._encoder_version not in (None, version)
        if self.training and moved and not self._followed:
            raise UserError(
                'the encoder has moved since the last step, and its key encoder has not followed: '
                "add dict(type='mmvtr.MomentumHook') to the hooks, or call follow() after each "
                'step of the optimizer'
            )
        self._encoder_version = version


def _start_keys_of_a_part(model: MomentumRetriever, keys: Any) -> None:
    """Start the keys from loaded weights that hold an encoder, or parts of it, but no keys."""
    missing = {name.removeprefix('module.') for name in keys.missing_keys}
    names = [*model.encoder.state_dict()]
    lacking = [all(f'{part}.{n}' in missing for n in names) for part in ('key_encoder', 'encoder')]
    if lacking == [True, False]:
        model.start_keys()


def _owners(joint: JointIds) -> tuple[Tensor, Tensor]:
    """Return the training video of each text, int64 [T], and of each column, int64 [V].

    Raises:
        ValueError: a text of several videos (the text is named).
    """
    texts, videos = joint.ids
    if not texts.shape[1]:  # there is no text
        return videos.new_empty(0), videos
    several = (texts[:, 1:] != NOBODY).any(1)
    if several.any():
        row = int(several.int().argmax())
        raise ValueError(
            f'text {row} of the batch belongs to videos {texts[row].tolist()[:8]}, but a bank '
            'remembers one video of each text: MomentumRetriever takes datasets in which a text '
            'has one'
        )
    return texts[:, 0], videos
