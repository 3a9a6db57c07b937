"""CrossFittedTeachers: two models trained on halves say what the other half's pairs weigh."""

from copy import deepcopy

import pytest
import torch
import torch.distributed as dist
import torch.multiprocessing as mp
from torch.nn.parallel import DistributedDataParallel

import children  # noqa: F401 - the server that forks the processes has imported all
from mmvtr.models.annotation import match
from mmvtr.models.retriever import VideoTextRetriever
from mmvtr.models.supervisions.arl import ARLSupervision
from mmvtr.models.supervisions.cross_fitted import CrossFittedTeachers
from mmvtr.models.target import Target
from tests.test_dist import make_batch
from tests.test_models import test_momentum
from tests.test_models.test_early_teacher import ALL, Branches, make_model, steps

#: Halves of the videos and of the first own videos of the texts of ``make_batch``.
OF_VIDEO = {3: 0, 1: 1, 4: 1, 9: 0, 7: 1}


def batch_of(videos, texts):
    inputs, samples = make_batch(videos, texts)
    for key, ids in (('video', samples['video_idx']), ('text', samples['text_videos'][:, 0])):
        samples[f'{key}_half'] = torch.tensor([OF_VIDEO[v] for v in ids.tolist()])
    return inputs, samples


def halves_in(folder, supervision='dvtr'):
    """Two checkpoints of models that differ, and these models."""
    models = []
    for k in (0, 1):
        model = make_model(supervision=supervision)
        generator = torch.Generator().manual_seed(k)
        with torch.no_grad():
            for p in model.parameters():
                p.add_(0.2 * torch.randn(p.shape, generator=generator, dtype=p.dtype))
        torch.save(dict(state_dict=model.state_dict()), folder / f'half{k}.pth')
        models.append(model.eval())
    return [str(folder / f'half{k}.pth') for k in (0, 1)], models


def read_by_the_loss(model, batch):
    found = {}
    hook = model.losses['contrastive'].register_forward_pre_hook(
        lambda _, args: found.update(target=args[1])
    )
    model(*batch, mode='loss')
    hook.remove()
    return found['target']


@pytest.mark.parametrize('supervision', ['dvtr', 'pcme', 'scores'])
def test_a_pair_is_weighed_by_whom_it_was_not_taught(supervision, tmp_path):
    """Against each model by itself, pair by pair."""
    paths, models = halves_in(tmp_path, supervision)
    batch = batch_of(*ALL)
    model = make_model(CrossFittedTeachers(halves=paths), supervision)
    known = Target(match(batch[1], torch.device('cpu')))
    each = []
    with torch.no_grad():
        for one in models:
            one.supervision.progress = 1.0
            each.append(one.supervision(*one(*batch, mode='tensor'), known)[0].weights.tolist())
    expected = torch.zeros(7, 5, dtype=torch.float64)
    for t, half in enumerate(batch[1]['text_half'].tolist()):
        for v, other in enumerate(batch[1]['video_half'].tolist()):
            zero, one = each[0][t][v], each[1][t][v]
            expected[t, v] = (zero + one) / 2 if half != other else (one if half == 0 else zero)
    steps(model, [batch] * 2, [0.0, 0.4])
    target = read_by_the_loss(model, batch)
    torch.testing.assert_close(target.weights, expected)
    assert not target.weights.requires_grad and (expected < 0.9).any()
    assert (torch.tensor(each[0]) - torch.tensor(each[1])).abs().max() > 0.05
    share = (1 - expected)[~known.positives].mean().item()
    (logs,), _ = steps(model, [batch], [0.0])
    assert logs['down_weighted_share'].item() == pytest.approx(share)


def test_losses_of_the_supervision_stay_those_of_the_model_itself(tmp_path):
    paths, _ = halves_in(tmp_path)
    batches, progress = [batch_of(*ALL)] * 2, [0.7, 0.7]
    (_, plain), _ = steps(make_model(), batches, progress, rate=0.0)
    both = make_model(CrossFittedTeachers(halves=paths))
    (_, found), grads = steps(both, batches, progress, rate=0.0)
    for name in ('loss_match', 'loss_align'):
        torch.testing.assert_close(found[name], plain[name])
    torch.testing.assert_close(found['live_eta_negative'], plain['eta_negative'])
    assert (found['loss_contrastive'] - plain['loss_contrastive']).abs() > 1e-3
    assert not any(name.startswith('teacher') for name in grads)
    own = {'teacher.power', 'teacher.counts'}  # the two are in none of its checkpoints
    assert {name for name in both.state_dict() if 'teacher' in name} == own


def test_blocks_and_parts_equal_the_whole(tmp_path):
    paths, _ = halves_in(tmp_path)
    batches, progress = [batch_of(*ALL)] * 4, [0.0, 0.2, 0.6, 0.8]
    make = lambda rows=None: make_model(CrossFittedTeachers(halves=paths, share=0.05), rows=rows)  # noqa: E731
    whole, parts = steps(make(), batches, progress), make()
    parts.micro_batch = 2
    torch.testing.assert_close(steps(make(rows=2), batches, progress), whole)
    torch.testing.assert_close(steps(parts, batches, progress), whole)
    assert whole[0][-1]['down_weighted_share'].item() == pytest.approx(0.05, rel=0.1)


