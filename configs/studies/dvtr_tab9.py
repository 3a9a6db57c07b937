# DVTR Tab. IX: PCME, MSR-VTT Full.
_base_ = ['dvtr_tab8.py']

table, about = 'Tab. IX', 'PCME, MSR-VTT Full'
rows = {
    '_delete_': True,
    'pcme_msrvtt_full': dict(config='pcme_msrvtt_full.py', printed=[10.5, 29.4, 41.2, None]),
    'dvtr_hit_msrvtt_full_pcme': dict(
        config='dvtr/dvtr_hit_msrvtt_full_pcme.py', printed=[12.1, 33, 47.2, 12]
    ),
    'dvtr_c2v_msrvtt_full_pcme': dict(
        config='dvtr/dvtr_c2v_msrvtt_full_pcme.py', printed=[30.5, 56.5, 67.5, 4]
    ),
    'dvtr_hit_msrvtt_full': dict(config='dvtr_hit_msrvtt_full.py', printed=[13.8, 35.9, 48.5, 12]),
    'dvtr_c2v_msrvtt_full': dict(config='dvtr_c2v_msrvtt_full.py', printed=[32.5, 58.5, 68.5, 3]),
}
