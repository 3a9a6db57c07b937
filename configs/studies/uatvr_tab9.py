# UATVR Tab. 9: MSVD.
_base_ = ['uatvr_tab7.py']

table, about = 'Tab. 9', 'MSVD'
rows = {
    '_delete_': True,
    'uatvr_vitb32_msvd': dict(config='uatvr_vitb32_msvd.py', printed=[46, 76.3, 85.1, 2, 10.4]),
    'uatvr_vitb16_msvd': dict(config='uatvr_vitb16_msvd.py', printed=[49.7, 79, 87.3, 2, 8.9]),
    'clip4clip_msvd_5e_seqtransf': dict(config='clip4clip/clip4clip_msvd_5e_seqtransf.py'),
    'ce_msvd': dict(config='ce_msvd.py'),
    'xpool_msvd': dict(config='xpool_msvd.py'),
}
