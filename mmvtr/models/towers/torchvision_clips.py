"""torchvision's video models as towers: one vector a window of frames."""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import Any, Optional

import torch
from torch import Tensor, nn

from mmvtr.models.towers.base import Tower
from mmvtr.registry import MODELS
from mmvtr.storage.weights import check_weights, read_checkpoint, unwrapped
from mmvtr.video_models import video_model, weights_of

#: Where a model has the layer that names the classes, which goes; the widest input of it is D.
HEADS = ('fc', 'classifier', 'head')


@MODELS.register_module()
class TorchvisionClips(Tower):
    """A video model of torchvision (R3D, R(2+1)D, MC3, S3D, MViT, Video Swin) without its classes.

    Its windows come from :class:`~mmvtr.datasets.LoadClips` of the same name.  The parameters keep
    torchvision's names, behind ``net.``.

    Args:
        model: torchvision's name: ``'r3d_18'``, ``'r2plus1d_18'``, ``'s3d'``, ``'mvit_v2_s'``,
            ``'swin3d_t'`` ...
        pretrained: a tag of its weights (``'KINETICS400_V1'``), a local file of them (also of a
            model of other classes), or None for random weights.
        frozen: no gradients, always in eval mode.

    Raises:
        FileNotFoundError: ``pretrained`` looks like a file and is none.
        RuntimeError: the tag's weights cannot be downloaded; a file that cannot be read.
        ValueError: no such model or tag; weights of another model (names what differs).

    Attributes:
        dim: D.
        image_size: (height, width) of the frames.
        image_mean, image_std: 3 floats each, RGB, of values in 0-1.
        window: (fewest, most) frames of a window; most None = any number.
    """

    def __init__(
        self, model: str, pretrained: Optional[str] = None, *, frozen: bool = False
    ) -> None:
        # Imports in seconds: only where it is used.
        from torchvision.models import get_model
        from torchvision.models.video.mvit import MViT

        super().__init__(frozen=frozen)
        known = video_model(model)
        self.net = get_model(model, weights=None)
        self.head = next(name for name in HEADS if hasattr(self.net, name))
        self.dim = _width(getattr(self.net, self.head))
        setattr(self.net, self.head, nn.Identity())
        self.image_size, self.image_mean, self.image_std = known.crop, known.mean, known.std
        # MViT has a position for each frame.
        self.window = known.fewest, known.fewest if isinstance(self.net, MViT) else None
        if pretrained is not None:
            self._load(model, pretrained)
        self.apply_frozen()

    def forward(self, x: Tensor) -> Tensor:
        """Windows float [N, L, 3, H, W], normalised -> float [N, D].

        Raises:
            ValueError: single frames, frames of another size, or too few or too many in a window.
        """
        fewest, most = self.window
        length = x.shape[1] if x.ndim == 5 else 0
        if x.shape[2:] != (3, *self.image_size) or not fewest <= length <= (most or length):
            raise ValueError(
                f'TorchvisionClips takes windows [N, {fewest}{"" if most else " or more"}, 3, '
                f'{self.image_size[0]}, {self.image_size[1]}], got {list(x.shape)}: the video '
                'pipeline must be LoadClips of the same model'
            )
        return self.net(x.transpose(1, 2)).flatten(1)

    def _load(self, model: str, pretrained: str) -> None:
        path = _local(model, pretrained)
        state = read_checkpoint(path, kind='weights')['state_dict']
        own = self.net.state_dict()
        state = unwrapped(state, own.__contains__, path)
        state = {key: x for key, x in state.items() if not key.startswith(f'{self.head}.')}
        try:
            self.net.load_state_dict(check_weights(self.net, state, path))
        except RuntimeError as error:
            raise ValueError(f'pretrained weights of {model!r}: {error}') from error


def _width(head: nn.Module) -> int:
    """Of what the layer of the classes reads."""
    layers = [layer for layer in head.modules() if isinstance(layer, (nn.Linear, nn.Conv3d))]
    return layers[0].in_features if isinstance(layers[0], nn.Linear) else layers[0].in_channels


def _local(model: str, pretrained: str) -> str:
    """The file of a tag, downloaded where it is not in torch's cache; a file as it is."""
    if os.path.isfile(pretrained):
        return pretrained
    if '/' in pretrained or os.path.splitext(pretrained)[1]:
        raise FileNotFoundError(f'pretrained={pretrained[:200]!r}: there is no such file')
    tags = weights_of(model)
    if pretrained not in tags:
        raise ValueError(f'{model!r} has no weights {pretrained[:80]!r}; its tags: {[*tags]}')
    return str(_fetch(tags[pretrained]))


def _fetch(weights: Any) -> Path:
    name = weights.url.rpartition('/')[2]
    path = Path(torch.hub.get_dir(), 'checkpoints', name)
    if path.is_file():
        return path
    path.parent.mkdir(parents=True, exist_ok=True)
    digest = re.search(r'-([0-9a-f]{8,})\.', name)
    try:
        torch.hub.download_url_to_file(weights.url, str(path), digest and digest[1])
    except Exception as error:  # of the network anything
        raise RuntimeError(
            f'the weights {weights} are neither in the cache ({str(path)[-150:]}) nor can they be '
            f'downloaded: {str(error)[:80]} ... Copy the file there from a machine with network, '
            'or give its path as pretrained='
        ) from error
    return path
