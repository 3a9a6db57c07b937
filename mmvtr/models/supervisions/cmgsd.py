"""CMGSD's margins: from what the model learns, and from what is known before."""

from __future__ import annotations

from typing import Any, Optional

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from mmvtr.functional.losses.adaptive_margin import margins_by, standard_of_products
from mmvtr.functional.values import at_least_float32, check_one_of, check_range
from mmvtr.models.blocks import Pairs
from mmvtr.models.layers.pooling import unit
from mmvtr.models.supervisions.stored_vectors import PREFIX, stored_levels
from mmvtr.models.supervisions.weights import Ramped
from mmvtr.models.target import Filled, Hinge, Target
from mmvtr.registry import MODELS
from mmvtr.structures import Levels

#: Over which entries margins are standardised.
OVER = ('matrix', 'negatives')


@MODELS.register_module()
class CMGSDSupervision(Ramped):
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
        super().__init__(ramp)
        check_range('(0, inf]', alpha=alpha)
        check_range('[0, inf]', beta=beta)
        check_one_of(OVER, over=over)
        if project is not None and not gradient:
            raise ValueError('project is learnt through the margins only: set gradient=True')
        self.level = level
        self.sentences = sentences
        self.gradient = gradient
        self.alpha = alpha
        self.beta = beta
        self.over = over
        self.unbiased = unbiased
        self.project = nn.ModuleDict()
        if project is not None:
            self.project.update({side: Projection(**project) for side in ('text', 'video')})
        self.register_buffer('step', torch.zeros((), dtype=torch.long))

    def own_levels(
        self, inputs: dict[str, Tensor], data_samples: dict, device: torch.device
    ) -> tuple[Levels, Levels]:
        """Return the sentence vectors of this process' texts."""
        names = [] if self.sentences is None else [self.sentences]
        return stored_levels(data_samples, 'text', names, device, type(self).__name__), {}

    def forward(self, texts: Levels, videos: Levels, target: Target) -> Filled:
        """Map levels of the joint batch -> target with hinges, and figures for the log."""
        margins = self._margins(texts, videos, Pairs.of(target.positives))
        share = self.faded_in
        plain = Hinge(1.0, torch.full_like(margins['omega'], self.alpha))
        factors = dict(omega=share, tau=share, static=1 - share)
        hinges = (plain, *(Hinge(factors[name], m) for name, m in margins.items()))
        count = max(target.positives.numel(), 1)
        figures = {f'margin_{name}': m.detach().sum() / count for name, m in margins.items()}
        figures['lambda'] = figures['margin_omega'].new_tensor(share)
        return target.put(hinges=hinges), figures

    def _margins(self, texts: Levels, videos: Levels, pairs: Pairs) -> dict[str, Tensor]:
        """Of each kind of dissimilarity, float [T, V]."""
        t, v = self._compared(texts, videos)
        options = dict(alpha=self.alpha, beta=self.beta, over=self.over, unbiased=self.unbiased)
        margins = dict(
            omega=margins_by_own(v, pairs, of='videos', **options),
            tau=margins_by_own(t, pairs, of='texts', **options),
        )
        if self.sentences is not None:
            s = F.normalize(texts[f'{PREFIX}{self.sentences}'].mean, dim=-1)
            margins['static'] = margins_by_own(s.to(t.dtype), pairs, of='texts', **options)
        return margins

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


