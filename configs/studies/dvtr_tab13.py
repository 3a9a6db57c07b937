# DVTR Tab. XIII: the temperature of the debiased contrastive loss (Eq. 13).
paper, table, section = 'DVTR', 'Tab. XIII', 'VI-D'
about = 'temperature of the debiased contrastive loss, HiT on MSVD'
config = 'dvtr_hit_msvd.py'
_values = [288.5, 309.4, 318.1, 318.9, 321.6, 320.5, 323.0, 319.4, 318.9, 317.9]
rows = {
    f'tau {hundredth / 100:.2f}': dict(
        options={'model.temperature.init': hundredth / 100},
        printed=[value],
    )
    for hundredth, value in enumerate(_values, 1)
}
