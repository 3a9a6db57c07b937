"""Names of the version before, each read once more with one warning, and gone in the next."""

from __future__ import annotations

import re
import sys
import warnings
from functools import partial
from importlib import import_module
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import Any, Optional, Sequence

#: Rooms of :mod:`mmvtr.functional`, and modules that have lain outside of them.  One that is named
#: as its function is none of these: at its old place is the function.
_ROOMS = {
    'losses': 'distillation frame_distillation pairwise ranking_terms schedules soft_labels',
    'metrics': 'graded_relevance hubness judged length_bias relevance tied_rankings',
    'similarities': 'proposals selection tiles token_interaction',
    'transforms': 'score_transforms',
    'uncertainty': 'ambiguity gaussian',
}
#: Rooms of :mod:`mmvtr.engine`, and the modules that have lain outside of them.
_ENGINE = {
    'checks': 'arguments config_checks expert_checks metric_checks option_values schedule_checks '
    'size_checks',
    'loop': 'checkpoint choice earlier_runs evaluation evaluation_loop loops optim part_of_set '
    'protocol weight_decay',
    'transforms': 'query_queue score_transforms stored_queries sure_first',
    'launch': 'console log_rows runner starting_weights timed_logger zero_shot',
    'hooks': 'ambiguity_hook eta_monitor film_strip members modality_gap moments_hook momentum '
    'pictures pictures_hook scores_file sigma',
}
#: Modules that have lain in :mod:`mmvtr.models.losses` itself.
_OBJECTIVES = 'captioning distributions frame_distillation query_diversity token_contrast'
#: Module or package -> where it is now.
MODULES: dict[str, str] = {
    'mmvtr.datasets.witnesses.summed_witnesses': 'mmvtr.datasets.caption_similarity.summed',
    'mmvtr.datasets.witnesses': 'mmvtr.datasets.caption_similarity',
    'mmvtr.datasets.spoken': 'mmvtr.datasets.caption_items',
    'mmvtr.endings': 'mmvtr.signals',
    **{
        f'mmvtr.models.supervisions.{name}': f'mmvtr.models.supervisions.negatives.{name}'
        for name in ('guide', 'hardness')
    },
    **{
        f'mmvtr.models.losses.{name}': f'mmvtr.models.losses.objectives.{name}'
        for name in _OBJECTIVES.split()
    },
    'mmvtr.models.several': 'mmvtr.models.combined',
    'mmvtr.apis.inferencer.given': 'mmvtr.apis.inferencer.inputs',
    'mmvtr.engine.progress': 'mmvtr.engine.launch.timed_logger',
    'mmvtr.visualization.progress': 'mmvtr.visualization.changes',
    'mmvtr.visualization.compared': 'mmvtr.visualization.matrix',
    'mmvtr.visualization.reliability': 'mmvtr.visualization.calibration',
    'mmvtr.engine.moments': 'mmvtr.engine.hooks.moments_hook',
    'mmvtr.visualization.moments': 'mmvtr.visualization.moment_curve',
    'mmvtr_gallery.serving.moments': 'mmvtr_gallery.serving.moment_search',
    'mmvtr.visualization.relevance': 'mmvtr.visualization.relevance_strips',
    'mmvtr.models.supervisions.teachers.relevance': (
        'mmvtr.models.supervisions.teachers.relevance_teacher'
    ),
    'mmvtr.models.supervisions.relevance': 'mmvtr.models.supervisions.ran',
    'mmvtr.models.losses.relevance': 'mmvtr.models.losses.relevance_losses',
    'mmvtr.extraction': 'mmvtr_gallery.extraction',
    'mmvtr.mteb_model': 'mmvtr_gallery.mteb_model',
    'mmvtr.onnx_export': 'mmvtr_gallery.onnx_export',
    'mmvtr.serving': 'mmvtr_gallery.serving',
    'mmvtr.store.normaliser': 'mmvtr.normaliser',
    'mmvtr.store': 'mmvtr_gallery.store',
    **{
        f'mmvtr.engine.{name}': f'mmvtr.engine.{room}.{name}'
        for room, names in _ENGINE.items()
        for name in names.split()
    },
    **{
        f'mmvtr.functional.{name}': f'mmvtr.functional.{room}.{name}'
        for room, names in _ROOMS.items()
        for name in names.split()
    },
}
#: Function or class of :mod:`mmvtr.functional` -> its name now.
FUNCTIONS: dict[str, str] = {
    'bernoulli': 'binary_cross_entropy',
    'bernoulli_sum': 'binary_cross_entropy_sum',
    'ranking': 'margin_ranking',
}
#: Registered component -> its name now.
COMPONENTS: dict[str, str] = {
    'SeveralSupervisions': 'CombinedSupervision',
    'SummedWitnesses': 'SummedCaptionSimilarity',
}
#: Module, where it is now -> name in it -> that name now.
NAMES: dict[str, dict[str, str]] = {
    'mmvtr.models': {'SeveralSupervisions': 'CombinedSupervision'},
    'mmvtr.models.combined': {'SeveralSupervisions': 'CombinedSupervision'},
    'mmvtr.datasets': {'SummedWitnesses': 'SummedCaptionSimilarity'},
    'mmvtr.datasets.caption_similarity.summed': {'SummedWitnesses': 'SummedCaptionSimilarity'},
    'mmvtr.functional.losses.pairwise': {
        name: FUNCTIONS[name] for name in ('bernoulli', 'bernoulli_sum')
    },
    'mmvtr.apis.inferencer.inputs': {
        'Given': 'Inputs',
        'given_texts': 'text_inputs',
        'given_vectors': 'vector_inputs',
        'given_videos': 'video_inputs',
    },
}
#: Attribute of :class:`~mmvtr.models.target.Target` -> where it is now.
SLOTS: dict[str, str] = {
    **{name: f'known.{name}' for name in ('relevance', 'overlap', 'agreement', 'truth')},
    **{name: f'beside.{name}' for name in ('relevant', 'teacher', 'hinges', 'draws')},
}

