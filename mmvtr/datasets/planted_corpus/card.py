"""The data card of a planted corpus: what is in its folder, how it was made, what it is not for."""

from __future__ import annotations

from typing import Mapping

from mmvtr.datasets.planted_corpus.knobs import GENERATOR_VERSION, Knobs

_CARD = """---
license: apache-2.0
task_categories: [text-to-video, video-classification]
tags: [text-video-retrieval, synthetic]
pretty_name: Planted corpus of moving shapes
---

# Planted corpus of moving shapes

Rendered H.264 clips (64 x 64, 8 frames a second) of one or two moving shapes, with captions of
three levels of detail. Which caption is true of which clip is known for every pair.

| split | clips | captions | unannotated pairs that are true |
|---|---|---|---|
{splits}

- **Made by** generator version {version} of mmvtr, from these knobs alone: `{knobs}`. It has no
  person, no place and nobody else's material.
- **Files**: `corpus.json` (facts of each clip, captions and what they say), `truth.npz`
  (`<split>_holds`, packed bits [captions, clips]; `<split>_relevance`, float16), `vocab.txt`,
  `videos/<split>_<number>.mp4`.
- **For** measuring what a method does about false negatives, hubs, clip lengths and moments, where
  the truth is known. **Not for** claims about real videos: words, motion and pictures are far
  simpler, and the share of true unannotated pairs is a knob (real sets have .06 to 1.6 %).
- `truth.npz` is for metrics and oracles. A method that reads it in training is not comparable.
"""


def data_card(knobs: Knobs, counts: Mapping[str, tuple[int, int, float]]) -> str:
    """Return the text of ``README.md`` of a corpus.

    Args:
        knobs: of the corpus.
        counts: split -> (clips, captions, percent of the unannotated pairs that are true).
    """
    rows = [
        f'| {split} | {clips:,} | {captions:,} | {share:.3f} % |'
        for split, (clips, captions, share) in counts.items()
    ]
    return _CARD.format(splits='\n'.join(rows), version=GENERATOR_VERSION, knobs=knobs.identity)
