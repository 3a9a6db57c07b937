"""What a checkpoint was chosen by, as the checkpoint itself says."""

from __future__ import annotations

from typing import Any, NamedTuple, Optional

#: The one name of the checkpoint that a training has chosen.
BEST = 'best.pth'


class Choice(NamedTuple):
    """Why a checkpoint was chosen; stored as ``meta['chosen']``.

    Attributes:
        by: key of the metric; None: a file of an older version, which does not say.
        value: of that metric.
        on: 'val', or 'test' where that set was validated on.
        epoch, iter: how long it has been trained.
    """

    by: Optional[str]
    value: Optional[float]
    on: str
    epoch: int
    iter: int

    def in_words(self) -> str:
        """Return 'retrieval/rsum 213.04 on val, epoch 7 (step 448)'."""
        score = '' if self.by is None else f'{self.by} {self.value:.6g} '
        return f'{score}on {self.on}, epoch {self.epoch} (step {self.iter})'


def choice_of(checkpoint: dict[str, Any]) -> Optional[Choice]:
    """Return by what a checkpoint was chosen; None if it is no best one."""
    meta = checkpoint.get('meta', {})
    if isinstance(meta.get('chosen'), dict):
        return Choice(**meta['chosen'])
    info = checkpoint.get('message_hub', {}).get('runtime_info', {})  # of an older version
    if info.get('chosen_on') is None:
        return None
    steps = (meta.get('epoch', 0), meta.get('iter', 0))
    return Choice(None, info.get('best_score'), info['chosen_on'], *steps)
