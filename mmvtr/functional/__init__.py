"""Equations of the papers: tensors in, tensors out; torch only.

All functions are imported from here: ``from mmvtr.functional import contrastive``.  A module's
``__all__`` lists what it offers here:
"""

# ruff: noqa: F403 - each module lists in __all__ what it offers

from mmvtr.functional.losses.adaptive_margin import *
from mmvtr.functional.losses.contrastive import *
from mmvtr.functional.losses.distillation import *
from mmvtr.functional.losses.negative_weights import *
from mmvtr.functional.losses.neighbours import *
from mmvtr.functional.losses.pairwise import *
from mmvtr.functional.losses.ranking import *
from mmvtr.functional.losses.robust import *
from mmvtr.functional.losses.schedules import *
from mmvtr.functional.losses.set_contrast import *
from mmvtr.functional.losses.text_frame import *
from mmvtr.functional.metrics.first_places import *
from mmvtr.functional.metrics.graded_relevance import *
from mmvtr.functional.metrics.hubness import *
from mmvtr.functional.metrics.judged import *
from mmvtr.functional.metrics.length_bias import *
from mmvtr.functional.metrics.modality_gap import *
from mmvtr.functional.metrics.ranks import *
from mmvtr.functional.metrics.relevance import *
from mmvtr.functional.similarities.best_frames import *
from mmvtr.functional.similarities.distinct import *
from mmvtr.functional.similarities.tiles import *
from mmvtr.functional.similarities.token_interaction import *
from mmvtr.functional.similarities.token_matches import *
from mmvtr.functional.transforms.dual_banks import *
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

_ROOMS: dict[str, list[str]] = {}
for _name, _value in sorted(globals().items()):
    _home = getattr(_value, '__module__', None) or ''
    if _home.startswith(f'{__name__}.'):
        _ROOMS.setdefault(_home.split('.')[2], []).append(_name)
__all__ = sorted(name for names in _ROOMS.values() for name in names)
for _room in sorted(_ROOMS):
    __doc__ = f'{__doc__}\n{_room}: {", ".join(_ROOMS[_room])}\n'
