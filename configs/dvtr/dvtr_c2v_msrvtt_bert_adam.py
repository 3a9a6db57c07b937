# DVTR on MSR-VTT 1k-A with BertAdam, as CLIP4Clip's code.
_base_ = ['../dvtr_c2v_msrvtt.py']

# The norm of each parameter is clipped, too.
optim_wrapper = dict(optimizer=dict(type='mmvtr.BertAdam', max_grad_norm=1.0))
