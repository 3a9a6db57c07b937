"""The page's list of components: which of them a rehearsal has trained to the end."""

from pathlib import Path

import pytest
from mmengine.config import Config
from rehearse import configs

from mmvtr.utils import load_config
from rehearsal.components import (
    all_components,
    components_of,
    paper_configs,
    rehearsals_of,
    section,
)
from rehearsal.report import RESULTS, read_results

LAB = Path(__file__).parents[1]


@pytest.fixture(scope='module')
def found():
    """Components of all real configs."""
    return all_components(configs())


@pytest.fixture(scope='module')
def results():
    return read_results(LAB / 'docs/rehearsal' / RESULTS).values()


def test_every_component_of_real_configs_was_trained_to_the_end(found, results):
    rehearsed = rehearsals_of(results)
    assert not {name for name in found.configs if name not in rehearsed}
    assert {one for names in rehearsed.values() for one in names} <= {p.stem for p in configs()}


def test_the_page_lists_them(found, results):
    assert section(found, results) in (LAB / 'docs/rehearsal.md').read_text()


def test_what_counts_as_a_component():
    """Parts of a training and its test, by registered name; not what a rehearsal replaces."""
    cfg = load_config('dvtr_c2v_msrvtt')
    before = components_of(cfg)
    assert {'DVTRSupervision', 'CLIP2Video', 'EpochSampler', 'RetrievalMetric'} <= before
    assert not before & {'OpenCLIPFrames', 'MSRVTTDataset', 'LoadVideo', 'AdamW'}
    cfg.custom_hooks = [dict(type='mmvtr.NNNHook')]
    cfg.model.losses.another = dict(type='RINCELoss')
    assert components_of(cfg) - before == {'NNNHook', 'RINCELoss'}
    assert isinstance(cfg, Config) and 'dvtr_c2v_msrvtt' in paper_configs()


def test_a_part_of_a_schedule_does_not_count():
    whole = dict(config='a', components=['X', 'Y'], steps=9, total=9)
    part = dict(whole, config='b', steps=8)
    assert rehearsals_of([whole, part]) == dict(X=['a'], Y=['a'])
    assert rehearsals_of([part]) == {}
