# HGR (hgr.py) as the members of a causal intervention, which causal.py has the rest of.
_base_ = ['hgr.py']

model = dict(_delete_=True, type='mmvtr.BackdoorRetriever', member=_base_.model, copies=2)
