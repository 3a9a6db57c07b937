# UATVR over CLIP ViT-B/32 on MSR-VTT 1k-A as its code has it, for checkpoints from
# `tools/model_converters/convert.py uatvr`: extra tokens are position rows, C_v = C_t = 2 (its
# script), SOT is matched, padded tokens have a cosine of 0, the heads attend to padding too, Eq. 11
# has its sum outside the logarithm and no temperature, and KL takes log sigma for the log variance
# and sums over the batch.  In training the first frame is a random one of the first second
# (`--strategy 2`).  The scores are those of the code; sigma is where there is no padding: what the
# heads attend to there are zeros, in the code what its towers make of it.
_base_ = ['../uatvr_vitb32_msrvtt.py']

steps = _base_.train_dataloader.dataset.video_pipeline
frames = [dict(steps[0], sampling='per_second_random'), *steps[1:]]
train_dataloader = dict(dataset=dict(video_pipeline=frames))
model = dict(
    encoder=dict(
        extra='positions', extra_frames=2, extra_words=2, match_sot=True, position_rows=77
    ),
    similarity=dict(official_mask=True, init_std=0.02),
    heads=dict(use_mask=False, initial_log_std=0.0, init_std=0.02),
    objectives=dict(
        dua=dict(form='outer_sum', temperature=1.0, normalise=False),
        kl=dict(type='OfficialKLToUnit', num_samples=7),
    ),
)
# `--cfg-options num_samples=5`: both draw the same samples.
shortcuts = dict(num_samples=[f'model.objectives.{name}.num_samples' for name in ('dua', 'kl')])
