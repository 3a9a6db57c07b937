"""Small trained towers over frozen features, and controls that only a study wants."""

from __future__ import annotations

import copy
import json
import random
from pathlib import Path
from typing import Any, Mapping, Sequence

import torch
from judged import crowd_pairs
from study_parts.caption_items import CaptionWords
from torch import Tensor, nn

from mmvtr.datasets import TableDataset, collate_retrieval
from mmvtr.datasets.items import item_key
from mmvtr.datasets.records import Records
from mmvtr.datasets.videos.feature_stores import open_store
from mmvtr.models.layers.pooling import mean_of_units
from mmvtr.models.supervisions.dvtr import DVTRSupervision
from mmvtr.models.target import Target
from mmvtr.registry import DATASETS, FUNCTIONS, MODELS, TASK_UTILS, TRANSFORMS
from mmvtr.structures import Levels


def mapping(in_dim: int, dim: int, hidden: int, dropout: float) -> nn.Sequential:
    """One hidden layer."""
    return nn.Sequential(
        nn.Dropout(dropout),
        nn.Linear(in_dim, hidden),
        nn.ReLU(),
        nn.Dropout(dropout),
        nn.Linear(hidden, dim),
    )


@MODELS.register_module()
class SmallFrames(nn.Module):
    """A frame tower of one hidden layer: float [N, in_dim] -> [N, dim]."""

    def __init__(self, in_dim: int, dim: int, *, hidden: int = 384, dropout: float = 0.1) -> None:
        super().__init__()
        self.dim = dim
        self.layers = mapping(in_dim, dim, hidden, dropout)

    def forward(self, x: Tensor) -> Tensor:
        return self.layers(x)


@MODELS.register_module()
class SmallText(nn.Module):
    """A text tower of one hidden layer over stored vectors [T, L, in_dim]."""

    def __init__(self, in_dim: int, dim: int, *, hidden: int = 384, dropout: float = 0.1) -> None:
        super().__init__()
        self.dim = dim
        self.layers = mapping(in_dim, dim, hidden, dropout)

    def forward(self, x: Tensor, mask: Tensor) -> tuple[Tensor, Tensor]:
        """Words, float [T, L, dim], and the text, [T, dim]."""
        words = x.new_zeros(*mask.shape, self.dim)
        words[mask] = self.layers(x[mask])
        return words, words[:, 0] if x.shape[1] == 1 else mean_of_units(words, mask)


@MODELS.register_module()
class WordGRU(nn.Module):
    """A text tower from scratch, a table of words and a GRU, as of VSE++ (HGR: both directions).

    Args:
        words: in the table, ids from 0.
        in_dim: of a word.
    """

    def __init__(self, words: int, dim: int, *, in_dim: int = 128, dropout: float = 0.1) -> None:
        super().__init__()
        self.dim = dim
        self.table, self.dropout = nn.Embedding(words, in_dim), nn.Dropout(dropout)
        self.rnn = nn.GRU(in_dim, dim, batch_first=True)

    def forward(self, x: Tensor, mask: Tensor) -> tuple[Tensor, Tensor]:
        """States after each word, float [T, L, dim], of ids int64 [T, L]; their mean, [T, dim]."""
        states, _ = self.rnn(self.dropout(self.table(x)))
        return states, mean_of_units(states, mask)


@MODELS.register_module()
class PermutedDVTR(DVTRSupervision):
    """A control: DVTR's weights, permuted over the unannotated pairs of the batch."""

    def forward(self, texts: Levels, videos: Levels, target: Target) -> tuple[Target, dict]:
        found, logs = super().forward(texts, videos, target)
        return found._replace(weights=permuted(found.weights, found.positives)), logs


def permuted(weights: Tensor, positives: Tensor) -> Tensor:
    """Weights [T, V] whose unannotated entries have changed places."""
    others = weights[~positives]
    weights = weights.clone()
    weights[~positives] = others[torch.randperm(len(others))]
    return weights


