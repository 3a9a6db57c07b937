# NCL on MMT, MSR-VTT 1k-A: not in its paper.  The normalised contrastive loss stands in place of
# MMT's max-margin loss, at temperature .07, as NCL has it on SSB (App. C); Adam sees no factor of
# 15.
_base_ = ['mmt_msrvtt.py']

model = dict(
    losses=dict(_delete_=True, contrastive=dict(type='NormalizedContrastiveLoss', iterations=4)),
    temperature=dict(type='Temperature', init=0.07),
)
default_hooks = dict(checkpoint=dict(save_best='sinkhorn/retrieval/rsum'))
