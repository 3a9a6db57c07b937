# DVTR on CE, MSR-VTT Full (DVTR Tab. VIII): CE's loss, its hinges weighed (Eq. 12).  Ours, as the
# paper says nothing of it: heads read level 'global', whose tokens are the experts, so that g (Eq.
# 3 to 6) is the sum of a text's vectors, which its weights scale, and the mean of a video's, and l
# are these vectors; eta begins early, as the rate falls to a fifth in 30 epochs.
_base_ = ['ce_msrvtt_full.py']

model = dict(
    heads=dict(type='HierarchicalGaussianHead'),
    supervision=dict(
        type='DVTRSupervision',
        num_samples=7,  # K, Sec. V-A.2
        reference='mean',
        sharpness=2.0,
        floor=0.0,  # Eq. 13 has none
        ramp=(0.1, 0.3),
    ),
)
optim_wrapper = dict(
    paramwise_cfg=dict(custom_keys=dict(heads=dict(lr_mult=3e-3), supervision=dict(lr_mult=0.5)))
)
default_hooks = dict(eta=dict(type='mmvtr.EtaMonitorHook'))
