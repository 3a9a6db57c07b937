"""Values of ARL and of the frame-length paper in their configs, and what is made of them."""

import csv

import numpy as np
import pytest
import torch
from mmengine.config import Config

from children import config_file
from mmvtr import registry
from mmvtr.datasets.record_transforms import without
from mmvtr.studies.reading import read_study
from mmvtr.utils import load_config, register_all_modules
from tests.test_configs import CONFIGS, family, of_families, without_downloads

CONFIG = {path.stem: path for path in CONFIGS}


def load(name, **options):
    """A config as the tools read it."""
    return load_config(str(config_file(name)), options)


def built(cfg):
    """Its model, without memory."""
    register_all_modules()
    with torch.device('meta'):
        return registry.MODELS.build(without_downloads(cfg.model))


# -- ARL ---------------------------------------------------------------------------------------


@of_families('arl')
def test_values_of_arl(path):
    """A few epochs of warm-up of 100; frames have a rule of their own, within the margin."""
    cfg = Config.fromfile(path)
    assert cfg.train_cfg.max_epochs == 100
    supervision = cfg.model.supervision
    assert supervision.warmup_epochs == 5 and 'warmup' not in supervision
    assert supervision.frame_u_spread == 0
    triplet = cfg.model.losses.triplet
    margin = 0.1 if 'tvr' in path.stem else 0.2
    assert triplet.margin == supervision.get('margin', 0.2) == supervision.frame_slack == margin
    assert supervision.get('ambiguous_margin', 0.1) == margin / 2
    # GMMFormer: hard negatives from epoch 30 on TVR, 20 on ActivityNet, never on Charades.
    late = dict(tvr=(20, 0.3), activitynet=(20, 0.2), charades=(None, 0.2))
    assert (triplet.pool, triplet.pool_from) == late[path.stem.split('_')[1]]
    paper = path.stem.endswith('paper')
    assert (supervision.get('rule', 'own') == 'mean') == paper
    assert (supervision.cap, supervision.get('u_spread', 1.5)) == ((None, 0) if paper else (1, 1.5))


@pytest.mark.parametrize('features', ['i3d', 'clip'])
@pytest.mark.parametrize('dataset', ['tvr', 'activitynet'])
def test_the_papers_thresholds_differ_in_nothing_else(dataset, features):
    """Tab. 1 and 2."""
    ours, paper = (Config.fromfile(CONFIG[f'arl_{dataset}_{features}{x}']) for x in ('', '_paper'))
    arl = built(paper).supervision
    assert all(b.spread == b.u_spread == b.frame_u_spread == 0 for b in arl.branches.values())
    for key in ('rule', 'cap', 'u_spread'):
        ours.model.supervision.pop(key, None), paper.model.supervision.pop(key)
    assert ours.to_dict() == paper.to_dict()


@pytest.mark.parametrize(
    'row, exchange, frames', [('b', False, 0), ('c', False, 1), ('d', True, 0), ('e', True, 1)]
)
@pytest.mark.parametrize('study', ['arl_tab5', 'arl_tab5_ours'])
def test_rows_of_table_5(study, row, exchange, frames):
    """T-V in all of them; T-F is a text-frame loss, C.L that branches exchange their sets."""
    (run,) = (run for run in read_study(study).rows if run.name.startswith(f'{row}:'))
    supervision = built(load_config(run.config, run.options)).supervision
    assert (supervision.exchange, supervision.frame_weight) == (exchange, frames)
    for branch in supervision.branches.values():
        assert branch.u_spread == (1.5 if study == 'arl_tab5_ours' else 0)


@pytest.mark.parametrize('study', ['arl_tab5', 'arl_tab5_ours'])
def test_row_a_of_table_5_has_no_sets(study):
    run = read_study(study).rows[0]
    cfg = load_config(run.config, run.options)
    assert built(cfg).supervision is None
    assert [hook.type for hook in cfg.custom_hooks] == ['mmvtr.MomentsHook']


@pytest.mark.parametrize('study', ['arl_tab6', 'arl_tab6_ours'])
def test_rows_of_table_6(study):
    cfgs = [load_config(run.config, run.options).model for run in read_study(study).rows]
    assert [cfg.supervision.get('strategy') for cfg in cfgs] == ['positive', 'ignore', None]
    assert [cfg.losses.nce.form for cfg in cfgs] == ['outer_sum', 'own_pair', 'own_pair']


def test_gmmformer_on_tvr_begins_with_hard_negatives_at_epoch_30():
    losses = load('gmmformer_tvr_i3d').model.losses
    assert losses.t2v.pool_from == losses.v2t.pool_from == 0.3
    losses = load('mssl_tvr_i3d').model.losses  # MS-SL: at 20, whatever the dataset
    assert losses.t2v.pool_from == losses.v2t.pool_from == 0.2


