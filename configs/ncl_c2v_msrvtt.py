# NCL on CLIP2Video, MSR-VTT 1k-A: not in its paper.  The loss normalises both matrices, the test
# their mean, the score.
_base_ = [
    '_base_/schedule_clip_5e.py',
    '_base_/msrvtt_1ka.py',
    '_base_/c2v_vitb16.py',
    '_base_/train_queue.py',
]

model = dict(
    temperature=dict(init=0.01, learnable=True),
    losses=dict(
        contrastive=dict(
            type='NormalizedContrastiveLoss', reads=('global', 'aligned'), iterations=4
        )
    ),
)
default_hooks = dict(checkpoint=dict(save_best='sinkhorn/retrieval/rsum'))
