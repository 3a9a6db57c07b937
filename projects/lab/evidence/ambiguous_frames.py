"""What ARL's text-frame level takes for ambiguous, where the moments are known.

    python projects/lab/evidence/ambiguous_frames.py

Videos of a few moments, each of several frames, and a caption a moment; what happens in a moment is
drawn from a common list, so other videos show it, too.  Frames and words are noisy random vectors
of what happens, frames with a share of their video's scene.  ARL trains on them up to the end of
its warm-up.  Then rules for ambiguous frames are compared on the same embeddings: how many pairs
have any, how many frames of a text's own moment a rule leaves among the negatives that are pushed
away, and how many of those it down-weights are of that moment.
"""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any, NamedTuple

import torch
from mmengine.config import Config
from torch import Tensor, nn
from torch.nn.functional import normalize

from mmvtr.models.supervisions.arl import ARLSupervision, Statistics, units_of
from mmvtr.models.target import Target
from mmvtr.registry import MODELS
from mmvtr.structures import Levels
from mmvtr.utils import register_all_modules

CONFIG = Path(__file__).parents[3] / 'configs/_base_/arl_i3d.py'
WIDTH = 64
#: Rules by name: options of ARLSupervision that a text-frame set depends on.
RULES: dict[str, dict[str, Any]] = {
    "the pairs' (u_spread 1.5), slack .05": dict(),
    'frame_u_spread 0, slack .05': dict(frame_u_spread=0.0),
    'frame_u_spread 0, slack .1': dict(frame_u_spread=0.0, frame_slack=0.1),
    'frame_u_spread 0, slack .2': dict(frame_u_spread=0.0, frame_slack=0.2),
    'frame_u_spread -1, slack .2': dict(frame_u_spread=-1.0, frame_slack=0.2),
    "the paper's (both means)": dict(rule='mean', u_spread=0.0),
}


class Corpus(NamedTuple):
    """V videos with K captions each.

    Attributes:
        frames: float [V, F, W].
        moments: int64 [V, F], 0 to K - 1.
        words: float [V K, L, W]; text t tells of moment t % K of video t // K.
    """

    frames: Tensor
    moments: Tensor
    words: Tensor

    @property
    def inputs(self) -> dict[str, Tensor]:
        """As the data preprocessor gives them."""
        return dict(
            video=self.frames,
            frame_mask=torch.ones(self.frames.shape[:2], dtype=torch.bool),
            text=self.words,
            text_mask=torch.ones(self.words.shape[:2], dtype=torch.bool),
        )

    @property
    def own(self) -> Tensor:
        """bool [V K, V]: who belongs to whom."""
        captions = len(self.words) // len(self.frames)
        return torch.arange(len(self.words))[:, None] // captions == torch.arange(len(self.frames))

    def part(self, videos: Tensor) -> Corpus:
        """Some videos and their texts."""
        captions = len(self.words) // len(self.frames)
        texts = (videos[:, None] * captions + torch.arange(captions)).flatten()
        return Corpus(self.frames[videos], self.moments[videos], self.words[texts])


def parse_args() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    add = parser.add_argument
    add('--videos', type=int, default=512)
    add('--moments', type=int, default=3, help='of a video')
    add('--frames', type=int, default=8, help='of a moment, on average')
    add('--steps', type=int, default=100, help='of warm-up')
    add('--batch', type=int, default=64, help='videos')
    add('--dim', type=int, default=128)
    add('--noise', type=float, default=2.0)
    add('--scene', type=float, default=0.5)
    add('--seeds', type=int, nargs='+', default=(0, 1, 2))
    return parser.parse_args()


def main() -> None:
    args = parse_args()
    register_all_modules()
    found: dict[str, list[list[float]]] = {name: [] for name in RULES}
    hits = []
    for seed in args.seeds:
        torch.manual_seed(seed)
        corpus = draw(args)
        model = warm_up(build(args.dim), corpus, args)
        texts, videos = encode(model, corpus)
        hits.append(hit(texts, videos, corpus))
        for name, options in RULES.items():
            found[name].append(judge(supervision(args.dim, **options), texts, videos, corpus))
    pairs, moment = args.videos * args.moments, args.frames
    print(
        f'{len(args.seeds)} seeds, {pairs} pairs, moments of {moment} frames; the best frame is of '
        f'the right moment for {mean(hits):.0f} %\n'
    )
    print('| rule | pairs with an ambiguous frame | own moment pushed away | right of the spared |')
    print('| --- | --- | --- | --- |')
    for name, rows in found.items():
        cells = ' | '.join(f'{mean(column):.0f} %' for column in zip(*rows))
        print(f'| {name} | {cells} |')


def mean(values: Any) -> float:
    """Of numbers."""
    values = list(values)
    return sum(values) / len(values)


