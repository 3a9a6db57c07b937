"""Sigma for the vectors of a frozen encoder, from the pairs alone (ProbVLM; Upadhyay et al., 2023).

A small network a side learns a distribution of the vectors of an item and of its partners.  Where
these cannot be told well from the item's own vector, it is wide.
"""

from __future__ import annotations

import copy
from typing import Any, NamedTuple, Optional

import numpy as np
import torch
from torch import Tensor, nn

from mmvtr.arrays.inputs import Vectors, check_width, read_vectors
from mmvtr.functional.uncertainty.gaussian import (
    bounded,
    generalised_gaussian_nll,
    generalised_gaussian_std,
    geometric_sigma,
)

#: Bounds of log alpha, and of log beta: from a peak with long tails to nearly a box.
LOG_ALPHA, LOG_BETA = (-7.0, 7.0), (-1.4, 1.4)


class Distribution(NamedTuple):
    """Generalised Gaussians of N items, of vectors whose entries have a mean square of 1.

    Attributes:
        mean: float [N, D].
        log_alpha: float [N, D].
        beta: float [N, D].
    """

    mean: Tensor
    log_alpha: Tensor
    beta: Tensor

    def nll(self, targets: Tensor, form: str = 'density') -> Tensor:
        """Mean negative log likelihood of float [N, D]: 0-dim."""
        return generalised_gaussian_nll(
            self.mean - targets, self.log_alpha, self.beta, form=form
        ).mean()


class SigmaHead(nn.Module):
    """Vectors of one side -> their distribution, by one hidden layer.

    Args:
        dim: D.
        hidden: width of the layer.
        dropout: share of it that is dropped in training.
    """

    def __init__(self, dim: int, *, hidden: int, dropout: float) -> None:
        super().__init__()
        self.trunk = nn.Sequential(nn.Linear(dim, hidden), nn.ReLU(), nn.Dropout(dropout))
        self.mean = nn.Linear(hidden, dim)
        self.log_alpha, self.log_beta = nn.Linear(hidden, dim), nn.Linear(hidden, dim)

    def forward(self, x: Tensor) -> Distribution:
        """Float [N, D] -> N distributions."""
        hidden = self.trunk(x)
        log_alpha = bounded(self.log_alpha(hidden), *LOG_ALPHA)
        beta = bounded(self.log_beta(hidden), *LOG_BETA).exp()
        return Distribution(self.mean(hidden), log_alpha, beta)


class FrozenSigma(nn.Module):
    """A head for texts and one for videos, as :func:`fit_sigma` has trained them.

    Attributes:
        epochs: how many were kept.
    """

    def __init__(self, dim: int, *, hidden: int = 256, dropout: float = 0.1) -> None:
        super().__init__()
        how = dict(hidden=hidden, dropout=dropout)
        self.heads = nn.ModuleDict({side: SigmaHead(dim, **how) for side in ('text', 'video')})
        self.dim = dim
        self.epochs = 0

    def distribution(self, vectors: Any, side: str) -> Distribution:
        """Of ``vectors`` [N, D], numpy or torch, of ``side`` ``'text'`` or ``'video'``.

        Raises:
            TypeError, ValueError: as :func:`mmvtr.retrieve`; an unknown side.
        """
        if side not in self.heads:
            raise ValueError(f"side must be 'text' or 'video', not {side!r}")
        found = read_vectors(vectors, f'{side} vectors')
        if vectors.shape[1] != self.dim:
            raise ValueError(f'{side} vectors have width {vectors.shape[1]}, not {self.dim}')
        self.eval()
        with torch.no_grad():
            return self.heads[side](_scaled(found))

    def sigma(self, vectors: Any, side: str) -> Any:
        """Uncertainty of each item: the geometric mean of its standard deviations.

        Args:
            vectors: numpy or torch, float [N, D], of any length but 0.
            side: ``'text'`` or ``'video'``.

        Returns:
            float32 [N], as ``vectors`` are; of vectors whose entries have a mean square of 1.

        Raises:
            TypeError, ValueError: see :meth:`distribution`.
        """
        found = self.distribution(vectors, side)
        sigma = geometric_sigma(generalised_gaussian_std(found.log_alpha, found.beta))
        return sigma.numpy() if isinstance(vectors, np.ndarray) else sigma.to(vectors.device)

    def nll(self, texts: Tensor, videos: Tensor, *, cross: float, form: str) -> Tensor:
        """Of pairs of scaled vectors, float [N, D] each: 0-dim."""
        sides = dict(text=(texts, videos), video=(videos, texts))
        losses = []
        for side, (own, partner) in sides.items():
            found = self.heads[side](own)
            losses.append(found.nll(own, form) + cross * found.nll(partner, form))
        return sum(losses) / 2


