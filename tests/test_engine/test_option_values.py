"""Values of --cfg-options by the types that their keys have, over the package's own configs."""

from typing import Any, Optional, Union, get_args

import pytest
from mmengine.config import Config

from mmvtr.cli.values import Written, part
from mmvtr.engine.checks.arguments import annotation_of
from mmvtr.errors import UserError
from mmvtr.utils import kind_at, load_config

ODD = [
    'My Clips',
    '2024',
    '00123',
    '1e5',
    'a,b',
    '[x]',
    "it's",
    r'C:\new\t',
    'a=b',
    'None',
    'é 视频',
]


def loaded(config, **options):
    written = {key.replace('__', '.'): Written(value) for key, value in options.items()}
    return load_config(config, written)


def value_of(cfg, key):
    for name in key.split('.'):
        cfg = part(cfg, name)
    return cfg


@pytest.mark.parametrize('text', ODD)
def test_a_path_a_split_and_a_column_stay_as_they_are_typed(text):
    keys = ['test_dataloader.dataset.split', 'test_dataloader.dataset.columns.start', 'work_dir']
    cfg = load_config(
        'own_clip4clip', {key: Written(text) for key in ('videos', 'table', 'columns.video', *keys)}
    )
    for split in ('train', 'val', 'test'):
        dataset = cfg[f'{split}_dataloader'].dataset
        assert dataset.videos == dataset.table == dataset.columns.video == text
        assert type(dataset.videos) is str  # a checkpoint holds the config
    assert [value_of(cfg, key) for key in keys] == [text] * 3
    if text != 'None':
        assert loaded('own_clip4clip', load_from=text, pretrained=text).load_from == text


@pytest.mark.parametrize(
    ('config', 'key', 'text', 'value'),
    [
        ('own_clip4clip', 'optim_wrapper.optimizer.lr', '2e-4', 2e-4),
        ('own_clip4clip', 'fractions.train', '.5', 0.5),
        ('own_clip4clip', 'fractions', "{'train': .5, 'val': .2, 'test': .3}", None),
        ('own_clip4clip', 'batch', '32', 32),
        ('own_clip4clip', 'pretrained', 'None', None),
        ('own_clip4clip', 'load_from', 'None', None),
        ('own_clip4clip', 'on_broken', 'skip', 'skip'),
        ('own_clip4clip', 'on_broken.skip', '2024', '2024'),
        ('own_clip4clip', 'test_dataloader', 'None', None),
        ('own_clip4clip', 'default_hooks.checkpoint', 'None', None),
        ('own_clip4clip', 'test_dataloader.dataset.video_pipeline.0.num_frames', '24', 24),
        ('own_clip4clip', 'model.micro_batch', '16', 16),
        ('own_clip4clip', 'model.similarity.type', 'BestFrameSimilarity', 'BestFrameSimilarity'),
        ('own_clip4clip', 'load_from_prefixes', 'a.,b.', ['a.', 'b.']),
        ('own_clip4clip', 'custom_keys', '[mine]', ['mine']),
        ('own_clip4clip', '_mine', '3', 3),
        ('own_clip4clip', 'resume', 'true', True),
        ('dvtr_c2v_planted', 'model.temperature.learnable', 'False', False),
        ('dvtr_c2v_planted', 'model.temperature.init', '1', 1.0),
        ('dvtr_c2v_planted', 'randomness.seed', '10', 10),
        ('uatvr_vitb32_msrvtt', 'model.similarity.weights', 'None', None),
        ('zeroshot_own_siglip2', 'transform', 'SinkhornHook', 'SinkhornHook'),
    ],
)
def test_what_the_key_holds(config, key, text, value):
    cfg = load_config(config, {key: Written(text)})
    first, dot, rest = key.partition('.')
    for full in cfg.get('shortcuts', {}).get(first, [first]):
        found = value_of(cfg, f'{full}{dot}{rest}')
        if value is None and found is not None:
            value = dict(train=0.5, val=0.2, test=0.3)
        assert found == value and (value is None or isinstance(found, type(value)))


