"""An ensemble of M retrievers, each trained on its own environment; their scores are added.

This is the backdoor adjustment against the bias of frame length (Satar et al., "Towards Debiasing
Frame Length Bias in Text-Video Retrieval via Causal Intervention", Eq. 5 and Fig. 4).
"""

from __future__ import annotations

from typing import Any, Callable, Collection, Iterable, Optional, Sequence, Union

import torch
from mmengine.model import BaseModel, ModuleList
from torch import Tensor, nn

from mmvtr.dist import gather_rows
from mmvtr.errors import UserError
from mmvtr.functional.values import check_one_of, check_range
from mmvtr.models.retriever import RetrievalSample, VideoTextRetriever
from mmvtr.models.similarities.best_frame import BestFrameSimilarity, Matches
from mmvtr.models.similarities.cosine import token_levels
from mmvtr.registry import MODELS, build
from mmvtr.structures import Embedding, Levels, drop_tokens, under


class FusedSimilarity:
    """Weighted mean of M similarities: the similarity of a BackdoorRetriever in evaluation.

    Args:
        parts: the members' similarities.
        weights: M non-negative weights that sum to 1.
    """

    def __init__(self, parts: Sequence[nn.Module], weights: Sequence[float]) -> None:
        self.parts = list(parts)
        self.weights = list(weights)

    @property
    def levels(self) -> tuple[str, ...]:
        """Names of the levels that it reads, ``'<member>.<level>'``."""
        return tuple(f'{k}.{name}' for k, part in enumerate(self.parts) for name in part.levels)

    @property
    def needs_tokens(self) -> bool:
        """Whether a member reads ``Embedding.tokens``."""
        return any(part.needs_tokens for part in self.parts)

    @property
    def exact(self) -> bool:
        """Whether the last scores are the members' exact scores of every pair."""
        return all(getattr(part, 'exact', True) for part in self.parts)

    @property
    def flat(self) -> Callable[[Levels], Tensor]:
        """Function ``flat(items)``: one vector per item, whose inner products are the scores.

        Levels of N items -> [N, sum of the members' D'].  Exists only if every member has it.
        """
        flats = [part.flat for part in self.parts]  # AttributeError if a member has none

        def flat(items: Levels) -> Tensor:
            vectors = [
                weight**0.5 * function(of_member(items, k))
                for k, (function, weight) in enumerate(zip(flats, self.weights))
            ]
            return torch.cat(vectors, -1)

        return flat

    @property
    def paired_matches(self) -> Callable[..., Matches]:
        """BestFrameSimilarity's method, at the frame of largest mean cosine over all members.

        Exists only if every member is a BestFrameSimilarity.
        """
        return self._at_frames().paired_matches

    @property
    def frame_scores(self) -> Callable[[Levels, Levels], Tensor]:
        """BestFrameSimilarity's method over all members; exists only if each of them is one."""
        return self._at_frames().frame_scores

    def _at_frames(self) -> BestFrameSimilarity:
        """Return one BestFrameSimilarity over the weighted levels of all members."""
        if not all(isinstance(part, BestFrameSimilarity) for part in self.parts):
            raise AttributeError('not every member has a BestFrameSimilarity')
        weights = {
            f'{k}.{name}': weight * share
            for k, (part, weight) in enumerate(zip(self.parts, self.weights))
            for name, share in part.weights.items()
        }
        return BestFrameSimilarity(levels=[*weights], weights=[*weights.values()])

    def __call__(self, texts: Levels, videos: Levels) -> dict[str, Tensor]:
        """Map levels of T texts and of V videos to matrices [T, V], see :func:`fuse`."""
        matrices = [
            part(of_member(texts, k), of_member(videos, k)) for k, part in enumerate(self.parts)
        ]
        return fuse(matrices, self.weights)


def _of_all(name: str, doc: str) -> property:
    """Return a property that reads attribute ``name`` of the first member and sets it on all."""

    def put(self: BackdoorRetriever, value: Any) -> None:
        for member in self.members:
            setattr(member, name, value)

    return property(lambda self: getattr(self.members[0], name), put, doc=doc)