def fit_sigma(
    texts: Any,
    videos: Any,
    *,
    cross: float = 1.0,
    form: str = 'density',
    hidden: int = 256,
    dropout: float = 0.1,
    epochs: int = 200,
    patience: int = 20,
    batch_size: int = 256,
    lr: float = 1e-3,
    held_out: float = 0.1,
    seed: int = 0,
) -> FrozenSigma:
    """Train heads that say how uncertain a frozen encoder's vectors are; a minute on a CPU.

    Each side's distribution is fitted to its own vectors and, weighed by ``cross``, to those of the
    partners, by the likelihood of a generalised Gaussian.  Vectors are divided by their lengths.
    A part of the pairs is held out: the epoch of its best likelihood is kept.

    Args:
        texts: numpy or torch, [N, D], of any length but 0; row i of both is one pair.
        videos: [N, D].
        cross: weight of the likelihood of the partner.
        form: of the likelihood, see
            :func:`~mmvtr.functional.uncertainty.gaussian.generalised_gaussian_nll`.
        hidden: width of the hidden layer.
        dropout: in it.
        epochs: at most.
        patience: epochs without a better likelihood of the held-out pairs before the end.
        batch_size: pairs.
        lr: of Adam.
        held_out: share of the pairs.
        seed: of the weights, the dropout, the batches and what is held out.

    Raises:
        TypeError: arrays that are neither numpy nor torch.
        ValueError: arrays of another shape, fewer than 20 pairs, or an option out of range.

    Example:
        ::

            >>> import numpy as np
            >>> texts = np.random.default_rng(0).normal(size=(40, 8))
            >>> model = fit_sigma(texts, texts, epochs=2)
            >>> model.sigma(texts, 'text').shape
            (40,)
    """
    t, v = read_vectors(texts, 'texts'), read_vectors(videos, 'videos')
    check_width(v, texts.shape[1], 'videos')
    if len(t) != len(v) or len(t) < 20:
        raise ValueError(
            f'{len(t)} texts and {len(v)} videos: row i of both is a pair, 20 at least'
        )
    if not 0 < held_out < 1 or cross < 0 or min(epochs, patience, batch_size) < 1:
        raise ValueError(
            'held_out must lie in (0, 1), cross be at least 0, epochs, patience and batch_size 1: '
            f'got {held_out}, {cross}, {epochs}, {patience}, {batch_size}'
        )
    pairs, how = torch.stack([_scaled(t), _scaled(v)]), dict(cross=cross, form=form)
    with torch.random.fork_rng(devices=[]), torch.enable_grad():
        torch.manual_seed(seed)
        order = torch.randperm(len(t))
        kept = max(2, round(held_out * len(t)))
        judge, train = pairs[:, order[:kept]], pairs[:, order[kept:]]
        model = FrozenSigma(texts.shape[1], hidden=hidden, dropout=dropout)
        optimizer = torch.optim.Adam(model.parameters(), lr=lr)
        best: tuple[float, Optional[dict[str, Tensor]]] = (float('inf'), None)
        for epoch in range(1, epochs + 1):
            model.train()
            for some in torch.randperm(train.shape[1]).split(batch_size):
                optimizer.zero_grad()
                model.nll(*train[:, some], **how).backward()
                optimizer.step()
            model.eval()
            with torch.no_grad():
                nll = model.nll(*judge, **how).item()
            if nll < best[0]:
                best, model.epochs = (nll, copy.deepcopy(model.state_dict())), epoch
            if epoch - model.epochs >= patience:
                break
    if best[1] is None:
        raise ValueError('the likelihood is never finite: a smaller lr is needed')
    model.load_state_dict(best[1])
    return model.eval()


def _scaled(vectors: Vectors) -> Tensor:
    """Of unit mean square, float32 [N, D]."""
    unit = vectors.unit().cpu()  # the heads are small, and stay there
    return unit * unit.shape[1] ** 0.5
