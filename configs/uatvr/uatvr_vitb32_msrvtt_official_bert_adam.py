# UATVR over CLIP ViT-B/32 on MSR-VTT 1k-A as its code has it, and trained by its BertAdam.
_base_ = ['uatvr_vitb32_msrvtt_official.py']

# The norm of each parameter is clipped, too.
optim_wrapper = dict(optimizer=dict(type='mmvtr.BertAdam', max_grad_norm=1.0))
