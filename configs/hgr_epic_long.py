# HGR on the long clips alone: a control of causal_hgr_epic.py, and a half of the paper's letter,
# whose halves are trained apart: `tools/test.py configs/hgr_epic.py SHORT.pth LONG.pth` sums them.
_base_ = ['hgr_epic.py']

train_dataloader = dict(
    dataset=dict(records=dict(environments=dict(type='LengthSplit', parts=2, only=1)))
)
