"""Queue of each modality's last K training queries, for test-time normalisation (NCL Sec. 3.4)."""

from __future__ import annotations

from collections import deque
from typing import Any, Iterable, NamedTuple, Optional, Union

import torch
from mmengine.hooks import Hook
from mmengine.runner import Runner
from torch import Tensor, nn

from mmvtr.dist import gather_rows
from mmvtr.engine.loops.evaluation import bare
from mmvtr.functional.similarities.distinct import asked_before, distinct_rows
from mmvtr.functional.values import at_least_float32
from mmvtr.models.similarities.cosine import token_levels
from mmvtr.registry import HOOKS
from mmvtr.structures import Embedding, Levels, cat_levels, drop_tokens, take


class Queries(NamedTuple):
    """K encoded queries of one modality, the oldest first.

    Attributes:
        levels: their embeddings.
        index: int64 [K], positions of their items in the training set.
        video: int64 [K], the training video of each query (a video's is itself, that of a text with
            several is the first one).
    """

    levels: Levels
    index: Tensor
    video: Tensor

    @property
    def item_count(self) -> int:
        """Return the number of different items."""
        return len(self.index.unique())

    def one_per_item(self) -> 'Queries':
        """Return the last query of each item."""
        last = dict(zip(self.index.tolist(), range(len(self.index))))
        return self._only(torch.tensor(sorted(last.values())))

    def unique(self) -> 'Queries':
        """Return the queries without those whose embeddings equal an earlier one's."""
        return self._only(distinct_rows(means_of(self.levels)))

    def asked_before(self, levels: Levels, what: str) -> str:
        """Return a note if most queries are in this queue (transductive), else ``''``."""
        return asked_before(means_of(self.levels), means_of(levels, self.levels), what)

    def _only(self, rows: Union[Tensor, slice]) -> 'Queries':
        rows = rows if isinstance(rows, slice) else rows.to(self.index.device)
        return Queries(take(self.levels, rows), self.index[rows], self.video[rows])

    def to(self, device: torch.device) -> 'Queries':
        """Return the queries on another device."""
        levels = {name: level.map(lambda x: x.to(device)) for name, level in self.levels.items()}
        return Queries(levels, self.index.to(device), self.video.to(device))

    def last(self, count: int) -> 'Queries':
        """Return the ``count`` newest queries."""
        return self._only(slice(len(self.index) - count, None))

    def state(self) -> dict[str, Any]:
        """Return the queue as plain data, on the CPU."""
        levels, index, video = self.to(torch.device('cpu'))
        levels = {name: level._asdict() for name, level in levels.items()}
        return dict(levels=levels, index=index, video=video)

    @classmethod
    def of(cls, state: dict[str, Any]) -> 'Queries':
        """Return the queue restored from :meth:`state`."""
        levels = {name: Embedding(**level) for name, level in state['levels'].items()}
        return cls(levels, state['index'], state['video'])


def means_of(levels: Levels, names: Optional[Iterable[str]] = None) -> Tensor:
    """Return the concatenated means of all or some levels, float32 [N, D'], on the CPU."""
    means = [levels[name].mean.float().flatten(1) for name in (levels if names is None else names)]
    return torch.cat(means, dim=1).cpu()


class QueryQueue:
    """Queue of the last ``size`` queries.

    Args:
        size: K.
    """

    def __init__(self, size: int) -> None:
        if size < 1:
            raise ValueError(f'a query queue needs size >= 1, got {size}')
        self.size = size
        self._parts: deque[Queries] = deque()
        self._length = 0

    def __len__(self) -> int:
        return self._length

    def push(self, queries: Queries) -> None:
        """Add a batch; the oldest queries are dropped."""
        self._parts.append(queries)
        self._length += len(queries.index)
        while self._length > self.size:
            oldest = self._parts.popleft()
            self._length -= len(oldest.index)
            if self._length < self.size:
                self._parts.appendleft(oldest.last(self.size - self._length))
                self._length = self.size

    def queries(self) -> Optional[Queries]:
        """Return all queries; None if there are none."""
        if not self._length:
            return None
        # Queries from a resumed run's checkpoint are still on the CPU.
        parts = [part.to(self._parts[-1].index.device) for part in self._parts]
        levels = cat_levels([part.levels for part in parts])
        index = torch.cat([part.index for part in parts])
        return Queries(levels, index, torch.cat([part.video for part in parts]))


@HOOKS.register_module()
class QueryQueueHook(Hook):
    """Hook that keeps the last training queries for the hooks that normalise scores (NCL Sec. 3.4).

    It stores embeddings that training computes anyway, with the weights of their step. The
    checkpoint contains them (key ``query_queue``), for resumed runs and ``tools/test.py``. All
    processes hold the same queues, those of the joint batches.

    Args:
        size: K, of each modality (paper: 16,384).
    """

    def __init__(self, *, size: int = 16384) -> None:
        self.size = size
        self.queues = dict(text=QueryQueue(size), video=QueryQueue(size))
        self._similarity: Optional[nn.Module] = None

    def before_train(self, runner: Runner) -> None:
        model = bare(runner.model)
        self._similarity = model.similarity
        if runner.iter == 0:  # `load_from` may have loaded those of another training
            self.queues = {kind: QueryQueue(self.size) for kind in self.queues}
        model.watchers.append(self.push)

    def after_train(self, runner: Runner) -> None:
        bare(runner.model).watchers.remove(self.push)

    def push(self, texts: Levels, videos: Levels, data_samples: dict) -> None:
        """Add a joint batch of levels; ``data_samples`` are those of this process only."""
        device = next(iter(texts.values())).mean.device
        owners = data_samples['text_videos']  # [0, 0] if all items of the batch are broken
        first = owners[:, 0] if len(owners) else data_samples['text_idx']
        text, of_text, video = (
            gather_rows(index.to(device))
            for index in (data_samples['text_idx'], first, data_samples['video_idx'])
        )
        self.queues['text'].push(Queries(self._what_is_read(texts), text, of_text))
        self.queues['video'].push(Queries(self._what_is_read(videos), video, video))

    def _what_is_read(self, levels: Levels) -> Levels:
        """Return the levels that the similarity reads."""
        parts = {name: levels[name] for name in self._similarity.levels}
        parts = drop_tokens(parts, keep=token_levels(self._similarity))
        return {
            name: level.map(lambda x: at_least_float32(x) if x.is_floating_point() else x)
            for name, level in parts.items()
        }

    def before_save_checkpoint(self, runner: Runner, checkpoint: dict) -> None:
        checkpoint['query_queue'] = {
            kind: queue.queries().state() for kind, queue in self.queues.items() if len(queue)
        }

    def after_load_checkpoint(self, runner: Runner, checkpoint: dict) -> None:
        for kind, state in checkpoint.get('query_queue', {}).items():
            self.queues[kind] = QueryQueue(self.size)
            self.queues[kind].push(Queries.of(state))
