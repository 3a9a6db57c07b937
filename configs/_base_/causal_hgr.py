# HGR (hgr.py) as the members of a causal intervention, which causal.py has the rest of.
_base_ = ['hgr.py']

model = dict(_delete_=True, type='mmvtr.BackdoorRetriever', member=_base_.model, copies=2)
# Of the members.
preset_ran = dict(
    _delete_=True,
    **{key.replace('model.', 'model.member.'): value for key, value in _base_.preset_ran.items()},
)
preset_ranp = dict(
    _delete_=True,
    **{key.replace('model.', 'model.member.'): value for key, value in _base_.preset_ranp.items()},
)
preset_ranp_all = dict(
    _delete_=True,
    **{
        key.replace('model.', 'model.member.'): value
        for key, value in _base_.preset_ranp_all.items()
    },
)
