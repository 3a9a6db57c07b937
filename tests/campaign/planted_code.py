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


def _tool(file: str, old: str, new: str, *tests: str) -> CodeFault:
    return CodeFault(Edit(file, old, new), tuple(f'tests/{test}' for test in tests))


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
    'the last half step of Sinkhorn has no marginal penalty': _fault(
        'functional/transforms/sinkhorn.py',
        'log_beta = marginal_penalty * (log_c - sums.of_columns(log_alpha, last))',
        'log_beta = log_c - sums.of_columns(log_alpha, last)',
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
        'engine/hooks/query_queue.py',
        '                self._parts.appendleft(oldest.last(self.size - self._length))\n'
        '                self._length = self.size\n',
        '                pass\n',
        'test_engine/test_query_queue.py',
    ),
    'a training without gradients is not warned of': _fault(
        'models/gradient_watch.py',
        'self._zeros = (zeros + 1) * ~torch.stack(nonzero).any()',
        'self._zeros = zeros * 0',
        'test_models/test_gradient_watch.py',
    ),
    'a step with a gradient does not start the count again': _fault(
        'models/gradient_watch.py',
        'self._zeros = (zeros + 1) * ~torch.stack(nonzero).any()',
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
        'found.scores[-1] > raw[-1] + highest',
        'found.scores[0] > raw[-1] + highest',
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
        'if living or (living is None and age < ABANDONED):',
        'if living:',
        'test_storage',
    ),
    'a config of others may set what names code': _fault(
        'apis/plain_config.py',
        "if key in getattr(component, 'not_data', ()):",
        'if False:',
        'test_apis/test_plain_config.py',
    ),
    # -- searches and their probabilities --
    'a gate forgets the best item of an earlier tile': _fault(
        'arrays/ranking.py',
        'highest = first.values.clamp_min(highest)',
        'highest = first.values',
        'test_arrays/test_retrieve.py',
    ),
    'log sums of ungated queries are those of the biases': _fault(
        'arrays/ranking.py',
        "for name in ('places', 'scores', 'order', 'log_sums'):",
        "for name in ('places', 'scores', 'order'):",
        'test_arrays/test_said_and_true.py',
    ),
    'further items forget the shift': _fault(
        'functional/transforms/item_biases.py',
        'self.rows, **items) - self.shift',
        'self.rows, **items) - 0.0',
        'test_functional/test_score_transforms.py',
        'test_functional/test_dual_banks.py',
        'test_functional/test_transform_table.py',
        'test_arrays/test_debiaser.py',
    ),
    'more neighbours than the bank has': _fault(
        'functional/transforms/transform.py',
        "options['neighbours'] = min(options['neighbours'], queries)",
        'pass',
        'test_functional/test_transform_table.py',
        'test_functional/test_score_transforms.py',
        'test_arrays/test_debiaser.py',
    ),
    'held-out pairs are in their bank': _fault(
        'arrays/topk_fitting.py',
        'rest = bank_pairs[~_shared(bank_pairs, held_out)]',
        'rest = bank_pairs',
        'test_arrays/test_said_and_true.py',
    ),
    'a threshold leaves its own ties out': _fault(
        'arrays/topk_probabilities.py',
        'reached = self.shares >= self.levels[:, None]',
        'reached = self.shares > self.levels[:, None]',
        'test_arrays/test_topk_probabilities.py',
    ),
    'copies of the own item stay as rivals': _fault(
        'arrays/judged_lists.py',
        'copied[text[rows], places] = True',
        'pass',
        'test_arrays/test_said_and_true.py',
    ),
    'lines are extrapolated beyond the longest list': _fault(
        'arrays/topk_probabilities.py',
        'x = lengths.log().clamp_max(knots[-1])',
        'x = lengths.log()',
        'test_arrays/test_topk_probabilities.py',
    ),
    'a held-out item always opens the gate': _fault(
        'arrays/judged_lists.py',
        'mine = torch.where((copy < 0)',
        'mine = torch.ones_like(mine)\n        mine = torch.where((copy < 0)',
        'test_arrays/test_said_and_true.py',
    ),
    'the own item wins all ties': _fault(
        'arrays/judged_lists.py',
        '(drawn * (alike + 1)).long()',
        '0 * alike',
        'test_arrays/test_said_and_true.py',
    ),
    'dual softmax is calibrated on smaller scores': _fault(
        'arrays/judged_lists.py',
        'biases = part.fitted_transform.of_a_part(biases, len(texts) / len(bank.texts))',
        'pass',
        'test_arrays/test_said_and_true.py',
    ),
    'one video of a text is right': _fault(
        'arrays/judged_lists.py',
        'there &= (mates == number[:, None]) | (copy[mates] >= 0) | drawn',
        'there &= mates == number[:, None]',
        'test_arrays/test_said_and_true.py',
    ),
    'the binomial tail leaves its last term out': _fault(
        'arrays/answers.py',
        'k = torch.arange(wrong + 1,',
        'k = torch.arange(max(wrong, 1),',
        'test_arrays/test_topk_probabilities.py',
    ),
    'auto takes the best of all settings': _fault(
        'arrays/choice.py',
        'taken = best if clear else usual',
        'taken = best',
        'test_arrays/test_choice.py',
    ),
    'an engine adds the bias for each query token': _fault(
        'arrays/tokens.py',
        'share / len(real))',
        'share)',
        'test_arrays/test_tokens.py',
    ),
    'queries that score all items alike make hubs': _fault(
        'arrays/hubs.py',
        'return places.masked_fill(scores[:, :1] - lowest <= ALIKE, tiles.shape[1])',
        'return places',
        'test_arrays/test_hubs.py',
    ),
    'galleries of unit vectors are all one': _fault(
        'arrays/saved.py',
        'torch.stack([rows.norm(dim=1), rows @ probe], dim=1)',
        'torch.stack([rows.norm(dim=1), rows.norm(dim=1)], dim=1)',
        'test_arrays/test_debiaser.py',
    ),
    # -- calibration of pairs --
    'a threshold divides equal scores': _fault(
        'functional/uncertainty/calibration.py',
        'last = torch.cat([x[1:] != x[:-1], x.new_ones(1, dtype=torch.bool)])',
        'last = torch.ones_like(x, dtype=torch.bool)',
        'test_functional/test_calibration.py',
    ),
    'odds grow with all items instead of the wrong ones': _fault(
        'functional/uncertainty/calibration.py',
        'max(1, candidates - 1) / max(1, self.candidates - 1)',
        'candidates / self.candidates',
        'test_functional/test_calibration.py',
    ),
    'a line of places may fall': _fault(
        'functional/uncertainty/calibration_fits.py',
        '    if line[0] > 0:\n        return line',
        '    if True:\n        return line',
        'test_functional/test_calibration.py',
        'test_arrays/test_topk_probabilities.py',
    ),
    # -- sampling --
    'a half ignores its seed': _fault(
        'datasets/sampling/environments.py',
        "f'{seed}:{video_id}'",
        "f'0:{video_id}'",
        'test_datasets/test_sampling',
    ),
    'a mean of frames is not cut': _fault(
        'datasets/sampling/environments.py',
        "return (int(mean) if self.unit == 'frames' else mean)",
        "return (mean if self.unit == 'frames' else mean)",
        'test_datasets/test_sampling',
    ),
    'a random split ignores its seed': _fault(
        'datasets/sampling/environments.py',
        'groups = random_like(self.like.groups(videos), self.seed)\n        return _keep',
        'groups = random_like(self.like.groups(videos), 0)\n        return _keep',
        'test_datasets/test_sampling',
    ),
    'batches of environments are those of the first epoch': _fault(
        'datasets/sampling/samplers.py',
        '        rng = np.random.default_rng((seed, epoch))',
        '        rng = np.random.default_rng((seed, 0))',
        'test_datasets/test_sampling',
    ),
    'a clip of the same video joins it': _fault(
        'datasets/sampling/samplers.py',
        'return items[near & (self._videos[items] != self._videos[index])]',
        'return items[near & (items != index)]',
        'test_datasets/test_sampling/test_scene_sampler.py',
    ),
    'the window of a scene includes its end': _fault(
        'datasets/sampling/samplers.py',
        'np.abs(self._starts[items] - self._starts[index]) < self.window',
        'np.abs(self._starts[items] - self._starts[index]) <= self.window',
        'test_datasets/test_sampling/test_scene_sampler.py',
    ),
    'a rank without rounding counts one item too many': _fault(
        'datasets/sampling/samplers.py',
        'self.world_size - 1 if self.round_up else self.world_size - 1 - self.rank',
        'self.world_size - 1',
        'test_datasets/test_sampling/test_samplers.py',
    ),
    # -- moments --
    'moments begin at zero': _fault(
        'engine/hooks/moments_hook.py',
        "return video.get('begin', video.get('start', 0.0))",
        "return video.get('start', 0.0)",
        'test_engine/test_moments.py',
    ),
    'a moment does not hold its own ends': _fault(
        'engine/hooks/moments_hook.py',
        'inside = (begin <= middle) & (middle <= end)',
        'inside = (begin < middle) & (middle < end)',
        'test_engine/test_moments.py',
    ),
    'a text of several videos has one moment': _fault(
        'engine/hooks/moments_hook.py',
        "single = column is not None and len(text['video_idx']) == 1",
        'single = column is not None',
        'test_engine/test_moments.py',
    ),
    # -- cross-fitting --
    'a half is judged by its own model': _fault(
        'models/supervisions/cross_fitted.py',
        'torch.where(of_texts[:, None] == 0, one, zero)',
        'torch.where(of_texts[:, None] == 0, zero, one)',
        'test_models/test_cross_fitted.py',
    ),
    'pairs across the halves are judged by the first model': _fault(
        'models/supervisions/cross_fitted.py',
        'held_out, (zero + one) / 2)',
        'held_out, zero)',
        'test_models/test_cross_fitted.py',
    ),
    'the two judges stay on their device': _fault(
        'models/supervisions/cross_fitted.py',
        '            copy._apply(fn)',
        '            pass',
        'test_models/test_cross_fitted.py',
    ),
    'the two judges are ramped up': _fault(
        'models/supervisions/cross_fitted.py',
        'module.progress = 1.0',
        'module.progress = module.progress',
        'test_models/test_cross_fitted.py',
    ),
    'the two judges are in training mode': _fault(
        'models/supervisions/cross_fitted.py',
        'return copy.requires_grad_(False).eval()',
        'return copy.requires_grad_(False)',
        'test_models/test_cross_fitted.py',
    ),
    'one checkpoint judges both halves': _fault(
        'models/supervisions/cross_fitted.py',
        'if len({*names}) != 2 or len(names) != 2:',
        'if len(names) != 2:',
        'test_models/test_cross_fitted.py',
    ),
    # -- late interaction --
    'frames of a shortlist weigh alike': _fault(
        'functional/similarities/token_interaction.py',
        'sides = _sides(side, a[..., None], video.weights[chosen].mT)',
        'sides = _sides(side, a[..., None], video.weights[chosen].ne(0).to(a).mT)',
        'test_functional/test_token_interaction.py',
        'test_arrays/test_tokens.py',
    ),
    'ties with a shortlist count twice': _fault(
        'functional/similarities/token_interaction.py',
        'pooled.contiguous(), right=True)',
        'pooled.contiguous(), right=False)',
        'test_functional/test_token_interaction.py',
    ),
    'the rest reaches into a shortlist': _fault(
        'functional/similarities/token_interaction.py',
        'floor = reranked.amin(1, keepdim=True).floor()',
        'floor = reranked.amin(1, keepdim=True).ceil() + 1',
        'test_functional/test_token_interaction.py',
        'test_models/test_cascade.py',
    ),
    # -- sharded models --
    'a sharded norm is local': _fault(
        'engine/loops/sharded.py',
        'norms = [norm.full_tensor() if is_sharded(norm) else norm for norm in norms]',
        'norms = [norm.to_local() if is_sharded(norm) else norm for norm in norms]',
        'test_engine/test_sharded.py',
    ),
    'a loaded optimizer state is not cut': _fault(
        'engine/loops/sharded.py',
        'optimizer.register_load_state_dict_post_hook(_cut_state)',
        'pass',
        'test_engine/test_sharded.py',
    ),
    'micro batches are not counted': _fault(
        'engine/loops/sharded.py',
        'parts = [-(-count // (size or max(count, 1))) for count in counts]',
        'parts = [-(-count // max(count, 1)) for count in counts]',
        'test_engine/test_sharded.py',
    ),
    'processes begin with weights of their own': _fault(
        'engine/loops/sharded.py',
        '            dist.broadcast(tensor, src=0)',
        '            pass',
        'test_engine/test_sharded.py',
    ),
    'float16 scales the loss of shards': _fault(
        'engine/loops/sharded.py',
        "if hasattr(wrapper, 'loss_scaler'):",
        'if False:',
        'test_engine/test_sharded.py',
    ),
    # -- configs and their values --
    'variants are not found by name': _fault(
        'utils.py',
        "[*folder.glob('*.py'), *folder.glob('*/*.py')]",
        "[*folder.glob('*.py')]",
        'test_config_files.py',
    ),
    'None is another value than none': _fault(
        'engine/loops/resume_rules.py',
        'if all(value is None or value is UNSET for value in (before, now)):',
        'if False:',
        'test_engine/test_resuming.py',
    ),
    # -- checkpoints and resuming --
    'the last step of an epoch lacks its gradients': _fault(
        'engine/hooks/checkpoint_hook.py',
        'wrapper.initialize_count_status(runner.model, 0, len(runner.train_dataloader))',
        'pass',
        'test_engine/test_checkpoint.py',
        'test_engine/test_optim.py',
        'test_engine/test_loops.py',
    ),
    "a killed run's best checkpoint is moved aside": _fault(
        'engine/loops/earlier_runs.py',
        'choice.epoch >= past.step:',
        'choice.epoch > past.step + 1:',
        'test_engine/test_earlier_runs.py',
    ),
    # -- converters --
    'weights that are not finite are converted': _tool(
        'tools/model_converters/official_checkpoints/conversion.py',
        '    refuse_not_finite(state, source)\n',
        '',
        'test_tools/test_converters',
    ),
    'a triplet of experts is read as pairs': _tool(
        'tools/model_converters/official_checkpoints/ce.py',
        "return 'triplet' if width == 3 * dim else 'pairwise'",
        "return 'pairwise'",
        'test_tools/test_converters/test_ce_converter.py',
    ),
    'deeper layers of experts are lost': _tool(
        'tools/model_converters/official_checkpoints/ce.py',
        "kind = {0: 'norms', 2: 'linears'}.get(n % 3)",
        "kind = {0: 'norms', 2: 'linears'}.get(n)",
        'test_tools/test_converters/test_ce_converter.py',
    ),
    'captions of the wrong number get features': _tool(
        'tools/dataset_converters/expert_pickles.py',
        'if len(vectors) != len(sentences):',
        'if False:',
        'test_tools/test_expert_pickles.py',
    ),
    'features that are not finite are written': _tool(
        'tools/dataset_converters/expert_pickles.py',
        'if not np.isfinite(rows).all():',
        'if False:',
        'test_tools/test_expert_pickles.py',
    ),
    'an array that is NaN in part is missing': _tool(
        'tools/dataset_converters/expert_pickles.py',
        'np.isnan(rows).all()',
        'np.isnan(rows).any()',
        'test_tools/test_expert_pickles.py',
    ),
    'vectors of a clip are in another order': _tool(
        'tools/dataset_converters/epic_tbn.py',
        "MODALITIES = ('RGB', 'Flow', 'Audio')",
        "MODALITIES = ('Flow', 'RGB', 'Audio')",
        'test_tools/test_epic_tbn.py',
    ),
    'captions of several lines': _tool(
        'tools/dataset_converters/prvr_captions.py',
        '" ".join(text["text"].split())',
        'text["text"]',
        'test_tools/test_prvr_captions.py',
    ),
    'unknown words spread as one': _tool(
        'tools/dataset_converters/word_vocabulary.py',
        'spread = np.std(np.stack(list(parsed.values())))',
        'spread = 1.0',
        'test_tools/test_word_vocabulary.py',
    ),
    'a fused model forgets the trainings of its members': _tool(
        'tools/model_converters/fuse.py',
        'content = dict(state_dict=model.state_dict(), meta=dict(members=facts))',
        'content = dict(state_dict=model.state_dict(), meta=dict(members=[]))',
        'test_tools/test_facts_of_results.py',
    ),
    "a log's first protocol is published": _tool(
        'tools/model_converters/publish.py',
        "' '.join(lines[-1].split())",
        "' '.join(lines[0].split())",
        'test_tools/test_publish.py',
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
