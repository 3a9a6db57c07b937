# ARL on ActivityNet, I3D features, with the paper's thresholds (Tab. 1): tau_s is the mean score of
# annotated pairs, tau_u the mean of their u, for pairs and frames, and sets have any size.
_base_ = ['../arl_activitynet_i3d.py']

model = dict(supervision=dict(rule='mean', cap=None, u_spread=0.0))
