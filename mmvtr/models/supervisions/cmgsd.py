"""CMGSD whole: margins from what the model learns, and from what is known before."""

from __future__ import annotations

from typing import Any, Optional

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from mmvtr.functional.losses.adaptive_margin import Standard, margins_by, standard_of_products
from mmvtr.functional.precision import at_least_float32
from mmvtr.models.pairs import Pairs
from mmvtr.models.supervisions.ramp import checked_ramp, ramp_at
from mmvtr.models.supervisions.teachers.stored_vectors import PREFIX, stored_levels
from mmvtr.models.target import Hinge, Target
from mmvtr.registry import MODELS
from mmvtr.structures import Levels

#: Over which entries margins are standardised.
OVER = ('matrix', 'negatives')


@MODELS.register_module()
class CMGSDSupervision(nn.Module):
    """Four hinges for each triplet (CMGSD; He et al., SIGIR 2021), for a SeveralHingesLoss.

        [alpha + d]_+ + lambda ([m(omega) + d]_+ + [m(tau) + d]_+) + (1 - lambda) [m(sigma) + d]_+
        m(x) = [alpha + beta (x - mean x) / std x]_+,      d = s_tn - s_tp

    omega and tau say how unlike the videos and the texts of t and n are *now* (dynamic), sigma how
    unlike their texts are to a frozen sentence encoder (static; no code knows a static half of
    videos), all as 1 - cosine.  lambda goes from 0 to 1 over ``ramp``.

    The authors have published no code.  The equations are those of the only code found, by third
    parties for retrieval of motions (MOT++), and so are the defaults, but for these:

    - a batch is V videos and T texts: of several texts of a video, or videos of a text, the mean
      cosine counts, and what has none gets alpha;
    - ``project`` reads a level of the encoder, there the output of the backbone below it; None
      compares the level as it is, with which ``gradient=False`` goes;
    - dropout of the projections is drawn from the step number: the same on all processes;
    - ``ramp`` are shares of the training, there epochs 20 and 50 whatever its length.

    With a gradient through the margins the loss falls when everything becomes alike; and where
    ``beta`` is as large as there some 40 % of the margins are 0.  ``gradient=False`` with
    ``beta=0.1``, ``over='negatives'`` and ``unbiased=False`` is what AdaptiveMarginSupervision
    does, which puts the mean of m(omega) and m(tau) into one hinge.

    Logs ``lambda`` and the mean margins ``margin_omega``, ``margin_tau`` and ``margin_static``.

    Args:
        level: of the embeddings compared.
        sentences: the name that the text pipeline of the training set gives the sentence vectors
            (``dict(type='LoadVectors', side='text', stores={name: path})``, or ``WordCounts``);
            None: no static hinge.
        project: ``dict(in_dim=..., dim=256, dropout=.1)``: a ReLU, dropout and a linear map of
            ``in_dim`` to ``dim`` for videos, and one for texts.
        gradient: whether one passes through the margins.
        alpha: margin of an average pair, and of the first hinge.
        beta: how far one standard deviation moves it.
        over: mean and deviation are those of the whole ``'matrix'``, or of the ``'negatives'``.
        unbiased: whether the deviation divides by one less than the number of entries.
        ramp: (start, end) of lambda as shares of the training.

    Attributes:
        progress: share of the training done; ProgressHook sets it, 1 without the hook.

    Raises:
        ValueError: an argument outside its range, or a projection that no gradient trains; in
            training: the batch lacks the sentence vectors.
    """

    #: The slot that is there for certain losses alone (models/target.py: check_read).
    fills = 'hinges'

    def __init__(
        self,
        *,
        level: str = 'global',
        sentences: Optional[str] = None,
        project: Optional[dict[str, Any]] = None,
        gradient: bool = True,
        alpha: float = 0.2,
        beta: float = 1.0,
        over: str = 'matrix',
        unbiased: bool = True,
        ramp: tuple[float, float] = (0.2, 0.5),
    ) -> None:
        super().__init__()
        if not alpha > 0:
            raise ValueError(f'alpha must be positive, not {alpha}')
        if not beta >= 0:
            raise ValueError(f'beta must be at least 0, not {beta}')
        if over not in OVER:
            raise ValueError(f'over must be one of {OVER}, not {over!r}')
        if project is not None and not gradient:
            raise ValueError('project is learnt through the margins only: set gradient=True')
        self.level = level
        self.sentences = sentences
        self.gradient = gradient
        self.alpha = alpha
        self.beta = beta
        self.over = over
        self.unbiased = unbiased
        self.ramp = checked_ramp(ramp)
        self.project = nn.ModuleDict()
        if project is not None:
            self.project.update({side: Projection(**project) for side in ('text', 'video')})
        self.progress = 1.0
        self.register_buffer('step', torch.zeros((), dtype=torch.long))

    def own_levels(
        self, inputs: dict[str, Tensor], data_samples: dict, device: torch.device
    ) -> tuple[Levels, Levels]:
        """The sentence vectors of this process' texts."""
        names = [] if self.sentences is None else [self.sentences]
        return stored_levels(data_samples, 'text', names, device, type(self).__name__), {}

    def forward(
        self, texts: Levels, videos: Levels, target: Target
    ) -> tuple[Target, dict[str, Tensor]]:
        """Levels of the joint batch -> target with hinges, and figures for the log."""
        margins = self._margins(texts, videos, Pairs.of(target.positives))
        share = ramp_at(self.progress, self.ramp)
        plain = Hinge(1.0, torch.full_like(margins['omega'], self.alpha))
        factors = dict(omega=share, tau=share, static=1 - share)
        hinges = (plain, *(Hinge(factors[name], m) for name, m in margins.items()))
        count = max(target.positives.numel(), 1)
        figures = {f'margin_{name}': m.detach().sum() / count for name, m in margins.items()}
        figures['lambda'] = figures['margin_omega'].new_tensor(share)
        return target._replace(hinges=hinges), figures

    def _margins(self, texts: Levels, videos: Levels, pairs: Pairs) -> dict[str, Tensor]:
        """Of each kind of dissimilarity, float [T, V]."""
        t, v = self._compared(texts, videos)
        margins = dict(omega=self._by_own_videos(v, pairs), tau=self._by_own_texts(t, pairs))
        if self.sentences is not None:
            s = F.normalize(texts[f'{PREFIX}{self.sentences}'].mean, dim=-1)
            margins['static'] = self._by_own_texts(s.to(t.dtype), pairs)
        return margins

    def _by_own_videos(self, videos: Tensor, pairs: Pairs) -> Tensor:
        """How unlike the videos of a text are to each video, as margins [T, V]."""
        own, known = _own(pairs.means(videos, of='videos'), pairs.rows)
        by = self._standard(own, known, videos, (pairs.rows, pairs.columns))
        return self._by(by, own, videos, known[:, None])

    def _by_own_texts(self, texts: Tensor, pairs: Pairs) -> Tensor:
        """How unlike a text is to those of each video, as margins [T, V]."""
        own, known = _own(pairs.means(texts, of='texts'), pairs.columns)
        by = self._standard(own, known, texts, (pairs.columns, pairs.rows))
        return self._by(by, texts, own, known)

    def _standard(
        self, own: Tensor, known: Tensor, others: Tensor, pairs: tuple[Tensor, Tensor]
    ) -> Optional[Standard]:
        if self.over == 'matrix':
            pairs = tuple(index[:0] for index in pairs)
        place = known.cumsum(0) - 1  # who has no partner is in no pair
        with torch.autocast(own.device.type, enabled=False):
            return standard_of_products(
                own[known], others, (place[pairs[0]], pairs[1]), unbiased=self.unbiased
            )

    def _by(self, by: Optional[Standard], texts: Tensor, videos: Tensor, known: Tensor) -> Tensor:
        # What is left of 1 - a cosine near 1 is lost in half precision.
        with torch.autocast(texts.device.type, enabled=False):
            x = 1 - texts @ videos.t()
        return margins_by(by, x.masked_fill(~known, torch.nan), alpha=self.alpha, beta=self.beta)

    def _compared(self, texts: Levels, videos: Levels) -> list[Tensor]:
        """Unit vectors, float [T, D] and [V, D]."""
        generator = torch.Generator().manual_seed(int(self.step))
        self.step += self.training
        units = []
        for name, side in (('text', texts), ('video', videos)):
            x = side[self.level].mean
            if name in self.project:
                x = self.project[name](x, generator)
            x = at_least_float32(x if self.gradient else x.detach())
            units.append(F.normalize(x, dim=-1))
        return units


