# CE+ trains as CE, with RAdam.  The package of that name, which they use, decouples the decay.
_base_ = ['schedule_ce.py']

optim_wrapper = dict(
    optimizer=dict(
        _delete_=True, type='RAdam', lr=1e-3, weight_decay=1e-5, decoupled_weight_decay=True
    )
)
