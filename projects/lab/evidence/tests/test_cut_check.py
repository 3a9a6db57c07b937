"""What telling a cut video costs, measured."""

import re

from children import ROOT, run_tool

TOOL = str(ROOT / 'projects/lab/evidence/speed/cut_check.py')


def test_shares_of_a_folder(tmp_path, write_video):
    (tmp_path / 'clips').mkdir()
    for name in ('a', 'b'):
        write_video(tmp_path / 'clips' / f'{name}.mp4', [0, 100, 200])
    (tmp_path / 'clips' / 'c.mp4').write_text('no video')
    arguments = [tmp_path / 'clips', '--frames', 2, '--rounds', 1]
    code, printed = run_tool(tmp_path, TOOL, *arguments)
    assert code == 0, printed
    assert re.search(r'left out: .*c\.mp4', printed)
    assert re.search(r'2 files: \d+\.\d\d % of the time of choosing 2 frames', printed)


def test_nothing_to_read(tmp_path):
    code, printed = run_tool(tmp_path, TOOL, tmp_path)
    assert code == 1 and 'holds no video that can be read' in printed