@pytest.mark.parametrize('name', ['mssl_tvr', 'mssl_activitynet', 'gmmformer_tvr', 'dldkd_tvr'])
def test_rows_of_arl_that_are_a_change_of_another(name):
    """On CLIP-L/14 all but the features is as on I3D; DL-DKD differs from ++ in its labels."""
    if name.startswith('dldkd'):
        soft, hard = load(name), load(f'{name}_hard')
        for branch in ('inherit_nce', 'explore_nce'):
            assert hard.model.losses[branch].pop('alpha') == 1
            assert hard.model.losses[branch].pop('alpha_floor') == 1
        for key in ('model', 'train_dataloader', 'optim_wrapper', 'train_cfg'):
            assert hard[key] == soft[key], key
        return
    i3d, clip = load(f'{name}_i3d'), load(f'{name}_clip')
    tower = clip.model.encoder
    assert (tower.frames.in_dim, tower.text.in_dim, tower.max_words) == (768, 768, 77)
    i3d.model.encoder = clip.model.encoder
    for key in ('model', 'optim_wrapper', 'param_scheduler', 'train_cfg', 'test_evaluator'):
        assert clip[key] == i3d[key], key


# -- RAN, RANP, HGR ----------------------------------------------------------------------------


def model_of(cfg):
    """That of a member."""
    return cfg.model.get('member', cfg.model)


@pytest.mark.parametrize(
    'path', [p for n, p in CONFIG.items() if '_ranp' in n and 'hgr' in n], ids=lambda p: p.stem
)
def test_values_of_ranp(path):
    """The frame-length paper's threshold, the official one in the official balance: one relevance,
    two triplets of one weight."""
    model = model_of(Config.fromfile(path))
    threshold = 0.4 if path.stem.endswith('all') else 0.2
    assert model.supervision == dict(type='RelevanceSupervision', negatives_below=threshold)
    losses = model.losses
    assert losses.relevant.threshold is None
    assert losses.relevant.loss_weight == losses.triplet.loss_weight == 2
    assert losses.relevant.margin == losses.triplet.margin == 0.2
    how = (losses.triplet.negatives, losses.triplet.average, losses.relevant.get('negatives'))
    hardest, every = ('hardest', 'anchors', None), ('all', 'entries', 'all')
    assert how == (every if path.stem.endswith('all') else hardest)


def test_ranp_on_the_planted_corpus_in_the_official_balance():
    model = built(load('ranp_c2v_planted_features_all'))
    one, two = model.losses['triplet'], model.losses['relevant']
    assert one.loss_weight == two.loss_weight == 1 and one.reads == two.reads
    assert one.negatives == two.negatives == 'all' and model.supervision.quantile == 0.988


@pytest.mark.parametrize(
    'path', [p for n, p in CONFIG.items() if n.endswith('_ran')], ids=lambda p: p.stem
)
def test_values_of_ran(path):
    model = model_of(Config.fromfile(path))
    assert model.supervision.negatives_below == 0.75 and [*model.losses] == ['triplet']


@pytest.mark.parametrize('dataset', ['msrvtt', 'youcook2', 'msrvtt_full'])
def test_graphs_found_by_rules_have_edges(dataset):
    cfg = load(f'hgr_{dataset}')
    for loader in ('train', 'val', 'test'):
        loader = cfg.get(f'{loader}_dataloader')
        assert loader is None or loader.dataset.text_pipeline[0].links


def test_msrvtt_full_in_its_three_parts():
    cfg = load('causal_hgr_msrvtt_full_ranp')
    loaders = [cfg[f'{part}_dataloader'] for part in ('train', 'val', 'test')]
    assert [x.dataset.split for x in loaders] == ['full_train', 'full_val', 'full_test']
    assert {x.batch_size for x in loaders} == {64}
    assert cfg.test_evaluator[-1].train.split == 'full_train'


@pytest.mark.parametrize(
    'name, columns', [('audio', range(2048)), ('spatial', range(1024, 3072)), ('temporal', None)]
)
def test_features_of_table_6(name, columns, tmp_path):
    """TBN's RGB, flow and audio, 1,024 each: two of them, in train and test."""
    columns = [*range(1024), *range(2048, 3072)] if columns is None else [*columns]
    np.save(tmp_path / 'a.npy', np.arange(2 * 3072.0).reshape(2, 3072))
    (run,) = (run for run in read_study('causal_tab6').rows if run.name == f'without {name}')
    cfg = load_config(run.config, run.options)
    for loader in ('train_dataloader', 'test_dataloader'):
        read, trim = cfg[loader].dataset.video_pipeline
        assert trim == dict(type='TrimFeatures', num_frames=20)
        step = registry.TRANSFORMS.build({**read, 'path': str(tmp_path)})
        assert step.transform(dict(video_id='a'))['features'][0].tolist() == columns
    assert built(cfg).encoder.frames.in_dim == len(columns) == 2048


