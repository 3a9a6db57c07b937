# RelativeScoreSupervision with a second view, on CLIP2Video with cached features and 60 % general
# captions (docs/agreement.md): negatives that score like a match, and agree with the other captions
# of the clip, are spared in the video-to-text direction.
_base_ = '../../../configs/c2v_planted_features.py'

model = dict(
    losses=dict(
        contrastive=dict(type='ContrastiveLoss', reads=('global', 'aligned'), weighted='v2t')
    ),
    supervision=dict(
        type='RelativeScoreSupervision',
        levels=('global', 'aligned'),
        slack=0.0,
        agreement=0.2,
        floor=0.05,
    ),
)
# The second view with which the comparison was measured
# (projects/lab/evidence/pages/comparison.md); the default finds more (docs/agreement.md).
train_dataloader = dict(
    dataset=dict(records=dict(agreement=dict(type='CaptionAgreement', canonical=0.0, rare=False)))
)
