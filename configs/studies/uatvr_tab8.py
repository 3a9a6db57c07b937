# UATVR Tab. 8: DiDeMo.
_base_ = ['uatvr_tab7.py']

table, about = 'Tab. 8', 'DiDeMo'
rows = {
    '_delete_': True,
    'uatvr_vitb32_didemo': dict(
        config='uatvr_vitb32_didemo.py', printed=[43.1, 71.8, 82.3, 2, 15.1]
    ),
    'uatvr_vitb16_didemo': dict(
        config='uatvr_vitb16_didemo.py', printed=[45.8, 73.7, 83.3, 2, 13.5]
    ),
    'clip4clip_seqtransf_didemo': dict(
        config='clip4clip_seqtransf_didemo.py', printed=[42.8, 68.5, 79.2, 2, 18.9]
    ),
    'teachtext_ce_didemo': dict(
        config='teachtext_ce_didemo.py', printed=[21.6, 48.6, 62.9, 6, None]
    ),
}
