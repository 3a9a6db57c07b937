# ARL Tab. 6, what becomes of ambiguous pairs, with our thresholds: of a text only its own best pair
# is ambiguous, where u is 1.5 standard deviations above the mean.
_base_ = ['arl_tab6.py']

about = _base_.about + ', our thresholds'
rows = {
    name: dict(row, options={k: v for k, v in row.options.items() if k not in _base_._paper})
    for name, row in _base_.rows.items()
}
rows['_delete_'] = True  # in place of the base's
