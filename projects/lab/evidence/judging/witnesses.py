"""What a trained model tells of judged pairs: scores, spreads, its supervision's weights."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch
from study_parts.flickr8k import Flickr8kCaptionsDataset
from torch import Tensor, nn

from mmvtr.apis import load_retriever
from mmvtr.datasets import CaptionAgreement
from mmvtr.datasets.records import Records
from mmvtr.datasets.sampling.collate import collate_retrieval
from mmvtr.engine.loop.earlier_runs import best_in
from mmvtr.models.annotation import annotated_target
from mmvtr.registry import DATASETS

#: Captions that speak for an item in agreement, as in training: those that ask there.
SPEAK = (3, 4)


class HeldOutAgreement(CaptionAgreement):
    """Agreement of the judged captions with test items, as training has it.

    An item is known by its captions #3 and #4, which the model does not see; words are learnt from
    those of train and test items.  A caption that asks is alone with a video, and so teaches none.

    Args:
        root: folder of Flickr8k.
        **kwargs: of the class.
    """

    def __init__(self, root: str, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.root = root

    def __call__(self, videos: Records, texts: Records) -> tuple[Records, Records]:
        all_videos: list[dict[str, Any]] = []
        all_texts: list[dict[str, Any]] = []
        for split in ('train', 'test'):
            own = Flickr8kCaptionsDataset(
                split, ann_root=self.root, asks=SPEAK, video_pipeline=[], text_pipeline=[]
            )
            first = len(all_videos)
            all_videos += [{} for _ in own.videos]
            for text in own.texts:
                owner = [first + video for video in text['video_idx']]
                all_texts.append(dict(text=text['text'], video_idx=owner))
        items = all_videos[first:]
        for text in texts:
            all_texts.append(dict(text=text['text'], video_idx=[len(all_videos)]))
            all_videos.append({})
        super().__call__(all_videos, all_texts)
        for records, known in ((videos, items), (texts, all_texts[-len(texts) :])):
            for record, one in zip(records, known, strict=True):
                record['agreement'] = one['agreement']
        return videos, texts


def test_batch(config: Any, root: str) -> dict[str, Any]:
    """The judged captions and items as one batch, with agreement, for the config's pipelines."""
    dataset = DATASETS.build(
        dict(
            config.test_dataloader.dataset,
            ann_root=root,
            judgments=None,
            records=dict(agreement=HeldOutAgreement(root)),
        )
    )
    return collate_retrieval([dataset[n] for n in range(len(dataset))])


def load(folder: Path) -> tuple[nn.Module, Any]:
    """The model of a training, at its best epoch, and its config."""
    (config,), (best,) = folder.glob('*.py'), best_in(folder)
    return load_retriever(config, best, device='cpu')


def held_out_agreement(batch: dict[str, Any]) -> Tensor:
    """Of the texts with the items of a batch, float [T, V]."""
    return annotated_target(batch['data_samples'], torch.device('cpu')).known.agreement


@torch.no_grad()
def witnesses(model: nn.Module, batch: dict[str, Any]) -> dict[str, Tensor]:
    """How likely each pair is right, by what says so: float [T, V] each.

    ``score``; of heads ``sigma of the text`` and ``sigma of the item``, the mean log standard
    deviation (broad is general); DVTR's ``p``, its match probability; ``weight``, what the
    supervision takes away from a negative's weight, knowing the annotated pairs as in training;
    ``agreement``, where it reads that.
    """
    batch = model.data_preprocessor(batch, False)
    texts, videos = model(**batch, mode='tensor')
    matrices = model.score(texts, videos)
    found = {'score': matrices['scores']}
    if 'gaussian' in texts:
        t, v = (side['gaussian'].log_std.mean(-1) for side in (texts, videos))
        found['sigma of the text'] = t[:, None].expand(len(t), len(v))
        found['sigma of the item'] = v.expand(len(t), len(v))
    if 'eta' in matrices:
        found['p'] = 1 - matrices['eta']
    if model.supervision is not None:
        known = annotated_target(batch['data_samples'], found['score'].device)
        model.supervision.progress = 1.0
        target, _ = model.supervision(texts, videos, known)
        found['weight'] = 1 - target.weights
        asked = [model.supervision, *getattr(model.supervision, 'parts', {}).values()]
        if any(getattr(part, 'agreement', 0) for part in asked):
            found['agreement'] = known.agreement
    return found
