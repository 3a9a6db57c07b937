"""Every config can be read, names registered parts only, and gives a model that can be built."""

import ast
import copy
from functools import cache
from pathlib import Path

import numpy as np
import pytest
import torch
from mmengine.config import Config
from mmengine.fileio import load
from mmengine.optim import build_optim_wrapper
from torch import nn
from torch.overrides import TorchFunctionMode

from children import config_file
from mmvtr import registry
from mmvtr.datasets import collate_retrieval
from mmvtr.engine.checks.metric_checks import is_reported, reported_by_config
from mmvtr.engine.checks.schedule_checks import check_warmup
from mmvtr.engine.hooks.score_transforms import TransformHook
from mmvtr.engine.training import choose_on_test
from mmvtr.registry import bare_name
from mmvtr.storage import write_plain
from mmvtr.utils import config_names, load_config, register_all_modules

FOLDER = Path(__file__).parents[1] / 'configs'
#: Rows of the metafiles: their values are papers'.  A further config is held to what all are.
INDEX = [load(path) for path in FOLDER.glob('*/metafile.yml')]
NAMES = {model['Name'] for file in INDEX for model in file['Models']}
ALL = [config_file(name) for name in config_names()]
CONFIGS = [path for path in ALL if 'zeroshot' not in path.stem]  # what is trained
REAL = [path for path in CONFIGS if path.stem in NAMES]


SMALL = dict(
    bert=dict(
        model_type='bert',
        vocab_size=50,
        hidden_size=8,
        num_hidden_layers=1,
        num_attention_heads=2,
        intermediate_size=8,
    ),
    t5=dict(
        model_type='t5',
        vocab_size=50,
        d_model=8,
        d_kv=4,
        d_ff=8,
        num_layers=1,
        num_heads=2,
        decoder_start_token_id=0,
    ),
)


def without_downloads(model):
    """Random weights, and small transformers in place of those on the hub."""
    if 'member' in model or 'members' in model:
        for member in (*model.get('members', ()), *filter(None, [model.get('member')])):
            without_downloads(member)
        return model
    encoder = model.encoder.get('encoder', model.encoder)  # of two branches
    for tower in (encoder.get('frames'), encoder.text):
        if tower is not None:
            tower.pop('pretrained', None)
    if encoder.text.type == 'TransformersText':
        encoder.text.model = SMALL['t5' if 't5' in encoder.text.model else 'bert']
    for objective in model.get('objectives', {}).values():
        if 'decoder' in objective:
            objective.decoder = SMALL['t5']
    return model


#: Of tests that change nothing of it: to read all configs takes seconds.
config_of = cache(Config.fromfile)


@cache
def on_meta(path):
    """The model of a config, without memory; rows that differ elsewhere alone share one: do not
    change it."""
    return built_on_meta(repr(without_downloads(Config.fromfile(path).model).to_dict()))


class NoInit(TorchFunctionMode):
    """Weights on the meta device have no values to draw, which takes half of the time."""

    def __torch_function__(self, function, types, args=(), kwargs=None):
        if getattr(function, '__module__', None) == 'torch.nn.init':
            return args[0] if args else kwargs['tensor']
        return function(*args, **(kwargs or {}))


@cache
def built_on_meta(model):
    register_all_modules()
    with torch.device('meta'), NoInit():
        return registry.MODELS.build(ast.literal_eval(model))


def parts_of(path):
    """The words of a config's name."""
    return path.stem.split('_')


def family(path):
    """What the name of a config says of its method: 'dvtr', 'ncl' ..."""
    return parts_of(path)[0]


