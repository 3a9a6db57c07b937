"""Configs with the names that were used when the first fingerprints were computed."""

from __future__ import annotations

import re
from typing import Any

from mmvtr.registry import bare_name

#: Former names of renamed components.
_NAMES = dict(
    CombinedSupervision='SeveralSupervisions',
    SummedCaptionSimilarity='SummedWitnesses',
    EarlyTeacher='Belief',
    CrossFittedTeachers='CrossFittedBelief',
)
#: Former keys, and former values of ``combine``.
_KEYS = dict(combine='spared_by', marginal_penalty='strictness')
_COMBINED = dict(min='any', max='all')
#: Parts of ``records`` that used to be arguments of a dataset, in their order.
_RECORDS = ('denoising', 'classes', 'environments', 'agreement')
_OPTION = re.compile(rf'(_dataloader\.dataset\.)records\.({"|".join(_RECORDS)})\b')


def without_scopes(value: Any) -> Any:
    """Return a config, or a part of one, without the mmvtr scope and with former names and keys.

    A config means the same with or without the scope.  A ``collate_fn`` keeps it, as mmengine looks
    that name up without a scope.

    Args:
        value: plain dicts, lists and values.
    """
    if isinstance(value, dict):
        return {
            key: part
            if key == 'collate_fn'
            else _NAMES.get(bare_name(part), bare_name(part))
            if key in ('type', 'constructor') and isinstance(part, str)
            else without_scopes(part)
            for key, part in _first_keys(value).items()
        }
    if isinstance(value, (list, tuple)):
        return [without_scopes(part) for part in value]
    return value


def _first_keys(value: dict[str, Any]) -> dict[str, Any]:
    """Return former keys, and record transforms as arguments of their dataset, also in shortcuts.

    The model's temperature was that of a transform without one.  What makes a config's data does
    not change what is trained.
    """
    found = {_KEYS.get(key, key): part for key, part in value.items() if key != 'made_by'}
    if 'combine' in value:
        found['spared_by'] = _COMBINED.get(value['combine'], value['combine'])
    if found.get('temperature') == 'model':
        del found['temperature']
    if isinstance(value.get('teacher'), dict):
        found['belief'] = found.pop('teacher')
    if isinstance(value.get('records'), dict):
        parts = found.pop('records')
        more = {name: part for name, part in parts.items() if name not in _RECORDS}
        found.update({name: parts[name] for name in _RECORDS if name in parts})
        found.update(dict(records=more) if more else {})
        masks = found.get('denoising')
        if isinstance(masks, dict) and masks.get('type') == 'DrawableCaptions':
            found['denoising'] = masks.get('path')
    if isinstance(value.get('shortcuts'), dict):
        found['shortcuts'] = {
            name: [_OPTION.sub(r'\1\2', key) for key in keys]
            for name, keys in value['shortcuts'].items()
        }
    return found
