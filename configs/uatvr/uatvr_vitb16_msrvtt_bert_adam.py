# UATVR on MSR-VTT 1k-A with BertAdam, as its code.
_base_ = ['../uatvr_vitb16_msrvtt.py']

# The norm of each parameter is clipped, too.
optim_wrapper = dict(optimizer=dict(type='mmvtr.BertAdam', max_grad_norm=1.0))
