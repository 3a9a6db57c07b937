# DL-DKD on ActivityNet: 0/1 labels in both contrasts, as the ICCV paper and ARL Tab. 1 have it, in
# place of the soft ones of DL-DKD++.
_base_ = ['../dldkd_activitynet.py']

hard = dict(alpha=1.0, alpha_floor=1.0)
model = dict(losses=dict(inherit_nce=hard, explore_nce=hard))
