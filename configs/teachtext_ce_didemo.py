# TeachText on CE, DiDeMo (UATVR Tab. 8), as on MSR-VTT Full (docs/teachers.md).
_base_ = ['ce_didemo.py', '_base_/teachtext.py']

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