@MODELS.register_module()
class BackdoorRetriever(BaseModel):
    """Retriever that trains member k on batches of environment k and adds all members' scores.

    A training step trains one member with its own losses; the parameters of the others have no
    gradients and no optimizer changes them.  So the members equal M separate trainings, each on
    one environment (but schedules run over the steps of all).  Environments come from
    ``dataset.environments``, batches of a single one from an EnvironmentBatchSampler.  Under a
    distributed launcher the config needs ``find_unused_parameters = True``.

    Every member encodes and scores all items in evaluation.  Their levels are called
    ``'0.global'``, ``'1.global'`` ...; if all members have probabilistic heads, their concatenated
    Gaussians are level ``'gaussian'``.

    Args:
        members: M retrievers, configs or built; each is built and initialised separately.
        member: instead of ``members``, one config, of which ``copies`` are built.
        copies: M if ``member`` is given.
        fusion: ``'sum'``: equal weights (Fig. 4; the same ranking as the paper's sum, for any M);
            ``'prior'``: P(L_k) of Eq. 5, the share of environment k among the items trained on; or
            M weights.  They are normalised to sum to 1.
        micro_batch, block_rows: set on all members (see VideoTextRetriever); None: keep their own.
        data_preprocessor: shared by all members; default: the members' one.
        init_cfg: as in mmengine.

    Attributes:
        members: the M retrievers.
        seen: int64 [M], items of each environment seen in training, over all processes.

    Raises:
        ValueError: no members, members with different preprocessors or with a shortlist, an
            unknown fusion, or weights that are not one non-negative number per member with a
            positive sum.
    """

    #: Returns samples of scores, sigmas and ids; needs only :meth:`score` and level ``'gaussian'``.
    _predict = VideoTextRetriever._predict

    def __init__(
        self,
        *,
        members: Optional[Sequence[Union[dict, nn.Module]]] = None,
        member: Optional[dict] = None,
        copies: int = 2,
        fusion: Union[str, Sequence[float]] = 'sum',
        micro_batch: Optional[int] = None,
        block_rows: Optional[int] = None,
        data_preprocessor: Optional[dict] = None,
        init_cfg: Optional[dict] = None,
    ) -> None:
        members = all_members(members, member, copies)
        check_fusion(fusion, len(members))
        preprocessor = data_preprocessor or preprocessor_of(members)
        super().__init__(data_preprocessor=preprocessor, init_cfg=init_cfg)
        self.members = ModuleList([build(member) for member in members])
        if getattr(self.data_preprocessor, 'of_tower', False):
            self.data_preprocessor = self.members[0].data_preprocessor
        refuse_shortlists(self.members)
        if micro_batch is not None:
            self.micro_batch = micro_batch
        if block_rows is not None:
            self.block_rows = block_rows
        self.fusion = fusion
        self.register_buffer('seen', torch.zeros(len(members), dtype=torch.long))

    @property
    def weights(self) -> list[float]:
        """One weight per member; they sum to 1.

        Raises:
            RuntimeError: ``fusion='prior'`` before any training step has counted items.
        """
        parts = self.fusion
        if parts == 'sum':
            parts = [1.0] * len(self.members)
        elif parts == 'prior':
            parts = self.seen.tolist()
            if not sum(parts):
                raise UserError(
                    "fusion='prior' weighs members by the items that they were trained on, and "
                    'none are counted: train this model, or give one weight per member'
                )
        return [part / sum(parts) for part in parts]

    # -- training -------------------------------------------------------------------------

    micro_batch = _of_all('micro_batch', "The members', of which each step is one's.")
    block_rows = _of_all('block_rows', "The members', of which each step is one's.")
    stage = _of_all('stage', "The members' stage of DVTR's Algorithm 1.")

    def forward(
        self, inputs: dict[str, Tensor], data_samples: Optional[dict] = None, mode: str = 'tensor'
    ) -> dict | list[RetrievalSample] | tuple[Levels, Levels]:
        """Run a mode of :class:`~mmvtr.models.retriever.VideoTextRetriever`; ``'loss'`` returns the
        losses of the batch's member under their own names, and ``'environment'``.

        Raises:
            ValueError: an unknown mode, or (``'loss'``) a joint batch of several environments, of
                one without a member, or of none.
        """
        check_one_of(('loss', 'predict', 'tensor'), mode=mode)
        if mode == 'loss':
            return self._loss(inputs, data_samples)
        texts, videos = self.encode_text(inputs), self.encode_video(inputs)
        return (texts, videos) if mode == 'tensor' else self._predict(texts, videos, data_samples)

    def _loss(self, inputs: dict[str, Tensor], data_samples: dict) -> dict[str, Tensor]:
        device = self.seen.device
        environments = gather_rows(own_environments(data_samples).to(device))
        if not len(environments):
            # All videos of the joint batch are broken: no member is updated, even by weight decay.
            return dict(loss_none=torch.zeros((), device=device, requires_grad=True))
        environment = one_environment(environments, len(self.members))
        if self.training:
            self.seen[environment] += len(environments)
        losses = self.members[environment](inputs, data_samples, mode='loss')
        return {**losses, 'environment': torch.tensor(float(environment), device=device)}

    @property
    def watchers(self) -> list:
        """Not available.

        Raises:
            RuntimeError: always.
        """
        raise UserError(
            'members train on different batches, so there is no train queue of queries that all '
            "members encoded: write a bank (tools/export_bank.py) and set queries='bank'"
        )

    @property
    def objectives(self) -> list[str]:
        """Names of all members' objectives."""
        return [name for member in self.members for name in member.objectives]

    # -- evaluation -----------------------------------------------------------------------

    @property
    def similarity(self) -> FusedSimilarity:
        """The members' fused similarities; raises the errors of :attr:`weights`."""
        return FusedSimilarity([member.similarity for member in self.members], self.weights)

    def temperature(self) -> Tensor:
        """Return the mean of the members' temperatures, a 0-dim tensor."""
        return torch.stack([member.temperature() for member in self.members]).mean()

    def encode_video(self, inputs: dict[str, Tensor]) -> Levels:
        """Encode ``video`` float [V, F, ...], ``frame_mask`` bool [V, F] -> all members' levels."""
        return self._side_by_side([member.encode_video(inputs) for member in self.members])

    def encode_text(self, inputs: dict[str, Tensor]) -> Levels:
        """Encode ``text`` int64 [T, L] and ``text_mask`` bool [T, L] -> all members' levels."""
        return self._side_by_side([member.encode_text(inputs) for member in self.members])

    def _side_by_side(self, parts: Sequence[Levels]) -> Levels:
        levels = {}
        for k, (member, part) in enumerate(zip(self.members, parts)):
            part = drop_tokens(part, keep=token_levels(member.similarity))
            levels.update({f'{k}.{name}': embedding for name, embedding in part.items()})
        if all('gaussian' in part for part in parts):
            gaussians = [part['gaussian'] for part in parts]
            levels['gaussian'] = Embedding(
                torch.cat([gaussian.mean for gaussian in gaussians], -1),
                log_std=torch.cat([gaussian.log_std for gaussian in gaussians], -1),
            )
        return levels

    def score(
        self, texts: Levels, videos: Levels, names: Optional[Collection[str]] = None
    ) -> dict[str, Tensor]:
        """Return matrices [T, V], including the supervisions' own; see :func:`fuse`.

        Args:
            texts, videos: levels of T texts and of V videos.
            names: names of the matrices to return; None: all.
        """
        alone = {f'scores_{k}' for k in range(len(self.members))}
        needed = None if names is None else {'scores', *names} - alone
        matrices = [
            member.score(of_member(texts, k), of_member(videos, k), needed)
            for k, member in enumerate(self.members)
        ]
        return fuse(matrices, self.weights)