@pytest.mark.parametrize('path', CONFIGS, ids=lambda path: path.stem)
def test_config(path):
    cfg, model = Config.fromfile(path), on_meta(path)
    model = getattr(model, 'members', [model])[0]
    assert (model.losses or model.objectives) and model.encoder.dim > 0
    for split in ('train', 'val', 'test'):
        loader = cfg.get(f'{split}_dataloader')
        if loader is None:
            assert split == 'val'
            continue
        assert registry.DATASETS.get(loader.dataset.type) is not None
        for step in (*loader.dataset.video_pipeline, *loader.dataset.text_pipeline):
            assert registry.TRANSFORMS.get(step.type) is not None, step
    for metric in cfg.test_evaluator:
        registry.METRICS.build(metric)
    for hook in (*cfg.default_hooks.values(), *cfg.get('custom_hooks', [])):
        registry.HOOKS.build(hook)
    if 'MomentsHook' in [bare_name(hook) for hook in cfg.get('custom_hooks', [])]:
        assert hasattr(model.similarity, 'paired_matches')
    assert registry.LOOPS.get(cfg.train_cfg.type) is not None
    optimizer = cfg.optim_wrapper.optimizer
    assert registry.OPTIMIZERS.get(optimizer.type) is not None
    for keys in cfg.get('shortcuts', {}).values():
        for key in keys:
            assert value_at(cfg, key) == value_at(cfg, keys[0]), key


def value_at(cfg, key):
    """None where the config leaves it to the default."""
    *parts, last = key.split('.')
    for part in parts:
        cfg = cfg[int(part) if part.isdigit() else part]
    return cfg.get(last)


#: Combinations of methods, and those that only the planted corpus can have.
COMPARED = [
    path
    for path in [*CONFIGS, *sorted(FOLDER.parent.glob('projects/lab/configs/*.py'))]
    if 'planted_features' in path.stem
    and {
        *('oracle', 'adaptive', 'cmgsd', 'teachtext', 'ran', 'ranp', 'ncl', 'uatvr', 'relative'),
        *('agreement', 'taco', 'dldkd', 'xpool', 'guide', 'hardness', 'pcmepp', 'prolip'),
        'neighborretr',
    }
    & set(parts_of(path))
]


def store_teachers(dataset, generator):
    """Vectors that pipelines read beside the items: of 5 frames, or of a sentence."""
    stores = {
        side: [p for step in dataset[f'{side}_pipeline'] for p in step.get('stores', {}).values()]
        for side in ('video', 'text')
    }
    if not any(stores.values()):
        return
    bare = registry.DATASETS.build({**dataset, 'video_pipeline': [], 'text_pipeline': []})
    for side, records, rows in (('video', bare.videos, 5), ('text', bare.texts, 1)):
        for folder in map(Path, stores[side]):
            folder.mkdir(parents=True, exist_ok=True)
            for record in records:
                vectors = generator.normal(size=(rows, 8)).astype(np.float32)
                np.save(folder / f'{record[f"{side}_id"]}.npy', vectors)


@pytest.mark.parametrize('path', COMPARED, ids=lambda path: path.stem)
def test_a_training_step_on_the_planted_corpus(path, tmp_path_factory, monkeypatch):
    """From features of a tiny corpus to a gradient, with all that a method reads of its dataset."""
    register_all_modules()
    monkeypatch.chdir(tmp_path_factory.getbasetemp())
    cfg = Config.fromfile(path)
    dataset = cfg.train_dataloader.dataset
    small = dict(num_train=8, num_val=1, num_test=1)
    dataset.update(small)
    for step in dataset.text_pipeline:
        step.get('counted', {}).update(small)
    reader = cfg.train_dataloader.dataset.video_pipeline[0]
    features = Path(reader.experts.frames.path if 'experts' in reader else reader.path)
    features.mkdir(parents=True, exist_ok=True)
    generator = np.random.default_rng(0)
    for v in range(8):
        frames = generator.normal(size=(6, 128)).astype(np.float32)
        np.save(features / f'train_{v:04d}.npy', frames)
    store_teachers(dataset, generator)
    dataset = registry.DATASETS.build(dataset)
    for teacher in cfg.model.get('supervision', {}).get('members', ()):
        teacher.config = str(
            FOLDER / Path(teacher.config).name  # a training that comes before
            if cfg.get('before')
            else FOLDER.parent / teacher.config  # tools run in the root
        )
        Path(teacher.checkpoint).parent.mkdir(parents=True, exist_ok=True)
        control = registry.MODELS.build(Config.fromfile(teacher.config).model)
        write_plain(dict(state_dict=control.state_dict()), teacher.checkpoint)
    model = registry.MODELS.build(cfg.model)
    items = [dataset[i] for i in range(len(dataset))]
    if family(path) == 'causal':  # a batch is of one environment
        items = [item for item in items if item['video']['environment'] == 0]
    batch = model.data_preprocessor(collate_retrieval(items))
    loss, _ = model.parse_losses(model(**batch, mode='loss'))
    loss.backward()
    encoder = getattr(model, 'members', [model])[0].encoder
    gradients = [p.grad.abs().sum() for p in encoder.parameters() if p.grad is not None]
    assert sum(gradients) > 0 and torch.stack(gradients).isfinite().all()


