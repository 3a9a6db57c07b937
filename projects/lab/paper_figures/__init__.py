"""The papers' figures for any config: what each reads from an evaluation, and how it is drawn."""

from mmvtr.engine.hooks.tested_model import FigureRequest, TestedModel
from paper_figures.catalogue import FIGURES
from paper_figures.study import study

__all__ = ['FIGURES', 'FigureRequest', 'TestedModel', 'study']
