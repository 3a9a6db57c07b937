"""The figures of the papers, of any config: what each reads of an evaluation, and how it is run."""

from mmvtr.engine.hooks.study import FigureRequest, Study
from paper_figures.catalogue import FIGURES
from paper_figures.study import study

__all__ = ['FIGURES', 'FigureRequest', 'Study', 'study']
