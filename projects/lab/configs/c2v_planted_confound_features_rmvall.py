# RmvAll (Algorithm 1): clips of a class are removed until its mean train length is near its test
# length, which it reads.  A class keeps at least 5 clips (60 in the paper, which has more).
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
train_dataloader = dict(dataset=dict(records=dict(environments=removal)))
train_cfg = dict(max_epochs=24, val_interval=6)
