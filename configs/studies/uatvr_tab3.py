# UATVR Tab. 3: number of extra tokens.
_base_ = ['uatvr_tab1.py']

table, about = 'Tab. 3', 'number of extra tokens, MSR-VTT 1k-A, ViT-B/16'
config = 'uatvr/uatvr_vitb16_msrvtt_dsa.py'
_counts = [
    (0, 0, [48.4, 74.2, 83.3, 2.0, 14.1]),
    (1, 0, [48.9, 75.3, 84.6, 2.0, 12.3]),
    (2, 0, [49.6, 75.5, 84.6, 2.0, 12.5]),
    (3, 0, [49.6, 75.7, 84.6, 2.0, 11.9]),
    (4, 0, [49.3, 75.2, 84.2, 2.0, 12.4]),
    (8, 0, [48.8, 75.2, 84.7, 2.0, 12.5]),
    (12, 0, [49.2, 75.4, 84.2, 2.0, 12.4]),
    (3, 2, [49.6, 75.5, 84.9, 2.0, None]),
    (3, 4, [49.1, 75.4, 84.4, 2.0, 13.3]),
]
rows = {'_delete_': True} | {
    f'C_v = {frames}, C_t = {words}': dict(
        options={'model.encoder.extra_frames': frames, 'model.encoder.extra_words': words},
        printed=printed,
    )
    for frames, words, printed in _counts
}
