# DL-DKD on TVR with 0/1 labels in both contrasts, as the ICCV paper and ARL Tab. 1 have it.
# dldkd_tvr.py has the soft labels of DL-DKD++.
_base_ = ['dldkd_tvr.py']

model = dict(
    losses=dict(
        inherit_nce=dict(alpha=1.0, alpha_floor=1.0),
        explore_nce=dict(alpha=1.0, alpha_floor=1.0),
    )
)
