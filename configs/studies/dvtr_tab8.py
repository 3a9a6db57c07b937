# DVTR Tab. VIII: other denoising, on CE, MSR-VTT Full.
paper, table, section = 'DVTR', 'Tab. VIII', 'V-B'
about = 'other denoising, on CE, MSR-VTT Full'
metrics = {
    'retrieval/t2v_R1': 'R@1',
    'retrieval/t2v_R5': 'R@5',
    'retrieval/t2v_R10': 'R@10',
    'retrieval/t2v_MdR': 'MdR',
}
rows = {
    'ce_msrvtt_full': dict(config='ce_msrvtt_full.py', printed=[10, 29, 41.2, 16]),
    'cmgsd_ce_msrvtt_full': dict(config='cmgsd_ce_msrvtt_full.py', printed=[11.8, 32.5, 44.2, 14]),
    'teachtext_ce_msrvtt_full': dict(
        config='teachtext_ce_msrvtt_full.py', printed=[11.8, 32.7, 45.3, 13]
    ),
    'dvtr_ce_msrvtt_full': dict(config='dvtr_ce_msrvtt_full.py', printed=[12.7, 34.6, 45.9, 13]),
}
