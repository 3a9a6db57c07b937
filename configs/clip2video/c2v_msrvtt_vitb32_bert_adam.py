# CLIP2Video on MSR-VTT 1k-A over its own backbone with CLIP4Clip's BertAdam (none of its own).
_base_ = ['c2v_msrvtt_vitb32.py']

# The norm of each parameter is clipped, too.
optim_wrapper = dict(optimizer=dict(type='mmvtr.BertAdam', max_grad_norm=1.0))
