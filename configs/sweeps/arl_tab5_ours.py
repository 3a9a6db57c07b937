# ARL Tab. 5, its components, with our thresholds: of a text only its own best pair is
# ambiguous, where u is 1.5 standard deviations above the mean.
_base_ = ['arl_tab5.py']

about = _base_.about + ', our thresholds'
runs = [
    dict(run, options={k: v for k, v in run.options.items() if k not in _base_._paper})
    for run in _base_.runs
]
