# A small MoEE on four experts of the planted corpus: ce_planted_experts.py without gating between
# the experts, each in a space as wide as its NetVLAD's rows (docs/experts.md).
_base_ = ['../../../configs/ce_planted_experts.py']

model = dict(encoder=dict(gating=None, dim=None))
