# Collaborative Experts' training: Ranger (RAdam and Lookahead), lr times .95 each epoch, the best
# geometric mean of t2v R@1, 5, 10 on val.  Theirs is a decay of all parameters; here, as everywhere
# in this repository, of matrices.
_base_ = ['default_runtime.py']

default_hooks = dict(checkpoint=dict(save_best='retrieval/t2v_gmean'))
optim_wrapper = dict(
    type='OptimWrapper',
    constructor='mmvtr.MatrixDecayConstructor',
    optimizer=dict(type='mmvtr.Ranger', lr=0.1, weight_decay=1e-3),
)
train_cfg = dict(type='EpochBasedTrainLoop', max_epochs=100, val_interval=1)
param_scheduler = [dict(type='ExponentialLR', gamma=0.95)]
auto_scale_lr = dict(enable=False, base_batch_size=64)  # pairs a step, over all processes
