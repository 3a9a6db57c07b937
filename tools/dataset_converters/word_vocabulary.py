"""Number the words of a config's training captions, and find their GloVe vectors.

    python tools/dataset_converters/word_vocabulary.py CONFIG [--min-count N] [--glove glove.txt]

Writes the ``vocab_file`` of the config's text pipeline (HGR's ``word2int.json``) and, from a text
file of GloVe (one word and its numbers per line), ``word_vectors.npy`` beside it: float32, one row
per id, for ``WordVectors(pretrained=...)``.  Words missing in GloVe get random vectors with its
standard deviation.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import Any, Mapping

from mmvtr.cli.start import tool

import numpy as np
from mmengine.registry import init_default_scope

from mmvtr.cli import Parser
from mmvtr.datasets.record_transforms import read_annotations
from mmvtr.datasets.words.word_ids import make_word_ids
from mmvtr.registry import TRANSFORMS
from mmvtr.storage import write_text
from mmvtr.storage.arrays import write_array
from mmvtr.utils import load_config


def parse_args() -> argparse.Namespace:
    parser = Parser(__doc__)
    parser.add_argument('config', help='config file')
    parser.add_argument('--min-count', type=int, default=2, help='rarer words are <unk>; default 2')
    parser.add_argument(
        '--glove', type=Path, metavar='FILE', help='text file of GloVe vectors, one word per line'
    )
    parser.add_cfg_options()
    return parser.parse_args()


def training_words(dataset_cfg: Mapping[str, Any], min_count: int) -> tuple[Path, dict[str, int]]:
    """Return the text pipeline's vocabulary file, and ids of all words in training captions.

    Raises:
        ValueError: no transform of the text pipeline makes a role graph.
    """
    steps = {step['type']: step for step in dataset_cfg['text_pipeline']}
    name = next((name for name in steps if hasattr(TRANSFORMS.get(name), 'words_of')), None)
    if name is None:
        raise ValueError(
            f'the text pipeline {list(steps)} makes no role graphs, so it needs no word2int'
        )
    dataset = read_annotations(dataset_cfg, 'environments')
    words_of = TRANSFORMS.get(name).words_of
    sentences = (words_of(text['text']) for text in dataset.texts)
    return Path(steps[name]['vocab_file']), make_word_ids(sentences, min_count=min_count)


def read_glove(path: Path, ids: Mapping[str, int]) -> tuple[np.ndarray, int]:
    """Return vectors by id, and the number of words that the file has.

    Returns:
        float32 [n, D]; rows of missing words are drawn from N(0, s^2), s the standard
        deviation of all numbers found.

    Raises:
        FileNotFoundError: no such file.
        ValueError: a line of another width, or a file with none of the words.
    """
    parsed: dict[int, np.ndarray] = {}
    with open(path, encoding='utf-8') as file:
        width = file.readline().rstrip().count(' ')
        file.seek(0)
        for number, line in enumerate(file, 1):
            if line.partition(' ')[0] not in ids:
                continue  # skips most lines without parsing them
            word, *values = line.rstrip().rsplit(' ', width)
            if len(values) != width:
                raise ValueError(f'{path}, line {number}: {len(values)} numbers, expected {width}')
            if word in ids:  # some of GloVe's words have spaces
                parsed[ids[word]] = np.array(values, dtype=np.float32)
    if not parsed:
        raise ValueError(f'{path} has none of the {len(ids)} words')
    spread = np.std(np.stack(list(parsed.values())))
    vectors = np.random.default_rng(0).normal(0, spread, (len(ids), width)).astype(np.float32)
    for row, vector in parsed.items():
        vectors[row] = vector
    return vectors, len(parsed)


@tool
def main() -> None:
    args = parse_args()
    cfg = load_config(args.config, args.cfg_options)
    init_default_scope(cfg.get('default_scope', 'mmvtr'))
    target, ids = training_words(cfg.train_dataloader.dataset, args.min_count)
    if target.exists():
        raise ValueError(f'{target} is there already')
    glove = None if args.glove is None else read_glove(args.glove, ids)
    write_text(target, json.dumps(ids, ensure_ascii=False, indent=0))
    print(f'{target}: {len(ids)} ids; WordVectors needs words={len(ids)} or more')
    if glove is not None:
        vectors, count = glove
        write_array(target.with_name('word_vectors.npy'), vectors)
        print(f'{target.with_name("word_vectors.npy")}: {count} words of {args.glove}')


if __name__ == '__main__':
    main()