#: Share of the training.
HARD_FROM = dict(tvr=0.3, activitynet=0.2, charades=None)


def of_families(*names):
    """Configs on real data of some methods."""
    chosen = [path for path in REAL if family(path) in names]
    assert chosen
    return pytest.mark.parametrize('path', chosen, ids=lambda path: path.stem)


@pytest.mark.parametrize('path', REAL, ids=lambda path: path.stem)
def test_one_process_has_the_batch_that_the_rate_is_for(path):
    cfg = config_of(path)
    assert cfg.auto_scale_lr == dict(base_batch_size=cfg.train_dataloader.batch_size, enable=False)


@pytest.mark.parametrize('path', REAL, ids=lambda path: path.stem)
def test_short_trainings(path):
    """Warm-ups are shares of a training."""
    cfg = Config.fromfile(path)
    cfg.train_cfg.max_epochs = 1
    check_warmup(cfg)


#: MB of activations that a tower keeps of a frame, in float32.
KEPT = {'ViT-B-16-quickgelu': 148, 'ViT-B-32-quickgelu': 38}


@pytest.mark.parametrize('path', REAL, ids=lambda path: path.stem)
def test_checkpointing_is_on_where_one_process_needs_it(path):
    cfg = config_of(path)
    model = cfg.model.get('member', cfg.model)
    frames = model.encoder.get('frames', {})
    if frames.get('type') != 'OpenCLIPFrames':
        assert 'grad_checkpointing' not in frames
        return
    count = cfg.train_dataloader.dataset.video_pipeline[0].num_frames
    count = min(count, 30) if 'didemo' in path.stem else count  # of 30 s, one a second
    kept = cfg.train_dataloader.batch_size * count * KEPT[frames.model] / 1000
    assert frames.grad_checkpointing == (kept > 64), f'{kept} GB'


#: Embeddings that are words or roles, and parameters that belong to no layer of torch's.
TABLES = ('token_embedding', 'word_embeddings', 'embed_tokens', 'shared', 'table', 'roles')
OWN_MATRICES = ('proj', 'text_projection', 'weight_center', 'emb_center', 'clusters', 'centres')


def weight_matrices(model):
    """Names of what is to decay, by the layers that hold it."""
    names = set()
    for place, layer in model.named_modules():
        own = [name for name, _ in layer.named_parameters(recurse=False)]
        if isinstance(layer, (nn.Linear, nn.Conv1d, nn.Conv2d)):
            own = ['weight']
        elif isinstance(layer, nn.Embedding):
            own = own if place.endswith(TABLES) else []
        elif isinstance(layer, (nn.MultiheadAttention, nn.RNNBase)):
            own = [name for name in own if 'weight' in name]
        else:
            own = [name for name in own if name in OWN_MATRICES]
        names.update(f'{place}.{name}' for name in own)
    return names


