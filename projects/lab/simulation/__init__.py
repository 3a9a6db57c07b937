"""A config's towers and data, simulated: what `preflight` and `cost` build where no data is."""

from simulation.dataset import SimulatedDataset
from simulation.towers import SimulatedFrames, SimulatedText

__all__ = ['SimulatedDataset', 'SimulatedFrames', 'SimulatedText']
