"""The python of docs/inferencer.md and of the gallery's rows.md, block after block."""

from __future__ import annotations

import re

import torch
from mmengine.config import Config

from children import ROOT
from mmvtr.apis import encode_texts, encode_videos, load_retriever
from mmvtr.engine.hooks.query_queue import Queries
from mmvtr.storage import write_plain

PAGES = ('docs/inferencer.md', 'projects/gallery/docs/rows.md')
PAGE = ''.join((ROOT / page).read_text() for page in PAGES)
CLIP = dict(
    embed_dim=16,
    vision_cfg=dict(layers=1, width=8, head_width=4, patch_size=112, image_size=224),
    text_cfg=dict(context_length=32, vocab_size=49408, width=16, heads=2, layers=1),
)


def test_the_blocks_run(tmp_path, monkeypatch, write_video, capsys):
    monkeypatch.chdir(tmp_path)
    (tmp_path / 'my_clips').mkdir()
    for n, name in enumerate(('dog', 'beach', 'street')):
        write_video(tmp_path / f'my_clips/{name}.mp4', [40 + 60 * n, 200 - 50 * n])
    cfg = Config.fromfile(ROOT / 'configs/own_clip4clip.py')
    for tower in (cfg.model.encoder.frames, cfg.model.encoder.text):
        tower.model, tower.pretrained = CLIP, None
    cfg.test_dataloader.num_workers = 0
    cfg.dump(tmp_path / 'own_clip4clip.py')
    monkeypatch.setattr('mmvtr.utils.config_folder', lambda: tmp_path)
    model, _ = load_retriever(cfg, None, random_weights=True, device='cpu')
    write_plain(dict(state_dict=model.state_dict()), 'best.pth')
    videos = encode_videos(model, cfg, ['my_clips/dog.mp4', 'my_clips/beach.mp4'])
    texts = encode_texts(model, cfg, ['a dog', 'a car'])
    states = [Queries(x.levels, *[torch.arange(2)] * 2).state() for x in (texts, videos)]
    write_plain(dict(zip(('text', 'video'), states)), 'bank.pth')
    rows = ['video,text', 'dog.mp4,a dog runs', 'dog.mp4,it moves', 'beach.mp4,a red beach']
    (tmp_path / 'captions.csv').write_text('\n'.join([*rows, 'street.mp4,a car', '']))
    blocks = re.findall(r'```python\n(.*?)```', PAGE, flags=re.DOTALL)
    blocks = [x for x in blocks if 'shards' not in x and 'lancedb' not in x]  # see test_shards.py
    assert len(blocks) == 7
    names: dict = {}
    for block in blocks:
        exec(compile(block, 'a page', 'exec'), names)
    printed = capsys.readouterr().out
    assert printed.count('a red car 1 ') == 1 and ' my_clips/' in printed
    assert {hit['id'] for hit in names['again']('a dog')['predictions'][0]['hits']} == {
        'dog',
        'beach',
        'street',
    }
    assert "['lost']" in printed
    assert re.search(r'(a dog runs|it moves|a red car) (0\.\d+|1\.0)', printed)
    assert '45.2' in (tmp_path / 'saved/README.md').read_text()
