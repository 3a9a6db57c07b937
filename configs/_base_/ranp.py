# RANP over a config of RAN: `model = _base_.ranp`.  A second triplet, of the first one's weight,
# pulls the hardest relevant pair; relevant is what RAN leaves out, so one threshold serves both.
# .20 as the frame-length paper has it (Sec. 4); the official configs have .4 on EPIC, .4 or .1 on
# MSR-VTT: `--cfg-options model.supervision.negatives_below=0.4`.
ranp = dict(
    supervision=dict(negatives_below=0.2),
    losses=dict(
        relevant=dict(type='RelevantRankingLoss', threshold=None, margin=0.2, loss_weight=2.0)
    ),
)
