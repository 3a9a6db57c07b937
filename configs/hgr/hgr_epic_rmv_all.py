# HGR on EPIC-KITCHENS-100 with RmvAll (frame-length paper, Algorithm 1): clips of a class leave
# until its mean train length is within 10 frames of its test length; classes of 60 clips or fewer
# lose none (Sec. 4).  It reads test lengths.
_base_ = ['../hgr_epic.py']

removal = dict(
    type='RemoveByLength',
    alpha=60,
    delta=10.0,
    test=dict(type='mmvtr.EPICKitchensDataset', split='test'),
)
train_dataloader = dict(dataset=dict(records=dict(environments=removal)))