@pytest.mark.parametrize('path', REAL, ids=lambda path: path.stem)
def test_what_decays(path):
    model, cfg = on_meta(path), config_of(path)
    groups = build_optim_wrapper(model, cfg.optim_wrapper).optimizer.param_groups
    names = {id(p): name for name, p in model.named_parameters() if p.requires_grad}
    found = {names.pop(id(p)): group for group in groups for p in group['params']}
    assert not names  # each is in one group
    decay = cfg.optim_wrapper.optimizer.get('weight_decay', 0)
    matrices = weight_matrices(model) if decay else set()
    for name, group in found.items():
        assert group['weight_decay'] == (decay if name in matrices else 0), name


@of_families('dvtr', 'c2v')
def test_values_of_dvtr(path):
    """DVTR Sec. V-A.2: 12 frames, 32 tokens, batch 128, 5 epochs, K = 7, lambda .5, tau .07.

    The baselines learn CLIP's scale, as CLIP2Video's code does.
    """
    cfg = config_of(path)
    parts = parts_of(path)
    if 'hit' in parts:
        return  # test_values_of_hit
    if 'ce' in parts:
        return  # test_values_of_ce
    if family(path) == 'dvtr':
        supervision = cfg.model.supervision
        assert supervision.num_samples == 7
        assert supervision.floor == 0  # Eq. 13 has none
        assert (supervision.reference, supervision.sharpness) == ('mean', 2.0)
        assert supervision.ramp == (0.33, 0.67)
        pcme = 'pcme' in path.stem
        assert cfg.model.heads.type == ('PCMEGaussianHead' if pcme else 'HierarchicalGaussianHead')
        assert supervision.type == ('PCMESupervision' if pcme else 'DVTRSupervision')
        keys, lr = cfg.optim_wrapper.paramwise_cfg.custom_keys, cfg.optim_wrapper.optimizer.lr
        assert keys.heads.lr_mult * lr == pytest.approx(2e-5)  # Sec. V-A.2
    loader = cfg.train_dataloader
    assert loader.batch_size == 128 and cfg.train_cfg.max_epochs == 5
    length = (64, 64) if 'activitynet' in parts else (12, 32)
    words = loader.dataset.text_pipeline[0]
    assert loader.dataset.video_pipeline[0].num_frames == length[0]
    assert words.get('context_length', words.get('max_length')) == length[1]
    assert cfg.model.encoder.frames.model[:8] == ('ViT-B-32' if 'vitb32' in parts else 'ViT-B-16')
    temperature = cfg.model.temperature
    if family(path) == 'dvtr' or {'triplet', 'tau07'} & set(parts):
        assert (temperature.init, temperature.get('learnable', False)) == (0.07, False)
    else:
        assert temperature == dict(type='Temperature', init=0.01, learnable=True)
    (loss,) = cfg.model.losses.values()
    assert loss.reads == ('global', 'aligned')
    kinds = dict(triplet='RankingLoss', ncl='NormalizedContrastiveLoss')
    (kind,) = [kinds[part] for part in parts if part in kinds] or ['ContrastiveLoss']
    assert loss.type == kind
    assert 'triplet' not in parts or loss.margin == 0.5


def test_values_of_neighborretr():
    """The defaults of the official code's arguments."""
    cfg = Config.fromfile('configs/neighborretr_clip4clip_msrvtt.py')
    (loss,) = cfg.model.losses.values()
    assert loss == dict(type='NeighborRetrLoss')
    loss, judge = registry.MODELS.build(loss), registry.MODELS.build(cfg.model.supervision)
    assert loss.near == dict(neighbours=20, sharpness=3.0)
    assert loss.uniform['share'] == 0.7 and loss.uniform_temperature == 1 / 3
    assert judge.scale == 0.3 and judge.banks['text'].size == judge.banks['video'].size == 512
    assert cfg.train_dataloader.batch_size == 128 and cfg.train_cfg.max_epochs == 5


