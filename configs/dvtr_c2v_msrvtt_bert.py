# DVTR + CLIP2Video with BERT as the text tower, as Sec. IV-B.2 words it (CLIP2Video uses CLIP's).
_base_ = ['_base_/schedule_clip_5e.py', '_base_/msrvtt_1ka.py', '_base_/dvtr.py']

words = [dict(type='HFTokenize', model='bert-base-uncased', max_length=32)]
model = dict(
    encoder=dict(
        text=dict(_delete_=True, type='TransformersText', model='bert-base-uncased', dim=512)
    )
)
train_dataloader = dict(dataset=dict(text_pipeline=words))
test_dataloader = dict(dataset=dict(text_pipeline=words))
# BERT has not seen CLIP's space: it learns at 1e-5.
optim_wrapper = dict(
    paramwise_cfg=dict(
        custom_keys={
            'encoder.text': dict(lr_mult=0.1),
            'heads': dict(lr_mult=0.2),
            'supervision': dict(lr_mult=100.0),
            'encoder.text.text_projection': dict(lr_mult=1.0),
        }
    )
)
default_hooks = dict(eta=dict(type='mmvtr.EtaMonitorHook'))
