"""A guide says which unannotated documents are no negatives (GISTEmbed; Solatorio, 2024).

The guide reads what it can: documents that are texts, and in place of a video or an image the text
that it is annotated with.
"""

from __future__ import annotations

from typing import Any, Optional, Sequence

import torch
import torch.nn.functional as F
from torch import Tensor

from mmvtr.models.blocks import BlockSupervision
from mmvtr.models.pairs import Pairs
from mmvtr.models.target import Target
from mmvtr.structures import Levels

#: The level of the guide's vectors.
LEVEL = 'guide'


class GuideSupervision(BlockSupervision):
    """Weight 0 for what a guide finds about as near to a text as its own document.

        w_tv = 0 where g_tv > g_t - margin   (absolute; relative: g_t - margin |g_t|), else 1

    g is the cosine of the guide's vectors (level ``'guide'``), g_t the best one of an own document.
    Where videos are judged by their texts g_t is 1, and the margin says how unlike two texts may
    be: .3 takes texts of cosine above .7 for such of one video.

    Logs ``guided_per_text``, how many documents a text loses as negatives.

    Args:
        margin: 0 or more, in cosines or as a share.
        strategy: ``'absolute'`` or ``'relative'``.

    Raises:
        ValueError: an unknown strategy, a negative margin.
    """

    fills = 'weights'  # models/target.py: check_read

    def __init__(self, *, margin: float = 0.0, strategy: str = 'absolute') -> None:
        super().__init__()
        if strategy not in ('absolute', 'relative'):
            raise ValueError(f"strategy must be 'absolute' or 'relative', not {strategy!r}")
        if not margin >= 0:
            raise ValueError(f'margin must be at least 0, not {margin}')
        self.margin = margin
        self.strategy = strategy

    @torch.no_grad()
    def begin(self, texts: Levels, videos: Levels, pairs: Pairs) -> dict[str, Tensor]:
        """Unit vectors or zeros, and ``own`` [T], the best score with an own document, or inf."""
        t, v = (F.normalize(side[LEVEL].mean.float(), dim=1) for side in (texts, videos))
        own, _ = pairs.best((t[pairs.rows] * v[pairs.columns]).sum(1))
        return dict(texts=t, documents=v, own=own.masked_fill(own.isinf(), torch.inf))

    @torch.no_grad()
    def block(
        self, begun: dict[str, Tensor], rows: slice, target: Target
    ) -> tuple[Target, dict[str, Tensor]]:
        """The target of the texts ``rows`` -> the same with weights, and sums."""
        scores, own = begun['texts'][rows] @ begun['documents'].T, begun['own'][rows, None]
        slack = self.margin if self.strategy == 'absolute' else self.margin * own.abs()
        spared = (scores > own - slack) & ~target.positives & own.isfinite()
        weights = (~spared).to(scores.dtype)
        if target.weights is not None:
            weights = weights * target.weights
        sums = dict(spared=spared.sum().to(scores.dtype), texts=scores.new_tensor(len(scores)))
        return target._replace(weights=weights), sums

    def finish(self, begun: dict[str, Tensor], sums: dict[str, Tensor]) -> dict[str, Tensor]:
        """Sums over all blocks -> the figure for the log."""
        return {'guided_per_text': sums['spared'] / sums['texts'].clamp_min(1)}


class Reader:
    """Gives a guide the texts of a batch, which reach a loss as ids of the student's tokenizer.

    Args:
        guide: with ``encode(list of str, convert_to_tensor=True)``, as a SentenceTransformer has;
            any tokenizer.
        tokenizer: the student's.
    """

    def __init__(self, guide: Any, tokenizer: Any) -> None:
        if not hasattr(tokenizer, 'batch_decode'):
            raise ValueError('a guide reads texts, and this model has no tokenizer to read them by')
        self.guide, self.tokenizer = guide, tokenizer

    @torch.no_grad()
    def read(self, columns: Sequence[dict[str, Any]]) -> list[Tensor]:
        """The guide's vectors of each column, float [N, D].

        Args:
            columns: features of the texts, of their documents, and of hard negatives.

        Returns:
            zeros for hard negatives that are no texts: the guide says nothing of these.

        Raises:
            ValueError: the first column has no texts.
        """
        texts = self._encode(columns[0])
        if texts is None:
            raise ValueError(
                'a guide reads texts, and the first column has none: make the texts the first one'
            )
        found = [texts]
        for number, column in enumerate(columns[1:]):
            vectors = self._encode(column)
            if vectors is None:
                vectors = texts if number == 0 else torch.zeros_like(texts)
            found.append(vectors)
        return found

    def _encode(self, column: dict[str, Any]) -> Optional[Tensor]:
        if not is_text(column):
            return None
        texts = self.tokenizer.batch_decode(column['input_ids'], skip_special_tokens=True)
        vectors = self.guide.encode(texts, convert_to_tensor=True, show_progress_bar=False)
        return torch.as_tensor(vectors).clone().to(column['input_ids'].device, torch.float32)


def is_text(column: dict[str, Any]) -> bool:
    """Whether the features of a column are those of texts alone."""
    seen = any(key.startswith(('pixel_values', 'input_features', 'input_values')) for key in column)
    return 'input_ids' in column and not seen
