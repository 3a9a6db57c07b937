"""Clips, texts and what a model says of them by hand: for tests of what asks a gallery."""

import torch

from mmvtr.apis import encode_texts, encode_videos, load_retriever

#: Of seven letters each, as the toy's words read their padding.
TEXTS = ['red dog', 'a w1 w2', 'cyanish', 'dog red', 'red w34']
NAMES = ('a', 'b', 'c', 'd', 'more/e')


def by_hand(name):
    """The model, texts and videos encoded in the order of TEXTS and NAMES, their scores [T, V]."""
    model, cfg = load_retriever(f'{name}.py', f'{name}.pth', device='cpu')
    texts = encode_texts(model, cfg, TEXTS)
    paths = [f'clips/{name}.mp4' for name in NAMES]
    videos = encode_videos(model, cfg, paths, ids=NAMES)
    with torch.no_grad():
        scores = model.similarity(texts.levels, videos.levels)['scores']
    return model, texts, videos, scores
