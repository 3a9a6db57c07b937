# Complete CMGSD on CE, as cmgsd_ce_msrvtt_full.py, on the planted corpus. The frozen sentence
# encoder is replaced by a caption's words, weighted by rarity. Control: ce_planted_experts.py.
_base_ = ['../../../configs/ce_planted_experts.py']

train_dataloader = dict(
    dataset=dict(
        text_pipeline=[
            dict(type='WordTokenize', vocab_file='data/planted/vocab.txt'),
            dict(type='WordCounts', name='words'),
            *_base_.known.text_pipeline,
        ]
    )
)
model = dict(
    supervision=dict(
        type='CMGSDSupervision',
        sentences='words',
        project=dict(in_dim=128, dim=64, dropout=0.1),
        beta=1.0,
        ramp=(0.2, 0.5),
    ),
    losses=dict(ranking=dict(_delete_=True, type='SeveralHingesLoss')),
)