def draw(args: argparse.Namespace) -> Corpus:
    """A corpus from torch's generator: 200 things happen, the n-th most common 1/n as often."""
    things = normalize(torch.randn(200, WIDTH), dim=-1)
    common = 1 / torch.arange(1, 201).float()
    happens = torch.stack(
        [torch.multinomial(common, args.moments) for _ in range(args.videos)]
    )  # [V, K], different ones
    # Borders between moments, somewhere near equal shares.
    total = args.moments * args.frames
    jitter = args.frames // 4
    borders = torch.arange(1, args.moments) * args.frames
    borders = borders + torch.randint(-jitter, jitter + 1, (args.videos, args.moments - 1))
    moments = (torch.arange(total) >= borders[..., None]).sum(1)
    scale = WIDTH**-0.5
    scene = args.scene * scale * torch.randn(args.videos, 1, WIDTH)
    noise = args.noise * scale * torch.randn(args.videos, total, WIDTH)
    frames = things[happens.gather(1, moments)] + scene + noise
    spoken = (things @ (scale * torch.randn(WIDTH, WIDTH)))[happens.flatten()][:, None]
    words = spoken + args.noise * scale * torch.randn(len(spoken), 4, WIDTH)
    return Corpus(frames, moments, words)


def build(dim: int) -> nn.Module:
    """The configs' ARL, narrower, without ambiguous sets."""
    model = Config.fromfile(CONFIG).model
    model.encoder.encoder.update(dim=dim, frames=dict(type='FeatureFrames', in_dim=WIDTH))
    model.encoder.encoder.text.in_dim = WIDTH
    return MODELS.build({**model, 'supervision': None})


def warm_up(model: nn.Module, corpus: Corpus, args: argparse.Namespace) -> nn.Module:
    """Some steps of the annotated losses; in eval mode after that."""
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    for _ in range(args.steps):
        batch = corpus.part(torch.randperm(args.videos)[: args.batch])
        texts, videos = model(batch.inputs, mode='tensor')
        matrices, target = model.similarity(texts, videos), Target(batch.own)
        losses = [loss(matrices, target, model.temperature()) for loss in model.losses.values()]
        optimizer.zero_grad()
        sum(losses).backward()
        optimizer.step()
    return model.eval()


@torch.no_grad()
def encode(model: nn.Module, corpus: Corpus) -> tuple[Levels, Levels]:
    """Levels of all texts and all videos."""
    return model(corpus.inputs, mode='tensor')


def supervision(dim: int, **options: Any) -> ARLSupervision:
    """The configs', with the thresholds of a rule."""
    given = Config.fromfile(CONFIG).model.supervision
    for key in ('type', 'dim', 'frame_u_spread', 'frame_slack'):
        given.pop(key, None)
    return ARLSupervision(dim=dim, **{**given, **options})


@torch.no_grad()
def judge(
    arl: ARLSupervision, texts: Levels, videos: Levels, corpus: Corpus
) -> tuple[float, float, float]:
    """The three columns of a rule, in per cent, means over both branches."""
    rows, columns = corpus.own.nonzero(as_tuple=True)
    for level in arl.levels:
        statistics = Statistics.empty(arl.dim, torch.device('cpu'))
        statistics.add(texts[level], videos[level], corpus.own)
        arl.branches[level].refresh(statistics)
    columns_of = []
    for level in arl.levels:
        q, frames, mask = units_of(texts[level], videos[level])
        scores = torch.einsum('pd,pfd->pf', q[rows], frames[columns])
        best = torch.zeros_like(scores).bool().scatter_(1, scores.argmax(1, keepdim=True), True)
        spared = arl.frame_sets(level, {level: (q, frames, mask)}, rows, columns) & ~best
        told = rows % (len(corpus.words) // len(corpus.frames))
        same = corpus.moments[columns] == told[:, None]
        same = same & ~best & (same & best).any(1, keepdim=True)  # whose best frame is right
        columns_of.append(
            (
                100 * spared.any(1).float().mean(),
                100 * (same & ~spared).sum() / same.sum(),
                100 * (same & spared).sum() / spared.sum().clamp_min(1),
            )
        )
    return tuple(mean(map(float, column)) for column in zip(*columns_of))


@torch.no_grad()
def hit(texts: Levels, videos: Levels, corpus: Corpus) -> float:
    """Per cent of the texts whose best frame is of their moment, mean over both branches."""
    rows, columns = corpus.own.nonzero(as_tuple=True)
    told = rows % (len(corpus.words) // len(corpus.frames))
    found = []
    for level in ('a', 'b'):
        q, frames, _ = units_of(texts[level], videos[level])
        best = torch.einsum('pd,pfd->pf', q[rows], frames[columns]).argmax(1)
        found.append(100 * float((corpus.moments[columns, best] == told).float().mean()))
    return mean(found)


if __name__ == '__main__':
    main()
