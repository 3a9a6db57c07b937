"""The figures of the papers, of any config: what each reads of an evaluation, and how it is run."""

from mmvtr.figures.catalogue import FIGURES, Figure
from mmvtr.figures.study import Asked, Study, study, tested

__all__ = ['FIGURES', 'Asked', 'Figure', 'Study', 'study', 'tested']
