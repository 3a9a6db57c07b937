"""The figures of the papers, of any config: what each reads of an evaluation, and how it is run."""

from mmvtr.apis.figures.catalogue import FIGURES
from mmvtr.apis.figures.study import study, tested
from mmvtr.engine.hooks.study import FigureRequest, Study

__all__ = ['FIGURES', 'FigureRequest', 'Study', 'study', 'tested']
