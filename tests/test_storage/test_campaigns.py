"""Small shares of the campaigns: two starts in one folder, and files with payloads."""

import torch

from campaign import pickles, starts


def test_two_starts(tmp_path):
    """At the same moment; a resume beside a living run: test_tools/test_starting_weights.py."""
    trials = starts.run(1, 3, tmp_path)
    assert [trial[:2] for trial in trials] == [('start + start', 'refused')], trials


def test_payloads(tmp_path):
    (tmp_path / 'unguarded').mkdir()
    assert pickles.payload_works(tmp_path / 'unguarded')
    trials = pickles.run(40, 5, tmp_path)
    assert {trial.verdict for trial in trials} <= {'refused', 'right'}, trials
    assert {trial.row for trial in trials} & pickles.TOOLS.keys()


def test_each_payload_in_each_format_against_each_reader(tmp_path):
    ran = []
    for kind in pickles.payloads(tmp_path):
        for layout in pickles.LAYOUTS:
            for row in pickles.READERS:
                target, path = tmp_path / pickles.MARK, tmp_path / 'evil.pth'
                pickles.write([pickles.payloads(target)[kind]], path, layout)
                with pickles.switched_off():
                    trial = pickles.through(row, path, tmp_path, f'{kind}, {layout}')
                ran += [trial] * (trial.verdict != 'refused' or target.exists())
    assert not ran


def test_the_text_of_a_config_is_not_run(tmp_path):
    target, path = tmp_path / pickles.MARK, tmp_path / 'evil.pth'
    torch.save(pickles.with_code(target), path)
    pickles.READERS['Runner, resume'](path, tmp_path)
    assert not target.exists()
