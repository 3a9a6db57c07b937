"""Rehearsals: a config's own training on simulated tower outputs, before anyone pays for a GPU."""

from mmvtr.simulation.dataset import SimulatedDataset
from mmvtr.simulation.towers import SimulatedFrames, SimulatedText

__all__ = ['SimulatedDataset', 'SimulatedFrames', 'SimulatedText']
