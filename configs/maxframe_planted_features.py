# ARL's two branches without ambiguity detection, on planted clips of three moments: max over frames
# (Eq. 3), averaged (Eq. 13).  The baseline of arl_planted_features.py.
_base_ = [
    '_base_/schedule_planted.py',
    '_base_/arl_i3d.py',
    '_base_/planted_untrimmed_features.py',
]

words = dict(context_length=32, vocab_size=78, width=128, heads=4, layers=2)
clip = dict(embed_dim=128, vision_cfg=dict(layers=1, width=64, image_size=64), text_cfg=words)
model = dict(
    encoder=dict(
        encoder=dict(
            frames=dict(in_dim=128),
            text=dict(_delete_=True, type='OpenCLIPText', model=clip),
            dim=128,
            dropout=0.1,
            max_frames=24,
            max_words=32,
        ),
    ),
    supervision=None,
    losses=dict(  # more weight on the contrast, which learns faster
        _delete_=True,
        nce=dict(type='ContrastiveLoss', reads=('a', 'b'), form='own_pair'),
        triplet=dict(type='RankingLoss', reads=('a', 'b'), margin=0.2, average='anchors'),
    ),
)
default_hooks = dict(checkpoint=dict(save_best='retrieval/t2v_SumR'))
custom_hooks = [dict(type='mmvtr.MomentsHook')]
train_cfg = dict(max_epochs=12, val_interval=6)
