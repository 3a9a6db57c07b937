# CMGSD on CE, MSR-VTT Full (DVTR Tab. VIII): the choices of the only code found (docs/teachers.md).
# Ours: which level the projections read, and whose sentence vectors they are.
_base_ = ['ce_msrvtt_full.py']

train_dataloader = dict(
    dataset=dict(
        text_pipeline=[
            *_base_.known.text_pipeline,
            dict(
                type='LoadVectors', side='text', stores=dict(sbert='data/msrvtt/features/sbert.h5')
            ),
        ]
    )
)
model = dict(
    supervision=dict(
        type='CMGSDSupervision',
        sentences='sbert',
        project=dict(in_dim=768, dim=256, dropout=0.1),
        beta=1.0,
        ramp=(0.2, 0.5),
    ),
    losses=dict(ranking=dict(_delete_=True, type='SeveralHingesLoss')),
)