def margins_by_own(
    units: Tensor,
    pairs: Pairs,
    *,
    of: str,
    alpha: float,
    beta: float,
    over: str = 'negatives',
    unbiased: bool = False,
) -> Tensor:
    """Return margins by how unlike a text's videos are to each video, or texts to each text.

    Args:
        units: of ``'videos'`` float [V, D], of ``'texts'`` float [T, D].
        pairs: the annotated ones.
        of: the side.
        alpha, beta, over, unbiased: see :class:`CMGSDSupervision`.

    Returns:
        float [T, V], margins; alpha where a text has no video, or a video no text.
    """
    index, partner = (pairs.rows, pairs.columns)[:: 1 if of == 'videos' else -1]
    known = index.bincount(minlength=pairs.shape[of == 'texts']) > 0
    # Not NaN where there are none, which in a product would reach the gradient of all others.
    own = torch.where(known[:, None], pairs.means(units, of=of), 0.0)
    place = known.cumsum(0) - 1  # who has no partner is in no pair
    left_out = (place[index], partner) if over == 'negatives' else (index[:0], partner[:0])
    # What is left of 1 - a cosine near 1 is lost in half precision.
    with torch.autocast(units.device.type, enabled=False):
        by = standard_of_products(own[known], units, left_out, unbiased=unbiased)
        x = 1 - (own @ units.t() if of == 'videos' else units @ own.t())
    nobody = ~known[:, None] if of == 'videos' else ~known
    return margins_by(by, x.masked_fill(nobody, torch.nan), alpha=alpha, beta=beta)


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
        check_range('[0, 1)', dropout=dropout)
        self.linear = nn.Linear(in_dim, dim)
        self.dropout = dropout

    def forward(self, x: Tensor, generator: torch.Generator) -> Tensor:
        """Map float [N, in_dim] -> [N, dim]; dropout is drawn from the CPU's generator."""
        x = F.relu(x)
        if self.training and self.dropout:
            kept = torch.rand(x.shape, generator=generator) >= self.dropout
            x = x * kept.to(x.device) / (1 - self.dropout)
        return self.linear(x)


@MODELS.register_module()
class AdaptiveMarginSupervision(Ramped):
    """Margins that grow with dissimilarity (CMGSD; He et al., SIGIR 2021), for a RankingLoss.

    For text t and another video n, whose own texts are t_n, and t's own video p:

        omega_tn = 1 - cos(video_p, video_n)        tau_tn = 1 - cos(text_t, text_{t_n})
        m = [alpha + beta (x - mean x) / std x]_+   for x = omega and x = tau

    on the model's own embeddings (the paper's dynamic supervision), standardised over the joint
    batch's pairs that are no match.  No gradient passes through a margin: it would let the loss
    fall by making everything alike.

    What differs: the slot of margins holds one a pair, the mean of both, where CMGSD adds a hinge
    for each; and its static supervision, tau of a frozen sentence encoder, is left out
    (CMGSDSupervision has both).  CMGSD starts with the latter and fades the dynamic one in from
    epoch 20 to 50: before, embeddings say little.  ``ramp`` fades margins in from alpha.

    Logs ``margin_std``, the standard deviation of the margins over the pairs that are no match.

    Args:
        level: of the embeddings compared.
        alpha: margin of an average pair.
        beta: how far one standard deviation moves it.
        ramp: (start, end) as shares of the training: margins go linearly from alpha to m.

    Raises:
        ValueError: an alpha that is not positive, a beta below 0, a ramp that is not ascending
            within [0, 1].
    """

    #: The slot that is there for certain losses alone (models/target.py: check_read).
    fills = 'margins'

    def __init__(
        self,
        *,
        level: str = 'global',
        alpha: float = 0.2,
        beta: float = 0.1,
        ramp: tuple[float, float] = (0.0, 0.0),
    ) -> None:
        super().__init__(ramp)
        check_range('(0, inf]', alpha=alpha)
        check_range('[0, inf]', beta=beta)
        self.level = level
        self.alpha = alpha
        self.beta = beta

    def forward(self, texts: Levels, videos: Levels, target: Target) -> Filled:
        """Map levels of the joint batch -> target with margins [T, V], and a figure for the log."""
        with torch.no_grad():
            margins = self._margins(texts, videos, Pairs.of(target.positives))
            others = margins[~target.positives].double()
        std = others.std(correction=0) if len(others) else others.sum()
        return target._replace(margins=margins), {'margin_std': std.to(margins.dtype)}

    def _margins(self, texts: Levels, videos: Levels, pairs: Pairs) -> Tensor:
        """alpha, on the way to the mean of m(omega) and m(tau): float [T, V]."""
        t, v = (unit(side[self.level].mean) for side in (texts, videos))
        options = dict(alpha=self.alpha, beta=self.beta)
        omega = margins_by_own(v, pairs, of='videos', **options)
        tau = margins_by_own(t, pairs, of='texts', **options)
        return torch.lerp(torch.full_like(omega, self.alpha), (omega + tau) / 2, self.faded_in)
