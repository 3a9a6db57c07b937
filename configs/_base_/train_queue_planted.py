# NCL at test time with the train queue, beside its control (zero iterations) and an oracle that
# reads the test queries.  2,048 of each modality: more than the 400 test clips they normalise, few
# enough to be of the last epoch.
custom_hooks = [
    dict(type='mmvtr.QueryQueueHook', size=2048),
    dict(type='mmvtr.SinkhornHook', queries='train_queue', temperature='model'),
    dict(type='mmvtr.InvertedSoftmaxHook', queries='train_queue', temperature='model'),
    dict(type='mmvtr.SinkhornHook', queries='test', temperature='model'),
    dict(type='mmvtr.ModalityGapHook'),  # App. D
]
