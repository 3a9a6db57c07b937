"""Faults that the default tests must see: each is planted in a copy, whose tests then must fail."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import NamedTuple

from campaign.planted import Edit

#: Seconds that the tests of a fault may take.
LIMIT = 900


class CodeFault(NamedTuple):
    """What is planted, and the test files that must see it."""

    edit: Edit
    tests: tuple[str, ...]


def _fault(file: str, old: str, new: str, *tests: str) -> CodeFault:
    return CodeFault(Edit(f'mmvtr/{file}', old, new), tuple(f'tests/{test}' for test in tests))


def _gallery(file: str, old: str, new: str, *tests: str) -> CodeFault:
    folder = 'projects/gallery'
    edit = Edit(f'{folder}/mmvtr_gallery/{file}', old, new)
    return CodeFault(edit, tuple(f'{folder}/tests/{test}' for test in tests))


SAMPLING = 'datasets/videos/frame_sampling.py'
FITS = 'functional/uncertainty/calibration_fits.py'

FAULTS = {
    # -- metrics, transforms, calibration, losses ------------------------------------------------
    'a video that shares a caption is a candidate again': _fault(
        'functional/metrics/ranks.py',
        'return best.masked_fill_(shared.fill_diagonal_(False), -torch.inf)',
        'return best',
        'test_functional/test_ranks.py',
    ),
    'the last half step of Sinkhorn has no strictness': _fault(
        'functional/transforms/sinkhorn.py',
        'log_beta = strictness * (log_c - sums.of_columns(log_alpha, found))',
        'log_beta = log_c - sums.of_columns(log_alpha, found)',
        'test_functional/test_sinkhorn.py',
    ),
    'repeats of a bank count as often as they stand there': _fault(
        'functional/similarities/distinct.py',
        'equal = later[_equal(rows, later, like[later], STEP * size)]',
        'equal = later[:0]',
        'test_arrays/test_repeats.py',
    ),
    "Platt's target of the negatives": _fault(
        FITS,
        '(1 - y) / (no + 2)',
        '(1 - y) / (no + 1)',
        'test_functional/test_calibration.py',
    ),
    'the interval of a calibration is one of 90 %': _fault(
        FITS,
        'lower, upper = every.quantile(0.025, dim=0), every.quantile(0.975, dim=0)',
        'lower, upper = every.quantile(0.05, dim=0), every.quantile(0.95, dim=0)',
        'test_functional/test_calibration.py',
    ),
    'further columns have no temperature': _fault(
        'functional/losses/contrastive.py',
        'negative = torch.logaddexp(negative, _of_columns(further, temperature, negative))',
        'negative = torch.logaddexp(negative, _of_columns(further, 1.0, negative))',
        'test_functional/test_contrastive.py',
    ),
    # -- gathering, queues, trainings -----------------------------------------------------------
    'mixed precisions travel in the narrow one': _fault(
        'dist.py',
        'wide = max(kinds, key=lambda kind: torch.finfo(kind).bits)',
        'wide = min(kinds, key=lambda kind: torch.finfo(kind).bits)',
        'test_dist.py',
    ),
    'a queue drops whole batches': _fault(
        'engine/transforms/query_queue.py',
        '                self._parts.appendleft(oldest.last(self.size - self._length))\n'
        '                self._length = self.size\n',
        '                pass\n',
        'test_engine/test_query_queue.py',
    ),
    'a training without gradients is not warned of': _fault(
        'models/gradient_watch.py',
        'self._zeros = (zeros + 1) * ~torch.stack(found).any()',
        'self._zeros = zeros * 0',
        'test_models/test_gradient_watch.py',
    ),
    'a step with a gradient does not start the count again': _fault(
        'models/gradient_watch.py',
        'self._zeros = (zeros + 1) * ~torch.stack(found).any()',
        'self._zeros = zeros + torch.ones(())',
        'test_models/test_gradient_watch.py',
    ),
    # -- sampling, clocks, damage --------------------------------------------------------------
    'at_rate does not keep the last frame': _fault(
        SAMPLING,
        'np.unique([*first, *per_second(times, len(times)), len(times) - 1])',
        'np.unique([*first, *per_second(times, len(times))])',
        'test_datasets/test_videos/test_frame_sampling.py',
        'test_datasets/test_videos/test_frame_store.py',
    ),
    'windows have no slack': _gallery(
        'clips.py',
        '(np.arange(length) + 0.5) / rate + TIME_SLACK',
        '(np.arange(length) + 0.5) / rate',
        'test_clips.py',
    ),
    'times that start again are not joined': _fault(
        'datasets/videos/packet_times.py',
        'elif dts - last < back or',
        'elif',
        'test_datasets/test_videos/test_clocks.py',
    ),
    'a lost packet is no damage': _fault(
        'datasets/videos/transport_stream.py',
        '(behind if whole else lost)[units - 1] = True',
        '(behind if whole else lost)[units - 1] = False',
        'test_datasets/test_videos/test_clocks.py',
    ),
    'pixels are as wide as high': _fault(
        'datasets/videos/shown_pictures.py',
        'self._ratio = ratio if ratio and RATIOS[0] <= ratio <= RATIOS[1] else 1',
        'self._ratio = 1',
        'test_datasets/test_videos/test_clocks.py',
    ),
    'pixels of all pictures are not counted': _fault(
        'datasets/videos/decoding_limits.py',
        'if pixels > limits.pixels:',
        'if False:',
        'test_datasets/test_videos/test_decoding_limits.py',
    ),
    # -- stores, the service, files ---------------------------------------------------------------
    'an exact search stops at its best hit': _gallery(
        'store/rerank.py',
        'found.scores[-1] >= raw[-1] + highest',
        'found.scores[0] >= raw[-1] + highest',
        'test_store/test_engines.py',
    ),
    'an add forgets the highest bias of before': _gallery(
        'store/qdrant.py',
        "highest = max(float(biases.max()), old['highest'] if old['count'] else -np.inf)",
        'highest = float(biases.max())',
        'test_store/test_engines.py',
        'test_store/test_qdrant.py',
    ),
    'a delete leaves a part as it was': _gallery(
        'store/parts.py',
        'if start + size > unchanged:',
        'if start >= unchanged:',
        'test_store/test_changes.py',
    ),
    'one address may have half of a sample': _gallery(
        'serving/sampling.py',
        'SHARE = 0.25',
        'SHARE = 0.5',
        'test_serving/test_sampling.py',
    ),
    'pixels of an upload are not counted': _gallery(
        'serving/uploads.py',
        'if pixels > self._pixels:',
        'if False:',
        'test_serving/test_uploads.py',
    ),
    'another site may send what it likes': _gallery(
        'serving/guards.py',
        "return origin is None or origin.partition('://')[2] == headers.get('host')",
        'return True',
        'test_serving/test_service.py',
    ),
    'an unseen holder of a lock is abandoned at once': _fault(
        'storage/lock.py',
        'if living or (living is None and age < self._abandoned):',
        'if living:',
        'test_storage',
    ),
    'a config of others may set what names code': _fault(
        'plain_config.py',
        "if key in getattr(component, 'not_data', ()):",
        'if False:',
        'test_plain_config.py',
    ),
}


def run_tests(copy: Path, name: str) -> subprocess.CompletedProcess:
    """Run the tests of a fault in a copy of the code, up to the first that fails."""
    command = [sys.executable, '-m', 'pytest', '-x', '-q', '-p', 'no:cacheprovider']
    paths = os.pathsep.join([str(copy), str(copy / 'projects/gallery')])
    environ = dict(os.environ, PYTHONPATH=paths, PYTHONDONTWRITEBYTECODE='1')
    return subprocess.run(
        [*command, *FAULTS[name].tests],
        cwd=copy, env=environ, capture_output=True, text=True, timeout=LIMIT,
    )  # fmt: skip
