"""All figures of the papers that are drawn from data, by name."""

from mmvtr.apis.figures import arl, causal, dvtr, ncl, uatvr
from mmvtr.engine.hooks.study import Picture, table

#: Name of the command line -> figure.
FIGURES: dict[str, Picture] = table(dvtr, ncl, uatvr, arl, causal)
