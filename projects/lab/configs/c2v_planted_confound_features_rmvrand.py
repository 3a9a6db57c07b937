# RmvRand: as many clips as in RmvAll are removed, at random.
_base_ = [
    '../../../configs/_base_/schedule_planted.py',
    '../../../configs/_base_/planted_confound_features.py',
    '../../../configs/_base_/c2v_features.py',
]

removal = dict(
    type='RemoveByLength',
    alpha=5,
    delta=4.0,
    test=dict(
        type='mmvtr.PlantedDataset',
        data_root='data/planted',
        general=0.0,
        length_confound=0.9,
        split='test',
    ),
)
model = dict(losses=dict(contrastive=dict(type='ContrastiveLoss', reads=('global', 'aligned'))))
train_dataloader = dict(
    dataset=dict(records=dict(environments=dict(type='RemoveRandom', like=removal)))
)
train_cfg = dict(max_epochs=24, val_interval=6)
