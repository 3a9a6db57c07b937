# UATVR over CLIP ViT-B/32 as its equations print it: 12 frames, 32 words, a transformer of 4 layers
# (Sec. 4.1), C_v = 3 and C_t = 2 (Tab. 3), K = 7 (Tab. 4), alpha = 1e-2 and beta = 1e-4 (Sec. 4.1).
# Eq. 13 trains all jointly, so the heads move the encoder.  Ours, not the paper's: samples are
# compared by their cosines at temperature .05 (Eq. 11 has inner products and no temperature), and
# L_KL is a mean over items, not a sum.
_base_ = ['clip4clip_vitb32.py']

model = dict(
    encoder=dict(type='UATVR', max_frames=12, max_words=32, extra_frames=3, extra_words=2),
    similarity=dict(type='TokenSimilarity'),  # Eq. 8
    losses=dict(contrastive=dict(type='ContrastiveLoss')),  # Eq. 4-6
    heads=dict(type='GaussianHead'),  # Eq. 9
    head_reads='local',
    detach_heads=False,
    objectives=dict(
        dua=dict(type='MultiInstanceContrast', num_samples=7, loss_weight=1e-2),  # Eq. 11
        kl=dict(type='KLToUnit', loss_weight=1e-4),  # Eq. 12
    ),
)
