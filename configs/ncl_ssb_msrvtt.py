# NCL on SSB, MSR-VTT 1k-A (NCL App. C): the normalised contrastive loss in place of the max-margin
# loss, scale 15, temperature .07, dropout .1, and queues of 16,384 training queries for the test.
_base_ = ['ssb_msrvtt.py']

model = dict(
    losses=dict(_delete_=True, ncl=dict(type='NormalizedContrastiveLoss', loss_weight=15.0))
)
custom_hooks = [
    dict(type='QueryQueueHook', size=16384),
    dict(type='SinkhornHook', queries='train_queue'),
]
