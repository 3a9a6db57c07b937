# TeachText on CE, on the planted corpus.  In the paper teachers differ by their word embedding;
# here they are two other seeds of the control, ce_planted_experts.py, and have to be trained first:
#   for seed in 10 11; do python tools/train.py configs/ce_planted_experts.py \
#     --work-dir work_dirs/teachers_ce/$seed --cfg-options randomness.seed=$seed; done
_base_ = ['../../../configs/ce_planted_experts.py']

control = 'configs/ce_planted_experts.py'
model = dict(
    supervision=dict(
        type='FrozenTeachers',
        members=[
            dict(config=control, checkpoint='work_dirs/teachers_ce/10/epoch_12.pth'),
            dict(config=control, checkpoint='work_dirs/teachers_ce/11/epoch_12.pth'),
        ],
    ),
    losses=dict(distillation=dict(type='DistillationLoss')),
)
