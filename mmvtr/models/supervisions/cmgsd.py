"""CMGSD's margins, from the model's own embeddings and from a frozen sentence encoder."""

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

#: Entries over which margins are standardised.
OVER = ('matrix', 'negatives')


@MODELS.register_module()
class CMGSDSupervision(Ramped):
    """Four hinges for each triplet (CMGSD; He et al., SIGIR 2021), for a SeveralHingesLoss.

        [alpha + d]_+ + lambda ([m(omega) + d]_+ + [m(tau) + d]_+) + (1 - lambda) [m(sigma) + d]_+
        m(x) = [alpha + beta (x - mean x) / std x]_+,      d = s_tn - s_tp

    omega and tau are the *current* dissimilarities of the videos and of the texts of t and n
    (dynamic), sigma that of their texts by a frozen sentence encoder (static; no code has a static
    dissimilarity of videos), all as 1 - cosine.  lambda goes from 0 to 1 over ``ramp``.

    The authors have published no code.  The equations and defaults are those of the only code
    found, by third parties for motion retrieval (MOT++), with these differences:

    - a batch is V videos and T texts: with several texts of a video, or videos of a text, the mean
      cosine counts, and an item without a partner gets alpha;
    - ``project`` reads a level of the encoder, in that code the output of the backbone below it;
      None compares the level itself (with ``gradient=False``, a ``project`` is refused);
    - dropout of the projections is drawn from the step number: the same on all processes;
    - ``ramp`` are shares of the training, in that code epochs 20 and 50 whatever its length.

    With a gradient through the margins the loss falls when all embeddings become alike; and with
    ``beta`` as in that code some 40 % of the margins are 0.  ``gradient=False`` with ``beta=0.1``,
    ``over='negatives'`` and ``unbiased=False`` is like AdaptiveMarginSupervision, which puts the
    mean of m(omega) and m(tau) into one hinge.

    Logs ``lambda`` and the mean margins ``margin_omega``, ``margin_tau`` and ``margin_static``.

    Args:
        level: level of the embeddings compared.
        sentences: name of the sentence vectors in the text pipeline of the training set
            (``dict(type='LoadVectors', side='text', stores={name: path})``, or ``WordCounts``);
            None: no static hinge.
        project: ``dict(in_dim=..., dim=256, dropout=.1)``: a ReLU, dropout and a linear map of
            ``in_dim`` to ``dim`` for videos, and one for texts.
        gradient: whether a gradient passes through the margins.
        alpha: margin of an average pair, and of the first hinge.
        beta: change of the margin per standard deviation.
        over: whether mean and deviation are those of the whole ``'matrix'`` or of the
            ``'negatives'``.
        unbiased: whether the deviation divides by one less than the number of entries.
        ramp: (start, end) of lambda as shares of the training.

    Raises:
        ValueError: an argument outside its range, or a projection without a gradient; in training:
            the batch lacks the sentence vectors.
    """

    #: Slot that needs a loss which reads it (models/target.py: check_read).
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
        """Return the margins of each kind of dissimilarity, float [T, V]."""
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
        """Return unit vectors, float [T, D] and [V, D]."""
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
    """Return margins from the dissimilarity of a text's own videos and each video, or of texts.

    Args:
        units: float [V, D] for ``'videos'``, float [T, D] for ``'texts'``.
        pairs: the annotated pairs.
        of: the side that is compared.
        alpha, beta, over, unbiased: see :class:`CMGSDSupervision`.

    Returns:
        float [T, V], margins; alpha for a text without a video, or a video without a text.
    """
    index, partner = (pairs.rows, pairs.columns)[:: 1 if of == 'videos' else -1]
    paired = index.bincount(minlength=pairs.shape[of == 'texts']) > 0
    # 0, not NaN, without a partner: in a product a NaN would reach the gradients of all others.
    means = torch.where(paired[:, None], pairs.means(units, of=of), 0.0)
    place = paired.cumsum(0) - 1  # items without a partner are in no pair
    left_out = (place[index], partner) if over == 'negatives' else (index[:0], partner[:0])
    # Half precision would lose 1 - a cosine near 1.
    with torch.autocast(units.device.type, enabled=False):
        by = standard_of_products(means[paired], units, left_out, unbiased=unbiased)
        x = 1 - (means @ units.t() if of == 'videos' else units @ means.t())
    nobody = ~paired[:, None] if of == 'videos' else ~paired
    return margins_by(by, x.masked_fill(nobody, torch.nan), alpha=alpha, beta=beta)


class Projection(nn.Module):
    """ReLU, dropout and a linear map, whose outputs are compared.

    Args:
        in_dim: width of the input.
        dim: width of the output.
        dropout: share of entries set to 0 in training.

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
            keep = torch.rand(x.shape, generator=generator) >= self.dropout
            x = x * keep.to(x.device) / (1 - self.dropout)
        return self.linear(x)


@MODELS.register_module()
class AdaptiveMarginSupervision(Ramped):
    """Margins that grow with dissimilarity (CMGSD; He et al., SIGIR 2021), for a RankingLoss.

    For text t with its own video p, and another video n with its own texts t_n:

        omega_tn = 1 - cos(video_p, video_n)        tau_tn = 1 - cos(text_t, text_{t_n})
        m = [alpha + beta (x - mean x) / std x]_+   for x = omega and x = tau

    on the model's own embeddings (the paper's dynamic supervision), standardised over the joint
    batch's non-matching pairs.  No gradient passes through a margin: it would reduce the loss by
    making all embeddings alike.

    Differences: the target has one margin a pair, the mean of both, while CMGSD adds a hinge for
    each; and CMGSD's static supervision, tau of a frozen sentence encoder, is left out
    (CMGSDSupervision has both).  CMGSD starts with the static one and fades the dynamic one in
    from epoch 20 to 50, as early embeddings carry little information.  ``ramp`` fades margins in
    from alpha.

    Logs ``margin_std``, the standard deviation of the margins over the non-matching pairs.

    Args:
        level: level of the embeddings compared.
        alpha: margin of an average pair.
        beta: change of the margin per standard deviation.
        ramp: (start, end) as shares of the training: margins go linearly from alpha to m.

    Raises:
        ValueError: an alpha that is not positive, a beta below 0, a ramp that is not ascending
            within [0, 1].
    """

    #: Slot that needs a loss which reads it (models/target.py: check_read).
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
        """Return margins between alpha and the mean of m(omega) and m(tau): float [T, V]."""
        t, v = (unit(side[self.level].mean) for side in (texts, videos))
        options = dict(alpha=self.alpha, beta=self.beta)
        omega = margins_by_own(v, pairs, of='videos', **options)
        tau = margins_by_own(t, pairs, of='texts', **options)
        return torch.lerp(torch.full_like(omega, self.alpha), (omega + tau) / 2, self.faded_in)