def test_a_type_that_is_set_says_what_the_others_are():
    # Whatever stands first: without its type nobody knows what 'queries' are.
    cfg = loaded(
        'own_clip4clip',
        default_hooks__pictures__queries='2024,b',
        default_hooks__pictures__type='PicturesHook',
    )
    assert cfg.default_hooks.pictures.queries == ['2024', 'b']


def test_a_component_in_the_place_of_another():
    options = [
        'similarity.type=BestFrameSimilarity',
        'similarity.frames=x',
        'similarity._delete_=True',
    ]
    written = dict(f'model.{option}'.split('=') for option in options)
    cfg = load_config('own_clip4clip', {key: Written(text) for key, text in written.items()})
    assert cfg.model.similarity == dict(type='BestFrameSimilarity', frames='x')


@pytest.mark.parametrize(
    ('key', 'text', 'said'),
    [
        ('train_cfg.max_epochs', 'ten', "train_cfg.max_epochs: an integer expected, got 'ten'"),
        ('batch', 'x', 'train_dataloader.batch_size: an integer or None expected'),
        ('fractions.train', 'half', 'own.fractions.train: a number expected'),
        ('optim_wrapper.optimizer.lr', '', "lr: a number expected, got ''"),
        ('test_dataloader.dataset', 'mine', 'a dict'),
        ('model.encoder.frames.grad_checkpointing', 'maybe', 'True or False'),
    ],
)
def test_what_does_not_fit_is_one_sentence(key, text, said):
    with pytest.raises(UserError) as raised:
        load_config('own_clip4clip', {key: Written(text)})
    message = str(raised.value)
    assert message.startswith('config own_clip4clip: --cfg-options ') and said in message
    assert '\n' not in message


def test_a_value_of_python_is_taken_as_it_is():
    cfg = load_config('own_clip4clip', {'train_cfg.max_epochs': '3', 'videos': 3})
    assert cfg.train_cfg.max_epochs == '3' and cfg.test_dataloader.dataset.videos == 3


class Base:
    def __init__(self, width: int = 8, *, names: 'list[str]' = (), lost: 'Unknown' = None) -> None:  # noqa: F821
        pass


class Derived(Base):
    def __init__(self, path: Optional[str] = None, plain=3, **kwargs: Any) -> None:
        super().__init__(**kwargs)


def test_annotations():
    assert annotation_of(Derived, 'path') == Optional[str]
    assert annotation_of(Derived, 'width') is int and annotation_of(Derived, 'names') == list[str]
    for name in ('plain', 'lost', 'nothing'):
        assert annotation_of(Derived, name) is Any
    assert annotation_of(lambda a: a, 'a') is Any and annotation_of(Derived, 'type') is str


def test_kinds_of_keys():
    cfg = Config(
        dict(
            default_scope='mmvtr',
            train_dataloader=dict(
                batch_size=4,
                dataset=dict(type='mmvtr.TableDataset', split='train', video_pipeline=[
                    dict(type='LoadVideo')]),
            ),
            optim_wrapper=dict(optimizer=dict(type='AdamW')),
            mine=dict(a=dict(b=1)),
        )
    )  # fmt: skip
    assert kind_at(cfg, 'train_dataloader.dataset.table') is str
    assert kind_at(cfg, 'train_dataloader.dataset.columns.text') is str
    assert kind_at(cfg, 'train_dataloader.dataset.fractions.val') is float
    assert kind_at(cfg, 'train_dataloader.dataset.video_pipeline.0.num_frames') in (
        int, Optional[int], Union[int, None])  # fmt: skip
    assert float in get_args(kind_at(cfg, 'optim_wrapper.optimizer.lr'))
    assert kind_at(cfg, 'load_from') == Optional[str]
    assert kind_at(cfg, 'mine.a.b') is Any and kind_at(cfg, 'gone.x') is Any
