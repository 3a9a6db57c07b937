"""All figures of the papers that are drawn from data, by name."""

from mmvtr.engine.hooks.tested_model import Picture, table
from paper_figures import arl, causal, dvtr, ncl, uatvr

#: Name on the command line -> figure.
FIGURES: dict[str, Picture] = table(dvtr, ncl, uatvr, arl, causal)