@of_families('xpool')
def test_values_of_xpool(path):
    """The commands of the authors' repository, and the defaults of its arguments."""
    cfg = config_of(path)
    similarity, dropout = cfg.model.similarity, dict(xpool_msvd=0.4).get(path.stem, 0.3)
    assert (similarity.dim, similarity.heads, similarity.dropout) == (512, 1, dropout)
    assert cfg.train_dataloader.batch_size == 32 and cfg.train_cfg.max_epochs == 5
    assert cfg.optim_wrapper.optimizer.weight_decay == 0.2
    schedule = dict(type='mmvtr.WarmupCosineLR', warmup=0.1, whole=False, by_epoch=False)
    assert cfg.param_scheduler == [schedule]
    assert cfg.model.temperature == dict(type='Temperature', init=0.01, learnable=True)
    assert cfg.model.losses == dict(contrastive=dict(type='ContrastiveLoss'))
    for split in ('train', 'val', 'test'):
        load = (cfg.get(f'{split}_dataloader') or cfg.test_dataloader).dataset.video_pipeline[0]
        assert (load.sampling, load.num_frames) == ('segment_centre', 12)


@pytest.mark.parametrize('row', ['msrvtt', 'msrvtt_full', 'msvd', 'vatex', 'activitynet', 'lsmdc'])
def test_a_baseline_differs_from_dvtr_in_debiasing_and_temperature(row):
    one, other = (Config.fromfile(config_file(f'{m}_{row}')) for m in ('c2v', 'dvtr_c2v'))
    for cfg in (one, other):
        for key in ('temperature', 'supervision', 'heads'):
            cfg.model.pop(key, None)
        cfg.model.losses.contrastive.pop('weighted', None)
    for key in ('model', 'train_dataloader', 'test_dataloader', 'train_cfg', 'param_scheduler'):
        assert one[key] == other[key], key


@of_families('dvtr')
def test_only_jointly_do_the_heads_move_the_encoders(path):
    """Algorithm 1, line 7, and no other config: gradients of the uncertainty module's losses."""
    register_all_modules()
    cfg = Config.fromfile(path)
    small = Config.fromfile(FOLDER / 'dvtr_c2v_planted_features.py')
    cfg.model.encoder = small.model.encoder  # which costs nothing
    if {'ce', 'hit'} & set(parts_of(path)):  # whose scores are of other levels
        cfg.model.losses, cfg.model.head_reads = {}, 'global'
        cfg.model.similarity = small.model.similarity
    torch.manual_seed(0)
    model = registry.MODELS.build(cfg.model)
    ids = torch.arange(4)
    inputs = dict(
        video=torch.randn(4, 6, 128),
        frame_mask=torch.ones(4, 6, dtype=torch.bool),
        text=torch.randint(1, 70, (4, 9)),
        text_mask=torch.ones(4, 9, dtype=torch.bool),
    )
    names = [str(i) for i in range(4)]
    samples = dict(text_videos=ids[:, None], video_idx=ids, text_ids=names, video_ids=names)
    losses = model(inputs, samples, mode='loss')
    uncertainty = [losses[name] for name in ('loss_match', 'loss_align') if name in losses]
    assert len(uncertainty) == (1 if 'pcme' in path.stem else 2)
    joint = path.stem.endswith('joint')
    for loss in uncertainty:
        model.zero_grad()
        loss.backward(retain_graph=True)
        moved = {
            part: any(
                p.grad is not None and p.grad.any() for p in getattr(model, part).parameters()
            )
            for part in ('encoder', 'heads')
        }
        assert moved == dict(encoder=joint, heads=True)
    weights = (cfg.model.supervision.get(f'{name}_weight', 1.0) for name in ('match', 'align'))
    assert all(weight < 1 for weight in weights) == joint


