# NCL on SSB, MSR-VTT 1k-A (NCL Tab. 4, App. C): the normalised contrastive loss in place of the
# max-margin loss, scale 15, temperature .07, and queues of 16,384 training queries.
_base_ = [
    '_base_/default_runtime.py',
    '_base_/msrvtt_1ka_features.py',
    '_base_/ssb.py',
    '_base_/train_queue.py',
]

model = dict(losses=dict(ncl=dict(type='NormalizedContrastiveLoss', loss_weight=15.0)))
default_hooks = dict(checkpoint=dict(save_best='sinkhorn/retrieval/rsum'))
