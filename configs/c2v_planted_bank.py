# CLIP2Video with InfoNCE on clips that have 4 to 16 captions each, tested as it is and with a bank
# of its training queries, by which Sinkhorn takes from clips and texts that are found too often
# what they gain by it (NCL Sec. 3.4; docs/ncl.md).  From scratch in a few minutes on two CPU cores.
_base_ = ['c2v_planted.py']

captions = dict(general=0.0, test_captions=10, uneven=0.6)
train_dataloader = dict(dataset=captions)
val_dataloader = dict(dataset=captions)
test_dataloader = dict(dataset=captions)
custom_hooks = [
    dict(type='mmvtr.QueryQueueHook', size=2048),
    dict(type='mmvtr.SinkhornHook', queries='train_queue'),
]
