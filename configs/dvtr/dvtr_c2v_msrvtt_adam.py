# DVTR on MSR-VTT 1k-A with Adam, as the paper names it, at the values of Adam's own paper, without
# decay and clip.  Rates are as in the base (docs/dvtr.md).
_base_ = ['../dvtr_c2v_msrvtt.py']

optim_wrapper = dict(
    optimizer=dict(type='Adam', betas=(0.9, 0.999), eps=1e-8, weight_decay=0.0), clip_grad=None
)
