# DVTR + CLIP2Video on MSR-VTT 1k-A (Tab. III, Sec. V-A.2).
_base_ = ['_base_/schedule_clip_5e.py', '_base_/msrvtt_1ka.py', '_base_/dvtr.py']

optim_wrapper = dict(
    paramwise_cfg=dict(custom_keys=dict(heads=dict(lr_mult=0.2), supervision=dict(lr_mult=100.0)))
)
default_hooks = dict(eta=dict(type='mmvtr.EtaMonitorHook'))

# BERT as the text tower, as Sec. IV-B.2 words it (CLIP2Video uses CLIP's).  It has not seen
# CLIP's space: it learns at 1e-5.
preset_bert = {
    'model.encoder.text': dict(
        _delete_=True, type='TransformersText', model='bert-base-uncased', dim=512
    ),
    **{
        f'{part}_dataloader.dataset.text_pipeline': [
            dict(type='HFTokenize', model='bert-base-uncased', max_length=32)
        ]
        for part in ('train', 'test')
    },
    'optim_wrapper.paramwise_cfg.custom_keys': {
        'encoder.text': dict(lr_mult=0.1),
        'encoder.text.text_projection': dict(lr_mult=1.0),
    },
}
