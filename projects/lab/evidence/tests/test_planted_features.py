"""Features of a planted corpus are made in a folder of the user's, by a process that can end."""

import subprocess
import sys
import time
from pathlib import Path

import numpy as np

EVIDENCE = Path(__file__).parents[1]
SCRIPT = f"""
import sys
from pathlib import Path
sys.path.insert(0, {str(EVIDENCE)!r})
from comparison.processes import run_tool
from planted_runs import make_features
if __name__ == '__main__':
    sizes = dict(num_train=2, num_val=1, num_test=1)
    make_features('few', frames=3, trained=False, home=Path.cwd(), **sizes)
    run_tool('beat.py', log=Path('log'), home=Path.cwd())
"""
BEAT = """
import time
for beat in range(6000):
    open('beat', 'w').write(str(beat))
    time.sleep(0.05)
"""


def test_features_are_made_here_and_a_killed_script_leaves_no_process(tmp_path):
    (tmp_path / 'make.py').write_text(SCRIPT)
    (tmp_path / 'beat.py').write_text(BEAT)
    beat = tmp_path / 'beat'
    script = subprocess.Popen([sys.executable, 'make.py'], cwd=tmp_path)
    try:
        while not beat.exists() and script.poll() is None:
            time.sleep(0.1)
        assert script.poll() is None
    finally:
        script.kill()
        script.wait()
    features = tmp_path / 'data/planted_features/few'
    made = {file.stem: len(np.load(file)) for file in features.glob('*.npy')}
    assert made == {'train_0000': 3, 'train_0001': 3, 'val_0000': 3, 'test_0000': 3}
    seen = ['']
    while len(seen) < 60 and beat.read_text() != seen[-1]:
        seen.append(beat.read_text())
        time.sleep(0.5)
    assert len(seen) < 60
