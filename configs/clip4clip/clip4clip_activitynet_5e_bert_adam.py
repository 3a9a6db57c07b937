# CLIP4Clip on ActivityNet with BertAdam, as its code.
_base_ = ['clip4clip_activitynet_5e.py']

# The norm of each parameter is clipped, too.
optim_wrapper = dict(optimizer=dict(type='mmvtr.BertAdam', max_grad_norm=1.0))
