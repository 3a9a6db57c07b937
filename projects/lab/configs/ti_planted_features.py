# Token-wise matching with UATVR's transformer, without extra tokens and heads: the control of
# uatvr_planted_features.py.
_base_ = [
    '../../../configs/_base_/schedule_planted.py',
    '../../../configs/_base_/planted_features.py',
    '../../../configs/_base_/uatvr_features.py',
]

model = dict(
    encoder=dict(extra_frames=0, extra_words=0), heads=None, objectives=dict(_delete_=True)
)
custom_hooks = []
