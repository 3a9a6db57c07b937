# DVTR Tab. XII: the margin of the debiased triplet loss (Eq. 12).
paper, table, section = 'DVTR', 'Tab. XII', 'VI-C'
about = 'margin of the debiased triplet loss, HiT on MSVD'
config = 'dvtr_hit_msvd.py'
_sides = ('t2v', 'v2t')
_types = {f'model.losses.{side}.type': 'RankingLoss' for side in _sides}
_values = [319.2, 320.4, 321.3, 321.1, 322.2, 321.4, 321.4, 320.6, 318.5]
rows = {
    f'margin .{tenth}': dict(
        options={**_types, **{f'model.losses.{side}.margin': tenth / 10 for side in _sides}},
        printed=[value],
    )
    for tenth, value in enumerate(_values, 1)
}
