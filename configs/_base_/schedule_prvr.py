# As MS-SL and GMMFormer train: BertAdam, 100 epochs, warm-up over 1 %, then linear.  They stop
# after 10 epochs without progress on the set that they test on; here all 100 are run.
optim_wrapper = dict(
    type='OptimWrapper',
    constructor='mmvtr.MatrixDecayConstructor',
    optimizer=dict(type='mmvtr.BertAdam', lr=2.5e-4, weight_decay=0.01),
)
train_cfg = dict(type='EpochBasedTrainLoop', max_epochs=100, val_interval=1)
param_scheduler = [
    dict(type='LinearLR', start_factor=0.01, end=1, convert_to_iter_based=True),
    dict(type='PolyLR', power=1.0, begin=1, convert_to_iter_based=True),
]
auto_scale_lr = dict(enable=False, base_batch_size=128)  # videos a step, over all processes
