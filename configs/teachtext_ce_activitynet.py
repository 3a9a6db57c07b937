# TeachText on CE, ActivityNet (docs/teachers.md).  The row TT-CE+ of NCL Tab. 1 has CE+, whose
# experts of this set are not known here.
_base_ = ['ce_activitynet.py', '_base_/teachtext.py']

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
