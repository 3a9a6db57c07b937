# The paper's "failure method" (App. C.4): both members start from one HGR trained on all clips,
# which hgr_epic.py makes.
_base_ = ['../causal_hgr_epic.py']

custom_hooks = [dict(type='mmvtr.MembersHook', init_from='work_dirs/hgr_epic/epoch_100.pth')]