# -- causal ------------------------------------------------------------------------------------

CAUSAL = [n for n, p in CONFIG.items() if family(p) == 'causal' and 'planted' not in n]


@pytest.mark.parametrize('name', CAUSAL)
@pytest.mark.parametrize('parts', [3, 4])
def test_parts_of_table_4_are_one_option(name, parts):
    cfg = load(name, parts=parts)
    assert len(built(cfg).members) == parts
    split = registry.TASK_UTILS.build(cfg.train_dataloader.dataset.records.environments)
    assert getattr(split, 'like', split).parts == parts


@pytest.mark.parametrize('name', ['epic', 'youcook2', 'msrvtt'])
def test_equal_parts_of_table_4(name):
    environments = 'train_dataloader.dataset.records.environments'
    options = {f'{environments}.rule': 'equal', f'{environments}.share': None}
    cfg = load(f'causal_hgr_{name}', **options)
    split = cfg.train_dataloader.dataset.records.environments
    assert registry.TASK_UTILS.build(split).rule == 'equal'


def groups(name, root, **options):
    """Sizes of the parts of a config's training set."""
    register_all_modules()
    dataset = without(load(name, **options).train_dataloader.dataset, 'classes')
    how = dict(video_pipeline=[], text_pipeline=[], ann_root=root)
    return np.bincount(registry.DATASETS.build({**dataset, **how}).environments).tolist()


@pytest.mark.parametrize(
    'name, folder, sizes',
    [
        ('causal_hgr_youcook2', 'YouCook2', [8000, 2337]),
        *(
            pytest.param(name, 'MSRVTT', parts, marks=pytest.mark.nightly)
            for name, parts in (
                ('causal_hgr_msrvtt_full', [4305, 2208]),
                ('causal_hgr_msrvtt', [5950, 3050]),
                ('causal_mmt_msrvtt', [5950, 3050]),
            )
        ),
    ],
)
def test_the_papers_parts(name, folder, sizes, shared):
    """App. C.1."""
    root = shared / 'data' / folder
    assert groups(name, root) == sizes
    halved = sum(sizes) // 2
    three = groups(name, root, parts=3)
    assert three[0] == halved and sum(three) == sum(sizes) and len(three) == 3


def test_a_start_from_the_full_model_is_that_of_its_config():
    cfg, full = load('causal_hgr_epic_finetuned'), load('hgr_epic')
    (hook,) = cfg.custom_hooks
    assert hook.init_from == f'{full.work_dir}/epoch_{full.train_cfg.max_epochs}.pth'
    assert cfg.model.member == full.model


def test_rmvone_is_the_papers(shared):
    """Tab. 8: 95 clips of "pick up rubbish", 43 of them left, mean 302.32 (302.30 here)."""
    lengths = []
    with open(shared / 'data/EPIC100/EPIC_100_train_rebuilt.csv') as file:
        for row in csv.DictReader(file):
            if (row['verb_class'], row['noun_class']) == ('0', '54'):
                lengths.append(int(row['stop_frame']) - int(row['start_frame']))
    for opposite, mean in ((False, 302.30), (True, 64.49)):
        how = load('hgr_epic_rmv_one').train_dataloader.dataset.records.environments
        removal = registry.TASK_UTILS.build({**how, 'opposite': opposite, 'test': Clips([305.5])})
        left = removal.assign(Clips(lengths).videos)[0][:95] == 0
        assert len(lengths) == 95 and left.sum() == 43
        assert np.mean(np.array(lengths)[left]) == pytest.approx(mean, abs=0.01)


class Clips:
    """What a removal reads of a dataset: clips of one class, and of another."""

    def __init__(self, lengths):
        actions = [[(0, 54)]] * len(lengths) + [[(1, 1)]] * 50
        self.frames = np.array([*lengths, *[100.0] * 50])
        self.videos = [
            dict(video_id=str(v), actions=own, num_frames=frames)
            for v, (own, frames) in enumerate(zip(actions, self.frames))
        ]

    def lengths(self, unit):
        assert unit == 'frames'
        return self.frames


def test_scene_aware_batches_of_egovlp():
    cfg, plain = load('egonce_clip_epic_scene'), load('egonce_clip_epic')
    loader = cfg.train_dataloader
    assert loader.pop('batch_sampler') == dict(type='mmvtr.SceneBatchSampler', window=60.0)
    assert loader == plain.train_dataloader and loader.batch_size == 128
