"""A transformer over the rows of many experts, shared by MMT, HiT and TACo.

Padding is never read: a row beyond the mask has no expert, and an expert reads its own width only.
"""

from __future__ import annotations

from torch import Tensor, nn

from mmvtr.functional.values import at_least_float32
from mmvtr.models.layers.experts import check_width, row_tags
from mmvtr.models.layers.pooling import check_mask
from mmvtr.registry import build

#: Rows of the time embedding table before those of the seconds.
AGGREGATED, UNKNOWN = 0, 1


class ExpertTransformer(nn.Module):
    """Base class: rows of experts projected to D, with expert and time embeddings, and BERT blocks.

    A subclass runs the blocks on chosen rows, and encodes the text.

    Args:
        text: text tower, kept as ``text``.
        experts: width of the features of each expert, by name.
        dim: D.
        layers, heads, feedforward, dropout: settings of the transformer.
        max_seconds: rows of the time embedding table for seconds.

    Raises:
        ValueError: no experts, or a ``dim`` that is no multiple of ``heads``.
    """

    def __init__(
        self,
        text: dict | nn.Module,
        *,
        experts: dict[str, int],
        dim: int = 512,
        layers: int = 4,
        heads: int = 4,
        feedforward: int = 3072,
        dropout: float = 0.1,
        max_seconds: int = 32,
    ) -> None:
        super().__init__()
        if not experts or dim % heads:
            raise ValueError(
                f'{type(self).__name__} needs an expert and a dim that is a multiple of heads, got '
                f'experts {sorted(experts)}, dim {dim} and heads {heads}'
            )
        self.experts = dict(sorted(experts.items()))
        self.dim = dim
        self.project = nn.ModuleDict({e: nn.Linear(w, dim) for e, w in self.experts.items()})
        self.expert_embedding = nn.Embedding(len(experts), dim)
        self.time_embedding = nn.Embedding(UNKNOWN + 1 + max_seconds, dim)
        self.norm, self.dropout = nn.LayerNorm(dim, eps=1e-12), nn.Dropout(dropout)
        self.blocks = nn.ModuleList(
            nn.TransformerEncoderLayer(
                dim, heads, feedforward, dropout, 'gelu', layer_norm_eps=1e-12, batch_first=True
            )
            for _ in range(layers)
        )
        self.apply(init_as_bert)
        self.text = build(text)

    def rows(
        self, video: Tensor, frame_mask: Tensor, expert: Tensor, second: Tensor
    ) -> tuple[Tensor, Tensor, Tensor]:
        """Prepare the rows of V videos for the blocks.

        Args:
            video: float [V, F, W], rows of all experts in any order; of a row of an expert of width
                w the first w values are read, and W is the largest width.
            frame_mask: bool [V, F], True on valid rows.
            expert: int64 [V, R] with R >= F, the number of the expert of each row.
            second: int64 [V, R], the time of each row, -1 if unknown.

        Returns:
            projected rows float [V, F, D], zero at padding; embeddings of their tags, float
            [V, F, D], to be added; and the expert of each row, int64 [V, F], ``len(experts)`` at
            padding.

        Raises:
            ValueError: another width, an unknown expert or a second outside the table, or a video
                without a valid row (its index is named).
        """
        check_mask(frame_mask, 'frame_mask')
        # Padding gets the number after the last expert.
        count, who = len(self.experts), dict(encoder=type(self).__name__)
        expert = row_tags('expert', expert, frame_mask, range(count), fill=count, **who)
        times = range(-1, self.time_embedding.num_embeddings - UNKNOWN - 1)
        second = row_tags('second', second, frame_mask, times, fill=-1, **who)
        rows = self._project(at_least_float32(video), expert)
        tags = self.expert_embedding(expert.clamp(max=len(self.experts) - 1))
        return rows, tags + self.time_embedding(second + UNKNOWN + 1), expert

    def _project(self, video: Tensor, expert: Tensor) -> Tensor:
        """Project float [V, F, W] by expert int64 [V, F] -> float [V, F, D], zero at padding."""
        check_width(video, self.experts, type(self).__name__)
        rows = video.new_zeros(*expert.shape, self.dim)
        for number, (linear, width) in enumerate(zip(self.project.values(), self.experts.values())):
            own = expert == number
            rows[own] = at_least_float32(linear(video[own][:, :width]))
        return rows


def init_as_bert(module: nn.Module) -> None:
    """Initialise all matrices and embedding tables by N(0, .02), biases by 0."""
    if isinstance(module, (nn.Linear, nn.Embedding)):
        nn.init.normal_(module.weight, std=0.02)
    if isinstance(module, nn.MultiheadAttention):
        nn.init.normal_(module.in_proj_weight, std=0.02)
    if isinstance(module, nn.Linear) and module.bias is not None:
        nn.init.zeros_(module.bias)