def fuse(parts: Sequence[dict[str, Tensor]], weights: Sequence[float]) -> dict[str, Tensor]:
    """Return weighted means of the matrices that all members have, and each ``'scores_<k>'``."""
    common = [name for name in parts[0] if all(name in part for part in parts)]
    fused = {name: sum(w * part[name] for w, part in zip(weights, parts)) for name in common}
    return {**fused, **{f'scores_{k}': part['scores'] for k, part in enumerate(parts)}}


def of_member(levels: Levels, k: int) -> Levels:
    """Return the levels of member ``k`` without the prefix ``'<k>.'``."""
    return under(f'{k}.', levels)


def all_members(
    members: Optional[Sequence[Union[dict, nn.Module]]], member: Optional[dict], copies: int
) -> list[Union[dict, nn.Module]]:
    """Return the members to build: ``members``, or ``copies`` of ``member``.

    Raises:
        ValueError: neither or both are given, a built ``member``, or no copies.
    """
    if members and member is not None:
        raise ValueError('a BackdoorRetriever takes members, or copies of one member, not both')
    if member is None:
        if not members:
            raise ValueError('a BackdoorRetriever needs members, or copies of one member')
        return list(members)
    if not isinstance(member, dict):
        raise ValueError(
            'member must be a config, which is built once per copy; give built models as `members`'
        )
    check_range('[1, inf]', copies=copies)
    return [member] * copies


