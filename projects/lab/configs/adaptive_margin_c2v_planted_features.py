# CMGSD's adaptive margin (He et al., SIGIR 2021), without its static supervision, which needs a
# sentence encoder. alpha .2, beta .1; faded in over the second quarter of the training (our
# choice).
_base_ = '../../../configs/c2v_planted_features_triplet.py'

model = dict(
    supervision=dict(
        type='AdaptiveMarginSupervision', alpha=0.2, beta=0.1, level='global', ramp=(0.25, 0.5)
    ),
)
