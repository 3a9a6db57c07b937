# DVTR Tab. XI: K of Eq. 8.  It moves an encoder only where the losses of the uncertainty module do
# (Algorithm 1, line 7), so every run has that in a dose of .1 (docs/dvtr.md).
paper, table, section = 'DVTR', 'Tab. XI', 'VI-B'
about = 'number K of Monte-Carlo samples, HiT on MSVD'
config = 'dvtr_hit_msvd.py'
metrics = {'retrieval/t2v_gmean': 'geometric mean of t2v R@1, 5, 10'}
_joint = {
    'model.detach_heads': False,
    'model.supervision.match_weight': 0.1,
    'model.supervision.align_weight': 0.1,
}
rows = {
    f'K = {k}': dict(options={**_joint, 'model.supervision.num_samples': k}, printed=[value])
    for k, value in ((2, 65.68), (3, 66.33), (5, 67.44), (7, 67.90), (9, 67.72), (11, 67.67))
}
note = '67.90 at K = 7 is neither row of Tab. IV: those of DVTR + HiT are 47.8, of DVTR + C2V 71.1.'
