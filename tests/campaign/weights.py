"""Weights with keys lost, renamed, added or reshaped: the file is named, nothing random stands in.

Whole files must load, and give what they hold bit for bit.
"""

from __future__ import annotations

import copy
import random
from pathlib import Path
from typing import Any, Callable

import torch
from mmengine.config import Config
from safetensors.torch import save_file
from torch import Tensor, nn
from transformers import CLIPConfig, CLIPModel

import toy
from campaign.trial import Trial
from mmvtr.apis import load_retriever
from mmvtr.models.towers.open_clip_weights import build_open_clip
from mmvtr.models.towers.transformers import TransformersDualText, TransformersFrames

SMALL = dict(layers=1, width=8, heads=1)
OPEN_CLIP = dict(
    embed_dim=8,
    vision_cfg=dict(layers=1, width=8, head_width=8, patch_size=8, image_size=16),
    text_cfg=dict(context_length=4, vocab_size=8, **SMALL),
)
SIZES = dict(
    hidden_size=16, intermediate_size=16, num_hidden_layers=1, num_attention_heads=2
)  # fmt: skip
TRANSFORMERS = dict(
    text_config=dict(SIZES, vocab_size=40, max_position_embeddings=8),
    vision_config=dict(SIZES, image_size=16, patch_size=8),
    projection_dim=8,
)
#: What is done to the weights; the first is nothing.
WAYS = ('whole', 'one lost', 'some lost', 'renamed', 'one more', 'other shape', 'of another model')

Weights = dict[str, Tensor]


class Reader:
    """One way to load weights: where the whole ones are, and what is loaded of a file.

    Args:
        whole: weights that fit.
        write: puts weights into a folder; returns the path that is loaded.
        load: a module from that path.
        ours: from names in the file to names in the module, of those to compare; None = the same.
    """

    def __init__(
        self,
        whole: Weights,
        write: Callable[[Weights, Path], Path],
        load: Callable[[Path], nn.Module],
        ours: dict[str, str] | None = None,
    ) -> None:
        self.whole, self.write, self.load = whole, write, load
        self.ours = {name: name for name in whole} if ours is None else ours


def _checkpoint(weights: Weights, folder: Path) -> Path:
    torch.save(dict(state_dict=weights, meta={}), folder / 'weights.pth')
    return folder / 'weights.pth'


def _bare(weights: Weights, folder: Path) -> Path:
    torch.save(weights, folder / 'weights.pt')
    return folder / 'weights.pt'


def _clip_folder(weights: Weights, folder: Path) -> Path:
    CLIPConfig(**TRANSFORMERS).save_pretrained(folder)
    tensors = {name: weight.contiguous() for name, weight in weights.items()}
    save_file(tensors, folder / 'model.safetensors', metadata=dict(format='pt'))
    return folder


def _both_towers(path: Path) -> nn.Module:
    towers = dict(frames=TransformersFrames(str(path)), text=TransformersDualText(str(path)))
    return nn.ModuleDict(towers)


def readers(folder: Path) -> dict[str, Reader]:
    """By row."""
    config = Config.fromfile(toy.write_config(folder))
    clip = build_open_clip(OPEN_CLIP).clip
    model = CLIPModel(CLIPConfig(**TRANSFORMERS))
    frames = {name for name in model.state_dict() if name.startswith('visual_projection')}
    return {
        'load_retriever': Reader(
            toy.ToyRetriever().state_dict(),
            _checkpoint,
            lambda path: load_retriever(config, path, device='cpu')[0],
        ),
        'open_clip': Reader(
            clip.state_dict(), _bare, lambda path: build_open_clip(OPEN_CLIP, str(path)).clip
        ),
        'transformers folder': Reader(
            model.state_dict(),
            _clip_folder,
            _both_towers,
            {name: 'frames.' + name.removeprefix('visual_') for name in frames},
        ),
    }


def run(count: int, seed: int, folder: Path) -> list[Trial]:
    """Spoil and load weights, the readers and the ways in turn."""
    folder.mkdir(parents=True, exist_ok=True)
    every = readers(folder)
    trials = []
    for number in range(count):
        row = list(every)[number % len(every)]
        way = WAYS[number // len(every) % len(WAYS)]
        place = folder / str(number)
        place.mkdir()
        trials.append(attempt(row, every[row], way, random.Random(f'{seed}-{number}'), place))
    return trials


def attempt(row: str, reader: Reader, way: str, draw: random.Random, folder: Path) -> Trial:
    """One file and how it was taken."""
    weights = spoil(reader.whole, way, draw)
    path = reader.write(weights, folder)
    repeat = f'{way}, {folder.name}'
    try:
        loaded = reader.load(path).state_dict()
    except (ValueError, RuntimeError) as error:
        words = str(error)
        if way == 'whole':
            return Trial(row, 'lost', f'{repeat}: {words[:300]}')
        if str(folder) not in words:
            return Trial(row, 'nameless', f'{repeat}: {words[:300]}')
        long = len(words) - len(str(path)) > 500
        return Trial(row, 'long' if long else 'refused', repeat if long else '')
    except Exception as error:
        return Trial(row, 'raw', f'{repeat}: {type(error).__name__}: {str(error)[:300]}')
    if way != 'whole':
        return Trial(row, 'silent', repeat)
    same = all(
        torch.equal(loaded[ours], weights[theirs]) for theirs, ours in reader.ours.items()
    )  # fmt: skip
    return Trial(row, 'right' if same else 'silent', '' if same else f'{repeat}: other numbers')


def spoil(whole: Weights, way: str, draw: random.Random) -> Weights:
    """Other weights, of which no loader can make the whole ones."""
    weights: dict[str, Any] = copy.copy(dict(whole))
    names = [name for name, weight in whole.items() if weight.dim() and weight.is_floating_point()]
    one = draw.choice(names)
    if way == 'one lost':
        del weights[one]
    elif way == 'some lost':
        for name in draw.sample(names, max(1, len(names) // 3)):
            del weights[name]
    elif way == 'renamed':
        weights[f'{one}_'] = weights.pop(one)
    elif way == 'one more':
        weights['more.weight'] = torch.zeros(3)
    elif way == 'other shape':
        weights[one] = torch.zeros([size + 1 for size in weights[one].shape])
    elif way == 'of another model':
        weights = {f'other.{name}': weight for name, weight in weights.items()}
    return weights
