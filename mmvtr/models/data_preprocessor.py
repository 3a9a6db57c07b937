"""Data preprocessor: stacks V videos and T texts into padded tensors on the model's device."""

from __future__ import annotations

from functools import partial
from typing import Any, Optional, Sequence

import torch
from mmengine.model import BaseDataPreprocessor
from torch import Tensor, nn

from mmvtr.registry import MODELS


@MODELS.register_module()
class VideoTextDataPreprocessor(BaseDataPreprocessor):
    """Data preprocessor that normalises uint8 frames and pads frames and words, with masks.

    Args:
        mean, std: per RGB channel, in 0-255; unused for precomputed video features.  None: those of
            the frame tower, which the retriever sets (:meth:`normalise_as`) and checkpoints keep.
        max_frames: pad to this number instead of the longest video of the batch.
        normalise: False leaves frames as decoded, for an encoder that scales and normalises them
            itself: ``video`` is then V tensors uint8 [F, 3, H, W].

    Call: the dict of ``collate_retrieval`` -> the same dict with ``inputs`` of

    - ``video`` float [V, F, 3, H, W], [V, F, L, 3, H, W] or [V, F, D], ``frame_mask`` bool [V, F];
    - ``text`` int64 [T, L] (pad id 0) or float [T, L, D], ``text_mask`` bool [T, L]; False also on
      the padding that texts come with (``text_words``, OpenCLIPTokenize);

    each pair only if the batch holds videos or texts.  ``video_<name>`` and ``text_<name>``, which
    have one shape for all items, are stacked.

    Raises:
        ValueError: only one of ``mean`` and ``std`` is None.
    """

    def __init__(
        self,
        *,
        mean: Optional[Sequence[float]] = (122.7709, 116.7460, 104.0937),
        std: Optional[Sequence[float]] = (68.5005, 66.6322, 70.3232),
        max_frames: Optional[int] = None,
        normalise: bool = True,
    ) -> None:
        super().__init__()
        if (mean is None) != (std is None):
            raise ValueError(f'give both mean and std or neither, not mean={mean}, std={std}')
        self.of_tower = mean is None
        for name, values in (('mean', mean), ('std', std)):
            values = [torch.nan] * 3 if values is None else values
            values = torch.tensor(values).view(3, 1, 1)
            self.register_buffer(name, values, persistent=self.of_tower)
        self.max_frames = max_frames
        self.normalise = normalise

    def normalise_as(self, frames: nn.Module) -> None:
        """Take ``mean`` and ``std`` from a frame tower if they are None.

        Args:
            frames: tower with ``image_mean`` and ``image_std``, 3 floats each, of values in 0-1.

        Raises:
            ValueError: the tower has none, or they are None.
        """
        if not self.of_tower:
            return
        stats = getattr(frames, 'image_mean', None), getattr(frames, 'image_std', None)
        if None in stats:
            raise ValueError(
                f'data_preprocessor with mean=None: {type(frames).__name__} does not say how its '
                'weights want frames normalised (nor does a local file of a model with several '
                'released weights); give mean and std, 3 numbers each, in 0-255'
            )
        for buffer, values in zip((self.mean, self.std), stats):
            buffer.copy_(torch.tensor(values).view(3, 1, 1) * 255)

    def cast_data(self, data: Any) -> Any:
        """Return data with all tensors on the model's device.

        Args:
            data: nested dicts and lists; lists of strings (ids, captions) are not searched for
                tensors.
        """
        if isinstance(data, list) and data and isinstance(data[0], str):
            return data
        return super().cast_data(data)

    def forward(self, data: dict, training: bool = False) -> dict:
        data = self.cast_data(data)
        inputs = {}
        if 'video' in data['inputs']:
            video = data['inputs']['video']
            if self.normalise:
                video, inputs['frame_mask'] = pad(video, self.max_frames)
                if video.dtype == torch.uint8:
                    video = (video.float() - self.mean) / self.std
            else:
                _, inputs['frame_mask'] = pad([x.new_zeros(len(x)) for x in video], self.max_frames)
            inputs['video'] = video
        if 'text' in data['inputs']:
            inputs['text'], inputs['text_mask'] = pad(data['inputs']['text'])
        handled = {'video', 'text'}
        if 'text_words' in data['inputs']:
            words = stack('text_words', data['inputs']['text_words'])
            words = words.to(inputs['text_mask'].device)
            positions = torch.arange(inputs['text_mask'].shape[1], device=words.device)
            inputs['text_mask'] &= positions < words[:, None]
            handled.add('text_words')
        further = {name: x for name, x in data['inputs'].items() if name not in handled}
        inputs.update((name, stack(name, x)) for name, x in further.items())
        return dict(inputs=inputs, data_samples=data['data_samples'])


def stack(name: str, items: Tensor | Sequence[Tensor]) -> Tensor:
    """Stack N tensors of one shape -> [N, ...]; a tensor is returned unchanged.

    Raises:
        ValueError: their shapes differ.
    """
    if isinstance(items, Tensor):
        return items
    shapes = {tuple(x.shape) for x in items}
    if len(shapes) > 1:
        raise ValueError(f'{name!r} must be of one shape in all items, not {sorted(shapes)}')
    return torch.stack(items)


def pad(items: Tensor | Sequence[Tensor], length: Optional[int] = None) -> tuple[Tensor, Tensor]:
    """Pad N tensors [L_i, ...], or one tensor of all, with zeros -> [N, L, ...], mask bool [N, L].

    Raises:
        ValueError: an item is longer than ``length``, or widths differ.
    """
    lengths = _lengths(items)
    longest = int(lengths.max()) if len(items) else 0
    length = longest if length is None else length
    if longest > length:
        raise ValueError(f'an item has {longest} frames or words, but at most {length} are allowed')
    padded = items
    if not isinstance(items, Tensor):
        # pad_sequence fills and copies item by item, stack copies all at once.
        alike = len(items) > 0 and bool((lengths == longest).all())
        join = torch.stack if alike else partial(torch.nn.utils.rnn.pad_sequence, batch_first=True)
        padded = join(list(items))
    if length > longest:
        padded = torch.cat(
            [padded, padded.new_zeros(len(items), length - longest, *padded.shape[2:])], 1
        )
    return padded, (torch.arange(length) < lengths[:, None]).to(padded.device)


def _lengths(items: Tensor | Sequence[Tensor]) -> Tensor:
    """Return the number of frames or words of each item, int64 [N]; widths must agree."""
    if isinstance(items, Tensor):
        return torch.full((len(items),), items.shape[1])
    widths = {tuple(x.shape[1:]) for x in items}
    if len(widths) > 1:
        raise ValueError(f'frames or words of one batch are of different shapes: {sorted(widths)}')
    return torch.tensor([len(x) for x in items])
