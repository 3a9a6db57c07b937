# UATVR, trained from scratch on the planted corpus in a few minutes on two CPU cores.
_base_ = ['_base_/schedule_planted.py', '_base_/planted.py', '_base_/uatvr_features.py']

test_evaluator = [
    *_base_.test_evaluator,
    dict(type='mmvtr.UncertaintyMetric'),
    dict(type='mmvtr.GeneralCaptionMetric'),
]
train_cfg = dict(max_epochs=10, val_interval=5)  # 12 on features, which cost little
model = dict(
    encoder=dict(
        frames=dict(
            _delete_=True,
            type='OpenCLIPFrames',
            model=_base_.clip,
        )
    )
)
