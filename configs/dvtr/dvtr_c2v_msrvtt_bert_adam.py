# DVTR on MSR-VTT 1k-A with BertAdam, as CLIP4Clip's and UATVR's code.
_base_ = ['../dvtr_c2v_msrvtt.py']

optim_wrapper = dict(
    optimizer=dict(
        type='mmvtr.BertAdam',
        betas=(0.9, 0.98),
        eps=1e-6,
        weight_decay=0.2,
        max_grad_norm=1.0,  # of each parameter, beside clip_grad
    )
)
