"""A BackdoorRetriever as a member of another: several checkpoints of a causal config."""

import pytest
import torch

from mmvtr.models.backdoor import BackdoorRetriever
from mmvtr.models.data_preprocessor import VideoTextDataPreprocessor
from mmvtr.registry import MODELS
from mmvtr.utils import register_all_modules
from tests.test_models.test_backdoor import backdoor, config, encoded, retriever


def test_members_may_be_fused_themselves():
    members = [backdoor(), retriever(2)]
    model = backdoor(*members)
    alone = [member.score(*encoded(member))['scores'] for member in members]
    texts, videos = encoded(model)
    torch.testing.assert_close(model.score(texts, videos)['scores'], sum(alone) / 2)
    flat = model.similarity.flat
    torch.testing.assert_close(flat(texts) @ flat(videos).t(), sum(alone) / 2)
    assert model.similarity.levels[:2] == ('0.0.global', '0.0.aligned')


@pytest.mark.parametrize('how', ['members', 'copies'])
def test_from_a_config(how):
    """The preprocessor of the innermost; no weights are asked for while counts are missing."""
    register_all_modules()
    one = config(max_frames=7)
    parts = dict(members=[one] * 2) if how == 'members' else dict(member=one, copies=2)
    inner = dict(type='mmvtr.BackdoorRetriever', fusion='prior', **parts)
    model = MODELS.build(dict(type='mmvtr.BackdoorRetriever', members=[inner] * 2))
    assert isinstance(model.data_preprocessor, VideoTextDataPreprocessor)
    assert model.data_preprocessor.max_frames == 7
    assert all(isinstance(member, BackdoorRetriever) for member in model.members)
