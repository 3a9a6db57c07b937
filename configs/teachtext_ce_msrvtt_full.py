# TeachText on CE, MSR-VTT Full (DVTR Tab. VIII): CE, trained with three embeddings of words,
# teaches it (docs/teachers.md).  Ours: which they are, as the config of this row is not public.
_base_ = ['ce_msrvtt_full.py', '_base_/teachtext.py']

model = _base_.teachtext
stores = _base_.store + 'teachers/{}/{}.h5'
train_dataloader = dict(
    dataset={
        f'{side}_pipeline': [
            *_base_.known[f'{side}_pipeline'],
            dict(
                type='LoadVectors',
                side=side,
                stores={name: stores.format(name, side) for name in _base_.teachers},
            ),
        ]
        for side in ('video', 'text')
    }
)
