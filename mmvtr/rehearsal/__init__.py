"""Rehearsals: a config's own training on simulated tower outputs, before anyone pays for a GPU."""

from mmvtr.rehearsal.dataset import SimulatedDataset
from mmvtr.rehearsal.towers import SimulatedFrames, SimulatedText

__all__ = ['SimulatedDataset', 'SimulatedFrames', 'SimulatedText']