def check_fusion(fusion: Union[str, Sequence[float]], count: int) -> None:
    """Raise ValueError unless ``fusion`` is ``'sum'``, ``'prior'`` or one weight per member."""
    if isinstance(fusion, str):
        if fusion not in ('sum', 'prior'):
            raise ValueError(f"fusion must be 'sum', 'prior' or weights, not {fusion!r}")
    elif len(fusion) != count or min(fusion) < 0 or not sum(fusion) > 0:
        raise ValueError(
            f'fusion needs one non-negative weight per member, {count} in all, with a positive '
            f'sum: got {list(fusion)}'
        )


def refuse_shortlists(members: Iterable[nn.Module]) -> None:
    """Raise ValueError if a member's similarity scores only a shortlist exactly."""
    for k, member in enumerate(members):
        if isinstance(member, BackdoorRetriever):
            continue  # has checked its own members
        shortlist = getattr(member.similarity, 'shortlist', None)
        if shortlist is not None:
            raise ValueError(
                f'member {k} ranks a shortlist of {shortlist}, but scores are added for all pairs: '
                'set shortlist=None'
            )


def preprocessor_of(members: Sequence[Union[dict, nn.Module]]) -> Union[dict, nn.Module, None]:
    """Return the data preprocessor of the members, who see the same batches.

    Raises:
        ValueError: the members' configs name different ones.
    """
    configs = [
        member.get('data_preprocessor') or preprocessor_of(_inner(member))
        for member in members
        if isinstance(member, dict)
    ]
    if any(other != configs[0] for other in configs):
        raise ValueError(f'members see one batch and need one data_preprocessor, got {configs}')
    if configs or not members:
        return configs[0] if configs else None
    return members[0].data_preprocessor


def _inner(member: dict) -> Sequence[Union[dict, nn.Module]]:
    """Return the members of a config that is itself a BackdoorRetriever's; else ()."""
    return member.get('members') or [member[key] for key in ('member',) if key in member]


def own_environments(data_samples: dict) -> Tensor:
    """Return the environments of this process' videos, int64 [V].

    Raises:
        ValueError: there are videos, but the samples lack their environments.
    """
    environments = data_samples.get('environment')
    if environments is not None:
        return environments
    if len(data_samples['video_idx']):
        raise ValueError(
            "the batch has no 'environment' of its videos: give the train dataset `environments`"
        )
    return data_samples['video_idx']


def one_environment(environments: Tensor, count: int) -> int:
    """Return the single environment of all videos of a joint batch.

    Args:
        environments: int64 [V], V >= 1.
        count: M.

    Raises:
        ValueError: there are several environments, or this one has no member.
    """
    numbers = environments.unique().tolist()
    if len(numbers) > 1:
        raise ValueError(
            f'a batch must be of one environment over all processes, this one has {numbers}: set '
            "batch_sampler=dict(type='EnvironmentBatchSampler') in the train dataloader"
        )
    if not 0 <= numbers[0] < count:
        raise ValueError(f'environment {numbers[0]} has no member: there are {count}, from 0')
    return numbers[0]
