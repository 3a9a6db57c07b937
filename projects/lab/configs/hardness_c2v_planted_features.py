# HardnessSupervision with the self-mask of Qwen3-Embedding, as combined in RzenEmbed, on CLIP2Video
# with cached features and 60 % general captions (docs/teachers.md): negatives are weighted by
# e^(alpha s), and those that score above the annotated pair are masked.
_base_ = '../../../configs/c2v_planted_features.py'

levels = ('global', 'aligned')
model = dict(
    losses=dict(contrastive=dict(type='ContrastiveLoss', reads=levels)),
    supervision=dict(
        type='CombinedSupervision',
        combine='product',
        parts=dict(
            mask=dict(
                type='GuideSupervision', guide='scores', rule='self', margin=0.1, levels=levels
            ),
            hardness=dict(type='HardnessSupervision', alpha=5.0, levels=levels),
        ),
    ),
)
