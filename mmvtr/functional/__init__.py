"""Equations of the papers: tensors in, tensors out; torch only.

All of it by name, whatever room it lies in: ``from mmvtr.functional import contrastive``; a name is
loaded when it is first asked for.  A module says in its ``__all__`` what it offers here:
"""

# ruff: noqa: F403 - imports for type checkers and editors, which do not run what is below them

from __future__ import annotations

import re
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from mmvtr.functional.losses.adaptive_margin import *
    from mmvtr.functional.losses.contrastive import *
    from mmvtr.functional.losses.distillation import *
    from mmvtr.functional.losses.frame_distillation import *
    from mmvtr.functional.losses.generalised_gaussian import *
    from mmvtr.functional.losses.multi_instance import *
    from mmvtr.functional.losses.negative_weights import *
    from mmvtr.functional.losses.neighbours import *
    from mmvtr.functional.losses.pairwise import *
    from mmvtr.functional.losses.pseudo_labels import *
    from mmvtr.functional.losses.ranking import *
    from mmvtr.functional.losses.robust import *
    from mmvtr.functional.losses.schedules import *
    from mmvtr.functional.losses.several_hinges import *
    from mmvtr.functional.losses.soft_contrast import *
    from mmvtr.functional.losses.soft_labels import *
    from mmvtr.functional.losses.text_frame import *
    from mmvtr.functional.losses.token_contrast import *
    from mmvtr.functional.metrics.class_relevance import *
    from mmvtr.functional.metrics.first_places import *
    from mmvtr.functional.metrics.graded_relevance import *
    from mmvtr.functional.metrics.highlights import *
    from mmvtr.functional.metrics.hub_breadth import *
    from mmvtr.functional.metrics.hubness import *
    from mmvtr.functional.metrics.judged import *
    from mmvtr.functional.metrics.length_bias import *
    from mmvtr.functional.metrics.modal_biases import *
    from mmvtr.functional.metrics.modality_gap import *
    from mmvtr.functional.metrics.ranks import *
    from mmvtr.functional.metrics.relevance import *
    from mmvtr.functional.metrics.risk_coverage import *
    from mmvtr.functional.similarities.best_frames import *
    from mmvtr.functional.similarities.distinct import *
    from mmvtr.functional.similarities.proposals import *
    from mmvtr.functional.similarities.selection import *
    from mmvtr.functional.similarities.tiles import *
    from mmvtr.functional.similarities.token_interaction import *
    from mmvtr.functional.similarities.token_matches import *
    from mmvtr.functional.transforms.dual_banks import *
    from mmvtr.functional.transforms.inverse_convolution import *
    from mmvtr.functional.transforms.score_transforms import *
    from mmvtr.functional.transforms.sinkhorn import *
    from mmvtr.functional.uncertainty.ambiguity import *
    from mmvtr.functional.uncertainty.calibration import *
    from mmvtr.functional.uncertainty.calibration_fits import *
    from mmvtr.functional.uncertainty.dataset_uncertainty import *
    from mmvtr.functional.uncertainty.gaussian import *
    from mmvtr.functional.uncertainty.inclusion import *
    from mmvtr.functional.uncertainty.isotonic import *
    from mmvtr.functional.uncertainty.reliability import *


def _offered() -> dict[str, str]:
    """Name -> ``room.module``, from the sources, none of which is run."""
    folder, found = Path(__file__).parent, {}
    for path in sorted(folder.glob('*/*.py')):
        names = re.search(r'^__all__ = \[(.*?)\]', path.read_text(encoding='utf-8'), re.S | re.M)
        for name in re.findall(r"'(\w+)'", names[1]) if names else ():
            found[name] = f'{path.parent.name}.{path.stem}'
    return found


_HOME = _offered()
__all__ = sorted(_HOME)
for _room in dict.fromkeys(home.split('.')[0] for home in _HOME.values()):
    _names = ', '.join(name for name in __all__ if _HOME[name].startswith(f'{_room}.'))
    __doc__ = f'{__doc__}\n{_room}: {_names}\n'


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        message = f'module {__name__!r} has no attribute {name!r}'
        raise AttributeError(message, name=name)
    value = getattr(import_module(f'{__name__}.{_HOME[name]}'), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
