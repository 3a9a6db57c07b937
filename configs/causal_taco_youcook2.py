# Causal intervention on frame length over TACo, YouCook2 (Tab. 7).  The paper does not say how its
# TACo was set up: see taco_youcook2.py.
_base_ = ['taco_youcook2.py', '_base_/causal_youcook2.py']

model = dict(_delete_=True, type='mmvtr.BackdoorRetriever', member=_base_.model, copies=2)
train_dataloader = _base_.by_length
