"""Folders of videos with links, loops, hidden files and odd names: each file is found once."""

from __future__ import annotations

import os
import random
from pathlib import Path

from mmengine.config import Config

from campaign.mutations import Hang, in_time
from campaign.trial import Trial
from mmvtr.apis.inferencer.inputs import video_inputs

CONFIG = Config(
    dict(test_dataloader=dict(dataset=dict(video_pipeline=[dict(type='LoadVideo')])))
)  # fmt: skip
NAMES = ('a', 'b c', '00123', '1e5', 'é', 'x.y', '-dash', 'None', 'ü ö', '日本', "it's", 'A')
SUFFIXES = ('.mp4', '.MKV', '.webm', '.avi')
#: Seconds that a walk may take.
SECONDS = 10.0


def run(count: int, seed: int, folder: Path) -> list[Trial]:
    """Make folders and list them as a gallery does."""
    trials = []
    for number in range(count):
        draw = random.Random(f'{seed}-{number}')
        root = folder / str(number)
        links = plant(root, draw)
        trials.append(judge('with links' if links else 'without links', root))
    return trials


def plant(root: Path, draw: random.Random) -> int:
    """A tree of empty files, and links in it.  Returns how many links."""
    folders = [root]
    root.mkdir(parents=True)
    for _ in range(draw.randrange(5)):
        made = draw.choice(folders) / draw.choice(NAMES)
        made.mkdir(exist_ok=True)
        folders.append(made)
    for n in range(draw.randint(1, 8)):
        (draw.choice(folders) / f'{draw.choice(NAMES)}{n}{draw.choice(SUFFIXES)}').touch()
    (draw.choice(folders) / '.hidden.mp4').touch()
    (draw.choice(folders) / 'notes.txt').touch()
    links = draw.randrange(4)
    for n in range(links):
        link = draw.choice(folders) / f'link{n}'
        files = sorted(
            path
            for path in root.rglob('*.mp4')
            if not (path.is_symlink() or path.name.startswith('.'))
        )
        kind = draw.choice(['above', 'folder', 'file', 'nowhere', 'itself'])
        if kind == 'file' and files:
            link.with_suffix('.mp4').symlink_to(draw.choice(files))
        elif kind == 'nowhere':
            link.with_suffix('.mp4').symlink_to(root / 'gone.mp4')
        elif kind == 'itself':
            link.symlink_to(link)
        else:
            link.symlink_to(root if kind == 'above' else draw.choice(folders))
    return links


def files_of(root: Path) -> set[str]:
    """The videos themselves, wherever links lead: a walk that follows none."""
    found = set()
    for folder, _, names in os.walk(root):
        paths = [Path(folder, name) for name in names if not name.startswith('.')]
        suffixes = [suffix.lower() for suffix in SUFFIXES]
        found |= {str(p) for p in paths if p.suffix.lower() in suffixes and not p.is_symlink()}
    return found


def judge(row: str, root: Path) -> Trial:
    """Whether a gallery has each file once."""
    try:
        with in_time(SECONDS):
            given = video_inputs(str(root), CONFIG)
    except Hang:
        return Trial(row, 'hang', str(root))
    except Exception as error:
        return Trial(row, 'raw', f'{root}: {type(error).__name__}: {str(error)[:300]}')
    listed, right = [os.path.realpath(path) for path in given.sources], files_of(root)
    if len(listed) != len(set(listed)):
        return Trial(row, 'silent', f'{root}: {len(listed)} listed, {len(right)} there')
    if set(listed) != {os.path.realpath(path) for path in right}:
        return Trial(row, 'lost', f'{root}: {sorted(set(listed) ^ right)[:3]}')
    return Trial(row, 'right')
