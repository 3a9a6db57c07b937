"""The figures of the papers, of any config: what each reads of an evaluation, and how it is run."""

from mmvtr.engine.hooks.study import Asked, Study
from mmvtr.figures.catalogue import FIGURES
from mmvtr.figures.study import study, tested

__all__ = ['FIGURES', 'Asked', 'Study', 'study', 'tested']
