# HardnessSupervision beside the self-mask of Qwen3-Embedding, as RzenEmbed puts them together, on
# CLIP2Video with cached features and 60 % general captions (docs/teachers.md): negatives weigh
# e^(alpha s), and those above the annotated pair are none.
_base_ = ['c2v_planted_features.py']

levels = ('global', 'aligned')
model = dict(
    supervision=dict(
        type='CombinedSupervision',
        spared_by='product',
        parts=dict(
            mask=dict(
                type='GuideSupervision', guide='scores', rule='self', margin=0.1, levels=levels
            ),
            hardness=dict(type='HardnessSupervision', alpha=5.0, levels=levels),
        ),
    ),
)