def _own(means: Tensor, index: Tensor) -> tuple[Tensor, Tensor]:
    """Means of own partners with 0 where there are none, float [N, D], and where some are [N].

    A NaN in a product would reach the gradient of all others.
    """
    known = index.bincount(minlength=len(means)) > 0
    return torch.where(known[:, None], means, 0.0), known


class Projection(nn.Module):
    """ReLU, dropout and a linear map: what dissimilarities are read from.

    Args:
        in_dim: of what it is given.
        dim: of what it gives.
        dropout: share of numbers that a training leaves out.

    Raises:
        ValueError: a dropout outside [0, 1).
    """

    def __init__(self, in_dim: int, dim: int = 256, dropout: float = 0.1) -> None:
        super().__init__()
        if not 0 <= dropout < 1:
            raise ValueError(f'dropout must lie in [0, 1), not {dropout}')
        self.linear = nn.Linear(in_dim, dim)
        self.dropout = dropout

    def forward(self, x: Tensor, generator: torch.Generator) -> Tensor:
        """Float [N, in_dim] -> [N, dim]; what is left out is drawn from the CPU's generator."""
        x = F.relu(x)
        if self.training and self.dropout:
            kept = torch.rand(x.shape, generator=generator) >= self.dropout
            x = x * kept.to(x.device) / (1 - self.dropout)
        return self.linear(x)
