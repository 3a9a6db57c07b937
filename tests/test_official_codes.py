"""configs/official_codes.yml against resolved configs and what is built of them."""

import runpy
from functools import cache, lru_cache
from inspect import Parameter, signature
from types import SimpleNamespace

import pytest
import torch
import yaml
from mmengine.optim import build_optim_wrapper
from mmengine.registry import HOOKS as MMENGINE_HOOKS
from mmengine.registry import OPTIMIZERS as MMENGINE_OPTIMIZERS

from children import ROOT, config_file
from mmvtr import registry
from mmvtr.registry import bare_name
from mmvtr.utils import load_config, register_all_modules
from tests.test_configs import without_downloads

TOOL = runpy.run_path(str(ROOT / 'tools/analysis_tools/official_codes.py'))
LIST = yaml.safe_load((ROOT / 'configs/official_codes.yml').read_text())
PAGE = (ROOT / 'docs/reproduce/values.md').read_text()
ARGUMENTS = list(TOOL['arguments'](LIST))
#: A CLIP as narrow as its text tower has to be for a start from it.
CLIP = dict(
    embed_dim=512,
    vision_cfg=dict(layers=1, width=64, head_width=32, patch_size=112, image_size=224),
    text_cfg=dict(context_length=77, vocab_size=99, width=512, heads=8, layers=4),
)


@cache
def config(name):
    register_all_modules()
    return load_config(str(config_file(name)))


@lru_cache(1)  # the tests go through configs one by one
def model(name):
    """A config's model as it begins, with small towers in place of pretrained ones."""
    parts = without_downloads(load_config(str(config_file(name))).model)
    for tower in (parts.encoder.get('frames') or {}, parts.encoder.get('text') or {}):
        if 'OpenCLIP' in tower.get('type', ''):
            tower.update(model=CLIP, grad_checkpointing=False)
        tower.pop('pretrained', None)  # of words
    torch.manual_seed(0)
    return registry.MODELS.build(parts)


@lru_cache(1)
def groups(name):
    """Name of a parameter -> its options in the optimizer."""
    built = model(name)
    wrapper = build_optim_wrapper(built, config(name).optim_wrapper)
    names = {parameter: key for key, parameter in built.named_parameters()}
    return {
        names[parameter]: group
        for group in wrapper.optimizer.param_groups
        for parameter in group['params']
    }


def default(kind, argument):
    """Default of a registered class's argument; None if it has none."""
    places = (*vars(registry).values(), MMENGINE_OPTIMIZERS, MMENGINE_HOOKS)
    found = [r.get(kind) for r in places if isinstance(r, type(registry.MODELS))]
    for part in next(cls for cls in found if cls is not None).__mro__:
        known = signature(part.__init__).parameters.get(argument)
        if known is not None and known.default is not Parameter.empty:
            return known.default
    return None


def of_path(node, path):
    for key in path.split('/'):
        if isinstance(node, (list, tuple)):
            node = node[int(key)]
        elif key in node:
            node = node[key]
        else:
            node = default(node['type'], key) if 'type' in node else None
    return node


def rates(name, shares):
    """Factor of the rate at shares of the run, by the built schedulers."""
    cfg, steps = config(name), 1000
    optimizer = torch.optim.SGD([torch.zeros(1, requires_grad=True)], lr=1.0)
    schedulers = [
        registry.PARAM_SCHEDULERS.build(
            dict(one, optimizer=optimizer, begin=0, end=steps, by_epoch=False)
        )
        for one in cfg.param_scheduler
    ]
    found = []
    for _ in range(steps):
        found.append(optimizer.param_groups[0]['lr'])
        optimizer.step()
        for scheduler in schedulers:
            scheduler.step()
    return {share: found[round(share * steps)] for share in shares}


def starts_like(name, parameter, source):
    """Name of the parameter whose first rows another begins as; None if it does not."""
    found, other = (dict(model(name).named_parameters())[key] for key in (parameter, source))
    return source if torch.equal(found, other[: len(found)]) else None


def is_orthogonal(x):
    return bool(torch.allclose(x.T @ x, torch.eye(x.shape[1]), atol=1e-4))


