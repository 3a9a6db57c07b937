# 5 epochs over MSR-VTT's captions, 14,062 steps of 64, and one learning rate for all, as T5 and the
# new parts are tuned together.  Our choice: App. C of NCL refers to SSB's paper.
_base_ = ['schedule_clip_5e.py']

optim_wrapper = dict(
    optimizer=dict(_delete_=True, type='Adam', lr=5e-5), paramwise_cfg=dict(_delete_=True)
)
presets = None  # Adam already
auto_scale_lr = dict(base_batch_size=64)
