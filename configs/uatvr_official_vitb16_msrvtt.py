# UATVR's code over CLIP ViT-B/16 on MSR-VTT 1k-A: what its training script runs.
_base_ = ['uatvr_vitb16_msrvtt.py']

model = dict(
    encoder=dict(extra_frames=2, extra='positions', match_sot=True, position_rows=77),
    similarity=dict(official_mask=True),
    heads=dict(use_mask=False, initial_log_std=0.0),
    objectives=dict(
        dua=dict(form='outer_sum', temperature=1.0, normalise=False),
        kl=dict(type='OfficialKLToUnit', num_samples=7),
    ),
)
# `--cfg-options num_samples=5`: both draw the same samples.
shortcuts = dict(
    num_samples=['model.objectives.dua.num_samples', 'model.objectives.kl.num_samples']
)
