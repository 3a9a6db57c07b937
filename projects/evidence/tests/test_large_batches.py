"""large_batches.py on a small batch: strips take less memory than the matrix."""

import re

import pytest

from children import ROOT, run_tool

TOOL = str(ROOT / 'projects/evidence/speed/large_batches.py')


@pytest.mark.nightly
def test_strips_beside_the_matrix(tmp_path):
    code, said = run_tool(
        tmp_path,
        TOOL,
        *('--only', 'strip', '--batch', 1024, '--height', 64, '--runs', 1),
    )
    assert code == 0, said
    found = re.findall(r'^(\S+) +(\d+) MiB +[\d.]+ s   of the first: ([\d.]+), [\d.]+$', said, re.M)
    assert [name for name, *_ in found] == ['matrix', 'strip=64'], said
    (_, matrix, first), (_, strips, share) = found
    assert int(strips) < int(matrix) and float(first) == 1 > float(share)
    code, said = run_tool(
        tmp_path,
        TOOL,
        *('--only', 'strip', '--batch', 64, '--height', 16, '--runs', 1, '--no-matrix'),
    )
    assert code == 0 and 'strip=16' in said and 'matrix ' not in said, said
    code, said = run_tool(
        tmp_path,
        TOOL,
        *('--only', 'processes', '--processes', 2, '--batch', 3072, '--height', 32),
    )
    assert code == 0, said
    (share,) = re.findall(r'2 processes, the largest: .* MiB, ([\d.]+) of it', said)
    assert 0 < float(share) < 0.6