#: Default hooks of all configs in the version before: None may take one away where there is none.
HOOKS_BEFORE = ('eta',)

#: What was an argument of a dataset and is a part of its ``records``, in the order of old.
RECORDS = ('denoising', 'classes', 'environments', 'agreement')
#: Keys of options that such an argument has had.
_OLD_OPTION = re.compile(rf'((?:train|val|test)_dataloader\.dataset\.)({"|".join(RECORDS)})(\..+|)')
_NEW_OPTION = re.compile(rf'(_dataloader\.dataset\.)records\.({"|".join(RECORDS)})\b')
#: The default of an old argument: None says that there is to be no such part.
NOT_GIVEN: Any = object()


def name_now(table: dict[str, str], name: str) -> str:
    """The name that an old one has now, with a warning; one that is not old as it is.

    Args:
        table: :data:`FUNCTIONS`, :data:`COMPONENTS`, :data:`SLOTS` or one of :data:`NAMES`.
        name: as somebody wrote it.
    """
    if name not in table:
        return name
    _warn(name, table[name])
    return table[name]


def attribute_now(module: str, name: str) -> Any:
    """What a module has by an old name, with a warning: the module's ``__getattr__``.

    Args:
        module: its name.
        name: that of an attribute which it has not.

    Raises:
        AttributeError: no old name either.
    """
    names = NAMES.get(module, {})
    if name not in names:
        raise AttributeError(f'module {module!r} has no attribute {name!r}', name=name)
    return getattr(sys.modules[module], name_now(names, name))


def argument_now(old: str, new: str, former: Optional[int], value: Optional[int]) -> Optional[int]:
    """What an argument is that may have been given by its old name, then with a warning.

    Args:
        old, new: its names.
        former, value: what was given by them; None: nothing.  Of both, the new name's.
    """
    if former is None:
        return value
    _warn(old, new)
    return former if value is None else value


