# DVTR's weights (Eq. 13) on NCL's normalised scores (Eq. 12): no paper has both.  The biases see
# all pairs, the weights then say how hard each negative is pushed.
_base_ = ['dvtr_c2v_planted_features.py', '_base_/train_queue_planted.py']

model = dict(losses=dict(contrastive=dict(type='NormalizedContrastiveLoss', iterations=4)))
default_hooks = dict(checkpoint=dict(save_best='sinkhorn/retrieval/rsum'))
