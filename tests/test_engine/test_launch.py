"""What the tools change in a config before a Runner is made."""

import pytest
import torch
from mmengine.config import Config

from mmvtr.datasets import VideoTextDataset
from mmvtr.engine import launching as launch
from mmvtr.errors import UserError


@pytest.mark.parametrize('cuda', [True, False])
def test_memory_is_pinned_for_a_gpu(monkeypatch, cuda):
    monkeypatch.setattr(torch.cuda, 'is_available', lambda: cuda)
    stated = dict(num_workers=0, pin_memory=False)
    cfg = Config(
        dict(train_dataloader=dict(num_workers=2), val_dataloader=None, test_dataloader=stated)
    )
    launch.pin_memory(cfg)
    assert cfg.train_dataloader == (
        dict(num_workers=2, pin_memory=True) if cuda else dict(num_workers=2)
    )
    assert cfg.val_dataloader is None and cfg.test_dataloader == stated


class Nothing(VideoTextDataset):
    """A video, but no text."""

    def load_annotations(self):
        return [dict(video_id='a')], []


def test_a_set_without_an_item_stops_a_run():
    cfg = Config(dict(test_dataloader=dict(dataset=dict(video_pipeline=[], text_pipeline=[]))))
    cfg.test_dataloader.dataset.type = Nothing
    with pytest.raises(
        UserError, match='test_dataloader.dataset.*cannot be built:\nit has no item'
    ):
        launch.check_datasets(cfg)


class Missing(VideoTextDataset):
    """Its features are not there yet."""

    def load_annotations(self):
        raise FileNotFoundError('data/x does not exist')


@pytest.mark.parametrize('kind, named', [(Missing, True), (Nothing, False)])
def test_the_command_that_makes_missing_data_is_named(kind, named):
    dataset = dict(type=kind, video_pipeline=[], text_pipeline=[])
    cfg = Config(dict(made_by='python make.py x', test_dataloader=dict(dataset=dataset)))
    with pytest.raises(UserError, match='cannot be built:\n') as raised:
        launch.check_datasets(cfg)
    assert str(raised.value).endswith('checkout of mmvtr: python make.py x') == named