def test_resumed_training_is_the_same(tmp_path):
    paths, _ = halves_in(tmp_path)
    batches = [batch_of(slice(0, 5), slice(i % 2, 7)) for i in range(4)]
    progress = [i / 4 for i in range(4)]
    make = lambda: make_model(CrossFittedTeachers(halves=paths, share=0.05))  # noqa: E731
    expected, grads = steps(make(), batches, progress)
    first, second = make(), make()
    steps(first, batches[:2], progress[:2])
    second.load_state_dict(deepcopy(first.state_dict()))
    found, again = steps(second, batches[2:], progress[2:])
    torch.testing.assert_close(found, expected[2:])
    torch.testing.assert_close(again, grads)


def worker(rank, folder, split, paths):
    dist.init_process_group('gloo', init_method=f'file://{folder}/store', rank=rank, world_size=2)
    try:
        for rows in (None, 2):
            model = make_model(CrossFittedTeachers(halves=paths, share=0.05), rows=rows)
            wrapped = DistributedDataParallel(model, broadcast_buffers=False)
            made = steps(wrapped, [batch_of(*split[rank])] * 3, [0.0, 0.4, 0.6])
            weights = None if rows else read_by_the_loss(model, batch_of(*split[rank])).weights
            torch.save((made, weights), f'{folder}/rank{rank}_{rows}.pt')
        dist.barrier()
    finally:
        dist.destroy_process_group()


def test_two_processes_equal_one(tmp_path):
    """Which hold unequal shares, of both halves."""
    paths, _ = halves_in(tmp_path)
    split = [(slice(0, 3), slice(0, 2)), (slice(3, 5), slice(2, 7))]
    model = make_model(CrossFittedTeachers(halves=paths, share=0.05))
    expected = steps(model, [batch_of(*ALL)] * 3, [0.0, 0.4, 0.6])
    weights = read_by_the_loss(model, batch_of(*ALL)).weights
    mp.start_processes(worker, (tmp_path, split, paths), nprocs=2, start_method='forkserver')
    for rank in range(2):
        for rows in (None, 2):
            made, found = torch.load(tmp_path / f'rank{rank}_{rows}.pt')
            torch.testing.assert_close(made, expected)
            if rows is None:
                torch.testing.assert_close(found, weights)


# -- what is refused -------------------------------------------------------------------------------


def test_the_two_move_with_the_model(tmp_path):
    """They are no submodules."""
    model = make_model(CrossFittedTeachers(halves=halves_in(tmp_path)[0]))
    model.init_weights()
    for dtype in (torch.float32, torch.float64):
        model.to(dtype)
        assert {p.dtype for copy in model.teacher.copies for p in copy.parameters()} == {dtype}


@pytest.mark.parametrize('halves', ['a.pth', ['a.pth'], ['a.pth', 'a.pth'], ['a', 'b', 'c'], []])
def test_two_different_files(halves):
    with pytest.raises(ValueError, match='halves must be two different checkpoints'):
        CrossFittedTeachers(halves=halves)


def test_files_that_do_not_fit(tmp_path):
    paths, (model, _) = halves_in(tmp_path)
    with pytest.raises(FileNotFoundError, match='nowhere.pth'):
        make_model(CrossFittedTeachers(halves=[paths[0], 'nowhere.pth'])).init_weights()
    weights = model.state_dict()
    weights['supervision.of_another'] = weights.pop('encoder.text.bias')
    torch.save(dict(state_dict=weights), paths[1])
    with pytest.raises(RuntimeError, match=r'half1.pth[\s\S]*encoder.text.bias[\s\S]*of_another'):
        make_model(CrossFittedTeachers(halves=paths)).init_weights()


def test_a_trained_model_needs_neither_files_nor_halves(tmp_path):
    paths, _ = halves_in(tmp_path)
    batch, model = batch_of(*ALL), make_model(CrossFittedTeachers(halves=paths))
    steps(model, [batch] * 2, [0.0, 0.5])
    alone = make_model(CrossFittedTeachers(halves=['gone.pth', 'away.pth']))
    alone.load_state_dict(model.state_dict())
    found, expected = (
        one.eval()(*make_batch(*ALL), mode='predict')[0].scores for one in (alone, model)
    )
    torch.testing.assert_close(found, expected)


def test_what_it_does_not_suit(tmp_path):
    paths, _ = halves_in(tmp_path)
    model = make_model(CrossFittedTeachers(halves=paths))
    with pytest.raises(ValueError, match="half=dict.type='Halves'"):
        model(*make_batch(*ALL), mode='loss')
    with pytest.raises(ValueError, match='ARLSupervision has sets of pairs'):
        VideoTextRetriever(
            encoder=Branches(),
            similarity=model.similarity,
            losses=dict(model.losses),
            supervision=ARLSupervision(dim=8),
            teacher=CrossFittedTeachers(halves=paths),
        )
    with pytest.raises(ValueError, match='MomentumRetriever has pairs with the rows of a bank'):
        test_momentum.dvtr(teacher=CrossFittedTeachers(halves=paths))
    filling = make_model(CrossFittedTeachers(halves=paths))
    for copy in filling.teacher.copies:
        copy.supervision.register_forward_hook(
            lambda _, args, out: (out[0].put(teacher=out[0].weights), out[1])
        )
    with pytest.raises(ValueError, match=r"DVTRSupervision fills \['weights', 'extras'\]"):
        filling(*batch_of(*ALL), mode='loss')
    sharded = make_model(CrossFittedTeachers(halves=paths))
    sharded.encoder.video.weight.device_mesh = object()
    with pytest.raises(ValueError, match='leave model_wrapper_cfg out'):
        sharded.init_weights()
