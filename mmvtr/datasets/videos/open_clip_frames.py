"""A frame transform for every model of open_clip: to the size that it wants, in its own way."""

from __future__ import annotations

from typing import Any, Optional

from mmcv.transforms import BaseTransform

from mmvtr.datasets.videos.resizing import resize, resize_short_side
from mmvtr.datasets.videos.transforms import CenterCrop, refuse_smaller_store
from mmvtr.registry import TRANSFORMS

Results = dict[str, Any]


@TRANSFORMS.register_module()
class OpenCLIPResize(BaseTransform):
    """Scale ``imgs`` to a model's frames, as open_clip does at test time.

    CLIP's short side is scaled and the centre cut; SigLIP, PE and CLIPA are given the whole frame,
    squashed to a square.  The model also says which interpolation.

    Args:
        model: name, ``local-dir:FOLDER`` or config dict, as of the frame tower.
        tag: of the weights, for models whose weights differ in this (ViT-H-14).

    Raises:
        ValueError: an unknown model or tag, a model whose tags differ, or a way of scaling that is
            not known here.
    """

    def __init__(self, model: str | dict, tag: Optional[str] = None) -> None:
        # Imports in seconds: only where it is used.
        from mmvtr.open_clip_configs import preprocessing

        known = preprocessing(model, tag)
        self.size, self.mode = known.size, known.interpolation
        self.squash = known.resize_mode == 'squash'
        if known.resize_mode not in ('squash', 'shortest') or self.mode == 'random':
            raise ValueError(
                f'OpenCLIPResize knows no resize_mode={known.resize_mode!r} with interpolation='
                f'{self.mode!r}: take ResizeShortSide and CenterCrop'
            )
        if not self.squash and self.size[0] != self.size[1]:
            raise ValueError(f'OpenCLIPResize cuts squares only, not {self.size}')

    def transform(self, results: Results) -> Results:
        """``imgs`` [H, W, 3] -> [height, width, 3] of the model."""
        short = min(self.size)
        refuse_smaller_store(results, short, f'OpenCLIPResize to {list(self.size)}')
        if self.squash:
            results['imgs'] = resize(results['imgs'], self.size, mode=self.mode)
            return results
        results['imgs'] = resize_short_side(results['imgs'], short, mode=self.mode)
        return CenterCrop(short).transform(results)
