# The mean of the frames instead of the best frame: what partial relevance costs a model that
# compares whole clips.
_base_ = [
    '../../../configs/_base_/schedule_planted.py',
    '../../../configs/_base_/planted_untrimmed_features.py',
    '../../../configs/_base_/arl_features.py',
]

model = dict(similarity=dict(type='CosineSimilarity'), supervision=None)
custom_hooks = []  # no frame is preferred to another
default_hooks = dict(checkpoint=dict(save_best='retrieval/t2v_SumR'))
train_cfg = dict(val_interval=6)