@DATASETS.register_module()
class KeptTable(TableDataset):
    """A TableDataset that is read once: batches are rows of all items together.

    Only which text of a video is drawn is random.
    """

    def __getitem__(self, key: Any) -> dict[str, Any]:
        v, texts = self._of_key(key)
        return dict(video=self.load_video(v), texts=[self.load_text(t) for t in texts])

    def __getitems__(self, keys: Sequence[Any]) -> dict[str, Any]:
        """A batch, as collate_retrieval makes it of these items; a DataLoader asks for this."""
        drawn = [self._of_key(key) for key in keys]
        return self.rows([v for v, _ in drawn], [t for _, own in drawn for t in own])

    def rows(self, videos: Sequence[int], texts: Sequence[int]) -> dict[str, Any]:
        """A batch of some videos and texts."""
        rows = dict(video=[*videos], text=[*texts], environment=[*videos], broken=[])
        return {
            part: {name: _rows(x, rows[name.partition('_')[0]]) for name, x in own.items()}
            for part, own in self.everything().items()
        }

    def everything(self) -> dict[str, Any]:
        """All videos and texts in one batch."""
        if '_everything' not in self.__dict__:
            videos = [self.load_video(v) for v in range(len(self.videos))]
            texts = [self.load_text(t) for t in range(len(self.texts))]
            self._everything = collate_retrieval([*videos, *texts])
        return self._everything

    def with_vectors(self, **vectors: tuple[Tensor, Tensor]) -> KeptTable:
        """The same with a vector of each text [T, D] and of each video [V, D] by name."""
        found, everything = copy.copy(self), self.everything()
        samples = dict(everything['data_samples'])
        for side, n in (('text', 0), ('video', 1)):
            own = {name: both[n][:, None] for name, both in vectors.items()}
            samples[f'{side}_vectors'] = {**samples.get(f'{side}_vectors', {}), **own}
        found._everything = dict(everything, data_samples=samples)
        return found

    def _of_key(self, key: Any) -> tuple[int, list[int]]:
        """The video and the texts of an item."""
        key = item_key(key)
        v = self.videos_with_text[key.index]
        own = self.texts_of[v]
        draw = random.Random(f'{key.seed} {key.epoch} {key.index}')
        return v, [draw.choice(own)] if self.epoch_unit == 'video' else own


def _rows(values: Any, rows: Sequence[int]) -> Any:
    """Some rows of a tensor, of a list, or of each of a dict."""
    if isinstance(values, Mapping):
        return {name: _rows(x, rows) for name, x in values.items()}
    return values[rows] if isinstance(values, Tensor) else [values[row] for row in rows]


@FUNCTIONS.register_module()
def as_read(batch: Any) -> Any:
    """The collation of what is a batch already."""
    return batch


@TRANSFORMS.register_module()
class WordsAndSentence(CaptionWords):
    """Ids of the words of a text, and its stored vector as ``text_extra['sentence']``.

    Args:
        words, max_words: as of CaptionWords.
        path: store of one row a text.
    """

    def __init__(self, words: str, path: str, *, max_words: int) -> None:
        super().__init__(words, max_words=max_words)
        self.store = open_store(Path(path))

    def transform(self, results: dict) -> dict:
        """``text``, ``text_id`` -> ``token_ids`` int64 [L], ``text_extra`` with float32 [E]."""
        vector = torch.from_numpy(self.store.read(results['text_id'])[0].astype('f4'))
        results['text_extra'] = {**results.get('text_extra', {}), 'sentence': vector}
        return super().transform(results)


@TASK_UTILS.register_module()
class VideoFacts:
    """Adds ``duration`` in seconds and ``actions``, a category in place of an action, to videos.

    Args:
        path: of what :func:`sets.prepare` has written.
    """

    def __init__(self, path: str) -> None:
        self.path = path

    def __call__(self, videos: Records, texts: Records) -> tuple[Records, Records]:
        facts = json.loads(Path(self.path).read_text())['facts']
        for video in videos:
            seconds, category = facts[video['video_id']]
            video.update(duration=seconds, actions=[(0, category)])
        return videos, texts


@TASK_UTILS.register_module()
class JudgedTruth:
    """Adds ``true_videos`` to texts: what people call a match, for an oracle.

    Args:
        data: folder of the data.
        wrong: a control: as many pairs that people judged and refused.
    """

    def __init__(self, data: str, *, wrong: bool = False) -> None:
        self.data, self.wrong = data, wrong

    def __call__(self, videos: Records, texts: Records) -> tuple[Records, Records]:
        pairs = crowd_pairs(Path(self.data))
        yes = [pair for pair, share in pairs.items() if share > 0.5]
        if self.wrong:
            no = sorted(pair for pair, share in pairs.items() if share <= 0.5)
            order = torch.randperm(len(no), generator=torch.Generator().manual_seed(0))
            yes = [no[n] for n in order[: len(yes)]]
        place = {video['video_id']: n for n, video in enumerate(videos)}
        true: dict[str, list[int]] = {}
        for text, video in yes:
            if video in place:
                true.setdefault(text, []).append(place[video])
        for text in texts:
            text['true_videos'] = sorted({*text['video_idx'], *true.get(text['text_id'], ())})
        return videos, texts
