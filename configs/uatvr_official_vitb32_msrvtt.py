# UATVR on MSR-VTT 1k-A as its code has it, for checkpoints from
# `tools/model_converters/convert.py uatvr`: extra tokens are position rows, C_v = C_t = 2 (its
# script), SOT is matched, tokens have learnt weights and padded ones a cosine of 0, PCME's heads
# attend to padding too, Eq. 11 has its sum outside the logarithm and no temperature, and KL takes
# log sigma for the log variance and sums over the batch.  On ViT-B/16 this has 164.9 M parameters,
# 162.8 M without heads, as in UATVR Tab. 2.  The scores are those of the code; sigma is where there
# is no padding: what the heads attend to there are zeros, in the code what its towers make of it.
_base_ = ['uatvr_vitb32_msrvtt.py']

model = dict(
    encoder=dict(
        extra='positions', extra_frames=2, extra_words=2, match_sot=True, position_rows=77
    ),
    similarity=dict(weights='uatvr', dim=512, official_mask=True),
    heads=dict(type='PCMEGaussianHead', use_mask=False, initial_log_std=0.0),
    objectives=dict(
        dua=dict(form='outer_sum', temperature=1.0, normalise=False),
        kl=dict(type='OfficialKLToUnit', num_samples=7),
    ),
)
