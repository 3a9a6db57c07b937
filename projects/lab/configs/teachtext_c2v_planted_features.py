# TeachText's distillation (Croitoru et al., ICCV 2021) besides the triplet loss, weight 1.  In the
# paper teachers differ by their text embedding; here they are two other seeds of the control,
# c2v_planted_features_triplet.py, and have to be trained first:
#   for seed in 10 11; do python tools/train.py configs/c2v_planted_features_triplet.py \
#     --work-dir work_dirs/teachers/$seed --cfg-options randomness.seed=$seed; done
_base_ = '../../../configs/c2v_planted_features_triplet.py'

control = 'configs/c2v_planted_features_triplet.py'
model = dict(
    losses=dict(
        triplet=dict(type='RankingLoss', reads=('global', 'aligned'), margin=0.2),
        distillation=dict(type='DistillationLoss', reads=('scores',)),
    ),
    supervision=dict(
        type='FrozenTeachers',
        members=[
            dict(config=control, checkpoint='work_dirs/teachers/10/epoch_12.pth'),
            dict(config=control, checkpoint='work_dirs/teachers/11/epoch_12.pth'),
        ],
    ),
)