def dataset_now(dataset: dict[str, Any]) -> dict[str, Any]:
    """A dataset's config, or its arguments, with :data:`RECORDS` as parts of ``records``.

    Beside a part of that name an old argument changes it, as a config changes that of its base.

    Args:
        dataset: its config.

    Returns:
        The same where it has no old argument; there is a warning of each.
    """
    if not any(name in dataset for name in RECORDS):
        return dataset
    parts = dict(dataset.get('records') or {})
    for name in RECORDS:
        if name in dataset:
            value = dataset[name]
            if name == 'denoising' and value is not None:
                value = dict(type='DrawableCaptions', path=value)
            if name != 'denoising' or value is not None or name in parts:
                parts[name] = _merged(parts.get(name), value)
            _warn(f"a dataset's {name}=...", f'records=dict({name}=dict(type=...))')
    rest = {key: value for key, value in dataset.items() if key not in RECORDS}
    return type(dataset)({**rest, 'records': parts})


def config_now(cfg: Any) -> Any:
    """A config whose dataloaders' datasets have been through :func:`dataset_now`."""
    for part in ('train', 'val', 'test'):
        loader = cfg.get(f'{part}_dataloader')
        if isinstance(loader, dict) and isinstance(loader.get('dataset'), dict):
            loader['dataset'] = dataset_now(loader['dataset'])
    return cfg


def options_now(options: dict[str, Any]) -> dict[str, Any]:
    """Changes of a config by full key, with those of an old argument as of a part of ``records``,
    with a warning of each."""
    found = {}
    for key, value in options.items():
        old = _OLD_OPTION.fullmatch(key)
        if old:
            new = f'{old[1]}records.{old[2]}{old[3]}'
            if old[2] == 'denoising' and value not in (None, 'None'):
                found[f'{new}.type'] = 'DrawableCaptions'
                new += '.path'
            _warn(key, new)
            key = new
        found[key] = value
    return found


def first_keys(value: dict[str, Any]) -> dict[str, Any]:
    """A part of a config as its keys were when the first fingerprints were taken: the inverse of
    :func:`dataset_now` and, in shortcuts, of :func:`options_now`."""
    found = dict(value)
    if isinstance(value.get('records'), dict):
        parts = found.pop('records')
        more = {name: part for name, part in parts.items() if name not in RECORDS}
        found.update({name: parts[name] for name in RECORDS if name in parts})
        found.update(dict(records=more) if more else {})
        masks = found.get('denoising')
        if isinstance(masks, dict) and masks.get('type') == 'DrawableCaptions':
            found['denoising'] = masks.get('path')
    if isinstance(value.get('shortcuts'), dict):
        found['shortcuts'] = {
            name: [_NEW_OPTION.sub(r'\1\2', key) for key in keys]
            for name, keys in value['shortcuts'].items()
        }
    return found


def _merged(base: Any, change: Any) -> Any:
    """A value of a config with that of a config on it, as mmengine does it."""
    if not isinstance(change, dict):
        return change
    new = {key: value for key, value in change.items() if key != '_delete_'}
    if not isinstance(base, dict) or change.get('_delete_'):
        return new
    return {**base, **{key: _merged(base.get(key), value) for key, value in new.items()}}


class _OldModules(MetaPathFinder):
    """Finds a module of :data:`MODULES`, or one inside of it: the module at its new place."""

    def find_spec(
        self, name: str, path: Optional[Sequence[str]] = None, target: Optional[ModuleType] = None
    ) -> Optional[ModuleSpec]:
        for old, new in MODULES.items():
            if name == old or name.startswith(f'{old}.'):
                _warn(old, new)
                return ModuleSpec(name, _Same(new + name[len(old) :]))
        return None


class _Same(Loader):
    """Gives the module of another name, as it is but for old names, which it has from now on."""

    def __init__(self, name: str) -> None:
        self.name = name

    def create_module(self, spec: ModuleSpec) -> ModuleType:
        module = import_module(self.name)
        self.spec = module.__spec__
        if self.name in NAMES:
            module.__getattr__ = partial(attribute_now, self.name)
        return module

    def exec_module(self, module: ModuleType) -> None:
        module.__spec__ = self.spec  # the import system has put the old name's there


def _warn(old: str, new: str) -> None:
    warnings.warn(f'{old} is {new} now; the old name goes with 2.1', FutureWarning, stacklevel=3)


# First: the others would find what lies in a package of an old name, as a second module.
sys.meta_path.insert(0, _OldModules())
