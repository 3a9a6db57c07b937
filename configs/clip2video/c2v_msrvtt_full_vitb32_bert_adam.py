# CLIP2Video on MSR-VTT Full over its own backbone with CLIP4Clip's BertAdam (none of its own).
_base_ = ['../c2v_msrvtt_full.py']

model = dict(
    encoder=dict(
        frames=dict(model='ViT-B-32-quickgelu', grad_checkpointing=False),
        text=dict(model='ViT-B-32-quickgelu'),
    )
)
# The norm of each parameter is clipped, too.
optim_wrapper = dict(optimizer=dict(type='mmvtr.BertAdam', max_grad_norm=1.0))