#: Words of names that are data sets.
SETS = ('msrvtt', 'msvd', 'activitynet', 'lsmdc', 'didemo', 'vatex')


@of_families('ncl', 'clip4clip', 'ssb')
def test_values_of_ncl(path):
    """NCL App. B and C: epochs, lengths, 4 iterations, queues of 16,384, scale 15 on SSB."""
    cfg = config_of(path)
    parts = parts_of(path)
    own_schedule = '5e' in parts  # CLIP4Clip's, where NCL has tuned it
    dataset, loader = next(part for part in parts if part in SETS), cfg.train_dataloader
    tuned = 'seqtransf' not in parts and not own_schedule
    long = dataset in ('activitynet', 'didemo')
    length = (64, 64) if long else (30, 32) if 'ssb' in parts else (12, 32)
    if 'mmt' in parts:  # our own: MMT's numbers stay
        assert cfg.model.temperature.init == 0.07 and cfg.train_cfg.max_epochs == 9
        return
    pipelines = loader.dataset
    assert pipelines.video_pipeline[0].num_frames == length[0]
    words = pipelines.text_pipeline[0]
    assert words.get('context_length', words.get('max_length')) == length[1]
    if 'ssb' in parts:
        assert cfg.model.temperature.init == 0.07
        assert cfg.model.encoder.dropout == (0.0 if long else 0.1)
        (loss,) = cfg.model.losses.values()
        assert loss.loss_weight == (15 if 'ncl' in parts else 128)
        assert loader.batch_size == cfg.auto_scale_lr.base_batch_size == 64
        captions = dict(msrvtt=180_000, msvd=48_774, activitynet=10_009, vatex=259_910)[dataset]
        steps = cfg.train_cfg.max_epochs * captions / loader.batch_size
        epoch = captions / loader.batch_size  # ours: as many everywhere, in whole epochs
        assert abs(steps - 14_062) < max(600, epoch / 2)
    elif 'vitb16' in parts:  # a row of UATVR
        assert loader.batch_size == 64 and cfg.model.encoder.frames.model == 'ViT-B-16-quickgelu'
    else:
        epochs = dict(msvd=3, activitynet=10) if tuned else {}
        assert cfg.train_cfg.max_epochs == epochs.get(dataset, 5)
        vit = 'ViT-B-16-quickgelu' if 'c2v' in parts else 'ViT-B-32-quickgelu'
        assert cfg.model.encoder.frames.model == vit
        aggregator = 'transformer' if 'seqtransf' in parts else 'mean'  # NCL takes meanP
        assert cfg.model.encoder.get('aggregator', 'mean') == aggregator
    (scheduler,) = cfg.param_scheduler
    warmup = 0.0 if dataset == 'msvd' and tuned and 'ssb' not in parts else 0.1
    assert scheduler == dict(type='mmvtr.WarmupCosineLR', warmup=warmup, by_epoch=False)


#: Where a paper's number is not the raw score's: what the name of a config says -> key.
AFTER = dict(
    ncl='sinkhorn/',
    postprocessed='dual_softmax_oracle/',
    qbnorm='qb_norm/',
    epic='relevance/avg_nDCG',
)


@pytest.mark.parametrize('path', REAL, ids=lambda path: path.stem)
def test_the_epoch_is_chosen_by_what_the_paper_reports(path):
    """On val, and on the test set by train.py --best-on-test."""
    register_all_modules()
    cfg = load_config(str(path))
    on_test = copy.deepcopy(cfg)
    choose_on_test(on_test)
    for one in [on_test, cfg] if cfg.get('val_evaluator') else [on_test]:
        chosen = one.default_hooks.checkpoint.save_best
        assert is_reported(chosen, reported_by_config(one, 'val'))
    expected = [key for part, key in AFTER.items() if part in parts_of(path)]
    transforms = [
        h.name
        for h in map(registry.HOOKS.build, cfg.get('custom_hooks', []))
        if isinstance(h, TransformHook)
    ]
    assert chosen.startswith(expected[0]) if expected else chosen.split('/')[0] not in transforms