def hook(cfg, place):
    kind, argument = place.split('/')
    hooks = [*cfg.get('custom_hooks', ()), *cfg.get('default_hooks', {}).values()]
    return next((one.get(argument) for one in hooks if one and bare_name(one) == kind), None)


def here(name, place, official):
    """A config's value at a place of the list."""
    kind, mark, path = place.partition(':')
    cfg = config(name)
    if not mark:
        return of_path(cfg, place)
    parameters = lambda: dict(model(name).named_parameters())  # noqa: E731
    readers = dict(
        types=lambda: [bare_name(step) for step in of_path(cfg, path)],
        keys=lambda: list(of_path(cfg, path)),
        hook=lambda: hook(cfg, path),
        rates=lambda: rates(name, official),
        rate=lambda: groups(name)[path]['lr'],
        decay=lambda: groups(name)[path]['weight_decay'],
        decays=lambda: groups(name)[path]['weight_decay'] > 0,
        trained=lambda: parameters()[path].requires_grad,
        std=lambda: parameters()[path].std().item(),
        range=lambda: parameters()[path].abs().max().item(),
        orthogonal=lambda: is_orthogonal(parameters()[path].detach()),
        eye=lambda: torch.equal(parameters()[path], torch.eye(len(parameters()[path]))),
        start=lambda: starts_like(name, path, official),
    )
    return readers[kind]()


def plain(value):
    if isinstance(value, (list, tuple)):
        return [plain(one) for one in value]
    if isinstance(value, dict):
        return {key: plain(one) for key, one in value.items()}
    return value


def agree(found, wanted, place):
    found, wanted = plain(found), plain(wanted)
    if place.startswith('std:') and wanted:
        return found == pytest.approx(wanted, rel=0.08)
    numbers = isinstance(wanted, (float, dict)) and not isinstance(wanted, bool)
    if numbers and not any(isinstance(x, str) for x in (found, wanted)) and found is not None:
        return found == pytest.approx(wanted, rel=2e-3 if place.startswith('range') else 1e-6)
    return found == wanted


def differences(config_name):
    """What of a config is not as the list says."""
    model.cache_clear()
    groups.cache_clear()  # holds the parameters of the one before
    for code, configs, name, argument in ARGUMENTS:
        if config_name not in configs:
            continue
        one, differs = SimpleNamespace(**argument), 'why' in argument
        wanted = one.here if differs else one.official
        if 'times' in argument:
            wanted = wanted * one.times
        for place in one.at:
            found = here(config_name, place, one.official)
            if not agree(found, wanted, place):
                yield f'{code}, {name}, {place}: {found}, not {wanted}'
            elif differs and agree(found, one.official, place):
                yield f"{code}, {name}, {place}: {found} is the code's, which needs no reason"


@pytest.mark.parametrize('config_name', dict.fromkeys(x for _, xs, *_ in ARGUMENTS for x in xs))
def test_each_value_is_the_codes_or_differs_for_a_reason(config_name):
    assert not list(differences(config_name))


def test_each_difference_has_a_reason_of_the_list():
    for *_, one in ARGUMENTS:
        assert ('here' in one) == ('why' in one) and one.get('why') in {None, *LIST['reasons']}


def test_no_reason_is_unused():
    used = {argument['why'] for *_, argument in ARGUMENTS if 'why' in argument}
    assert used == set(LIST['reasons'])


def test_the_page_repeats_what_differs_and_why():
    assert TOOL['table'](LIST) in PAGE
    assert TOOL['count'](LIST) in PAGE


def test_a_wrong_value_is_found():
    """The comparison that passed over an optimizer's second beta, an offset and a start."""
    places = {
        'mssl_tvr_i3d': ('optim_wrapper/optimizer/betas/1', 0.98),
        'uatvr_vitb16_msrvtt_official_bert_adam': (
            'train_dataloader/dataset/video_pipeline/0/sampling',
            'per_second',
        ),
        'hgr_msrvtt_full': ('std:encoder.rnn.bias_ih_l0', 0.018),
    }
    for name, (place, wrong) in places.items():
        assert not agree(here(name, place, wrong), wrong, place)
