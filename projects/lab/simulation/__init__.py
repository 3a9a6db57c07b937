"""A config's towers and data, simulated, for `preflight` and `cost` when no data is available."""

from simulation.dataset import SimulatedDataset
from simulation.towers import SimulatedFrames, SimulatedText

__all__ = ['SimulatedDataset', 'SimulatedFrames', 'SimulatedText']