#: NCL on real data, and what it is compared with.
NCL = [path.stem for path in REAL if family(path) == 'ncl']


@pytest.mark.parametrize('name', NCL)
def test_ncl_and_its_baseline_are_tested_alike(name):
    """Tab. 5 and Fig. 2-3: train queue, control, oracle, errors; only the loss differs."""
    cfg, baseline = (Config.fromfile(FOLDER / f'{stem}.py') for stem in (name, name[len('ncl_') :]))
    for one in (cfg, baseline):
        hooks = {bare_name(hook): hook for hook in one.custom_hooks}
        assert hooks['QueryQueueHook'].size == 16384
        of_test = [h for h in one.custom_hooks if bare_name(h) == 'SinkhornHook']
        assert [h.queries for h in of_test] == ['train_queue', 'test']
        assert [h.iterations for h in of_test] == [4, 4]
        assert hooks['InvertedSoftmaxHook'].queries == 'train_queue'
        assert 'ScoresFileHook' in hooks
        assert ('ModalityGapHook' in hooks) == ('mmt' not in name)  # one vector an item
        assert 'NormalisationMetric' in [bare_name(metric) for metric in one.test_evaluator]
    (loss,) = cfg.model.losses.values()
    assert loss.get('iterations', 4) == 4
    chosen = cfg.default_hooks.checkpoint.save_best
    assert chosen == 'sinkhorn/retrieval/rsum'
    assert baseline.default_hooks.checkpoint.save_best == 'retrieval/rsum'
    for one in (cfg, baseline):
        one.model.pop('losses')
        one.model.pop('temperature', None)
        one.default_hooks.checkpoint.pop('save_best')
        one.pop('filename', None)
    assert cfg.to_dict() == baseline.to_dict()


@of_families('arl', 'gmmformer', 'mssl')
def test_when_hard_negatives_begin(path):
    """GMMFormer: epoch 30 of 100 on TVR, 20 on ActivityNet, never on Charades; MS-SL: 20 on all."""
    cfg = config_of(path)
    assert cfg.train_cfg.max_epochs == 100
    triplets = [loss for loss in cfg.model.losses.values() if loss.type == 'RankingLoss']
    starts = {loss.pool and loss.pool_from for loss in triplets}
    dataset = next(word for word in parts_of(path) if word in HARD_FROM)
    assert starts == {0.2 if family(path) == 'mssl' else HARD_FROM[dataset]}


@pytest.mark.parametrize('dataset', ['epic', 'youcook2', 'msrvtt'])
def test_all_rows_of_the_frame_length_paper_train_equally_long(dataset):
    """Sec. 4: 100 epochs for all."""
    rows = [p for p in REAL if f'hgr_{dataset}' in p.stem]
    assert len(rows) >= 6
    assert {config_of(path).train_cfg.max_epochs for path in rows} == {100}


@pytest.mark.parametrize('path', [p for p in REAL if family(p) == 'own'], ids=lambda p: p.stem)
def test_two_values_reach_all_sets_of_own_data(path):
    cfg = load_config(str(path), {'table': 'my.csv', 'videos': 'mine', 'columns.text': 'caption'})
    sets = [cfg.own, *(cfg[f'{split}_dataloader'].dataset for split in ('train', 'val', 'test'))]
    for one in sets:
        assert (one.table, one.videos) == ('my.csv', 'mine')
        assert one.columns == dict(video='video', text='caption')
        step = one.video_pipeline[0]
        assert step.get('path') == ('mine' if 'features' in path.stem else None)
    assert [one.split for one in sets[1:]] == ['train', 'val', 'test']
    assert load_config(str(path), {'batch': 64}).auto_scale_lr.base_batch_size == 64
