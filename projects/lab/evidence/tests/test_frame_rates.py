"""frame_rates.py: both ways give frames, and what JPEG costs is right."""

import re
import runpy

import numpy as np
import pytest

from children import ROOT, run_tool

TOOL = str(ROOT / 'projects/lab/evidence/speed/frame_rates.py')


def test_both_ways(tmp_path, write_video):
    for number in range(2):
        write_video(tmp_path / f'{number}.mp4', range(20 * number, 60 + 20 * number), size=(72, 96))
    (tmp_path / 'bad.mp4').write_bytes(b'no video')
    code, printed = run_tool(
        tmp_path, TOOL, '0.mp4', '1.mp4', 'bad.mp4', '--size', 48,
        '--rounds', 1, '--quality', 90, 50,
    )  # fmt: skip
    assert code == 0, printed
    assert 'left out: bad.mp4' in printed and '2 videos, 12 frames: LoadVideo' in printed
    found = re.findall(r'quality (\d+): LoadFrames \d+ frames/s, [\d.]+ times', printed)
    assert found == ['90', '50']
    dbs = [float(db) for db in re.findall(r'PSNR ([\d.]+) dB', printed)]
    assert all(db > 40 for db in dbs)  # grey frames


def test_psnr_of_a_known_error():
    psnr = runpy.run_path(TOOL)['psnr']
    images = [np.full((4, 4, 3), 100, np.uint8)] * 2
    others = [np.full((4, 4, 3), 105, np.uint8), images[0]]
    assert psnr(images, others) == pytest.approx(10 * np.log10(255**2 / 12.5))
    assert psnr(images, images) == np.inf
